"""What a run is made of, in a form that people write on a command line and read in a file."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from rlfast.utils.plain import summary


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What every run has, whatever it learns with."""

    env: str = "CartPole-v1"
    """Gymnasium environment."""
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
    backend: Literal["auto", "native", "in-process", "process"] = "auto"
    """Who steps the environments. auto: Rust where it has them, else this process."""
    save_buffer: bool = True
    """Keep the replay buffer in checkpoints; without it, a resumed run fills a new one."""
    device: str = "cpu"
    """Where the networks live: cpu, cuda, cuda:1, ..."""
    compile: bool = False
    """Make one graph of each update: quicker on long runs, after some ten seconds of compiling."""
    threads: int = 1
    """Threads of PyTorch: small networks are quickest with one."""
    progress: bool = True
    """Show a progress bar."""

    def __post_init__(self) -> None:
        """Checks types and ranges, naming the field, what was got and what is wanted.

        :raises TypeError: a value is of another type than the field.
        :raises ValueError: it is out of range.
        """
        hints = get_type_hints(type(self))
        for field in fields(self):
            value = getattr(self, field.name)
            if not _fits(value, hints[field.name]):
                raise TypeError(f"{flag(field.name)} takes {_in_words(hints[field.name])}, got {value!r:.100}")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{flag(field.name)} must be a finite number, got {value}")
        self._at_least_one("max_steps", "num_envs", "eval_episodes", "eval_envs", "eval_interval", "threads")
        self._not_negative("seed")
        if self.require_stop_return and self.stop_return is None:
            raise ValueError("--require-stop-return needs a --stop-return")

    def _at_least_one(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 1:
                raise ValueError(f"{flag(name)} must be at least 1, got {getattr(self, name)}")

    def _not_negative(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 0:
                raise ValueError(f"{flag(name)} must not be negative, got {getattr(self, name)}")

    def _fractions(self, *names: str) -> None:
        for name in names:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{flag(name)} must be within 0 and 1, got {getattr(self, name)}")

    def _layers(self, sizes: tuple[int, ...]) -> None:
        if not all(size > 0 for size in sizes):
            raise ValueError(f"--hidden-sizes must be positive, got {sizes}")

    def _portion(self, collect_steps: int, updates_per_step: float | None = None) -> None:
        if updates_per_step is not None and round(updates_per_step * collect_steps) < 1:
            raise ValueError(
                f"--updates-per-step {updates_per_step} makes no update after {collect_steps} steps: "
                "raise it, or --collect-steps"
            )
        if collect_steps % self.num_envs:
            raise ValueError(f"--collect-steps {collect_steps} must be a multiple of --num-envs {self.num_envs}")

    def _room(self, buffer_size: int) -> None:
        if buffer_size < self.num_envs:
            raise ValueError(
                f"--buffer-size {buffer_size} has no row for each of the --num-envs {self.num_envs}: raise it"
            )

    def to_json(self) -> str:
        """All fields, resolved.

        >>> DQNConfig.from_json(DQNConfig(seed=3).to_json()).seed
        3
        """
        return json.dumps(asdict(self), indent=2, default=str) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The reverse of :meth:`to_json`.

        :raises ValueError: it is damaged: no JSON, unknown fields, or values that do not fit.
        """
        try:
            values: dict[str, Any] = dict(json.loads(text))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not the settings of a {cls.__name__}: {summary(error)}") from error
        if unknown := values.keys() - {field.name for field in fields(cls)}:
            raise ValueError(f"unknown fields {sorted(unknown)} in the configuration of {cls.__name__}")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        if isinstance(values.get("run_dir"), str):
            values["run_dir"] = Path(values["run_dir"])
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(str(error)) from error


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field is declared with.

    >>> _fits(3, float), _fits("3", int), _fits(True, int), _fits((64, 64), tuple[int, ...]), _fits(None, float | None)
    (True, False, False, True, True)
    """
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in inside
    if origin is UnionType:
        return any(_fits(value, one) for one in inside)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, inside[0]) for one in value)
    if hint in (int, float):
        number = isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
        return number and not sys.maxsize < abs(value) < math.inf
    return isinstance(value, NoneType if hint is None else hint)


def _in_words(hint: Any) -> str:
    """A type as people say it.

    >>> _in_words(tuple[int, ...]), _in_words(float | None), _in_words(Literal["a", "b"])
    ('whole numbers', 'a number or nothing', "one of 'a', 'b'")
    """
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    if get_origin(hint) is UnionType:
        return " or ".join(_in_words(one) for one in get_args(hint))
    words = {
        int: "a whole number of at most 64 bits",
        float: "a number",
        bool: "true or false",
        str: "a text",
        Path: "a folder",
    }
    return {**words, NoneType: "nothing", tuple[int, ...]: "whole numbers"}[hint]


def flag(name: str) -> str:
    """A field as the command line calls it.

    >>> flag("max_steps")
    '--max-steps'
    """
    return "--" + name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class DQNConfig(RunConfig):
    """Deep Q-learning: double, dueling, n-step and prioritized as you like."""

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

    def __post_init__(self) -> None:
        """Checks types and ranges, as :class:`RunConfig` says."""
        super().__post_init__()
        self._at_least_one("n_step", "buffer_size", "batch_size", "collect_steps")
        self._not_negative(
            "target_update_freq", "start_steps", "eps_steps", "learning_rate", "updates_per_step", "alpha"
        )
        self._fractions("gamma", "eps_start", "eps_end", "beta")
        self._layers(self.hidden_sizes)
        self._portion(self.collect_steps, self.updates_per_step)
        self._room(self.buffer_size)

    def eps_at(self, env_step: int) -> float:
        """Probability of a random action after so many environment steps.

        >>> [round(DQNConfig(eps_start=1, eps_end=0, eps_steps=100).eps_at(step), 2) for step in (0, 25, 100, 200)]
        [1.0, 0.75, 0.0, 0.0]
        """
        done = min(env_step / self.eps_steps, 1.0) if self.eps_steps else 1.0
        return self.eps_start + done * (self.eps_end - self.eps_start)


DQN_PRESETS = {
    "CartPole-v1": DQNConfig(
        stop_return=475.0, learning_rate=3e-3, batch_size=256, updates_per_step=0.125, target_update_freq=25
    ),
}
