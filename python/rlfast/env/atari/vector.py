"""Vector environments of Atari games, with one of several backends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rlfast.env.adapters import as_vector_env
from rlfast.env.atari.emulator import AtariEnv
from rlfast.env.atari.games import rom_of, sticky_probability
from rlfast.env.atari.wrappers import wrap_deepmind
from rlfast.env.subproc import SubprocVectorEnv
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.utils.runtime.extras import needed_by

BACKENDS = ("auto", "ale", "envpool", "ale-vector", "gymnasium")
_MAX_FRAMES = 108_000


def make_atari_vec(
    game: str,
    num_envs: int,
    *,
    backend: str = "auto",
    seed: int | None = None,
    frame_stack: int = 4,
    episodic_life: bool = True,
    clip_rewards: bool = True,
    scale: bool = False,
    noop_max: int = 30,
    fire_on_reset: bool = True,
    repeat_action_probability: float | None = None,
    max_frames: int = _MAX_FRAMES,
    full_action_space: bool = False,
    autoreset_mode: AutoresetMode | str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
) -> BaseVectorEnv:
    """Makes a vector environment of equal Atari games, preprocessed as DeepMind's agents saw them.

    :param game: a name or id, as :class:`AtariEnv` takes it.
    :param num_envs: number of environments, 1 or more.
    :param backend: ``"ale"`` for :class:`AtariEnv`, in worker processes if these are faster; ``"envpool"`` and
        ``"ale-vector"`` for the vector environments of EnvPool and of ``ale-py``, which run in threads and differ in
        the points that the documentation lists; ``"gymnasium"`` for Gymnasium's environment with the wrappers of
        :func:`wrap_deepmind`, likewise. ``"auto"`` (default) is ``"ale"``.
    :param seed: seed of the first environment; the next has the next integer. Default: None, for random ones.
    :param frame_stack: see :class:`AtariEnv`, as for the other arguments that it has. Default: 4.
    :param episodic_life: Default: True.
    :param clip_rewards: Default: True.
    :param scale: Default: False.
    :param noop_max: Default: 30.
    :param fire_on_reset: Default: True.
    :param repeat_action_probability: Default: None, for 0.25 if ``game`` ends with ``-v5``, else 0.
    :param max_frames: Default: 108,000.
    :param full_action_space: Default: False.
    :param autoreset_mode: as for :class:`BaseVectorEnv`, with the backends ``"ale"`` and ``"gymnasium"``; the others
        have NEXT_STEP. Default: None.
    :param vector_kwargs: further arguments of the backend's vector environment. Default: None.
    :return: the vector environment.
    :raises ImportError: the library of the backend is not installed.
    :raises ValueError: there is no such game or backend, or the backend does not support an argument.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {list(BACKENDS)}, got {backend!r}")
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    sticky = sticky_probability(game) if repeat_action_probability is None else repeat_action_probability
    rom = rom_of(game)
    if backend in {"envpool", "ale-vector"}:
        refused = {"scale": scale, "full_action_space": full_action_space and backend == "envpool"}
        wrong = [name for name, value in refused.items() if value]
        if wrong:
            raise ValueError(f"the backend {backend!r} does not support {', '.join(wrong)}: choose another backend")
        common: dict[str, Any] = {
            "num_envs": num_envs,
            "stack_num": frame_stack,
            "episodic_life": episodic_life,
            "noop_max": noop_max,
        }
        common |= {"use_fire_reset": fire_on_reset, "repeat_action_probability": sticky, **(vector_kwargs or {})}
        if backend == "envpool":
            return _envpool(rom, seed, reward_clip=clip_rewards, max_episode_steps=max_frames // 4, **common)
        common |= {"reward_clipping": clip_rewards, "max_num_frames_per_episode": max_frames}
        return _ale_vector(rom, seed, full_action_space=full_action_space, **common)
    make: Callable[[], gym.Env[Any, Any]]
    if backend == "gymnasium":
        emulator: dict[str, Any] = {"repeat_action_probability": sticky, "max_num_frames_per_episode": max_frames}
        emulator |= {"frameskip": 1, "full_action_space": full_action_space}
        wraps = {"episode_life": episodic_life, "clip_rewards": clip_rewards, "frame_stack": frame_stack}
        if noop_max != 30 or not fire_on_reset:
            raise ValueError("the backend 'gymnasium' has noop_max=30 and fire_on_reset=True: choose another backend")
        make = partial(_wrapped, rom, emulator, wraps | {"scale": scale})
    else:
        make = partial(
            AtariEnv,
            rom,
            frame_stack=frame_stack,
            episodic_life=episodic_life,
            clip_rewards=clip_rewards,
            scale=scale,
            noop_max=noop_max,
            fire_on_reset=fire_on_reset,
            repeat_action_probability=sticky,
            max_frames=max_frames,
            full_action_space=full_action_space,
        )
    options = {"placement": "auto", "autoreset_mode": autoreset_mode, **(vector_kwargs or {})}
    envs = SubprocVectorEnv([make] * num_envs, **options)
    if seed is not None:
        envs.seed(seed)
    return envs


def _wrapped(rom: str, emulator: dict[str, Any], wraps: dict[str, Any]) -> gym.Env[Any, Any]:
    """Makes one environment of the backend ``"gymnasium"``."""
    import ale_py

    gym.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return wrap_deepmind(gym.make(f"ALE/{_title(rom)}-v5", **emulator), **wraps)


def _title(rom: str) -> str:
    return rom.title().replace("_", "")


def _envpool(rom: str, seed: int | None, **options: Any) -> BaseVectorEnv:
    with needed_by("rlfast.env.atari"):
        import envpool
    if seed is not None:
        options["seed"] = seed
    return as_vector_env(envpool.make(f"{_title(rom)}-v5", env_type="gymnasium", **options))


def _ale_vector(rom: str, seed: int | None, **options: Any) -> BaseVectorEnv:
    with needed_by("rlfast.env.atari"):
        from ale_py import ALEInterface, LoggerMode
        from ale_py.vector_env import AtariVectorEnv
    ALEInterface.setLoggerMode(LoggerMode.Error)
    envs = as_vector_env(AtariVectorEnv(rom, autoreset_mode=AutoresetMode.NEXT_STEP, **options))
    if seed is not None:
        envs.seed(seed)
    return envs


def make_atari_env(
    task: str,
    seed: int,
    training_num: int,
    test_num: int,
    *,
    scale: int | bool = False,
    frame_stack: int = 4,
    backend: str = "auto",
    **options: Any,
) -> tuple[gym.Env[Any, Any], BaseVectorEnv, BaseVectorEnv]:
    """Makes what Tianshou's scripts ask for: an environment, those for training, and those for tests.

    Lives are episodes and rewards are clipped in training only.

    :param task: a name or id, such as ``"PongNoFrameskip-v4"``.
    :param seed: seed of the environments.
    :param training_num: number of environments for training.
    :param test_num: number of environments for tests.
    :param scale: whether observations are float32 in [0, 1]. Default: False.
    :param frame_stack: number of frames in an observation. Default: 4.
    :param backend: see :func:`make_atari_vec`. Default: ``"auto"``.
    :param options: further arguments of :func:`make_atari_vec`.
    :return: an environment with the spaces, the training environments, and the test environments.
    :raises ValueError: see :func:`make_atari_vec`.
    """
    common = {"backend": backend, "seed": seed, "scale": bool(scale), "frame_stack": frame_stack, **options}
    train = make_atari_vec(task, training_num, **common)
    test = make_atari_vec(task, test_num, **{**common, "episodic_life": False, "clip_rewards": False})
    single = {name: value for name, value in options.items() if name not in ("vector_kwargs", "autoreset_mode")}
    return AtariEnv(task, scale=bool(scale), frame_stack=frame_stack, **single), train, test
