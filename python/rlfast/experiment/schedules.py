"""Schedules of learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.policy.components import training_state

if TYPE_CHECKING:
    from rlfast.experiment.config import RunConfig
    from rlfast.policy import BasePolicy


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
