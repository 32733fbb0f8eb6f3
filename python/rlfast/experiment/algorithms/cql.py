"""Conservative Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineControlConfig, TemperatureConfig
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import CQLPolicy

TITLE = "CQL"
SUMMARY = "conservative Q-learning, from data with continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineControlConfig, TemperatureConfig):
    """Conservative Q-learning."""

    alpha: PositiveFloat = 1.0
    """The temperature, or where it starts."""
    backup_entropy: bool = False
    """Whether targets contain the entropy of the policy."""
    cql_weight: NonNegativeFloat = 1.0
    """Weight of the penalty on values of actions that are not in the data."""
    with_lagrange: bool = True
    """Whether that weight is multiplied by a learned number, which keeps the penalty at lagrange_threshold."""
    lagrange_threshold: FiniteFloat = 10.0
    """Threshold of the penalty, with with_lagrange."""
    cql_alpha_learning_rate: NonNegativeFloat = 1e-4
    """Learning rate of Adam for the learned number."""
    num_repeat_actions: PositiveInt = 10
    """Number of actions of each of three kinds in the penalty."""
    actor_learning_rate: NonNegativeFloat | None = None
    """Learning rate of Adam, of the actor after its steps of imitation, in which it is learning_rate. Default: the
    same."""
    imitation_steps: NonNegativeInt = 0
    """Number of first gradient steps in which the actor imitates the data, and does not raise values."""
    calibrated: bool = True
    """Whether values of the policy's actions count as at least the returns of the data (arXiv:2303.05479)."""
    clip_grad: NonNegativeFloat = 1.0
    """Largest norm of each critic's gradient; 0 for no limit."""


PRESETS = {
    "Pendulum-v1": Config(
        max_steps=10_000,
        eval_interval=2_500,
        hidden_sizes=(64, 64),
        learning_rate=1e-3,
        gamma=0.95,
        tau=0.01,
        alpha_learning_rate=1e-3,
        target_entropy=-4.0,  # the expert's data are narrow, and a wide policy leaves them
        cql_weight=20.0,
        with_lagrange=False,
        num_repeat_actions=4,
        compile=True,
    ),
}


def build(config: Config, networks: Networks) -> CQLPolicy:
    """The policy, with an actor of squashed normal distributions and two critics."""
    from torch.optim.lr_scheduler import MultiStepLR

    from rlfast.policy import CQLPolicy
    from rlfast.utils.optim import adam

    optim, actor = adam(config.learning_rate), networks.normal_actor(conditioned_sigma=True)
    rate = config.learning_rate if config.actor_learning_rate is None else config.actor_learning_rate
    changes = config.imitation_steps > 0 and 0 < config.learning_rate != rate
    actor_optim = (optim if changes else adam(rate))(actor.parameters())
    schedule = MultiStepLR(actor_optim, [config.imitation_steps], rate / config.learning_rate) if changes else None
    return CQLPolicy(
        actor=actor,
        actor_optim=actor_optim,
        critic=networks.action_value(layer_norm=config.layer_norm),
        critic_optim=optim,
        critic2=networks.action_value(layer_norm=config.layer_norm),
        critic2_optim=optim,
        tau=config.tau,
        gamma=config.gamma,
        estimation_step=config.n_step,
        alpha=config.temperature(networks.action_size),
        cql_weight=config.cql_weight,
        with_lagrange=config.with_lagrange,
        lagrange_threshold=config.lagrange_threshold,
        cql_alpha_lr=config.cql_alpha_learning_rate,
        num_repeat_actions=config.num_repeat_actions,
        calibrated=config.calibrated,
        backup_entropy=config.backup_entropy,
        imitation_steps=config.imitation_steps,
        clip_grad=config.clip_grad,
        lr_scheduler=schedule,
        compile=config.compile,
        **networks.spaces,
    )
