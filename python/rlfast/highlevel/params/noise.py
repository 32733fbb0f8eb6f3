"""Factories of noise that explores."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from rlfast.exploration import BaseNoise, GaussianNoise
from rlfast.highlevel.env import Environments
from rlfast.utils.string import ToStringMixin


class NoiseFactory(ToStringMixin, ABC):
    """The interface of these factories."""

    @abstractmethod
    def create_noise(self, envs: Environments) -> BaseNoise:
        """Returns the noise.

        :param envs: the environments.
        """


@dataclass(eq=False, repr=False)
class NoiseFactoryMaxActionScaledGaussian(NoiseFactory):
    """Makes normal noise.

    :param std_fraction: its standard deviation, in multiples of the largest action. It is added before
        ``action_scaling`` stretches actions, by the largest action again.
    """

    std_fraction: float

    def create_noise(self, envs: Any) -> GaussianNoise:
        envs.get_type().assert_continuous(self)
        return GaussianNoise(sigma=envs.max_action * self.std_fraction)


class MaxActionScaledGaussian(NoiseFactoryMaxActionScaledGaussian):
    """A shorter name."""
