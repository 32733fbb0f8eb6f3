"""What a run is made of, in a form that people write on a command line and read in a file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, get_type_hints

from rlfast.utils.plain import summary
from rlfast.utils.schedule import Linear
from rlfast.utils.validation import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
    validate,
)

if TYPE_CHECKING:
    from rlfast.policy import Alpha


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What every run has, whatever it learns with. Annotations say which values a field takes."""

    env: str = "CartPole-v1"
    """Gymnasium environment."""
    seed: NonNegativeInt = 0
    """Seeds everything: the same seed on the same machine gives the same parameters."""
    max_steps: PositiveInt = 100_000
    """Environment steps, exactly: all training environments together, random steps at the start included, tests not."""
    stop_return: float | None = None
    """Stop early once the mean return of a test reaches this."""
    require_stop_return: bool = False
    """Count a run that ends below stop_return as failed (exit status 1)."""
    run_dir: Path | None = None
    """Folder of the run, new or empty. Default: runs/ALGO-ENV-seedSEED, numbered where that exists."""
    num_envs: PositiveInt = 8
    """Training environments, stepped together."""
    eval_episodes: PositiveInt = 20
    """Episodes in a test."""
    eval_envs: PositiveInt = 20
    """Test environments, each playing an even share of the episodes."""
    eval_interval: PositiveInt = 2_000
    """Environment steps between two tests; each is followed by a checkpoint."""
    backend: Literal["auto", "native", "in-process", "process"] = "auto"
    """Who steps the environments. auto: Rust where it has them, else this process."""
    save_buffer: bool = True
    """Keep the replay buffer in checkpoints; without it, a resumed run fills a new one."""
    device: str = "cpu"
    """Where the networks live: cpu, cuda, cuda:1, ..."""
    compile: bool = False
    """Make one graph of each update: quicker on long runs, after some ten seconds of compiling."""
    threads: PositiveInt = 1
    """Threads of PyTorch: small networks are quickest with one."""
    progress: bool = True
    """Show a progress bar."""
    hidden_sizes: tuple[PositiveInt, ...] = (256, 256)
    """Units of the hidden layers of each network."""
    recurrent: bool = False
    """Networks with a memory (LSTM) of as many units as the last of hidden_sizes, in place of the hidden layers."""
    learning_rate: NonNegativeFloat = 3e-4
    """Adam's step size."""
    gamma: UnitFloat = 0.99
    """Discount factor."""
    batch_size: PositiveInt = 256
    """Rows in a gradient step."""
    collect_steps: PositiveInt = 8
    """Environment steps between updates."""

    def __post_init__(self) -> None:
        """Checks types and ranges, naming the field, what was got and what is wanted.

        :raises TypeError: a value is of another type than the field.
        :raises ValueError: it is out of range.
        """
        hints = get_type_hints(type(self), include_extras=True)
        for field in fields(self):
            value = validate(flag(field.name), getattr(self, field.name), hints[field.name])
            object.__setattr__(self, field.name, value)
        if self.require_stop_return and self.stop_return is None:
            raise ValueError("--require-stop-return needs a --stop-return")
        if self.recurrent and not self.hidden_sizes:
            raise ValueError("--recurrent needs a size of its memory in --hidden-sizes")
        if self.collect_steps % self.num_envs:
            raise ValueError(f"--collect-steps {self.collect_steps} must be a multiple of --num-envs {self.num_envs}")

    def to_json(self) -> str:
        """All fields, resolved.

        >>> RunConfig.from_json(RunConfig(seed=3).to_json()).seed
        3
        """
        return json.dumps(asdict(self), indent=2, default=str) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of :meth:`to_json`.

        :raises ValueError: it is damaged: no JSON, unknown fields, or values that do not fit.
        """
        try:
            values = dict(json.loads(text))
            if unknown := values.keys() - {field.name for field in fields(cls)}:
                raise ValueError(f"unknown fields {sorted(unknown)} in a configuration")
            return cls(**values)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not the settings of a run: {summary(error)}") from error


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(RunConfig):
    """What runs have that learn from a replay buffer while they fill it."""

    n_step: PositiveInt = 1
    """Rewards summed before bootstrapping."""
    buffer_size: PositiveInt = 1_000_000
    """Transitions kept."""
    start_steps: NonNegativeInt = 1_000
    """Random environment steps before the first update."""
    updates_per_step: PositiveFloat = 1.0
    """Gradient steps for each environment step; a fraction is made up for later."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer_size < self.num_envs:
            raise ValueError(
                f"--buffer-size {self.buffer_size} has no row for each of the --num-envs {self.num_envs}: raise it"
            )


@dataclass(frozen=True, kw_only=True)
class SoftConfig(OffPolicyConfig):
    """What runs have whose actors are paid for entropy, too: soft actor-critic and what came of it."""

    env: str = "Pendulum-v1"
    num_envs: PositiveInt = 1
    collect_steps: PositiveInt = 1
    tau: UnitFloat = 0.005
    """How far the target critics move at each gradient step."""
    alpha: PositiveFloat = 0.2
    """The temperature, or where it starts."""
    auto_alpha: bool = True
    """Learn the temperature, so that the entropy stays at its target."""
    target_entropy: FiniteFloat | None = None
    """That target. Default: minus the number of action dimensions."""
    alpha_learning_rate: NonNegativeFloat = 3e-4
    """Adam's step size, of the temperature."""

    def temperature(self, action_size: int) -> Alpha:
        """The temperature, fixed or learned.

        :param action_size: how many numbers an action has.
        """
        from rlfast.policy import AutoAlpha, FixedAlpha
        from rlfast.utils.optim import adam

        if not self.auto_alpha:
            return FixedAlpha(self.alpha)
        target = -float(action_size) if self.target_entropy is None else self.target_entropy
        return AutoAlpha(target, math.log(self.alpha), adam(self.alpha_learning_rate))


@dataclass(frozen=True, kw_only=True)
class QLearningConfig(OffPolicyConfig):
    """What runs have that learn values of discrete actions."""

    hidden_sizes: tuple[PositiveInt, ...] = (128, 128)
    dueling: bool = False
    """Separate streams for state value and advantages (arXiv:1511.06581)."""
    learning_rate: NonNegativeFloat = 1e-3
    n_step: PositiveInt = 3
    double: bool = True
    """The trained network chooses the action that the target network rates (arXiv:1509.06461)."""
    target_update_freq: NonNegativeInt = 100
    """Gradient steps between copies to the target network; 0: no target network."""
    buffer_size: PositiveInt = 50_000
    batch_size: PositiveInt = 128
    prioritized: bool = False
    """Sample transitions by their temporal difference error (arXiv:1511.05952)."""
    alpha: NonNegativeFloat = 0.6
    """Exponent of the priorities."""
    beta: UnitFloat = 0.4
    """Exponent of the importance weights at the start."""
    beta_end: UnitFloat = 1.0
    """Exponent of the importance weights once beta_steps have been taken: 1 takes all the bias out (section 3.4)."""
    beta_steps: NonNegativeInt = 100_000
    """Environment steps over which that exponent changes, linearly."""
    collect_steps: PositiveInt = 64
    updates_per_step: PositiveFloat = 0.25
    eps_start: UnitFloat = 1.0
    """Probability of a random action at the start."""
    eps_end: UnitFloat = 0.05
    """Probability of a random action once eps_steps have been taken."""
    eps_steps: NonNegativeInt = 10_000
    """Environment steps over which that probability falls, linearly."""

    def eps_at(self, env_step: int) -> float:
        """Probability of a random action after so many environment steps.

        >>> config = QLearningConfig(eps_start=1, eps_end=0, eps_steps=100)
        >>> [round(config.eps_at(step), 2) for step in (0, 25, 100, 200)]
        [1.0, 0.75, 0, 0]
        """
        return Linear(self.eps_start, self.eps_end, self.eps_steps)(env_step)

    def beta_at(self, env_step: int) -> float:
        """Exponent of the importance weights after so many environment steps.

        >>> QLearningConfig(beta=0.5, beta_end=1.0, beta_steps=100).beta_at(50)
        0.75
        """
        return Linear(self.beta, self.beta_end, self.beta_steps)(env_step)


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig(RunConfig):
    """What runs have that learn from roll-outs of the newest policy, each used once."""

    hidden_sizes: tuple[PositiveInt, ...] = (64, 64)
    eval_interval: PositiveInt = 8_192
    """Environment steps between two tests; each is followed by a checkpoint."""
    collect_steps: PositiveInt = 2_048
    """Environment steps in a roll-out."""
    repeat: PositiveInt = 10
    """Passes over a roll-out."""
    lr_schedule: Literal["constant", "linear"] = "constant"
    """The learning rate over a run: constant, or falling in a line to 0 at max_steps."""


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(OnPolicyConfig):
    """What runs have that learn from roll-outs how likely each action should be."""

    scale_returns: bool = False
    """Divide returns by their running standard deviation."""
    log_std: FiniteFloat = 0.0
    """Where the logarithm of the standard deviation of continuous actions starts."""


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig(PolicyGradientConfig):
    """What runs have that learn from roll-outs with a critic."""

    gae_lambda: UnitFloat = 0.95
    """Advantages: 0 for one-step, 1 for Monte Carlo (arXiv:1506.02438)."""


def flag(name: str) -> str:
    """A field as the command line calls it.

    >>> flag("max_steps")
    '--max-steps'
    """
    return "--" + name.replace("_", "-")
