"""What crosses to another process as bytes: functions, values, exceptions, and Gymnasium's registrations.

A worker has not run the parent's script, and has a registry of its own; the parent can import what its script defines.
"""

from __future__ import annotations

import pickle
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, TypeVar

import gymnasium as gym
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

_MOST_TEXT = 100_000  # characters of a traceback
_MOST_SUMMARY = 2_000  # characters of an exception's message
_MOST_PICKLED = 16 << 20  # bytes of an exception

_lock = threading.RLock()  # pickling calls objects, and the garbage collector finalizers, which may come back here
_PLAIN = (str, int, float, bool, type(None))

T = TypeVar("T")


def dumps(value: object) -> bytes:
    """Pickles a value for the parent, which can import the script's classes; falls back to :func:`by_value`."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        return by_value(value)


def by_value(value: object, modules: Iterable[str] = ()) -> bytes:
    """Pickles a value for a worker, with the script's functions and classes.

    :param value: the value.
    :param modules: the contents of those of these modules that another process could not import are included, too.
    """
    import cloudpickle

    foreign = [name for name in modules if name in sys.modules and not importable(name)]
    if not foreign:
        return bytes(cloudpickle.dumps(value, protocol=5))
    with _lock:
        known = cloudpickle.list_registry_pickle_by_value()
        unknown = [sys.modules[name] for name in foreign if name not in known]
        for module in unknown:
            cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(value, protocol=5))
        finally:
            for module in unknown:
                cloudpickle.unregister_pickle_by_value(module)


def functions_by_value(fns: Sequence[Callable[[], Any]]) -> bytes:
    """Pickles functions so that a process that has not run this script can call them.

    :param fns: the functions.
    :raises TypeError: a function refers to an object that cannot be pickled.
    """
    try:
        return by_value(list(fns), {str(getattr(fn, "__module__", None)) for fn in fns})
    except Exception as error:
        raise TypeError(
            f"environment functions cannot be sent to other processes ({error}): create such objects inside them, "
            'or use context="fork", which copies this process'
        ) from error


def loaded_functions(functions: bytes) -> list[Callable[[], Any]]:
    """Reverses :func:`functions_by_value`, in a worker.

    :param functions: the pickled functions.
    :raises TypeError: a function refers to an object that cannot be made in this process, such as a module that it
        cannot import.
    """
    try:
        return list(pickle.loads(functions))  # noqa: S301
    except Exception as error:
        raise TypeError(
            f"environment functions cannot be loaded in other processes ({type(error).__name__}: {error}): create or "
            'import what is missing inside them, or use context="fork", which copies the parent'
        ) from error


def importable(name: str) -> bool:
    """Whether another process with the same ``sys.path`` would import the same module ``name``.

    True for ``__main__`` as well, because cloudpickle includes its contents by itself.
    """
    if name == "__main__":
        return True
    module, path = sys.modules.get(name), None
    if (parent := name.rpartition(".")[0]) and (path := getattr(sys.modules.get(parent), "__path__", None)) is None:
        return False
    for finder in sys.meta_path:
        with suppress(Exception):
            if found := finder.find_spec(name, path):
                known = getattr(module, "__spec__", None)
                return known is None or known.origin == found.origin
    return False


# -- exceptions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RemoteError:
    """An exception in a form that can always be pickled: its text, and the exception itself if it can be pickled.

    :param summary: the class and the message, for example ``"ValueError: no"``.
    :param text: the exception with its traceback, as text.
    :param pickled: the pickled exception; empty if it cannot be pickled.
    """

    summary: str
    text: str
    pickled: bytes

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Makes an instance from an exception; the worker that caught the exception calls this.

        It never fails, although pickling and printing an exception run its own code. Texts are shortened, and an
        exception of more than 16 MB is left out.
        """
        kind = type.__dict__["__qualname__"].__get__(type(error))
        plainly = partial(_or, lambda: f"{kind}: {error}", lambda: kind)
        summary = _or(lambda: "".join(traceback.format_exception_only(error)).strip(), plainly)
        at = BaseException.__dict__["__traceback__"].__get__(error)  # the class may have one of its own
        text = _or(
            lambda: "".join(traceback.format_exception(error)),
            lambda: "".join(["Traceback (most recent call last):\n", *traceback.format_tb(at), summary]),
        )
        pickled = _or(lambda: _pickled(error), bytes)
        return cls(_shortened(summary, _MOST_SUMMARY), _shortened(text, _MOST_TEXT), pickled)

    def exception(self) -> BaseException | None:
        """Returns the exception, with its traceback as a note; the parent calls this.

        :return: the exception; None if it could not be pickled or unpickled.
        """
        if not self.pickled:
            return None
        error: Any = _or(lambda: pickle.loads(self.pickled), lambda: None)  # noqa: S301
        if not issubclass(type(error), BaseException):
            return None
        BaseException.add_note(error, f"in the worker:\n{self.text}")
        return error  # type: ignore[no-any-return]


def _pickled(error: BaseException) -> bytes:
    """Pickles an exception; returns nothing if it is too large or does not become an exception again."""
    pickled = dumps(error)
    if len(pickled) > _MOST_PICKLED:
        return b""
    again = pickle.loads(pickled)  # noqa: S301
    BaseException.add_note(again, "")  # fails if its notes are not a list
    return pickled if issubclass(type(again), BaseException) else b""


def _or(make: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """Returns ``make()``, or ``otherwise()`` if the code of others in it raises anything, ``SystemExit`` included."""
    try:
        return make()
    except BaseException:
        return otherwise()


def _shortened(text: str, most: int) -> str:
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[: most // 2]}\n[... {left_out} characters ...]\n{text[-most // 2 :]}"


# -- registrations -----------------------------------------------------------------------------------------------------


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
                others[name] = "", by_value(spec, {str(module)}), classes
        except Exception as error:
            others[name] = f"{type(error).__name__}: {error}", b"", {}
    return pickle.dumps((plain, others), protocol=5)


def _is_plain(spec: object) -> bool:
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
            classes[module, name] = by_value(getattr(sys.modules[module], name), {module})
    return classes


def register(registered: bytes) -> None:
    """Replaces the registrations of this process by those of the parent.

    :param registered: what :func:`registrations` returned in the parent; empty to change nothing.
    """
    if not registered:
        return
    plain, others = pickle.loads(registered)  # noqa: S301
    warnings.filterwarnings("ignore", message=".*Overriding environment ")  # by modules that the parent has imported
    registry = Registry(plain, others)
    for name, (_, _, classes) in list(others.items()):
        if classes:
            registry.get(name)  # puts them in place: a function may have the registration itself, and not look it up
    for place in (registration, gym.envs, gym):
        place.registry = registry  # type: ignore[attr-defined]


def _read(name: str, why_not: str, data: bytes, classes: dict[tuple[str, str], bytes]) -> EnvSpec:
    """Unpickles a registration; see :func:`registrations`."""
    if why_not:
        return _failing_registration(name, why_not)
    try:
        spec: EnvSpec = pickle.loads(data)  # noqa: S301
        for (module, part), pickled in classes.items():
            setattr(_module(module), part, pickle.loads(pickled))  # noqa: S301
    except Exception as error:
        return _failing_registration(name, f"{type(error).__name__}: {error}")
    return spec


def _failing_registration(name: str, why: str) -> EnvSpec:
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

    :param specs: the registrations of the parent that are plain data.
    :param pickled: the others. Unpickling imports the modules of their classes, and with them torch perhaps, so it
        waits until an id is looked up; before that, the values of the dict have only their ids.
    """

    def __init__(self, specs: dict[str, EnvSpec], pickled: dict[str, Any] | None = None) -> None:
        self._pickled = pickled or {}
        super().__init__(specs | {name: EnvSpec(name) for name in self._pickled})
        self._given = frozenset(self)

    def __setitem__(self, name: str, spec: EnvSpec) -> None:
        if name in self._given and name in self and _is_importing():
            return
        self._pickled.pop(name, None)
        super().__setitem__(name, spec)

    def __getitem__(self, name: str) -> EnvSpec:
        if name in self and (pickled := self._pickled.pop(name, None)) is not None:
            super().__setitem__(name, _read(name, *pickled))
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 (it would call itself)


def _is_importing() -> bool:
    """Whether this is called while a module is being imported."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
