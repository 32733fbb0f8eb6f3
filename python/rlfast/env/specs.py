"""Looks up Gymnasium's registrations by id, and decides whether the environment in Rust is equivalent to one."""

from __future__ import annotations

import re
import sys
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from rlfast._core import native_envs
from rlfast.utils.runtime.extras import how_to_install

_PACKAGES = {"ALE": ("ale_py", "atari")}
"""For each namespace, the package whose import registers its ids, and the extra of rlfast that installs the package."""

_SIMULATORS = {"mujoco": "mujoco", "box2d": "Box2D"}
"""For each package of Gymnasium's environments that needs a library, which an extra of the same name installs, the
library."""

_GAME = re.compile(r"ALE/.+|[A-Z]\w*(NoFrameskip|Deterministic)-v[04]")
"""Ids of games: with the namespace of ale_py, or older, without it."""

_GYMNASIUM: dict[str, tuple[str, dict[str, Any]]] = {
    "Acrobot": ("classic_control.acrobot:AcrobotEnv", {}),
    "CartPole": ("classic_control.cartpole:CartPoleEnv", {}),
    "MountainCar": ("classic_control.mountain_car:MountainCarEnv", {}),
    "MountainCarContinuous": ("classic_control.continuous_mountain_car:Continuous_MountainCarEnv", {}),
    "Pendulum": ("classic_control.pendulum:PendulumEnv", {}),
    "Blackjack": ("toy_text.blackjack:BlackjackEnv", {"sab": True, "natural": False}),
    "CliffWalking": ("toy_text.cliffwalking:CliffWalkingEnv", {}),
    "CliffWalkingSlippery": ("toy_text.cliffwalking:CliffWalkingEnv", {"is_slippery": True}),
    "FrozenLake": ("toy_text.frozen_lake:FrozenLakeEnv", {"map_name": "4x4"}),
    "FrozenLake8x8": ("toy_text.frozen_lake:FrozenLakeEnv", {"map_name": "8x8"}),
    "Taxi": ("toy_text.taxi:TaxiEnv", {}),
}
"""Gymnasium's own registrations by name: the class, relative to ``gymnasium.envs``, and its arguments."""

_THRESHOLDS = {
    "CartPole-v0": 195.0,
    "CartPole-v1": 475.0,
    "MountainCar-v0": -110.0,
    "MountainCarContinuous-v0": 90.0,
    "Acrobot-v1": -100.0,
    "FrozenLake-v1": 0.7,
    "FrozenLake8x8-v1": 0.85,
    "Taxi-v3": 8.0,
    "Taxi-v4": 8.0,
}
"""The mean returns at which Gymnasium's own registrations call environments solved."""


def is_atari(id: str) -> bool:
    """Returns whether an id is one of a game of the Arcade Learning Environment.

    :param id: the id of an environment, which need not be registered.

    >>> is_atari("ALE/Pong-v5"), is_atari("PongNoFrameskip-v4"), is_atari("CartPole-v1")
    (True, True, False)
    """
    return _GAME.fullmatch(id) is not None


def is_native_only(id: str) -> bool:
    """Whether an environment exists in Rust alone, and Gymnasium does not have it.

    :param id: its id.

    >>> is_native_only("Catch-v0"), is_native_only("CartPole-v1")
    (True, False)
    """
    return id in dict(native_envs()) and id not in gym.registry


def find_spec(id: str | EnvSpec) -> str | EnvSpec:
    """Returns the registration that :func:`gymnasium.make` uses for an id.

    The module of an id ``"module:Env-v0"`` is imported first, and ale_py for ids in ``ALE/`` and for old ids of games
    (``"PongNoFrameskip-v4"``).

    :param id: a registered id, or a registration, which is returned unchanged.
    :return: the registration; ``id`` if it is not registered in this form, for example because it has no version.
    :raises ImportError: the module in the id cannot be imported.
    :raises gymnasium.error.NamespaceNotFound: ale_py is not installed.
    """
    if isinstance(id, EnvSpec):
        return id
    module, _, name = id.rpartition(":")
    if module:
        _import_module_of(id)
    namespace = "ALE" if is_atari(name) else name.rpartition("/")[0]
    package, extra = _PACKAGES.get(namespace, ("", ""))
    if package and name not in gym.registry:
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            raise gym.error.NamespaceNotFound(f"{name} needs {package}: {how_to_install(extra)}") from error
    return gym.registry.get(name, id)


def simulator_of(id: str) -> tuple[str, str] | None:
    """Returns the library that simulates an environment, and the extra of rlfast that installs it.

    :param id: a registered id, or one of a game of the Arcade Learning Environment.
    :return: the library by the name of its import, and the extra; None if no further library is needed, or it is not
        known.

    >>> simulator_of("Hopper-v5"), simulator_of("ALE/Pong-v5"), simulator_of("CartPole-v1")
    (('mujoco', 'mujoco'), ('ale_py', 'atari'), None)
    """
    return _PACKAGES["ALE"] if is_atari(id) else _simulator(gym.registry.get(id))


def _simulator(spec: EnvSpec | None) -> tuple[str, str] | None:
    entry = f"{getattr(spec, 'entry_point', None)}."
    found = (name for name in _SIMULATORS if f"gymnasium.envs.{name}." in entry)
    return next(((_SIMULATORS[name], name) for name in found), None)


def _import_module_of(id: str) -> None:
    """Imports the module of an id ``"module:Env-v0"``.

    :raises ModuleNotFoundError: if there is none; the message says where the search looked.
    """
    module, _, name = id.rpartition(":")
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # of a library that the module needs
        here = Path.cwd()
        if module.endswith(".py"):
            why = f"leave out .py: {module.removesuffix('.py')}:{name}"
        elif {"", ".", str(here)} & {*sys.path}:
            why = f"it was looked for among the installed modules and in the current folder, {here}"
        else:
            why = f"it was looked for among the installed modules, but not in the current folder, {here}"
        text = f"{id}: the part before the colon is a module, and there is no module {error.name!r}; {why}"
        raise ModuleNotFoundError(text, name=error.name) from error


def make_registered(id: str | EnvSpec, **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes an environment as :func:`gymnasium.make` does. If libraries are missing, the error names the extra.

    :param id: a registered id, or a registration.
    :param kwargs: given to the environment.
    :return: the environment.
    :raises gymnasium.error.DependencyNotInstalled: if a library is missing that the environment needs.
    """
    try:
        return gym.make(deepcopy(id), **kwargs)
    except (gym.error.NameNotFound, gym.error.NamespaceNotFound) as error:
        if not isinstance(id, str) or ":" in id:
            raise
        raise type(error)(f"{error} An id of your own needs its module: MODULE:ID, such as my_module:{id}") from error
    except (gym.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        needed = _simulator(gym.spec(id) if isinstance(id, str) else id)
        if needed is None:
            raise
        name = id if isinstance(id, str) else id.id
        what = f"{name} needs libraries that are missing; install them: {how_to_install(needed[1])}"
        raise gym.error.DependencyNotInstalled(what) from error


def why_not_native(spec: EnvSpec) -> str:
    """Explains why the environment in Rust cannot replace a registered environment.

    :param spec: the registration; its ``kwargs`` are not checked.
    :return: the reason, or ``""`` if it can replace it.
    >>> why_not_native(gym.spec("CartPole-v1")), why_not_native(EnvSpec("CartPole-v1", entry_point="mine:Env"))
    ('', 'CartPole-v1 is registered as mine:Env')
    """
    if spec.id not in dict(native_envs()):
        return f"there is no {spec.id} in Rust"
    entry: Any = spec.entry_point
    if not isinstance(entry, str):
        entry = f"{getattr(entry, '__module__', '')}:{getattr(entry, '__qualname__', entry)}"
    if not entry.startswith("gymnasium.envs.") or entry.partition(":")[2] != _GYMNASIUM[spec.name][0].partition(":")[2]:
        return f"{spec.id} is registered as {entry}"
    return "the registration has wrappers" if spec.additional_wrappers else ""


def native_spec(id: str | EnvSpec, max_episode_steps: int | None, kwargs: dict[str, Any]) -> EnvSpec | None:
    """Returns the registration of an environment in Rust, updated with arguments.

    Environments that Gymnasium does not register, such as those of older versions, get a registration like its own.

    :param id: an id, or a registration. If a script has registered another class under the id, Gymnasium's own
        registration is used.
    :param max_episode_steps: the time limit; None for that of the registration, -1 for no limit.
    :param kwargs: further arguments of the environment.
    :return: a copy of the registration; None if neither Gymnasium nor Rust knows the id.
    :raises ValueError: ``id`` is a registration of an environment that is not available in Rust.
    """
    spec = id if isinstance(id, EnvSpec) else gym.registry.get(id)
    name = id.id if isinstance(id, EnvSpec) else id
    native = dict(native_envs())
    if name not in native and spec is not id:
        return None
    if spec is None or (why_not := why_not_native(spec)):
        if spec is not None and spec is id:
            raise ValueError(f"{spec.id} cannot be native: {why_not}")
        spec = EnvSpec(name, max_episode_steps=native[name], reward_threshold=_THRESHOLDS.get(name))
        if spec.name in _GYMNASIUM:
            entry, spec.kwargs = _GYMNASIUM[spec.name]
            spec.entry_point = f"gymnasium.envs.{entry}"
    spec = deepcopy(spec)
    spec.kwargs.update(kwargs)
    if max_episode_steps is not None:
        spec.max_episode_steps = None if max_episode_steps == -1 else max_episode_steps
    return spec
