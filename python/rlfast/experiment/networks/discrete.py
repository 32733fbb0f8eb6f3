"""Networks for discrete actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces
from torch import nn

from rlfast.experiment.networks.base import NetworkBase
from rlfast.utils.net import discrete

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class DiscreteNetworks(NetworkBase):
    """Makes networks for discrete actions; see :class:`NetworkBase` for the parameters."""

    @property
    def actions(self) -> int:
        """How many discrete actions there are.

        :raises ValueError: the actions are not discrete.
        """
        if not isinstance(self._act_space, spaces.Discrete):
            raise self._space_error("discrete actions", self._act_space)
        return int(self._act_space.n)

    def action_values(self, *, linear_layer: Callable[[int, int], nn.Module] = nn.Linear) -> nn.Module:
        """Returns a network for values of discrete actions, ``(obs, state) -> ([B, actions], state)``.

        Settings decide whether it is dueling and whether its layers are normalized. With a setting ``num_atoms``, it
        gives probabilities of values ``[B, actions, num_atoms]``; with ``num_quantiles``, ``[B, actions,
        num_quantiles]``.

        :param linear_layer: makes the layers of the streams, or all layers without streams.
        :raises ValueError: if actions are not discrete, or a recurrent network should have atoms or be normalized.
        """
        actions, dueling = self.actions, self._chosen("dueling")
        softmax = self._chosen("num_atoms", 0) > 0
        atoms = self._chosen("num_atoms" if softmax else "num_quantiles", 1)
        norm_layer = nn.LayerNorm if self._chosen("layer_norm") else None
        if norm_layer is not None and self.config.recurrent:
            raise ValueError("--layer-norm and --recurrent exclude each other: add --no-layer-norm")
        if atoms > 1 and self.config.recurrent:
            raise ValueError(f"{self._title} does not support --recurrent: leave it out")
        stream: dict[str, Any] = {"hidden_sizes": self.config.hidden_sizes[-1:], "linear_layer": linear_layer}
        return self._over_encoder(
            lambda size: (
                self._recurrent(size, actions, dueling_param=(stream, stream) if dueling else None)
                if self.config.recurrent
                else self._net(
                    size,
                    action_shape=actions,
                    num_atoms=atoms,
                    softmax=softmax,
                    dueling_param=(stream, stream) if dueling else None,
                    linear_layer=nn.Linear if dueling else linear_layer,
                    norm_layer=norm_layer,
                )
            )
        )

    def features(self) -> tuple[nn.Module, int]:
        """Features of observations, ``(obs, state) -> ([B, size], state)``, and their size.

        :raises ValueError: there is no hidden layer, or the network shall be dueling.
        """
        if not self.config.hidden_sizes:
            raise ValueError(f"{self._title} needs a hidden layer: give --hidden-sizes")
        self._refuse_setting("dueling")
        return self._over_encoder(self._body), self.config.hidden_sizes[-1]

    def choice_actor(self) -> nn.Module:
        """Returns an actor of logits of discrete actions, ``(obs, state) -> ([B, actions], state)``.

        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(discrete.Actor, softmax_output=False, action_shape=self.actions)

    def choice_values(self) -> nn.Module:
        """Returns a critic of all discrete actions, ``obs -> [B, actions]``.

        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(discrete.Critic, last_size=self.actions)

    def quantiles(
        self,
        head_sizes: Sequence[int],
        *,
        cosines: int,
        kind: type[nn.Module] = discrete.ImplicitQuantileNetwork,
    ) -> nn.Module:
        """Returns a network of quantiles of the returns of discrete actions.

        :param head_sizes: sizes of the hidden layers above the embedding of levels.
        :param cosines: number of cosines of that embedding.
        :param kind: the class of the network. Default: one that draws the levels itself.
        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(kind, action_shape=self.actions, hidden_sizes=head_sizes, num_cosines=cosines)

    def _choices(self, head: Callable[..., nn.Module], **options: Any) -> nn.Module:
        """Returns a head on features."""
        features, size = self.features()
        return head(features, preprocess_net_output_dim=size, device=self.config.device, **options)
