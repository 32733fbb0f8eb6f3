"""Vector environments of Atari games, with one of several backends."""

from __future__ import annotations

from functools import partial
from inspect import signature
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

_WRAPPED = {"frame_stack", "scale", "episodic_life", "clip_rewards", "max_frames", "full_action_space"}
_THREADED = {"frame_stack", "episodic_life", "clip_rewards", "max_frames", "noop_max", "fire_on_reset"}
_SUPPORTED = {"gymnasium": _WRAPPED, "envpool": _THREADED, "ale-vector": _THREADED | {"full_action_space"}}
"""The arguments of :class:`AtariEnv` that other backends support, beside ``repeat_action_probability``."""
BACKENDS = ("auto", "ale", "envpool", "ale-vector", "gymnasium")


def make_atari_vec(
    game: str,
    num_envs: int,
    *,
    backend: str = "auto",
    seed: int | None = None,
    autoreset_mode: AutoresetMode | str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> BaseVectorEnv:
    """Makes a vector environment of equal Atari games, preprocessed as DeepMind's agents saw them.

    :param game: a name or id, as :class:`AtariEnv` takes it.
    :param num_envs: number of environments, 1 or more.
    :param backend: ``"ale"`` for :class:`AtariEnv`, in worker processes if these are faster; ``"envpool"`` and
        ``"ale-vector"`` for the vector environments of EnvPool and of ``ale-py``, which run in threads and differ in
        the points that the documentation lists; ``"gymnasium"`` for Gymnasium's environment with the wrappers of
        :func:`wrap_deepmind`, in worker processes if these are faster. ``"auto"`` (default) is ``"ale"``.
    :param seed: seed of the first environment; the next has the next integer. Default: None, for random ones.
    :param autoreset_mode: as for :class:`BaseVectorEnv`, with the backends ``"ale"`` and ``"gymnasium"``; the others
        have NEXT_STEP. Default: None.
    :param vector_kwargs: further arguments of the backend's vector environment. With the backends ``"ale"`` and
        ``"gymnasium"`` these are arguments of :class:`~rlfast.env.SubprocVectorEnv`, whose ``placement`` is ``"auto"``
        here, and may be ``"in-process"``. Default: None.
    :param options: the keyword arguments of :class:`AtariEnv`, with its defaults: ``frame_stack``, ``episodic_life``,
        ``clip_rewards``, ``scale``, ``noop_max``, ``fire_on_reset``, ``repeat_action_probability``, ``max_frames``,
        ``full_action_space`` and so on. The backend ``"ale"`` supports all of them.
    :return: the vector environment.
    :raises ImportError: the library of the backend is not installed.
    :raises TypeError: :class:`AtariEnv` does not have such an argument.
    :raises ValueError: there is no such game or backend, or the backend does not support an argument.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {list(BACKENDS)}, got {backend!r}")
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    defaults = {name: one.default for name, one in signature(AtariEnv).parameters.items() if name != "game"}
    if unknown := sorted(options.keys() - defaults.keys()):
        raise TypeError(f"make_atari_vec() has no argument {unknown[0]!r}: AtariEnv has {', '.join(defaults)}")
    supported = _SUPPORTED.get(backend, defaults.keys()) | {"repeat_action_probability"}
    wrong = [name for name, value in options.items() if name not in supported and value != defaults[name]]
    is_threaded = backend in ("envpool", "ale-vector")
    if is_threaded and as_autoreset_mode(autoreset_mode) not in (None, AutoresetMode.NEXT_STEP):
        wrong.append("autoreset_mode")
    if wrong:
        raise ValueError(f"the backend {backend!r} does not support {', '.join(wrong)}: choose another backend")
    settings = defaults | options
    if settings["repeat_action_probability"] is None:
        settings["repeat_action_probability"] = sticky_probability(game)
    more = vector_kwargs or {}
    if backend == "envpool":
        return _envpool(game, settings, {"num_envs": num_envs, **({} if seed is None else {"seed": seed}), **more})
    if is_threaded:
        return _seeded(_ale_vector(game, settings, {"num_envs": num_envs, **more}), seed)
    stack, settings["frame_stack"] = settings["frame_stack"], 1  # the vector environment stacks frames
    make = partial(_wrapped, game, settings) if backend == "gymnasium" else partial(AtariEnv, game, **settings)
    more = {"autoreset_mode": autoreset_mode, "frame_stack": stack, "placement": "auto", **more}
    if more["placement"] == "in-process":
        del more["placement"]
        return _seeded(StackingDummyEnv([make] * num_envs, **more), seed)
    return _seeded(StackingSubprocEnv([make] * num_envs, **more), seed)


def _seeded(envs: BaseVectorEnv, seed: int | None) -> BaseVectorEnv:
    if seed is not None:
        envs.seed(seed)
    return envs


def _wrapped(game: str, settings: dict[str, Any]) -> gym.Env[Any, Any]:
    """Makes one environment of the backend ``"gymnasium"``."""
    import ale_py

    gym.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    env = gym.make(
        f"ALE/{title_of(rom_of(game))}-v5",
        frameskip=1,
        repeat_action_probability=settings["repeat_action_probability"],
        max_num_frames_per_episode=settings["max_frames"],
        full_action_space=settings["full_action_space"],
    )
    return wrap_deepmind(env, settings["episodic_life"], settings["clip_rewards"], 1, scale=settings["scale"])


def _threaded(settings: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments that EnvPool and ``ale-py`` have in common."""
    same = {name: settings[name] for name in ("episodic_life", "noop_max", "repeat_action_probability")}
    return {**same, "stack_num": settings["frame_stack"], "use_fire_reset": settings["fire_on_reset"], **more}


def _envpool(game: str, settings: dict[str, Any], more: dict[str, Any]) -> BaseVectorEnv:
    own = {"reward_clip": settings["clip_rewards"], "max_episode_steps": -(-settings["max_frames"] // 4)}
    id = f"{title_of(rom_of(game))}-v5"
    with needed_by("rlfast.env.atari"):
        import envpool
    envs = as_vector_env(envpool.make(id, env_type="gymnasium", **(_threaded(settings, more) | own)))
    envs.spec = spec_of(game)
    return envs


def _ale_vector(game: str, settings: dict[str, Any], more: dict[str, Any]) -> BaseVectorEnv:
    own = {"reward_clipping": settings["clip_rewards"], "max_num_frames_per_episode": settings["max_frames"]}
    own |= {"full_action_space": settings["full_action_space"], "autoreset_mode": AutoresetMode.NEXT_STEP}
    rom = rom_of(game)
    with needed_by("rlfast.env.atari"):
        from ale_py import ALEInterface, LoggerMode
        from ale_py.vector_env import AtariVectorEnv
    ALEInterface.setLoggerMode(LoggerMode.Error)
    envs = as_vector_env(AtariVectorEnv(rom, **(_threaded(settings, more) | own)))
    envs.spec = spec_of(game)
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
    """Makes what scripts ask for: an environment, those for training, and those for tests.

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
