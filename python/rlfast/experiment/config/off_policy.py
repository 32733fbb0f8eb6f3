"""The settings of runs that learn from a replay buffer, by families of algorithms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from rlfast.experiment.config.base import Activation, RunConfig
from rlfast.experiment.config.declaring import settings
from rlfast.functional.schedules import Linear
from rlfast.utils.arguments.validation import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
)

if TYPE_CHECKING:
    from rlfast.exploration import BaseNoise
    from rlfast.policy import Alpha


@settings()
class OffPolicyConfig(RunConfig):
    """The settings of runs that fill a replay buffer and learn from it."""

    activation: Activation = "relu"
    """Activation of the hidden layers."""
    orthogonal: bool = False
    """Whether convolutions begin with orthogonal weights, as those of algorithms that learn from roll-outs always do,
    and not with PyTorch's first weights. They learn much sooner from pictures that are nearly empty."""
    buffer_size: PositiveInt = 1_000_000
    """Number of transitions in the buffer."""
    storage: str = "ram"
    """Where they are: "ram", "lz4" or "zstd" (in RAM, with pictures packed), or a folder for files, such as ./rows."""
    start_steps: NonNegativeInt = 1_000
    """Number of environment steps before the first update, with random actions."""
    start_random: bool = True
    """Whether the actions of these steps are random, and not those of the untrained policy."""
    updates_per_step: PositiveFloat = 1.0
    """Number of gradient steps for each environment step; fractions add up."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer_size < self.num_envs:
            raise ValueError(
                f"--buffer-size {self.buffer_size} has no row for each of the --num-envs {self.num_envs}: raise it"
            )


@settings()
class DeterministicConfig(OffPolicyConfig):
    """The settings of runs with a deterministic actor, which explores by noise."""

    env = "Pendulum-v1"
    num_envs = 1
    learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the critics."""
    actor_learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the actor."""
    collect_steps = 1
    noise: NonNegativeFloat = 0.1
    """Strength of the noise that explores, where actions reach from -1 to 1: the standard deviation, if it is normal.
    """
    noise_process: Literal["normal", "ornstein-uhlenbeck"] = "normal"
    """The noise that explores. normal: independent at each step; ornstein-uhlenbeck: a process that keeps its direction
    for about seven steps (arXiv:1509.02971, section 7), for goals that must be reached before anything is learned."""

    def make_noise(self) -> BaseNoise:
        """Returns the noise."""
        from rlfast.exploration import GaussianNoise, OUNoise

        return GaussianNoise(sigma=self.noise) if self.noise_process == "normal" else OUNoise(sigma=self.noise, dt=1.0)


@settings()
class TemperatureConfig(RunConfig):
    """The settings of runs that weigh entropy beside returns."""

    alpha: PositiveFloat = 0.2
    """The temperature, or where it starts."""
    auto_alpha: bool = True
    """Learn the temperature, so that the entropy stays at its target."""
    target_entropy: FiniteFloat | None = None
    """The target of the entropy. Default: minus the number of action dimensions."""
    alpha_learning_rate: NonNegativeFloat = 3e-4
    """Adam's step size, of the temperature."""

    def make_alpha(self, target: float) -> Alpha:
        """Returns the temperature, fixed or learned.

        :param target: the target of the entropy, without a ``target_entropy``.
        """
        from rlfast.policy import AutoAlpha, FixedAlpha
        from rlfast.utils.optim import adam

        if not self.auto_alpha:
            return FixedAlpha(self.alpha)
        return AutoAlpha(
            target if self.target_entropy is None else self.target_entropy,
            math.log(self.alpha),
            adam(self.alpha_learning_rate),
        )


@settings()
class EntropyConfig(OffPolicyConfig, TemperatureConfig):
    """The settings of runs that maximise entropy beside returns: soft actor-critic and its variants."""

    env = "Pendulum-v1"
    num_envs = 1
    collect_steps = 1


@settings()
class NormalConfig(EntropyConfig):
    """The settings of such runs whose actors give normal distributions that can be of several forms."""

    log_std: FiniteFloat = 0.0
    """First logarithm of the standard deviation of actions, where it does not depend on the observation."""
    conditioned_sigma: bool = True
    """Whether that deviation depends on the observation."""
    bounded: bool = False
    """Whether means of actions are bounded by a hyperbolic tangent before that of all actions."""


@settings()
class ExplorationConfig(RunConfig):
    """The settings of runs that take random actions with a probability that falls."""

    eps_start: UnitFloat = 1.0
    """Probability of a random action at the start."""
    eps_end: UnitFloat = 0.05
    """Probability of a random action after eps_steps steps."""
    eps_steps: NonNegativeInt = 10_000
    """Number of environment steps over which that probability falls linearly."""
    eval_eps: UnitFloat = 0.0
    """Probability of a random action in tests. Where greedy actions lead nowhere, as in games that wait for FIRE, a
    small one ends the test."""

    def eps_at(self, env_step: int) -> float:
        """Returns the probability of a random action after ``env_step`` environment steps.

        >>> config = ExplorationConfig(eps_start=1, eps_end=0, eps_steps=100)
        >>> [round(config.eps_at(step), 2) for step in (0, 25, 100, 200)]
        [1.0, 0.75, 0, 0]
        """
        return Linear(self.eps_start, self.eps_end, self.eps_steps)(env_step)


@settings()
class QLearningConfig(OffPolicyConfig, ExplorationConfig):
    """The settings of runs that learn values of discrete actions."""

    hidden_sizes = (128, 128)
    dueling: bool = False
    """Whether networks have separate streams for state value and advantages (arXiv:1511.06581)."""
    learning_rate = 1e-3
    estimation_step = 3
    target_update_freq = 100
    buffer_size = 50_000
    batch_size = 128
    prioritized: bool = False
    """Whether transitions are sampled in proportion to their temporal difference errors (arXiv:1511.05952)."""
    alpha: NonNegativeFloat = 0.6
    """Exponent of the priorities."""
    beta: UnitFloat = 0.4
    """Exponent of the importance weights at the start."""
    beta_end: UnitFloat = 1.0
    """Exponent of the importance weights once beta_steps have been taken: 1 takes all the bias out (section 3.4)."""
    beta_steps: NonNegativeInt = 100_000
    """Environment steps over which that exponent changes, linearly."""
    collect_steps = 64
    updates_per_step = 0.25

    def beta_at(self, env_step: int) -> float:
        """Returns the exponent of the importance weights after ``env_step`` environment steps.

        >>> QLearningConfig(beta=0.5, beta_end=1.0, beta_steps=100).beta_at(50)
        0.75
        """
        return Linear(self.beta, self.beta_end, self.beta_steps)(env_step)


@settings()
class SequenceConfig(QLearningConfig):
    """The settings of runs that learn values of discrete actions from sequences, by a recurrent network."""

    recurrent: ClassVar[bool] = True  # type: ignore[misc]
    """Always True: a sequence needs a recurrent network."""
    activation: ClassVar[Activation] = "relu"  # type: ignore[misc]
    """Always relu: recurrent networks have no other hidden layers."""
    sequence_length: PositiveInt = 20
    """Number of steps of a sequence that are learned from."""
    burn_in: NonNegativeInt = 10
    """Number of steps before them, which only refresh the stored hidden state."""
    observe: tuple[NonNegativeInt, ...] = ()
    """Indices of the numbers of an observation that the policy sees, such as 0 2. Default: all."""
    hidden_sizes = (64,)
    batch_size: PositiveInt = 32
    """Number of sequences of a gradient step."""
