"""Pickles inside data files: written so that all NumPy versions read them, and read without running foreign code.

A pickle is a program. :func:`loads` runs only its harmless part: it rebuilds numbers, strings, containers, NumPy arrays
and scalars, and classes that the caller names. For anything else it raises :class:`pickle.UnpicklingError` without
importing or calling it.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

#: The import path of a class: module and name.
Global = tuple[str, str]


def dumps(value: object, names: Mapping[type, Global] | None = None) -> bytes:
    """Pickles a value so that older and newer NumPy versions can read it.

    :param value: the value.
    :param names: the import paths to write for classes, where the reader has them in another module.
    :return: the pickle.
    """
    file = io.BytesIO()
    _Pickler(file, dict(names or {})).dump(value)
    return file.getvalue()


def loads(data: bytes, classes: Mapping[Global, type] | None = None, *, allow_pickle: bool = False) -> Any:
    """Reads a pickle of plain data.

    :param data: the pickle.
    :param classes: further classes that are allowed, by their import paths in the pickle. An instance is created
        without calling ``__init__`` and is given the pickled state, so these classes should only hold data.
    :param allow_pickle: import and call whatever the pickle names, apart from ``classes``; only for files you trust.
    :return: the value.
    :raises pickle.UnpicklingError: the pickle is broken, or names anything that is not allowed; that was not run.
    """
    known = dict(classes or {})
    try:
        return (_TrustingUnpickler if allow_pickle else _PlainUnpickler)(data, known).load()
    except (pickle.UnpicklingError, ImportError, MemoryError):
        raise
    except Exception as error:
        if allow_pickle:
            raise
        raise pickle.UnpicklingError(f"broken pickle: {error}") from error


# The implementation in Python: the one in C has no hooks for each global, each state and each length.
_PythonPickler = pickle._Pickler  # noqa: SLF001
_PythonUnpickler = pickle._Unpickler  # noqa: SLF001


class _Pickler(_PythonPickler):
    save: Callable[[Any], None]
    write: Callable[[bytes], Any]
    memoize: Callable[[Any], None]

    def __init__(self, file: io.BytesIO, names: dict[type, Global]) -> None:
        super().__init__(file, protocol=4)  # the newest protocol in which all NumPy versions pickle arrays alike
        self._names = names

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = getattr(obj, "__module__", None) or ""
        name = name or obj.__qualname__
        if isinstance(obj, type) and obj in self._names:
            module, name = self._names[obj]
        elif module.startswith("numpy._core."):
            module = module.replace("numpy._core.", "numpy.core.")  # the name before NumPy 2.0, which all versions read
        else:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        self.save(module)
        self.save(name)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)


class _TrustingUnpickler(pickle.Unpickler):
    def __init__(self, data: bytes, classes: dict[Global, type]) -> None:
        super().__init__(io.BytesIO(data))
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        return self._classes.get((module, name)) or super().find_class(module, name)


_NEVER_NEEDED = (
    *(pickle.NEWOBJ_EX, pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4),
    *(pickle.PERSID, pickle.BINPERSID, pickle.NEXT_BUFFER),
)
"""Instructions of pickles that plain data do not have."""


class _PlainUnpickler(_PythonUnpickler):
    stack: list[Any]
    append: Callable[[Any], None]
    read: Callable[[int], bytes]

    def __init__(self, data: bytes, classes: dict[Global, type]) -> None:
        super().__init__(io.BytesIO(data))
        self._size = len(data)
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core.", "numpy.core.").replace("__builtin__", "builtins")
        found = self._classes.get((module, name)) or _PLAIN.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"the pickle asks for {module}.{name}, which is more than plain data; "
                "pass allow_pickle=True if you trust where the file comes from"
            )
        return found

    def _load_call(self) -> None:
        arguments = self.stack.pop()
        what = self.stack[-1]
        if any(what is known for known in self._classes.values()):
            self.stack[-1] = what.__new__(what)
        elif any(what is function for function in _FUNCTIONS):
            self.stack[-1] = what(*arguments)
        else:
            raise pickle.UnpicklingError(f"the pickle calls {what!r}")

    def _load_build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, np.ndarray):
            _set_array(target, state)
        elif isinstance(target, np.dtype):
            _set_dtype(target, state)
        elif not any(type(target) is known for known in self._classes.values()):
            raise pickle.UnpicklingError(f"the pickle changes {target!r}")  # for example the defaults of a function
        elif hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            vars(target).update(state)

    def _load_bytearray(self) -> None:
        (length,) = struct.unpack("<Q", self.read(8))
        if length > self._size:
            raise pickle.UnpicklingError(f"the pickle announces {length} bytes, and has {self._size} in all")
        self.append(bytearray(self.read(length)))

    def _refuse(self) -> None:
        raise pickle.UnpicklingError("the pickle uses an instruction that plain data never needs")

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **_PythonUnpickler.dispatch,
        pickle.REDUCE[0]: _load_call,
        pickle.NEWOBJ[0]: _load_call,
        pickle.BUILD[0]: _load_build,
        pickle.BYTEARRAY8[0]: _load_bytearray,
        **dict.fromkeys((operation[0] for operation in _NEVER_NEEDED), _refuse),
    }


# Replacements for the globals that pickles of plain data name. Each accepts only the arguments that pickle writes.


def _array(cls: object, shape: object, _code: object) -> NDArray[Any]:
    if cls is not np.ndarray or shape != (0,):
        raise pickle.UnpicklingError(f"the pickle has an array of class {cls!r} with the initial shape {shape}")
    return np.empty(0, dtype="b")  # shape, dtype and values follow as its state


def _set_array(array: NDArray[Any], state: tuple[Any, ...]) -> None:
    _, shape, dtype, fortran, content = state
    if not isinstance(dtype, np.dtype) or dtype.itemsize == 0 or not all(type(n) is int and n >= 0 for n in shape):
        raise pickle.UnpicklingError(f"the pickle has an invalid array, of shape {shape} and dtype {dtype}")
    wanted = math.prod(shape) * (1 if dtype.hasobject else dtype.itemsize)
    if type(content) is not (list if dtype.hasobject else bytes) or len(content) != wanted:
        raise pickle.UnpicklingError(
            f"the pickle has an array of shape {shape} and dtype {dtype}, but not as many values"
        )
    array.__setstate__((1, tuple(shape), dtype, bool(fortran), content))  # type: ignore[arg-type]


def _dtype(code: str, _align: object = False, _copy: object = True) -> np.dtype[Any]:
    if not re.fullmatch(r"[?a-zA-Z]\d*", code):
        raise pickle.UnpicklingError(f"the pickle has an invalid dtype {code!r}")
    fresh: np.dtype[Any] = np.dtype(code, copy=True)  # a copy, because its state is set next and NumPy shares dtypes
    return fresh


def _set_dtype(dtype: np.dtype[Any], state: tuple[Any, ...]) -> None:
    # NumPy does not check a state, so the state is made by NumPy here; the file chooses only byte order and time unit.
    known = dtype
    if dtype.kind in "mM" and len(state) == 9:
        unit, number, *_ = state[8][1]
        known = np.dtype(f"{dtype.kind}8[{int(number)}{unit.decode('ascii')}]")
    wanted: Any = known.__reduce__()
    if state[1] not in ("<", ">", "|", "=") or list(state[2:8]) != list(wanted[2][2:8]):
        raise pickle.UnpicklingError(f"the pickle has a dtype {dtype} with the invalid state {state}")
    dtype.__setstate__((wanted[2][0], state[1], *wanted[2][2:]))  # type: ignore[attr-defined]


def _scalar(dtype: object, data: bytes) -> Any:
    if not isinstance(dtype, np.dtype) or len(data) != dtype.itemsize:
        raise pickle.UnpicklingError(f"the pickle has a value of dtype {dtype} in {len(data)} bytes")
    return np.frombuffer(data, dtype)[0]


def _bytes(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"the pickle has bytes in the encoding {encoding}, not latin1")
    return text.encode("latin1")


def _only(make: type, *kinds: type) -> Callable[..., Any]:
    """Returns ``make`` with a check of its arguments: ``set(range(n))`` and ``bytearray(n)`` would be of any length."""

    def checked(*given: Any) -> Any:
        if wrong := [type(one).__name__ for one in given if type(one) not in kinds]:
            raise pickle.UnpicklingError(f"the pickle makes a {make.__name__} from a {wrong[0]}")
        return make(*given)

    return checked


_PLAIN: dict[Global, Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("builtins", "complex"): _only(complex, int, float),
    ("builtins", "bytearray"): _only(bytearray, bytes),
    ("builtins", "set"): _only(set, list),
    ("builtins", "frozenset"): _only(frozenset, list),
    ("collections", "OrderedDict"): _only(collections.OrderedDict, list, tuple),
    ("_codecs", "encode"): _bytes,
}
_FUNCTIONS = tuple(value for value in _PLAIN.values() if value is not np.ndarray)
