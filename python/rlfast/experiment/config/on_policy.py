"""The settings of runs that learn from roll-outs, by families of algorithms."""

from __future__ import annotations

from typing import ClassVar

from rlfast.experiment.config.base import Activation, RunConfig
from rlfast.experiment.config.declaring import settings
from rlfast.utils.arguments.validation import (
    FiniteFloat,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
)


@settings()
class OnPolicyConfig(RunConfig):
    """The settings of runs that learn from roll-outs of the newest policy, each of which is used once."""

    hidden_sizes = (64, 64)
    activation: Activation = "tanh"
    """Activation of the hidden layers."""
    adam_eps: PositiveFloat = 1e-5
    """What Adam adds to denominators."""
    eval_interval: PositiveInt = 8_192
    """Environment steps between two tests; each is followed by a checkpoint."""
    collect_steps: PositiveInt = 2_048
    """Number of environment steps of a roll-out."""
    repeat: PositiveInt = 10
    """Number of passes over a roll-out."""


@settings()
class PolicyGradientConfig(OnPolicyConfig):
    """The settings of runs that learn from roll-outs by policy gradients."""

    log_std: FiniteFloat = 0.0
    """First logarithm of the standard deviation of continuous actions."""
    conditioned_sigma: bool = False
    """Whether that deviation depends on the observation."""
    bounded: bool = False
    """Whether means of continuous actions are bounded, by a hyperbolic tangent."""
    deterministic_eval = True


@settings()
class AdvantageConfig(PolicyGradientConfig):
    """The settings of runs that learn from roll-outs with a critic."""

    ent_coef = 0.0
    max_grad_norm = 0.5
    shared_features: bool = False
    """Whether actor and critic have the same convolutions and hidden layers, and only their last layers differ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_features and self.recurrent:
            raise ValueError("--shared-features cannot be had with --recurrent: the critic has no hidden state")


@settings()
class NaturalGradientConfig(AdvantageConfig):
    """The settings of runs whose actors take steps along the natural gradient."""

    shared_features: ClassVar[bool] = False  # type: ignore[misc]
    """Always False: the actor's steps would change the critic."""
    learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the critic."""
    batch_size = 2_048
    repeat = 1
    optim_critic_iters = 10
