"""Factories of critics."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.actor import ActorFuture
from rlfast.highlevel.module.core import DefaultNetworks, TDevice, init_linear_orthogonal
from rlfast.highlevel.module.module_opt import ModuleOpt
from rlfast.highlevel.optim import OptimizerFactory
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.common import BaseActor, ModuleType, size_of
from rlfast.utils.string import ToStringMixin


class CriticFactory(ToStringMixin, ABC):
    """The interface of factories of critics."""

    @abstractmethod
    def create_module(
        self, envs: Environments, device: TDevice, use_action: bool, discrete_last_size_use_action_shape: bool = False
    ) -> nn.Module:
        """Returns a critic.

        :param envs: the environments.
        :param device: where it is.
        :param use_action: whether it takes actions.
        :param discrete_last_size_use_action_shape: whether it gives a value for each discrete action.
        """

    def create_module_opt(
        self,
        envs: Environments,
        device: TDevice,
        use_action: bool,
        optim_factory: OptimizerFactory,
        lr: float,
        discrete_last_size_use_action_shape: bool = False,
    ) -> ModuleOpt:
        """Returns a critic and its optimizer.

        :param envs: see :meth:`create_module`, also for the parameters that are not here.
        :param device: where it is.
        :param use_action: whether it takes actions.
        :param optim_factory: makes the optimizer.
        :param lr: the learning rate.
        :param discrete_last_size_use_action_shape: whether it gives a value for each discrete action.
        """
        module = self.create_module(envs, device, use_action, discrete_last_size_use_action_shape)
        return ModuleOpt(module, optim_factory.create_optimizer(module, lr))


@dataclass(eq=False, repr=False)
class CriticFactoryContinuousNet(CriticFactory):
    """Makes critics for environments with continuous actions.

    :param hidden_sizes: the sizes of hidden layers.
    :param activation: the activation of hidden layers.
    """

    hidden_sizes: Sequence[int]
    activation: ModuleType = nn.ReLU

    def create_module(
        self, envs: Environments, device: TDevice, use_action: bool, discrete_last_size_use_action_shape: bool = False
    ) -> nn.Module:
        networks = DefaultNetworks(envs, device, self.hidden_sizes, self.activation)
        usual = networks.action_value if use_action else networks.state_value
        all_actions = discrete_last_size_use_action_shape and envs.get_type().is_discrete()
        critic = networks.choice_values() if all_actions and not use_action else usual()
        init_linear_orthogonal(critic)
        return critic


class CriticFactoryDiscreteNet(CriticFactoryContinuousNet):
    """Makes critics for environments with discrete actions; see :class:`CriticFactoryContinuousNet`."""


class CriticFactoryDefault(CriticFactoryContinuousNet):
    """Makes critics for any actions.

    :param hidden_sizes: the sizes of hidden layers.
    :param hidden_activation: the activation of hidden layers.
    """

    DEFAULT_HIDDEN_SIZES = (64, 64)

    def __init__(
        self, hidden_sizes: Sequence[int] = DEFAULT_HIDDEN_SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> None:
        super().__init__(hidden_sizes, hidden_activation)
        self.hidden_activation = hidden_activation


@dataclass(eq=False, repr=False)
class CriticFactoryReuseActor(CriticFactory):
    """Makes critics on the features of the actor.

    :param actor_future: where the actor will be.
    """

    actor_future: ActorFuture

    def _tostring_excludes(self) -> list[str]:
        return ["actor_future"]

    def create_module(
        self, envs: Environments, device: TDevice, use_action: bool, discrete_last_size_use_action_shape: bool = False
    ) -> nn.Module:
        """Returns a critic; see :meth:`CriticFactory.create_module`.

        :raises ValueError: if the actor has no features to share, or the critic takes actions.
        """
        actor: Any = self.actor_future.actor
        if not isinstance(actor, BaseActor) or use_action:
            got = f"{type(actor).__name__}, use_action={use_action}"
            raise ValueError(f"a critic shares features with a BaseActor, and if it takes no actions: got {got}")
        features = actor.get_preprocess_net()
        if envs.get_type().is_continuous():
            return continuous.Critic(features, device=device).to(device)
        last_size = size_of(envs.get_action_shape()) if discrete_last_size_use_action_shape else 1
        return discrete.Critic(features, device=device, last_size=last_size).to(device)


class CriticEnsembleFactory(ABC):
    """The interface of factories of ensembles of critics."""

    @abstractmethod
    def create_module(self, envs: Environments, device: TDevice, ensemble_size: int, use_action: bool) -> nn.Module:
        """Returns an ensemble.

        :param envs: the environments.
        :param device: where it is.
        :param ensemble_size: the number of critics.
        :param use_action: whether they take actions.
        """

    def create_module_opt(
        self,
        envs: Environments,
        device: TDevice,
        ensemble_size: int,
        use_action: bool,
        optim_factory: OptimizerFactory,
        lr: float,
    ) -> ModuleOpt:
        """Returns an ensemble and its optimizer.

        :param envs: see :meth:`create_module`, also for the parameters that are not here.
        :param device: where it is.
        :param ensemble_size: the number of critics.
        :param use_action: whether they take actions.
        :param optim_factory: makes the optimizer.
        :param lr: the learning rate.
        """
        module = self.create_module(envs, device, ensemble_size, use_action)
        return ModuleOpt(module, optim_factory.create_optimizer(module, lr))


@dataclass(eq=False, repr=False)
class CriticEnsembleFactoryContinuousNet(CriticEnsembleFactory):
    """Makes ensembles for continuous actions.

    :param hidden_sizes: the sizes of hidden layers.
    """

    hidden_sizes: Sequence[int]

    def create_module(self, envs: Environments, device: TDevice, ensemble_size: int, use_action: bool) -> nn.Module:  # noqa: ARG002 (always)
        return DefaultNetworks(envs, device, self.hidden_sizes).action_values_by(ensemble_size)


@dataclass(eq=False, repr=False)
class CriticEnsembleFactoryDefault(CriticEnsembleFactoryContinuousNet):
    """Makes ensembles for continuous actions; see :class:`CriticEnsembleFactoryContinuousNet`."""

    DEFAULT_HIDDEN_SIZES = (64, 64)

    hidden_sizes: Sequence[int] = DEFAULT_HIDDEN_SIZES
