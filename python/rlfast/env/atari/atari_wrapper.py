"""Atari games: wrappers, and what experiments need."""

from __future__ import annotations

from rlfast.env.atari.vector import make_atari_env
from rlfast.env.atari.wrappers import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    FrameStack,
    MaxAndSkipEnv,
    NoopResetEnv,
    ScaledFloatFrame,
    WarpFrame,
    wrap_deepmind,
)
from rlfast.utils.runtime.extras import lazy_names

__all__ = [  # noqa: F822 (two are imported on access)
    "AtariEnvFactory",
    "AtariEpochStopCallback",
    "ClipRewardEnv",
    "EpisodicLifeEnv",
    "FireResetEnv",
    "FrameStack",
    "MaxAndSkipEnv",
    "NoopResetEnv",
    "ScaledFloatFrame",
    "WarpFrame",
    "make_atari_env",
    "wrap_deepmind",
]

__getattr__, __dir__ = lazy_names("rlfast.highlevel", {"atari": ("AtariEnvFactory", "AtariEpochStopCallback")})
