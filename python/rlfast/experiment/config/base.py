"""The settings of every run."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from rlfast.data.plain_data import summary
from rlfast.experiment.config.declaring import OLD_NAMES, hints_of, renamed, settings
from rlfast.functional.schedules import Exponential, Linear
from rlfast.utils.arguments.settings import Setting
from rlfast.utils.arguments.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    validate,
)

Activation: TypeAlias = Literal["relu", "tanh", "elu", "gelu", "silu"]
"""The activation of hidden layers."""

Schedule: TypeAlias = Literal["constant", "linear", "exponential"]
"""How a number changes in the course of a run, see :meth:`RunConfig.scheduled`."""


def stream_seed(seed: int, name: str) -> int:
    """Returns the seed of a random stream of a run.

    :param seed: the seed of the run.
    :param name: the name of the stream.

    >>> stream_seed(0, "sampler") == stream_seed(0, "sampler"), stream_seed(0, "sampler") == stream_seed(0, "policy")
    (True, False)
    """
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


class RunWarning(UserWarning):
    """A warning of something that a run could not do; the run continues."""


def flag(name: str) -> str:
    """Returns the option of the command line for a field.

    >>> flag("max_steps")
    '--max-steps'
    """
    return "--" + name.replace("_", "-")


@settings()
class ScalingConfig:
    """The settings of runs that are spread over several processes; see :mod:`rlfast.distributed`."""

    ray: str | None = None
    """Spreads the run over a Ray cluster: its address, HOST:PORT; auto, for the one that runs on this machine, or else
    a new one; local, for a new one; or in-process, for the same parts without Ray. Default: one process."""
    collectors: PositiveInt = 1
    """Number of collectors, with --ray. They share the num_envs environments; off-policy, each has at least one."""
    shards: PositiveInt = 1
    """Number of parts of the replay buffer, with --ray, each in a process of its own."""
    learners: PositiveInt = 1
    """Number of learners, with --ray. They share batches, and average their gradients."""
    chunk_steps: PositiveInt = 64
    """Environment steps that a collector takes before it sends them, with --ray."""
    weights_every: PositiveInt = 16
    """Gradient steps between two broadcasts of the weights, with --ray: collectors begin with weights no older."""
    insert_ahead: PositiveInt | None = None
    """Environment steps that collectors may be ahead of learning, with --ray. Default: three times the chunk_steps of
    all collectors, and at least twice collect_steps."""

    def _check_scaling(self) -> None:
        several = {name: getattr(self, name) for name in ("collectors", "shards", "learners")}
        named = ", ".join(f"--{name} {number}" for name, number in several.items() if number > 1)
        if self.ray is None and named:
            raise ValueError(f"{named} spreads a run over processes, and --ray says where they are: --ray auto")


@settings()
class RunConfig(ScalingConfig):
    """The settings of every run. Annotations define the values that a field accepts."""

    policy: ClassVar[str]
    """The name of the policy in :mod:`rlfast.policy`, of a run with an algorithm."""
    policy_settings: ClassVar[tuple[Setting, ...]] = ()
    """Those of its settings that are fields, by the names of its constructor."""

    env: str = "CartPole-v1"
    """Id of the Gymnasium environment. One of your own: MODULE:ID, where importing MODULE registers ID."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment, such as gravity=9.8 map='{"size": 5}': the values are JSON, or else texts."""
    wrappers: tuple[str, ...] = ()
    """Wrappers around the environment, such as gymnasium.wrappers:FlattenObservation, the innermost first."""
    seed: NonNegativeInt = 0
    """Seed of all random numbers: the same seed on the same machine gives the same parameters. --seeds 0-4 in its place
    trains several."""
    env_seeds: tuple[NonNegativeInt, NonNegativeInt] | None = None
    """Seeds of the training and of the test environments. Default: that of all random numbers, for both."""
    max_steps: PositiveInt = 100_000
    """Exact number of environment steps of all training environments together, with random steps, without tests."""
    stop_return: float | None = None
    """Mean return of a test at which the run stops early."""
    require_stop_return: bool = False
    """Whether a run that ends below stop_return counts as failed (exit status 1)."""
    run_dir: Path | None = None
    """Folder of the run, new or empty. Default: runs/ALGO-ENV-seedSEED, with a number if that exists."""
    num_envs: PositiveInt = 8
    """Number of training environments, which are stepped together."""
    eval_episodes: PositiveInt = 20
    """Number of episodes of a test."""
    eval_envs: PositiveInt = 20
    """Number of test environments, which share the episodes evenly."""
    eval_interval: PositiveInt = 2_000
    """Environment steps between two tests; each is followed by a checkpoint."""
    backend: Literal["auto", "native", "in-process", "process"] = "auto"
    """Backend that steps the environments. auto: native (Rust) if it has the environment, else in-process."""
    env_backend: Literal["auto", "ale", "gymnasium", "envpool", "ale-vector"] = "auto"
    """What steps Atari games: rlfast's environment (ale), Gymnasium's with wrappers, EnvPool, or ale-py's vector
    environment; see the documentation. auto: ale."""
    normalize_obs: bool = False
    """Whether observations are scaled to mean 0 and variance 1 by the statistics of training so far. Tests use the same
    statistics and do not change them. A replay buffer keeps rows as they were scaled when they were collected."""
    normalize_reward: bool = False
    """Whether rewards of training are divided by the standard deviation of discounted returns so far. Logs, tests and
    stop_return are of the environment's own rewards."""
    save_buffer: bool = True
    """Whether checkpoints contain the replay buffer; without it, a resumed run fills a new one."""
    device: str = "cpu"
    """Device of the networks: cpu, cuda, cuda:1, ..."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What convolutions compute in; weights and all else are float32. bfloat16 is faster on processors that have
    instructions for it (avx512_bf16, AMX; GPUs), and only there."""
    threads: PositiveInt = 1
    """Number of threads of PyTorch; small networks are fastest with one."""
    progress: bool = True
    """Whether to show a progress bar."""
    hidden_sizes: tuple[PositiveInt, ...] = (256, 256)
    """Number of units of each hidden layer."""
    channels: tuple[PositiveInt, PositiveInt, PositiveInt] = (32, 64, 64)
    """Number of output channels of each of the three convolutions that pictures pass through before hidden layers."""
    recurrent: bool = False
    """Whether networks are recurrent: an LSTM, with as many units as the last hidden layer, instead of hidden layers.
    """
    learning_rate: NonNegativeFloat = 3e-4
    """Learning rate of Adam."""
    lr_schedule: Schedule = "constant"
    """Schedule of all learning rates: constant; linear to 0 at max_steps; or exponential, see schedule_factor."""
    schedule_factor: PositiveFloat = 0.1
    """What exponential schedules multiply a number by in the course of max_steps."""
    batch_size: PositiveInt = 256
    """Number of rows of a gradient step."""
    collect_steps: PositiveInt = 8
    """Number of environment steps between updates."""

    def __post_init__(self) -> None:
        """Checks the types and ranges of all fields.

        :raises TypeError: if a value has another type than its field.
        :raises ValueError: if a value is out of range, or contradicts another one.
        """
        kind: Any = type(self)
        hints = hints_of(kind)
        for one in fields(self):
            value = validate(flag(one.name), getattr(self, one.name), hints[one.name])
            object.__setattr__(self, one.name, value)
        self._check_scaling()
        if self.require_stop_return and self.stop_return is None:
            raise ValueError("--require-stop-return needs a --stop-return")
        if self.recurrent and not self.hidden_sizes:
            raise ValueError("--recurrent needs a size of its memory in --hidden-sizes")
        if self.collect_steps % self.num_envs:
            raise ValueError(f"--collect-steps {self.collect_steps} must be a multiple of --num-envs {self.num_envs}")

    def __getattr__(self, name: str) -> Any:
        """Returns a setting by its old name.

        :param name: the name, see :data:`~rlfast.experiment.config.declaring.OLD_NAMES`.
        """
        if OLD_NAMES.get(name) in type(self).__dataclass_fields__:
            return getattr(self, OLD_NAMES[name])
        raise AttributeError(f"{type(self).__qualname__} has no setting {name!r}")

    @property
    def policy_arguments(self) -> dict[str, Any]:
        """The arguments of the policy's constructor that are settings."""
        return {one.name: getattr(self, one.name) for one in self.policy_settings}

    def scheduled(self, schedule: Schedule, start: float, env_step: int) -> float:
        """Returns the number after ``env_step`` environment steps that begins at ``start`` and follows a schedule.

        >>> config = RunConfig(max_steps=100, schedule_factor=0.25)
        >>> [config.scheduled(schedule, 8.0, 50) for schedule in ("constant", "linear", "exponential")]
        [8.0, 4.0, 4.0]
        """
        if schedule == "linear":
            return Linear(start, 0.0, self.max_steps)(env_step)
        if schedule == "exponential":
            return start * Exponential(1.0, self.schedule_factor, self.max_steps, self.schedule_factor)(env_step)
        return start

    def to_json(self) -> str:
        """Returns all fields as JSON.

        >>> RunConfig.from_json(RunConfig(seed=3).to_json()).seed
        3
        """
        return json.dumps(asdict(self), indent=2, default=str) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Returns the settings from the result of :meth:`to_json`.

        :param text: the JSON.
        :raises ValueError: if the text is not JSON, has unknown fields, or values that do not fit their fields.
        """
        try:
            values = dict(json.loads(text))
            if unknown := values.keys() - {one.name for one in fields(cls)} - OLD_NAMES.keys():
                raise ValueError(f"unknown fields {sorted(unknown)} in a configuration")
            now = renamed(cls, values)  # an old name that is left had one value, or no effect
            return cls(**{name: value for name, value in now.items() if name in cls.__dataclass_fields__})
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not the settings of a run: {summary(error)}") from error
