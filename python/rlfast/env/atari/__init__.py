"""Atari games, preprocessed as DeepMind's agents saw them (Mnih et al., Nature 518, 2015)."""

from rlfast.env.atari.emulator import AtariEnv
from rlfast.env.atari.vector import make_atari_env, make_atari_vec
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

__all__ = [
    "AtariEnv",
    "ClipRewardEnv",
    "EpisodicLifeEnv",
    "FireResetEnv",
    "FrameStack",
    "MaxAndSkipEnv",
    "NoopResetEnv",
    "ScaledFloatFrame",
    "WarpFrame",
    "make_atari_env",
    "make_atari_vec",
    "wrap_deepmind",
]
