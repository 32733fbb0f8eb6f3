"""Functions that are called in the course of training."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from rlfast.functional.schedules import Linear
from rlfast.highlevel.env import Environments
from rlfast.highlevel.logger import TLogger
from rlfast.policy import BasePolicy, DQNPolicy
from rlfast.utils.string import ToStringMixin

TPolicy = TypeVar("TPolicy", bound=BasePolicy)
log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class TrainingContext:
    """What callbacks may use.

    :param policy: the policy that is trained.
    :param envs: the environments.
    :param logger: the logger.
    """

    policy: BasePolicy
    envs: Environments
    logger: TLogger


class _EpochCallback(ToStringMixin, ABC):
    @abstractmethod
    def callback(self, epoch: int, env_step: Any, context: TrainingContext) -> None:
        """Is called.

        :param epoch: the epoch.
        :param env_step: environment steps so far.
        :param context: what it may use.
        """

    def get_trainer_fn(self, context: TrainingContext) -> Callable[[int, Any], None]:
        """Returns a function for a trainer.

        :param context: what the callback may use.
        """
        return lambda epoch, env_step: self.callback(epoch, env_step, context)


class EpochTrainCallback(_EpochCallback):
    """The interface of what is called before each collect: a trainer's ``train_fn``."""


class EpochTestCallback(_EpochCallback):
    """The interface of what is called before each test: a trainer's ``test_fn``."""


class EpochStopCallback(ToStringMixin, ABC):
    """The interface of what decides after a test whether training ends."""

    @abstractmethod
    def should_stop(self, mean_rewards: float, context: TrainingContext) -> bool:
        """Returns whether training ends.

        :param mean_rewards: the best mean return of a test so far.
        :param context: what it may use.
        """

    def get_trainer_fn(self, context: TrainingContext) -> Callable[[float], bool]:
        """Returns a trainer's ``stop_fn``.

        :param context: what the callback may use.
        """
        return lambda mean_rewards: self.should_stop(mean_rewards, context)


@dataclass
class TrainerCallbacks:
    """The callbacks of an experiment."""

    epoch_train_callback: EpochTrainCallback | None = None
    epoch_test_callback: EpochTestCallback | None = None
    epoch_stop_callback: EpochStopCallback | None = None


@dataclass(eq=False, repr=False)
class _SetsEps(_EpochCallback):
    eps_test: float

    def callback(self, epoch: int, env_step: object, context: TrainingContext) -> None:  # noqa: ARG002
        cast("DQNPolicy", context.policy).set_eps(self.eps_test)


class EpochTrainCallbackDQNSetEps(_SetsEps, EpochTrainCallback):
    """Sets the probability of random actions.

    :param eps_test: the probability.
    """


@dataclass(eq=False, repr=False)
class EpochTrainCallbackDQNEpsLinearDecay(EpochTrainCallback):
    """Lowers the probability of random actions linearly.

    :param eps_train: the probability at the start.
    :param eps_train_final: the probability after ``decay_steps`` steps.
    :param decay_steps: the number of environment steps.
    """

    eps_train: float
    eps_train_final: float
    decay_steps: int = 1000000

    def callback(self, epoch: int, env_step: int, context: TrainingContext) -> None:  # noqa: ARG002
        eps = Linear(self.eps_train, self.eps_train_final, self.decay_steps)(env_step)
        cast("DQNPolicy", context.policy).set_eps(eps)
        context.logger.write("train/env_step", env_step, {"train/eps": eps})


class EpochTestCallbackDQNSetEps(_SetsEps, EpochTestCallback):
    """Sets the probability of random actions before a test. It does not change tests, which are without exploration.

    :param eps_test: the probability.
    """


@dataclass(eq=False, repr=False)
class EpochStopCallbackRewardThreshold(EpochStopCallback):
    """Ends training at a mean return.

    :param threshold: the mean return; None for the environment's own.
    """

    threshold: float | None = None

    def of(self, env: Any) -> float:
        """Returns the mean return at which training ends.

        :param env: one of the environments.
        :raises ValueError: if neither this callback nor the environment has one.
        """
        threshold = getattr(env.spec, "reward_threshold", None) if self.threshold is None else self.threshold
        if threshold is None:
            raise ValueError(f"{env} has no reward_threshold: give EpochStopCallbackRewardThreshold a threshold")
        return float(threshold)

    def should_stop(self, mean_rewards: float, context: TrainingContext) -> bool:
        return mean_rewards >= self.of(context.envs.env)
