"""Factories of actors."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from torch import nn

from rlfast.experiment.networks import initialize_orthogonally
from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.core import DefaultNetworks, ModuleFactory, TDevice
from rlfast.highlevel.module.intermediate import IntermediateModule, IntermediateModuleFactory
from rlfast.highlevel.module.module_opt import ModuleOpt
from rlfast.highlevel.optim import OptimizerFactory
from rlfast.highlevel.params import dist_fn
from rlfast.utils.net.common import BaseActor, ModuleType
from rlfast.utils.string import ToStringMixin


class ContinuousActorType(Enum):
    """What an algorithm's actor gives for continuous actions."""

    GAUSSIAN = "gaussian"
    DETERMINISTIC = "deterministic"
    UNSUPPORTED = "unsupported"


@dataclass
class ActorFuture:
    """The actor of an experiment, once it is made."""

    actor: BaseActor | nn.Module | None = None


class ActorFutureProviderProtocol(Protocol):
    """What knows the actor of an experiment."""

    def get_actor_future(self) -> ActorFuture:
        """Returns where the actor will be."""


class ActorFactory(ModuleFactory, ToStringMixin):
    """The interface of factories of actors."""

    def create_module_opt(
        self, envs: Environments, device: TDevice, optim_factory: OptimizerFactory, lr: float
    ) -> ModuleOpt:
        """Returns an actor and its optimizer.

        :param envs: the environments.
        :param device: where it is.
        :param optim_factory: makes the optimizer.
        :param lr: the learning rate.
        """
        module = self.create_module(envs, device)
        return ModuleOpt(module, optim_factory.create_optimizer(module, lr))

    def create_dist_fn(self, envs: Environments) -> Any:  # noqa: ARG002
        """Returns the function that makes distributions from what the actor gives. Default: None, for the usual one.

        :param envs: the environments.
        """
        return None


class ActorFactoryContinuous(ActorFactory):
    """The interface of factories of actors of continuous actions."""


@dataclass(eq=False, repr=False)
class ActorFactoryContinuousDeterministicNet(ActorFactoryContinuous):
    """Makes actors that give one action.

    :param hidden_sizes: the sizes of hidden layers.
    :param activation: the activation of hidden layers.
    """

    hidden_sizes: Sequence[int]
    activation: ModuleType = nn.ReLU

    def create_module(self, envs: Environments, device: TDevice) -> nn.Module:
        return DefaultNetworks(envs, device, self.hidden_sizes, self.activation).deterministic_actor()


@dataclass(eq=False, repr=False)
class ActorFactoryContinuousGaussianNet(ActorFactoryContinuous):
    """Makes actors that give means and standard deviations.

    :param hidden_sizes: the sizes of hidden layers.
    :param unbounded: whether means are not bounded by a hyperbolic tangent.
    :param conditioned_sigma: whether standard deviations depend on the observation.
    :param activation: the activation of hidden layers.
    """

    hidden_sizes: Sequence[int]
    unbounded: bool = True
    conditioned_sigma: bool = False
    activation: ModuleType = nn.ReLU

    def create_module(self, envs: Environments, device: TDevice) -> nn.Module:
        networks = DefaultNetworks(envs, device, self.hidden_sizes, self.activation)
        conditioned, bounded = self.conditioned_sigma, not self.unbounded
        actor = networks.normal_actor(conditioned_sigma=conditioned, log_std=-0.5, bounded=bounded)
        initialize_orthogonally(actor)
        return actor

    def create_dist_fn(self, envs: Environments) -> Any:
        return dist_fn.DistributionFunctionFactoryIndependentGaussians().create_dist_fn(envs)


@dataclass(eq=False, repr=False)
class ActorFactoryDiscreteNet(ActorFactory):
    """Makes actors that give a number for each action.

    :param hidden_sizes: the sizes of hidden layers.
    :param softmax_output: whether these are probabilities, and not logits.
    :param activation: the activation of hidden layers.
    """

    hidden_sizes: Sequence[int]
    softmax_output: bool = True
    activation: ModuleType = nn.ReLU

    def create_module(self, envs: Environments, device: TDevice) -> nn.Module:
        actor: Any = DefaultNetworks(envs, device, self.hidden_sizes, self.activation).choice_actor()
        actor.softmax_output = self.softmax_output
        return actor.to(device)  # type: ignore[no-any-return]

    def create_dist_fn(self, envs: Environments) -> Any:
        return dist_fn.DistributionFunctionFactoryCategorical(self.softmax_output).create_dist_fn(envs)


@dataclass(eq=False, repr=False)
class ActorFactoryDefault(ActorFactory):
    """Makes actors for any actions.

    :param continuous_actor_type: what they give for continuous actions.
    :param hidden_sizes: the sizes of hidden layers.
    :param hidden_activation: the activation of hidden layers.
    :param continuous_unbounded: see :class:`ActorFactoryContinuousGaussianNet`.
    :param continuous_conditioned_sigma: likewise.
    :param discrete_softmax: see :class:`ActorFactoryDiscreteNet`.
    """

    DEFAULT_HIDDEN_SIZES = (64, 64)

    continuous_actor_type: ContinuousActorType
    hidden_sizes: Sequence[int] = DEFAULT_HIDDEN_SIZES
    hidden_activation: ModuleType = nn.ReLU
    continuous_unbounded: bool = False
    continuous_conditioned_sigma: bool = False
    discrete_softmax: bool = True

    def _factory(self, envs: Environments) -> ActorFactory:
        sizes, activation = self.hidden_sizes, self.hidden_activation
        if envs.get_type().is_discrete():
            return ActorFactoryDiscreteNet(sizes, self.discrete_softmax, activation)
        if self.continuous_actor_type is ContinuousActorType.DETERMINISTIC:
            return ActorFactoryContinuousDeterministicNet(sizes, activation)
        if self.continuous_actor_type is ContinuousActorType.GAUSSIAN:
            options = (self.continuous_unbounded, self.continuous_conditioned_sigma)
            return ActorFactoryContinuousGaussianNet(sizes, *options, activation)
        raise ValueError(f"the algorithm needs discrete actions, not those of {envs.get_action_space()}")

    def create_module(self, envs: Environments, device: TDevice) -> BaseActor | nn.Module:
        return self._factory(envs).create_module(envs, device)

    def create_dist_fn(self, envs: Environments) -> Any:
        return self._factory(envs).create_dist_fn(envs)


class ActorFactoryTransientStorageDecorator(ActorFactory):
    """Makes actors by another factory, and keeps the last one for critics that share its features.

    :param actor_factory: the other factory.
    :param actor_future: where the actor is kept.
    """

    def __init__(self, actor_factory: ActorFactory, actor_future: ActorFuture) -> None:
        self.actor_factory = actor_factory
        self._actor_future = actor_future

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({"_actor_future": ActorFuture()} | state)

    def _tostring_excludes(self) -> list[str]:
        return ["_actor_future"]

    def create_module(self, envs: Environments, device: TDevice) -> BaseActor | nn.Module:
        self._actor_future.actor = self.actor_factory.create_module(envs, device)
        return self._actor_future.actor

    def create_dist_fn(self, envs: Environments) -> Any:
        return self.actor_factory.create_dist_fn(envs)


@dataclass(eq=False, repr=False)
class IntermediateModuleFactoryFromActorFactory(IntermediateModuleFactory):
    """Takes actors for networks of features.

    :param actor_factory: makes the actors.
    """

    actor_factory: ActorFactory

    def create_intermediate_module(self, envs: Environments, device: TDevice) -> IntermediateModule:
        actor: Any = self.actor_factory.create_module(envs, device)
        return IntermediateModule(actor, actor.get_output_dim())
