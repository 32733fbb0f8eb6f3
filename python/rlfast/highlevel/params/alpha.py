"""Factories of learned temperatures."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import torch

from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.core import TDevice
from rlfast.highlevel.optim import OptimizerFactory
from rlfast.utils.net.common import size_of
from rlfast.utils.string import ToStringMixin

TAutoAlpha: TypeAlias = tuple[float, torch.Tensor, torch.optim.Optimizer]


class AutoAlphaFactory(ToStringMixin, ABC):
    """The interface of these factories."""

    @abstractmethod
    def create_auto_alpha(self, envs: Environments, optim_factory: OptimizerFactory, device: TDevice) -> TAutoAlpha:
        """Returns the entropy to aim at, the logarithm of the temperature, and its optimizer.

        :param envs: the environments.
        :param optim_factory: makes the optimizer.
        :param device: where the temperature is.
        """


@dataclass(eq=False, repr=False)
class AutoAlphaFactoryDefault(AutoAlphaFactory):
    """Begins at a temperature of 1.

    :param lr: the learning rate.
    :param target_entropy_coefficient: the entropy to aim at, in multiples of the number of action dimensions, or, for
        discrete actions, of the entropy of equally likely ones, where -1 stands for 0.98.
    """

    lr: float = 0.0003
    target_entropy_coefficient: float = -1.0

    def target_entropy(self, envs: Environments) -> float:
        """Returns the entropy to aim at.

        :param envs: the environments.
        """
        size, coefficient = size_of(envs.get_action_shape()), self.target_entropy_coefficient
        if envs.get_type().is_continuous():
            return float(coefficient * size)
        return (0.98 if coefficient == -1 else coefficient) * math.log(size)

    def create_auto_alpha(self, envs: Environments, optim_factory: OptimizerFactory, device: TDevice) -> TAutoAlpha:
        log_alpha = torch.zeros(1, requires_grad=True, device=device)
        return self.target_entropy(envs), log_alpha, optim_factory.create_optimizer_for_params([log_alpha], self.lr)
