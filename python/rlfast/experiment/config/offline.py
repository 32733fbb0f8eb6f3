"""The settings of runs that learn from data."""

from __future__ import annotations

from typing import Literal

from rlfast.experiment.config.base import RunConfig
from rlfast.experiment.config.declaring import settings
from rlfast.utils.arguments.validation import (
    PositiveFloat,
    PositiveInt,
)


@settings()
class DataConfig(RunConfig):
    """The settings of runs that learn from data."""

    data: str | None = None
    """Data to learn from: a buffer's file (a snapshot, or HDF5, also Tianshou's), an HDF5 file of D4RL, or the id or
    folder of a Minari dataset. It must be given."""


@settings()
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


@settings()
class OfflineRewardConfig(OfflineConfig):
    """The settings of offline runs that learn from rewards."""

    reward_scale: PositiveFloat = 1.0
    """Rewards of the data are multiplied by it; returns of tests are those of the environment."""


@settings()
class OfflineControlConfig(OfflineRewardConfig):
    """The settings of offline runs with continuous actions and target critics."""

    env = "Pendulum-v1"
    layer_norm: bool = False
    """Whether hidden layers of critics are normalized (LayerNorm), which keeps values of unknown actions bounded."""


@settings()
class OfflineChoiceConfig(OfflineRewardConfig):
    """The settings of offline runs with discrete actions."""

    hidden_sizes = (128, 128)
    learning_rate = 1e-3
    batch_size = 128
    target_update_freq = 100
