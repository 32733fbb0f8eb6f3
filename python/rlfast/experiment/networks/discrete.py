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

    def action_values(
        self,
        *,
        atoms: int = 1,
        softmax: bool = False,
        linear_layer: Callable[[int, int], nn.Module] = nn.Linear,
    ) -> nn.Module:
        """Returns a network for values of discrete actions, ``(obs, state) -> ([B, actions], state)``.

        It is dueling, or has layers that are normalized, by settings.

        :param atoms: number of outputs for each action; more than 1 gives ``[B, actions, atoms]``.
        :param softmax: whether the outputs of an action are probabilities.
        :param linear_layer: makes the layers of the streams, or all layers without streams.
        :raises ValueError: if actions are not discrete, or a recurrent network should have atoms or be normalized.
        """
        actions, dueling = self.actions, self._chosen("dueling")
        norm_layer = nn.LayerNorm if self._chosen("layer_norm") else None
        if norm_layer is not None and self.config.recurrent:
            raise ValueError("--layer-norm and --recurrent cannot be had together: say --no-layer-norm")
        if atoms > 1 and self.config.recurrent:
            raise ValueError(f"--recurrent cannot be had with {self._title}: leave it out")
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

    def quantiles(self, head_sizes: Sequence[int], *, cosines: int) -> nn.Module:
        """Returns a network of quantiles of the returns of discrete actions, at levels that it draws.

        :param head_sizes: sizes of the hidden layers above the embedding of levels.
        :param cosines: number of cosines of that embedding.
        :raises ValueError: see :meth:`actions` and :meth:`features`.
        """
        return self._choices(
            discrete.ImplicitQuantileNetwork, action_shape=self.actions, hidden_sizes=head_sizes, num_cosines=cosines
        )

    def _choices(self, head: Callable[..., nn.Module], **options: Any) -> nn.Module:
        """Returns a head on features."""
        features, size = self.features()
        return head(features, preprocess_net_output_dim=size, device=self.config.device, **options)
