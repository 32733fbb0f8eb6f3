"""Schedules of runs: values that change with the environment steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.config import ExplorationConfig
from rlfast.policy.components import training_state

if TYPE_CHECKING:
    from rlfast.experiment.config import RunConfig
    from rlfast.policy import BasePolicy


def apply_schedules(config: RunConfig, policy: Any, env_step: int) -> None:
    """Sets the values of a policy that change with the environment steps, but for its learning rates.

    :param config: the settings of the run.
    :param policy: the policy.
    :param env_step: the number of environment steps so far.
    """
    if isinstance(config, ExplorationConfig):
        policy.set_eps(config.eps_at(env_step))
    if (own := algorithm_of(config).schedules) is not None:
        own(config, policy, env_step)


class LearningRates:
    """Sets the learning rates of all optimizers of a policy by the schedule of the settings.

    Rates depend on the environment step alone, so that a resumed run has those of one without a stop.

    :param config: the settings of the run.
    :param policy: the policy, whose optimizers have the rates of the start.
    """

    def __init__(self, config: RunConfig, policy: BasePolicy) -> None:
        self._config = config
        found = training_state.find(policy).optimizers.values() if config.lr_schedule != "constant" else ()
        self._starts = [(optim, [group["lr"] for group in optim.param_groups]) for optim in found]

    def __call__(self, env_step: int) -> None:
        """Sets the rates.

        :param env_step: the number of environment steps so far.
        """
        for optim, starts in self._starts:
            for group, start in zip(optim.param_groups, starts, strict=True):
                group["lr"] = self._config.scheduled(self._config.lr_schedule, start, env_step)
