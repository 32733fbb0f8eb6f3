"""Networks for any spaces."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from gymnasium import spaces
from torch import nn

from rlfast.experiment.networks.continuous import ContinuousNetworks
from rlfast.experiment.networks.discrete import DiscreteNetworks
from rlfast.experiment.networks.encoder import Encoded
from rlfast.functional.distributions import Categorical, DiagonalNormal, MultiCategorical
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.atari import layer_init
from rlfast.utils.net.common import MLP

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlfast.policy.rollout import TDistFn

P = TypeVar("P")


class Networks(DiscreteNetworks, ContinuousNetworks):
    """Makes networks for observations that are vectors, images, numbers or dicts of these, and for any actions.

    Images pass through convolutions, and the parts of dicts are encoded one by one. Of a dict with ``obs`` and a
    ``mask`` of discrete actions, networks get ``obs``. The features pass through layers of the ``hidden_sizes`` of the
    settings. Networks share no parameters, but an actor and its critic may: see :meth:`actor_critic`.

    :param config: the settings of the run.
    :param title: the title of the algorithm, for errors.
    :param obs_space: observation space of one environment.
    :param act_space: action space of one environment.
    :param data: the transitions of an expert, for an algorithm that imitates it and also acts; None for others.
    """

    @property
    def spaces(self) -> dict[str, Any]:
        """The spaces, as arguments of a policy."""
        return {"action_space": self._act_space, "observation_space": self._obs_space}

    @property
    def continuous(self) -> bool:
        """Whether the action space is a Box."""
        return isinstance(self._act_space, spaces.Box)

    def policy(self, kind: Callable[..., P], **arguments: Any) -> P:
        """Returns a policy.

        :param kind: its class.
        :param arguments: those of its constructor, without the spaces.
        """
        return kind(**arguments, **self.spaces)

    def initialize(self, actor: nn.Module, *critics: nn.Module) -> None:
        """Initializes networks by :func:`initialize_orthogonally`.

        :param actor: the actor.
        :param critics: other networks.
        """
        initialize_orthogonally(actor, *critics)

    def actor(self, *, log_std: float) -> tuple[nn.Module, TDistFn]:
        """Returns an actor of parameters of a distribution over actions, and the class of the distribution.

        :param log_std: see :meth:`normal_actor`.
        :raises ValueError: if there is no distribution for the action space.
        """
        space = self._act_space
        if isinstance(space, spaces.Box) and len(space.shape) == 1:
            options: dict[str, Any] = {
                name: getattr(self._config, name, False) for name in ("conditioned_sigma", "bounded")
            }
            return self.normal_actor(log_std=log_std, **options), DiagonalNormal
        choices: list[int] = []
        if isinstance(space, spaces.Discrete):
            choices = [int(space.n)]
        elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
            choices = space.nvec.tolist()
        else:
            raise self._space_error("discrete, multi-discrete or continuous actions along one axis", space)
        actor = self._over_encoder(lambda size: discrete.Actor(self._body(size), sum(choices), softmax_output=False))
        return actor, Categorical if isinstance(space, spaces.Discrete) else partial(MultiCategorical, nvec=choices)

    def actor_critic(self, *, log_std: float, shared: bool) -> tuple[nn.Module, TDistFn, nn.Module]:
        """Returns an actor, the class of its distribution, and a critic, with orthogonal first weights.

        :param log_std: see :meth:`normal_actor`.
        :param shared: whether the critic is one layer on the features of the actor: what encodes observations and the
            hidden layers are in both. The networks are separate otherwise.
        :raises ValueError: if there is no distribution for the action space.
        """
        if not shared:
            critic = self.state_value()
            actor, dist_fn = self.actor(log_std=log_std)
        else:
            actor, dist_fn = self.actor(log_std=log_std)
            head: Any = actor.net if isinstance(actor, Encoded) else actor
            critic = discrete.Critic(head.preprocess)
            critic = Encoded(actor.encoder, critic) if isinstance(actor, Encoded) else critic
            critic = critic.to(self._config.device)
        self.initialize(actor, critic)
        return actor, dist_fn, critic

    def state_value(self) -> nn.Module:
        """Returns a network for the value of a state, ``obs -> [B, 1]``, never recurrent."""
        return self._over_encoder(lambda size: discrete.Critic(self._net(size)))

    def discriminator(self) -> nn.Module:
        """Returns a network of one number for an observation and an action, concatenated.

        :raises ValueError: if observations are no vectors.
        """
        act = self.action_size if self.continuous else self.actions
        return MLP(self._vector_size() + act, 1, self._config.hidden_sizes, activation=nn.Tanh).to(self._config.device)


def initialize_orthogonally(actor: nn.Module, *critics: nn.Module) -> None:
    """Initialise weights orthogonally, and the actor's last layer near zero (arXiv:2006.05990, section 3.2).

    Weights of a convolution are taken as a matrix with a row for each output channel.

    :param actor: the actor.
    :param critics: other networks.
    """
    for layer in nn.ModuleList([actor, *critics]).modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            layer_init(layer)
    head: Any = actor.net if isinstance(actor, Encoded) else actor
    last = head.mu if isinstance(head, continuous.ActorProb) else head.last
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.mul_(0.01)
