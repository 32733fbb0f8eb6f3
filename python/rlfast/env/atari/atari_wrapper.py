"""Atari games under the names of Tianshou 2.0: wrappers, and what experiments need."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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
from rlfast.experiment.environments import seed_envs
from rlfast.highlevel.env import EnvFactory, EnvFactoryRegistered, EnvMode, EnvPoolFactory, VectorEnvType
from rlfast.highlevel.trainer import EpochStopCallback, TrainingContext

if TYPE_CHECKING:
    import gymnasium as gym

    from rlfast.env import BaseVectorEnv

__all__ = [
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


class AtariEnvFactory(EnvFactoryRegistered):
    """Makes Atari games, preprocessed as :func:`rlfast.env.atari.make_atari_vec` does it.

    In training, lives are episodes and rewards are clipped; in tests and when watched, they are not.

    :param task: a name or id, such as ``"PongNoFrameskip-v4"``.
    :param frame_stack: number of frames in an observation. Default: 4.
    :param scale: whether observations are float32 in [0, 1]. Default: False.
    :param use_envpool_if_available: whether EnvPool steps the games, if it is installed. Default: False, as our own
        vector environment is faster.
    :param venv_type: ``DUMMY`` for games in this process, ``RAY`` for Ray's; others for worker processes, or this
        process if that is as fast. Default: ``VectorEnvType.AUTO``.
    """

    def __init__(
        self,
        task: str,
        frame_stack: int = 4,
        scale: bool = False,
        use_envpool_if_available: bool = False,
        venv_type: VectorEnvType = VectorEnvType.AUTO,
    ) -> None:
        envpool_factory = EnvPoolFactory() if use_envpool_if_available and find_spec("envpool") else None
        super().__init__(task=task, venv_type=venv_type, envpool_factory=envpool_factory)
        self.frame_stack = frame_stack
        self.scale = scale

    def _options(self, mode: EnvMode) -> dict[str, Any]:
        training = mode is EnvMode.TRAIN
        common = {"frame_stack": self.frame_stack, "scale": self.scale}
        return {**common, "episodic_life": training, "clip_rewards": training}

    def create_env(self, mode: EnvMode) -> gym.Env[Any, Any]:
        render_mode: Any = self.render_modes[mode]
        return AtariEnv(self.task, render_mode=render_mode, **self._options(mode))

    def create_venv(self, num_envs: int, mode: EnvMode, seed: int | None = None) -> BaseVectorEnv:
        if mode is EnvMode.WATCH or self.venv_type is VectorEnvType.RAY:
            return EnvFactory.create_venv(self, num_envs, mode, seed)
        options = self._options(mode)
        if self.envpool_factory is not None:
            return make_atari_vec(self.task, num_envs, backend="envpool", seed=seed or 0, **options)
        if self.venv_type is VectorEnvType.DUMMY:
            options["vector_kwargs"] = {"placement": "in-process"}
        venv = make_atari_vec(self.task, num_envs, **options)
        if seed is not None:
            seed_envs(venv, seed, mode.value)
        return venv


@dataclass(eq=False, repr=False)
class AtariEpochStopCallback(EpochStopCallback):
    """Ends training at the mean return that the game's registration names; 20 in Pong, which has none.

    :param task: a name or id of the game; other games without such a return are trained to the end.
    """

    task: str

    def should_stop(self, mean_rewards: float, context: TrainingContext) -> bool:
        threshold = getattr(context.envs.env.spec, "reward_threshold", None)
        if threshold is None and "Pong" in self.task:
            threshold = 20.0
        return threshold is not None and mean_rewards >= threshold
