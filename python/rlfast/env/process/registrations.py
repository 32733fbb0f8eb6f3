"""Sends Gymnasium's registrations from the parent to a worker, which has a registry of its own."""

from __future__ import annotations

import pickle
import sys
import warnings
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

from rlfast.env.process.pickling import dumps, importable

_PLAIN = (str, int, float, bool, type(None))


def registrations() -> bytes:
    """Pickles all registrations of this process, so that an id refers to the same environment in a worker.

    A registration that holds more than plain data is pickled separately, with the classes that a worker could not
    import, so that one that cannot be pickled does not affect the others.
    """
    plain, others = {}, {}
    known: dict[str, bool] = {}
    for name, spec in list(gym.registry.items()):
        try:
            classes = _unknown_classes(spec, known)
            if _is_plain(spec) and not classes:
                plain[name] = spec
            else:
                module = getattr(spec.entry_point, "__module__", "__main__")
                others[name] = "", dumps(spec, {str(module)}), classes
        except Exception as error:
            others[name] = f"{type(error).__name__}: {error}", b"", {}
    return pickle.dumps((plain, others), protocol=5)


def _is_plain(spec: Any) -> bool:
    return type(spec) is EnvSpec and all(map(_is_data, vars(spec).values()))


def _is_data(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(map(_is_data, value)) and all(map(_is_data, value.values()))
    return all(map(_is_data, value)) if kind in (list, tuple) else kind in _PLAIN


def _unknown_classes(spec: EnvSpec, known: dict[str, bool]) -> dict[tuple[str, str], bytes]:
    """Pickles the classes that a registration names as ``"module:name"`` and that a worker could not import.

    :param spec: the registration.
    :param known: a cache: for module names, whether a worker can import the module.
    :return: the pickled classes, by module and name.
    """
    named = (spec.entry_point, spec.vector_entry_point, *(wrapper.entry_point for wrapper in spec.additional_wrappers))
    classes = {}
    for text in named:
        module, _, name = text.partition(":") if isinstance(text, str) else ("", "", "")
        if module not in sys.modules:
            continue
        if module not in known:
            known[module] = module != "__main__" and importable(module)
        if not known[module]:
            classes[module, name] = dumps(getattr(sys.modules[module], name), {module})
    return classes


def register(registered: bytes) -> None:
    """Replaces the registrations of this process by those of the parent.

    :param registered: what :func:`registrations` returned in the parent; empty to change nothing.
    """
    if not registered:
        return
    plain, others = pickle.loads(registered)  # noqa: S301
    warnings.filterwarnings("ignore", message=".*Overriding environment ")  # by modules that the parent has imported
    specs = dict(plain)
    for name, (why_not, data, classes) in others.items():
        try:
            specs[name] = _unsent(name, why_not) if why_not else pickle.loads(data)  # noqa: S301
            for (module, part), pickled in classes.items():
                setattr(_module(module), part, pickle.loads(pickled))  # noqa: S301
        except Exception as error:
            specs[name] = _unsent(name, f"{type(error).__name__}: {error}")
    registry = Registry(specs)
    for place in (registration, gym.envs, gym):
        place.registry = registry  # type: ignore[attr-defined]


def _unsent(name: str, why: str) -> EnvSpec:
    """Makes a registration that raises an error when it is used, which explains why it could not be sent."""

    def fail(**_: Any) -> Any:
        raise gym.error.Error(
            f"the registration of {name} could not be sent to this worker process ({why}): register it in the "
            'function that makes the environment, or use context="fork", which copies the parent'
        )

    return EnvSpec(name, entry_point=fail)


def _module(name: str) -> ModuleType:
    """Imports a module; if it cannot be imported here, makes an empty module of this name."""
    try:
        return import_module(name)
    except ImportError:
        return sys.modules.setdefault(name, ModuleType(name))


class Registry(dict[str, EnvSpec]):
    """The registrations of a worker. Importing a module does not overwrite registrations that the parent sent.

    In the parent, the module has registered its environments at import, and the script may have replaced some of these
    registrations since then.

    :param specs: the registrations of the parent.
    """

    def __init__(self, specs: dict[str, EnvSpec]) -> None:
        super().__init__(specs)
        self._given = frozenset(specs)

    def __setitem__(self, name: str, spec: EnvSpec) -> None:
        if name in self._given and name in self and _is_importing():
            return
        super().__setitem__(name, spec)


def _is_importing() -> bool:
    """Whether this is called while a module is being imported."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
