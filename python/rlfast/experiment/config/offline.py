"""The settings of runs that learn from data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlfast.experiment.config.base import RunConfig
from rlfast.utils.arguments.validation import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
)


@dataclass(frozen=True, kw_only=True)
class DataConfig(RunConfig):
    """The settings of runs that learn from data."""

    data: str | None = None
    """Data to learn from: a buffer's file (a snapshot, or HDF5, also Tianshou's), an HDF5 file of D4RL, or the id or
    folder of a Minari dataset. It must be given."""


@dataclass(frozen=True, kw_only=True)
class OfflineConfig(DataConfig):
    """The settings of runs that learn from data alone, and meet the environment in tests only."""

    max_steps: PositiveInt = 100_000
    """Number of gradient steps."""
    eval_interval: PositiveInt = 5_000
    """Gradient steps between two tests; each is followed by a checkpoint."""
    save_buffer: bool = True
    """Whether checkpoints contain the data; without it, a resumed run draws other rows."""
    num_envs: Literal[1] = 1
    """Always 1: nothing is collected."""
    collect_steps: Literal[1] = 1
    """Always 1: nothing is collected."""
    recurrent: Literal[False] = False
    """Always False: data have no hidden states."""
    normalize_obs: bool = False
    """Whether observations are scaled to mean 0 and variance 1 of the data."""
    normalize_reward: Literal[False] = False
    """Always False: rewards are those of the data."""
    lr_schedule: Literal["constant"] = "constant"
    """Always constant."""


@dataclass(frozen=True, kw_only=True)
class OfflineRewardConfig(OfflineConfig):
    """The settings of offline runs that learn from rewards."""

    reward_scale: PositiveFloat = 1.0
    """Rewards of the data are multiplied by it; returns of tests are those of the environment."""


@dataclass(frozen=True, kw_only=True)
class OfflineControlConfig(OfflineRewardConfig):
    """The settings of offline runs with continuous actions and target critics."""

    env: str = "Pendulum-v1"
    tau: UnitFloat = 0.005
    """Size of the steps of target networks."""
    n_step: PositiveInt = 1
    """Number of rewards summed before bootstrapping."""
    layer_norm: bool = False
    """Whether hidden layers of critics are normalized (LayerNorm), which keeps values of unknown actions bounded."""


@dataclass(frozen=True, kw_only=True)
class OfflineChoiceConfig(OfflineRewardConfig):
    """The settings of offline runs with discrete actions."""

    hidden_sizes: tuple[PositiveInt, ...] = (128, 128)
    learning_rate: NonNegativeFloat = 1e-3
    batch_size: PositiveInt = 128
    target_update_freq: PositiveInt = 100
    """Number of gradient steps between copies to the target network."""
