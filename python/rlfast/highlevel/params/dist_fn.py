"""Factories of functions that make distributions over actions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from rlfast.functional.distributions import Categorical, DiagonalNormal
from rlfast.highlevel.env import Environments
from rlfast.policy.modelfree.pg import TDistributionFunction
from rlfast.utils.string import ToStringMixin


class DistributionFunctionFactory(ToStringMixin, ABC):
    """The interface of these factories."""

    @abstractmethod
    def create_dist_fn(self, envs: Environments) -> TDistributionFunction:
        """Returns the function, which takes what an actor gives.

        :param envs: the environments.
        """


@dataclass(eq=False, repr=False)
class DistributionFunctionFactoryCategorical(DistributionFunctionFactory):
    """For discrete actions.

    :param is_probs_input: whether actors give probabilities, and not logits.
    """

    is_probs_input: bool = True

    def create_dist_fn(self, envs: Environments) -> TDistributionFunction:
        envs.get_type().assert_discrete(self)
        return torch.distributions.Categorical if self.is_probs_input else Categorical


class DistributionFunctionFactoryIndependentGaussians(DistributionFunctionFactory):
    """For continuous actions, by actors that give means and standard deviations."""

    def create_dist_fn(self, envs: Environments) -> TDistributionFunction:
        envs.get_type().assert_continuous(self)
        return DiagonalNormal


class DistributionFunctionFactoryDefault(DistributionFunctionFactoryCategorical):
    """For either, by actors that give means and standard deviations where actions are continuous.

    :param is_probs_input: see :class:`DistributionFunctionFactoryCategorical`.
    """

    def create_dist_fn(self, envs: Environments) -> TDistributionFunction:
        return DiagonalNormal if envs.get_type().is_continuous() else super().create_dist_fn(envs)
