"""The settings of runs that learn from roll-outs, by families of algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rlfast.experiment.config.base import Activation, RunConfig
from rlfast.utils.arguments.validation import (
    FiniteFloat,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
)


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(RunConfig):
    """The settings of runs that learn from roll-outs of the newest policy, each of which is used once."""

    hidden_sizes: tuple[PositiveInt, ...] = (64, 64)
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


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(OnPolicyConfig):
    """The settings of runs that learn from roll-outs by policy gradients."""

    scale_returns: bool = False
    """Whether returns are divided by their running standard deviation."""
    log_std: FiniteFloat = 0.0
    """First logarithm of the standard deviation of continuous actions."""
    conditioned_sigma: bool = False
    """Whether that deviation depends on the observation."""
    bounded: bool = False
    """Whether means of continuous actions are bounded, by a hyperbolic tangent."""
    deterministic_eval: bool = True
    """Whether actions of tests are the modes of their distributions, and not drawn."""


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig(PolicyGradientConfig):
    """The settings of runs that learn from roll-outs with a critic."""

    gae_lambda: UnitFloat = 0.95
    """Lambda of advantages: 0 for one-step, 1 for Monte Carlo (arXiv:1506.02438)."""
    shared_features: bool = False
    """Whether actor and critic have the same convolutions and hidden layers, and only their last layers differ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_features and self.recurrent:
            raise ValueError("--shared-features cannot be had with --recurrent: the critic has no hidden state")


@dataclass(frozen=True, kw_only=True)
class NaturalGradientConfig(AdvantageConfig):
    """The settings of runs whose actors take steps along the natural gradient."""

    compile: ClassVar[bool] = False  # type: ignore[misc]
    """Always False: the length of a step is searched for."""
    shared_features: ClassVar[bool] = False  # type: ignore[misc]
    """Always False: the actor's steps would change the critic."""
    learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the critic."""
    batch_size: PositiveInt = 2_048
    repeat: PositiveInt = 1
    critic_iters: PositiveInt = 10
    """Gradient steps of the critic on each minibatch."""
    normalize_advantage: bool = True
    """Advantages of mean 0 and deviation 1 in each roll-out."""
