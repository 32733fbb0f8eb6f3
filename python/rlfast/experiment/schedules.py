"""Schedules of runs: values that change with the environment steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.functional.schedules import Linear

if TYPE_CHECKING:
    from rlfast.experiment.config import OnPolicyConfig


def set_learning_rate(config: OnPolicyConfig, policy: Any, env_step: int) -> None:
    """Set the learning rate of a policy's optimizer by the schedule of the settings.

    :param config: the settings of the run, with ``lr_schedule``.
    :param policy: a policy with one optimizer, ``optim``.
    :param env_step: the number of environment steps so far.
    """
    if config.lr_schedule == "linear":
        rate = Linear(config.learning_rate, 0.0, config.max_steps)(env_step)
        for group in policy.optim.param_groups:
            group["lr"] = rate
