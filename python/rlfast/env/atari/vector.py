"""Vector environments of Atari games, with one of several backends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rlfast.env.adapters import as_vector_env
from rlfast.env.atari.emulator import AtariEnv
from rlfast.env.atari.games import rom_of, spec_of, sticky_probability, title_of
from rlfast.env.atari.stacking import StackingDummyEnv, StackingSubprocEnv
from rlfast.env.atari.wrappers import wrap_deepmind
from rlfast.env.vector.arguments import as_autoreset_mode
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
        :func:`wrap_deepmind`, in worker processes if these are faster. ``"auto"`` (default) is ``"ale"``.
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
    :param vector_kwargs: further arguments of the backend's vector environment. With the backends ``"ale"`` and
        ``"gymnasium"`` these are arguments of :class:`~rlfast.env.SubprocVectorEnv`, whose ``placement`` is ``"auto"``
        here, and may be ``"in-process"``. Default: None.
    :return: the vector environment.
    :raises ImportError: the library of the backend is not installed.
    :raises ValueError: there is no such game or backend, or the backend does not support an argument.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {list(BACKENDS)}, got {backend!r}")
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    settings = _Settings(
        game=game,
        rom=rom_of(game),
        num_envs=num_envs,
        seed=seed,
        frame_stack=frame_stack,
        episodic_life=episodic_life,
        clip_rewards=clip_rewards,
        scale=scale,
        noop_max=noop_max,
        fire_on_reset=fire_on_reset,
        sticky=sticky_probability(game) if repeat_action_probability is None else repeat_action_probability,
        max_frames=max_frames,
        full_action_space=full_action_space,
        autoreset_mode=autoreset_mode,
        vector_kwargs=vector_kwargs or {},
    )
    makers = {"envpool": _envpool, "ale-vector": _ale_vector, "gymnasium": _gymnasium}
    return makers.get(backend, _ale)(settings)


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """The arguments of :func:`make_atari_vec`."""

    game: str
    rom: str
    num_envs: int
    seed: int | None
    frame_stack: int
    episodic_life: bool
    clip_rewards: bool
    scale: bool
    noop_max: int
    fire_on_reset: bool
    sticky: float
    max_frames: int
    full_action_space: bool
    autoreset_mode: AutoresetMode | str | None
    vector_kwargs: dict[str, Any]

    def threaded(self, backend: str, **unsupported: bool) -> dict[str, Any]:
        """Returns the arguments that EnvPool and ``ale-py`` have in common.

        :param backend: the name of the backend, for the error.
        :param unsupported: whether arguments are set that the backend does not support.
        :raises ValueError: one is.
        """
        other_resets = as_autoreset_mode(self.autoreset_mode) not in (None, AutoresetMode.NEXT_STEP)
        given = {"scale": self.scale, "autoreset_mode": other_resets, **unsupported}
        wrong = [name for name, is_set in given.items() if is_set]
        if wrong:
            raise ValueError(f"the backend {backend!r} does not support {', '.join(wrong)}: choose another backend")
        return {
            "num_envs": self.num_envs,
            "stack_num": self.frame_stack,
            "episodic_life": self.episodic_life,
            "noop_max": self.noop_max,
            "use_fire_reset": self.fire_on_reset,
            "repeat_action_probability": self.sticky,
            **self.vector_kwargs,
        }

    def in_workers(self, make: Callable[[], gym.Env[Any, Any]]) -> BaseVectorEnv:
        """Returns environments in worker processes, or in this process if that is faster."""
        options = {"autoreset_mode": self.autoreset_mode, "frame_stack": self.frame_stack, **self.vector_kwargs}
        if options.get("placement") == "in-process":
            del options["placement"]
            return _seeded(StackingDummyEnv([make] * self.num_envs, **options), self.seed)
        return _seeded(StackingSubprocEnv([make] * self.num_envs, **{"placement": "auto", **options}), self.seed)


def _seeded(envs: BaseVectorEnv, seed: int | None) -> BaseVectorEnv:
    if seed is not None:
        envs.seed(seed)
    return envs


def _ale(settings: _Settings) -> BaseVectorEnv:
    make = partial(
        AtariEnv,
        settings.game,
        frame_stack=1,  # the vector environment stacks them
        episodic_life=settings.episodic_life,
        clip_rewards=settings.clip_rewards,
        scale=settings.scale,
        noop_max=settings.noop_max,
        fire_on_reset=settings.fire_on_reset,
        repeat_action_probability=settings.sticky,
        max_frames=settings.max_frames,
        full_action_space=settings.full_action_space,
    )
    return settings.in_workers(make)


def _gymnasium(settings: _Settings) -> BaseVectorEnv:
    if settings.noop_max != 30 or not settings.fire_on_reset:
        raise ValueError("the backend 'gymnasium' has noop_max=30 and fire_on_reset=True: choose another backend")
    return settings.in_workers(partial(_wrapped, settings))


def _wrapped(settings: _Settings) -> gym.Env[Any, Any]:
    """Makes one environment of the backend ``"gymnasium"``."""
    import ale_py

    gym.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    env = gym.make(
        f"ALE/{title_of(settings.rom)}-v5",
        frameskip=1,
        repeat_action_probability=settings.sticky,
        max_num_frames_per_episode=settings.max_frames,
        full_action_space=settings.full_action_space,
    )
    return wrap_deepmind(env, settings.episodic_life, settings.clip_rewards, 1, scale=settings.scale)


def _envpool(settings: _Settings) -> BaseVectorEnv:
    options = settings.threaded("envpool", full_action_space=settings.full_action_space)
    options |= {} if settings.seed is None else {"seed": settings.seed}
    options |= {"reward_clip": settings.clip_rewards, "max_episode_steps": -(-settings.max_frames // 4)}
    with needed_by("rlfast.env.atari"):
        import envpool
    envs = as_vector_env(envpool.make(f"{title_of(settings.rom)}-v5", env_type="gymnasium", **options))
    envs.spec = spec_of(settings.game)
    return envs


def _ale_vector(settings: _Settings) -> BaseVectorEnv:
    options = settings.threaded("ale-vector")
    options |= {"reward_clipping": settings.clip_rewards, "max_num_frames_per_episode": settings.max_frames}
    options |= {"full_action_space": settings.full_action_space, "autoreset_mode": AutoresetMode.NEXT_STEP}
    with needed_by("rlfast.env.atari"):
        from ale_py import ALEInterface, LoggerMode
        from ale_py.vector_env import AtariVectorEnv
    ALEInterface.setLoggerMode(LoggerMode.Error)
    envs = _seeded(as_vector_env(AtariVectorEnv(settings.rom, **options)), settings.seed)
    envs.spec = spec_of(settings.game)
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
