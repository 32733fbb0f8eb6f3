"""What a run is made of, in a form that people write on a command line and read in a file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class DQNConfig:
    """Deep Q-learning: double, dueling, n-step and prioritized as you like."""

    env: str = "CartPole-v1"
    """Gymnasium environment, with discrete actions and vector observations."""
    seed: int = 0
    """Seeds everything: the same seed on the same machine gives the same parameters."""
    max_steps: int = 100_000
    """Environment steps, exactly: all training environments together, random steps at the start included, tests not."""
    stop_return: float | None = None
    """Stop early once the mean return of a test reaches this."""
    require_stop_return: bool = False
    """Count a run that ends below stop_return as failed (exit status 1)."""
    run_dir: Path | None = None
    """Folder of the run, new or empty. Default: runs/ALGO-ENV-seedSEED, numbered where that exists."""
    num_envs: int = 8
    """Training environments, stepped together."""
    eval_episodes: int = 20
    """Episodes in a test."""
    eval_envs: int = 20
    """Test environments, each playing an even share of the episodes."""
    eval_interval: int = 2_000
    """Environment steps between two tests; each is followed by a checkpoint."""
    hidden_sizes: tuple[int, ...] = (128, 128)
    """Units of the network's hidden layers."""
    dueling: bool = False
    """Separate streams for state value and advantages (arXiv:1511.06581)."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    gamma: float = 0.99
    """Discount factor."""
    n_step: int = 3
    """Rewards summed before bootstrapping."""
    double: bool = True
    """The trained network chooses the action that the target network rates (arXiv:1509.06461)."""
    huber: bool = True
    """Huber loss in place of the square."""
    target_update_freq: int = 100
    """Gradient steps between copies to the target network; 0: no target network."""
    buffer_size: int = 50_000
    """Transitions kept."""
    batch_size: int = 128
    """Transitions in a gradient step."""
    prioritized: bool = False
    """Sample transitions by their temporal difference error (arXiv:1511.05952)."""
    alpha: float = 0.6
    """Exponent of the priorities."""
    beta: float = 0.4
    """Exponent of the importance weights."""
    start_steps: int = 1_000
    """Random environment steps before the first update."""
    collect_steps: int = 64
    """Environment steps between updates."""
    updates_per_step: float = 0.25
    """Gradient steps for each environment step."""
    eps_start: float = 1.0
    """Probability of a random action at the start."""
    eps_end: float = 0.05
    """Probability of a random action once eps_steps have been taken."""
    eps_steps: int = 10_000
    """Environment steps over which that probability falls, linearly."""
    device: str = "cpu"
    """Where the network lives: cpu, cuda, cuda:1, ..."""
    threads: int = 1
    """Threads of PyTorch: small networks are quickest with one."""
    progress: bool = True
    """Show a progress bar."""

    def __post_init__(self) -> None:
        """Checks ranges. :raises ValueError: naming the field, what was got and what is wanted."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{_flag(field.name)} must be a finite number, got {value}")
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{_flag(name)} must be at least 1, got {getattr(self, name)}")
        for name in _NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise ValueError(f"{_flag(name)} must not be negative, got {getattr(self, name)}")
        for name in _FRACTIONS:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{_flag(name)} must be within 0 and 1, got {getattr(self, name)}")
        if not all(size > 0 for size in self.hidden_sizes):
            raise ValueError(f"--hidden-sizes must be positive, got {self.hidden_sizes}")
        if round(self.updates_per_step * self.collect_steps) < 1:
            raise ValueError(
                f"--updates-per-step {self.updates_per_step} makes no update after {self.collect_steps} steps: "
                "raise it, or --collect-steps"
            )
        if self.collect_steps % self.num_envs:
            raise ValueError(f"--collect-steps {self.collect_steps} must be a multiple of --num-envs {self.num_envs}")
        if self.require_stop_return and self.stop_return is None:
            raise ValueError("--require-stop-return needs a --stop-return")

    def eps_at(self, env_step: int) -> float:
        """Probability of a random action after so many environment steps.

        >>> [round(DQNConfig(eps_start=1, eps_end=0, eps_steps=100).eps_at(step), 2) for step in (0, 25, 100, 200)]
        [1.0, 0.75, 0.0, 0.0]
        """
        done = min(env_step / self.eps_steps, 1.0) if self.eps_steps else 1.0
        return self.eps_start + done * (self.eps_end - self.eps_start)

    def to_json(self) -> str:
        """All fields, resolved.

        >>> DQNConfig.from_json(DQNConfig(seed=3).to_json()).seed
        3
        """
        return json.dumps(asdict(self), indent=2, default=str) + "\n"

    @classmethod
    def from_json(cls, text: str) -> DQNConfig:
        """The reverse of :meth:`to_json`.

        :raises ValueError: unknown fields.
        """
        values: dict[str, Any] = json.loads(text)
        if unknown := values.keys() - {field.name for field in fields(cls)}:
            raise ValueError(f"unknown fields {sorted(unknown)} in the configuration of {cls.__name__}")
        values["hidden_sizes"] = tuple(values["hidden_sizes"])
        values["run_dir"] = values["run_dir"] and Path(values["run_dir"])
        return cls(**values)


_AT_LEAST_ONE = (
    "max_steps",
    "num_envs",
    "eval_episodes",
    "eval_envs",
    "eval_interval",
    "n_step",
    "buffer_size",
    "batch_size",
    "collect_steps",
    "threads",
)
_NOT_NEGATIVE = ("seed", "target_update_freq", "start_steps", "eps_steps", "learning_rate", "updates_per_step", "alpha")
_FRACTIONS = ("gamma", "eps_start", "eps_end", "beta")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def preset(env: str) -> DQNConfig:
    """Settings that are known to work for an environment, and the defaults for all others.

    >>> preset("CartPole-v1").stop_return
    475.0
    """
    return replace(_PRESETS.get(env, DQNConfig()), env=env)


_PRESETS = {
    "CartPole-v1": DQNConfig(
        stop_return=475.0, learning_rate=3e-3, batch_size=256, updates_per_step=0.125, target_update_freq=25
    ),
}
