"""Networks for any spaces."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import nn

from rlfast.experiment.networks.continuous import ContinuousNetworks
from rlfast.experiment.networks.discrete import DiscreteNetworks
from rlfast.experiment.networks.encoder import Encoded
from rlfast.functional.distributions import Categorical, DiagonalNormal, MultiCategorical
from rlfast.utils.arguments.settings import settings_of
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.atari import layer_init
from rlfast.utils.net.common import MLP
from rlfast.utils.optim import adam

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlfast.policy import Alpha, BasePolicy
    from rlfast.policy.rollout import TDistFn
    from rlfast.utils.optim import OptimizerFactory


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
    def continuous(self) -> bool:
        """Whether the action space is a Box."""
        return isinstance(self._act_space, spaces.Box)

    def policy(self, **parts: object) -> BasePolicy:
        """Returns the policy, with the spaces and with all settings that its constructor has.

        :param parts: the other arguments: networks, optimizers and what else is no setting.
        """
        name = self.config.policy
        given = {"action_space": self._act_space, "observation_space": self._obs_space, **self.config.policy_arguments}
        if any(one.name == "action_scaling" for one in settings_of(f"rlfast.policy.{name}")):
            given["action_scaling"] = self.continuous
        policy: BasePolicy = getattr(import_module("rlfast.policy"), name)(**given | parts)
        return policy

    def adam(self, learning_rate: float, **options: tuple[float, float]) -> OptimizerFactory:
        """Returns a factory of optimizers; see :func:`~rlfast.utils.optim.adam`.

        :param learning_rate: the learning rate.
        :param options: other arguments of Adam.
        """
        return adam(learning_rate, **options)

    def optim(self) -> OptimizerFactory:
        """Returns a factory of optimizers with the ``learning_rate`` of the settings, and their ``adam_eps``."""
        eps = self._chosen("adam_eps", None)
        return adam(self.config.learning_rate, **{} if eps is None else {"eps": eps})

    def alpha(self) -> Alpha:
        """Returns the temperature of the settings, for continuous actions."""
        made: Alpha = self.config.make_alpha(-float(self.action_size))
        return made

    def two(self, critic: Callable[[], nn.Module]) -> dict[str, Any]:
        """Returns two critics and their optimizers, by the names that policies have for them.

        :param critic: makes one.
        """
        return {"critic": critic(), "critic_optim": self.optim(), "critic2": critic(), "critic2_optim": self.optim()}

    def initialize(self, actor: nn.Module, *critics: nn.Module) -> None:
        """Initializes networks by :func:`initialize_orthogonally`.

        :param actor: the actor.
        :param critics: other networks.
        """
        initialize_orthogonally(actor, *critics)

    def actor(self) -> tuple[nn.Module, TDistFn]:
        """Returns an actor of parameters of a distribution over actions, and the class of the distribution.

        :raises ValueError: if there is no distribution for the action space.
        """
        space = self._act_space
        if isinstance(space, spaces.Box) and len(space.shape) == 1:
            return self.normal_actor(), DiagonalNormal
        choices: list[int] = []
        if isinstance(space, spaces.Discrete):
            choices = [int(space.n)]
        elif isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
            choices = space.nvec.tolist()
        else:
            raise self._space_error("discrete, multi-discrete or continuous actions along one axis", space)
        actor = self._over_encoder(lambda size: discrete.Actor(self._body(size), sum(choices), softmax_output=False))
        return actor, Categorical if isinstance(space, spaces.Discrete) else partial(MultiCategorical, nvec=choices)

    def actor_critic(self) -> tuple[nn.Module, TDistFn, nn.Module]:
        """Returns an actor, the class of its distribution, and a critic, with orthogonal first weights.

        With ``shared_features``, the critic is one layer on the features of the actor: what encodes observations and
        the hidden layers are in both. The networks are separate otherwise.

        :raises ValueError: if there is no distribution for the action space.
        """
        if not self._chosen("shared_features"):
            critic = self.state_value()
            actor, dist_fn = self.actor()
        else:
            actor, dist_fn = self.actor()
            head: Any = actor.net if isinstance(actor, Encoded) else actor
            critic = discrete.Critic(head.preprocess)
            critic = Encoded(actor.encoder, critic) if isinstance(actor, Encoded) else critic
            critic = critic.to(self.config.device)
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
        return MLP(self._vector_size() + act, 1, self.config.hidden_sizes, activation=nn.Tanh).to(self.config.device)


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
