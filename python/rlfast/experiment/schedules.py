"""What changes in the course of a run, by the environment steps taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.utils.schedule import Linear

if TYPE_CHECKING:
    from rlfast.experiment.config import OnPolicyConfig


def set_learning_rate(config: OnPolicyConfig, policy: Any, env_step: int) -> None:
    """Set the learning rate of a policy's optimizer, as ``lr_schedule`` says.

    :param config: of the run.
    :param policy: has one optimizer, ``optim``.
    :param env_step: the environment steps taken.
    """
    if config.lr_schedule == "linear":
        rate = Linear(config.learning_rate, 0.0, config.max_steps)(env_step)
        for group in policy.optim.param_groups:
            group["lr"] = rate
