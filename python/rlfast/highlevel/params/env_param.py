"""Factories of numbers that depend on an environment."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from rlfast.highlevel.env import ContinuousEnvironments, Environments
from rlfast.utils.string import ToStringMixin

TValue = TypeVar("TValue")
TEnvs = TypeVar("TEnvs", bound=Environments)


class EnvValueFactory(ToStringMixin, ABC, Generic[TValue, TEnvs]):
    """The interface of these factories."""

    @abstractmethod
    def create_value(self, envs: TEnvs) -> TValue:
        """Returns the value.

        :param envs: the environments.
        """


class FloatEnvValueFactory(EnvValueFactory[float, TEnvs], ABC, Generic[TEnvs]):
    """The interface of factories of floats."""


@dataclass(eq=False, repr=False)
class FloatEnvValueFactoryMaxActionScaled(FloatEnvValueFactory[ContinuousEnvironments]):
    """Gives a multiple of the largest action. Actions that ``action_scaling`` stretches range from -1 to 1 before.

    :param value: the factor.
    """

    value: float

    def create_value(self, envs: ContinuousEnvironments) -> float:
        envs.get_type().assert_continuous(self)
        return float(envs.max_action * self.value)


class MaxActionScaled(FloatEnvValueFactoryMaxActionScaled):
    """A shorter name."""


MaxActionScaledFloat = MaxActionScaled  # another name
