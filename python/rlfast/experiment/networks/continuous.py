"""Networks for continuous actions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from torch import nn

from rlfast.experiment.networks.base import NetworkBase
from rlfast.utils.net import continuous
from rlfast.utils.net._generative import VAE, Perturbation
from rlfast.utils.net.common import MLP, BranchingNet, EnsembleLinear, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gymnasium.spaces import Box

    from rlfast.utils.net.common import TLinearLayer

    LayerOf = Callable[[int, int, int], nn.Module]


class ContinuousNetworks(NetworkBase):
    """Makes networks for continuous actions; see :class:`NetworkBase` for the parameters."""

    @property
    def action_size(self) -> int:
        """The number of elements of a continuous action.

        :raises ValueError: if actions are not continuous.
        """
        return size_of(self._box().shape)

    def _box(self) -> Box[Any]:
        space = self._act_space
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise self._space_error("continuous actions", space)
        if not space.shape:
            raise self._space_error("actions along at least one axis", space)
        return space

    def deterministic_actor(self) -> nn.Module:
        """Returns an actor with one action in [-1, 1] for each observation, ``(obs, state) -> ([B, size], state)``.

        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        return self._over_encoder(lambda size: continuous.Actor(self._body(size), shape))

    def normal_actor(self, *, linear_layer: TLinearLayer = nn.Linear, **chosen: float) -> nn.Module:
        """Returns an actor of means and standard deviations, ``(obs, state) -> (([B, size], [B, size]), state)``.

        :param linear_layer: makes a hidden layer from its two sizes; not used with ``recurrent``.
        :param chosen: values in place of those of the settings: ``conditioned_sigma``, whether standard deviations
            depend on the observation (True for an algorithm without the setting); ``log_std``, the first logarithm of
            those that do not; ``bounded``, whether means are in [-1, 1].
        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        usual = {"conditioned_sigma": True, "log_std": 0.0, "bounded": False}
        conditioned_sigma, log_std, bounded = (chosen.get(name, self._chosen(name, usual[name])) for name in usual)

        def head(size: object) -> nn.Module:
            body = self._body(size, linear_layer=linear_layer)
            actor = continuous.ActorProb(body, shape, unbounded=not bounded, conditioned_sigma=conditioned_sigma)
            if not conditioned_sigma:
                nn.init.constant_(actor.sigma_param, log_std)
            return actor

        return self._over_encoder(head)

    def action_value(self) -> nn.Module:
        """Returns a network for the value of a continuous action, ``(obs, act) -> [B, 1]``, never recurrent.

        :raises ValueError: if actions are not continuous.
        """
        norm_layer = nn.LayerNorm if self._chosen("layer_norm") else None
        options: dict[str, Any] = {"action_shape": self._box().shape, "concat": True, "norm_layer": norm_layer}
        return self._over_encoder(lambda size: continuous.Critic(self._net(size, **options)))

    def action_values_by(
        self,
        number: int,
        *,
        values: int = 1,
        hidden_layer: LayerOf = EnsembleLinear,
        last_layer: LayerOf = EnsembleLinear,
        hidden_sizes: tuple[int, ...] | None = None,
    ) -> nn.Module:
        """Returns an ensemble for values of a continuous action, ``(obs, act) -> [number, B, values]``.

        :param number: number of members.
        :param values: number of outputs of each member, for distributional learning.
        :param hidden_layer: makes a hidden layer, ``(number, inputs, outputs)``. Default: a linear layer.
        :param last_layer: makes the last layer, as ``hidden_layer``.
        :param hidden_sizes: sizes of the hidden layers; None for those of the configuration.
        :raises ValueError: if actions are not continuous.
        """
        shape = self._box().shape
        hidden, last = partial(hidden_layer, number), partial(last_layer, number)
        sizes = self.config.hidden_sizes if hidden_sizes is None else hidden_sizes
        return self._over_encoder(
            lambda size: continuous.Critic(
                self._net(size, action_shape=shape, concat=True, linear_layer=hidden, hidden_sizes=sizes),
                linear_layer=last,
                flatten_input=False,
                output_dim=values,
            )
        )

    def branches(self, choices: int) -> nn.Module:
        """Values of the choices in each dimension of a continuous action, ``(obs, state) -> ([B, D, choices], state)``.

        :param choices: how many there are in each dimension, 2 or more.
        :raises ValueError: the actions are not continuous, there are too few choices, or the network shall have a
            memory.
        """
        if choices < 2:
            raise ValueError(f"--choices must be at least 2, got {choices}")
        self._refuse_setting("dueling")
        self._refuse_setting("recurrent")
        dimensions, sizes = self.action_size, [*self.config.hidden_sizes]
        return self._over_encoder(
            lambda size: BranchingNet(size, dimensions, choices, sizes, activation=self._activation)
        )

    def autoencoder(self, latent_dim: int) -> VAE:
        """Returns an autoencoder of continuous actions.

        :param latent_dim: number of latent numbers.
        :raises ValueError: if observations are no vectors, or actions are not continuous.
        """
        obs, act, sizes = self._vector_size(), self.action_size, self.config.hidden_sizes
        encoder, decoder = MLP(obs + act, 0, sizes), MLP(obs + latent_dim, act, sizes)
        return VAE(encoder, decoder, sizes[-1], latent_dim, 1.0).to(self.config.device)

    def perturbation(self, phi: float) -> Perturbation:
        """Returns a network that moves continuous actions.

        :param phi: the largest movement.
        :raises ValueError: if observations are no vectors, or actions are not continuous.
        """
        net = self._net(self._vector_size() + self.action_size, action_shape=self.action_size)
        return Perturbation(net, 1.0, phi=phi).to(self.config.device)
