"""Factories of policies that wrap others."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.core import TDevice
from rlfast.highlevel.module.intermediate import IntermediateModuleFactory
from rlfast.highlevel.optim import OptimizerFactory
from rlfast.policy import BasePolicy, ICMPolicy
from rlfast.utils.net.discrete import IntrinsicCuriosityModule
from rlfast.utils.string import ToStringMixin

TPolicyOut = TypeVar("TPolicyOut", bound=BasePolicy)


class PolicyWrapperFactory(ToStringMixin, ABC, Generic[TPolicyOut]):
    """The interface of these factories."""

    @abstractmethod
    def create_wrapped_policy(
        self, policy: BasePolicy, envs: Environments, optim_factory: OptimizerFactory, device: TDevice
    ) -> TPolicyOut:
        """Returns the policy that wraps another.

        :param policy: the other.
        :param envs: the environments.
        :param optim_factory: makes optimizers.
        :param device: where the policy is.
        """


@dataclass(eq=False, repr=False, kw_only=True)
class PolicyWrapperFactoryIntrinsicCuriosity(PolicyWrapperFactory[ICMPolicy]):
    """Adds curiosity; see :class:`rlfast.policy.ICMPolicy`.

    :param feature_net_factory: makes the network of features.
    :param hidden_sizes: the sizes of hidden layers of the curiosity model.
    :param lr: the learning rate of the model.
    :param lr_scale: see :class:`rlfast.policy.ICMPolicy`.
    :param reward_scale: likewise.
    :param forward_loss_weight: likewise.
    """

    feature_net_factory: IntermediateModuleFactory
    hidden_sizes: Sequence[int]
    lr: float
    lr_scale: float
    reward_scale: float
    forward_loss_weight: float

    def create_wrapped_policy(
        self, policy: BasePolicy, envs: Environments, optim_factory: OptimizerFactory, device: TDevice
    ) -> ICMPolicy:
        """Returns the policy; see :meth:`PolicyWrapperFactory.create_wrapped_policy`.

        :raises ValueError: if actions are not discrete.
        """
        actions = envs.get_action_shape()
        if not isinstance(actions, int):
            raise ValueError(f"curiosity needs discrete actions, got actions of shape {actions}")
        features = self.feature_net_factory.create_intermediate_module(envs, device)
        sizes = (features.output_dim, actions, self.hidden_sizes)
        model = IntrinsicCuriosityModule(features.module, *sizes, device=device)
        return ICMPolicy(
            policy=policy,
            model=model,
            optim=optim_factory.create_optimizer(model, lr=self.lr),
            action_space=envs.get_action_space(),
            lr_scale=self.lr_scale,
            reward_scale=self.reward_scale,
            forward_loss_weight=self.forward_loss_weight,
        ).to(device)
