"""Saves the state of an environment written in Python as plain data, for checkpoints, and restores it.

The saved state is exact if the environment and its wrappers keep their whole state in instance attributes that hold
numbers, strings, arrays, random generators, containers of these, and objects of Python classes made of these. An
environment that has methods ``get_state()`` and ``set_state(state)`` is saved and restored by them instead. The data of
MuJoCo's simulator are saved as arrays, if its model has no plugins; forces in the contacts of the last step are not,
which no step depends on. For an environment that holds anything else, such as another simulator, saving raises an
error, because an incomplete state would be wrong.

State outside of the environment is not saved: module globals, class attributes and files.
"""

from __future__ import annotations

import hashlib
import inspect
import random
import sys
from collections import OrderedDict, deque
from enum import Enum
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from rlfast.utils.runtime.seeding import stream_of

_LEAVES = (type(None), bool, int, float, str, bytes)
_SEQUENCES: dict[str, type] = {kind.__name__: kind for kind in (list, tuple, set, frozenset)}
_MAPPINGS: dict[str, type] = {kind.__name__: kind for kind in (dict, OrderedDict)}
_NUMBERS = "biuf"
_KINDS = _NUMBERS + "cSU"
_PICTURES = "pygame.", "gymnasium.envs.mujoco.mujoco_rendering."  # windows and clocks, which affect only rendering
_INNER = "env"  # the attribute of a wrapper that holds the wrapped environment


def capture(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Returns the complete state of an environment as numbers, strings, bytes, arrays, lists and dicts.

    :param env: the environment, with its wrappers.
    :return: the state, for :func:`restore`.
    :raises NotImplementedError: an attribute, which the error names, cannot be saved.

    >>> env = gym.make("CartPole-v1")
    >>> _ = env.reset(seed=3), env.action_space.seed(3); state = capture(env)
    >>> first = env.step(0)[0].tolist(), env.action_space.sample(), env.reset()[0].tolist()
    >>> other = gym.make("CartPole-v1")
    >>> restore(other, state)
    >>> (other.step(0)[0].tolist(), other.action_space.sample(), other.reset()[0].tolist()) == first
    True
    """
    writer, layers = _Writer(), []
    for layer in _layers(env):
        if _offers_state(layer):
            layers.append({"class": _name(type(layer)), "own": layer.get_state()})  # type: ignore[attr-defined]
            break
        layers.append({"class": _name(type(layer)), "attributes": writer.attributes(layer, type(layer).__name__)})
    return {"layers": layers}


def restore(env: gym.Env[Any, Any], state: dict[str, Any]) -> None:
    """Restores a state that :func:`capture` returned.

    :param env: an environment that was constructed in the same way as the one whose state it is.
    :param state: the state.
    :raises NotImplementedError: the environment was constructed differently; it has been reset, and nothing else.
    """
    env.reset()  # creates the attributes that exist only during an episode
    layers = _layers(env)
    reader = _Reader()
    todo: list[tuple[gym.Env[Any, Any], dict[str, Any] | None, Any]] = []
    for layer, saved in zip(layers, state["layers"], strict=False):
        if _name(type(layer)) != saved["class"]:
            raise NotImplementedError(f"the environment is a {_name(type(layer))} now and was a {saved['class']}")
        if "own" in saved:
            todo.append((layer, None, saved["own"]))
        else:
            todo.append((layer, reader.attributes(layer, saved["attributes"], type(layer).__name__), None))
    if "own" not in state["layers"][-1] and len(layers) != len(state["layers"]):
        raise NotImplementedError(f"the environment has {len(layers)} layers now and had {len(state['layers'])}")
    for layer, attributes, own in todo:
        if attributes is None:
            layer.set_state(own)  # type: ignore[attr-defined]
        else:
            _assign(layer, attributes)
    reader.finish()


def _layers(env: gym.Env[Any, Any]) -> list[gym.Env[Any, Any]]:
    layers = [env]
    while isinstance(layers[-1], gym.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _offers_state(layer: gym.Env[Any, Any]) -> bool:
    getter, setter = getattr(type(layer), "get_state", None), getattr(type(layer), "set_state", None)
    return callable(getter) and callable(setter) and len(inspect.signature(setter).parameters) == 2


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _fixed(value: object) -> str | None:
    """Describes a value that is part of the environment's construction and does not change; None for other values."""
    if isinstance(value, EnvSpec):
        return f"spec {value.id}"
    if isinstance(value, Enum | np.dtype):
        return str(value)
    if isinstance(value, type | ModuleType) or inspect.isroutine(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    if f"{type(value).__module__}.".startswith(_PICTURES):
        return "for pictures"
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is not None and isinstance(value, mujoco.MjModel):
        model = np.empty(mujoco.mj_sizeModel(value), np.uint8)
        mujoco.mj_saveModel(value, None, model)
        return f"model {hashlib.sha256(model.tobytes()).hexdigest()}"
    return None


def _simulation(value: Any) -> dict[str, np.ndarray[Any, Any]] | None:
    """Returns the arrays of MuJoCo's data that are as long in all states of a model; None for another value."""
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is None or not isinstance(value, mujoco.MjData) or value.model.nplugin:
        return None
    new = mujoco.MjData(value.model)
    found = {"time": np.array(value.time)}
    for name in dir(mujoco.MjData):
        one = getattr(value, name)
        if isinstance(one, np.ndarray) and one.size and one.shape == getattr(new, name).shape:
            found[name] = one.copy()
    return found


def _kinds(arrays: dict[str, np.ndarray[Any, Any]] | None) -> dict[str, tuple[Any, ...]]:
    return {name: (one.shape, one.dtype) for name, one in (arrays or {}).items()}


def _simulate(data: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Lets MuJoCo's data go on from what :func:`_simulation` returned."""
    data.time = float(arrays["time"])
    for name in arrays.keys() - {"time"}:
        getattr(data, name)[...] = arrays[name]
    sys.modules["mujoco"].mj_collision(data.model, data)  # a list of contacts, which is not of one length


def _is_plain_object(value: object) -> bool:
    """Whether ``value`` keeps its whole state in ``__dict__``: not in C, in slots, or in a custom ``__reduce__``."""
    if any(name in vars(base) for base in type(value).__mro__[:-1] for name in ("__reduce__", "__reduce_ex__")):
        return False
    try:
        state: Any = value.__reduce_ex__(2)[2]  # raises TypeError for objects with state in C
    except TypeError:
        return False
    return state is getattr(value, "__dict__", value)


class _Writer:
    """Converts values into plain data. An object that occurs several times is restored as one object."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._memory: dict[int, int] = {}
        self._alive: list[Any] = []  # references that keep Python from reusing an id()

    def attributes(self, owner: object, path: str) -> dict[str, Any]:
        return {
            name: self.write(value, f"{path}.{name}", inside=False)
            for name, value in vars(owner).items()
            if not (name == _INNER and isinstance(owner, gym.Wrapper))
        }

    def write(self, value: object, path: str, *, inside: bool = True) -> Any:
        """Converts a value into plain data.

        :param path: where the value is, for error messages.
        :param inside: whether it is inside a container. Objects in containers cannot be saved, because the restored
            environment need not have an object at the same place.
        """
        kind = type(value)
        if kind in _LEAVES:
            return value
        if id(value) in self._known:
            return {"kind": "again", "of": self._known[id(value)]}
        self._known[id(value)] = number = len(self._known)
        self._alive.append(value)
        node = self._node(value, kind, path, inside=inside)
        return {**node, "number": number}

    def _node(self, value: Any, kind: type, path: str, *, inside: bool) -> dict[str, Any]:
        if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
            return {"kind": "scalar", **_written(np.asarray(value))}
        if kind is np.ndarray and value.dtype.kind in _KINDS:
            return {"kind": "array", **_written(self._alone(value, path))}
        if kind.__name__ in _SEQUENCES and kind is _SEQUENCES[kind.__name__]:
            return {"kind": kind.__name__, "items": [self.write(v, f"{path}[{i}]") for i, v in enumerate(value)]}
        if kind is deque:
            items = [self.write(v, f"{path}[{i}]") for i, v in enumerate(value)]
            return {"kind": "deque", "items": items, "maxlen": value.maxlen}
        if kind.__name__ in _MAPPINGS and kind is _MAPPINGS[kind.__name__]:
            items = [[self.write(k, path), self.write(v, f"{path}[{k!r}]")] for k, v in value.items()]
            return {"kind": kind.__name__, "items": items}
        if kind is np.random.Generator:
            return {"kind": "generator", **_stream_state(value)}
        if kind is random.Random:
            return {"kind": "random", "state": value.getstate()}
        if (fixed := _fixed(value)) is not None:
            return {"kind": "fixed", "is": fixed}
        if (arrays := _simulation(value)) is not None:
            return {"kind": "simulation", "arrays": arrays}
        if isinstance(value, gym.Space):
            return {"kind": "space", "streams": [self.write(s.np_random, path) for s in _spaces(value)]}
        if not inside and not isinstance(value, gym.Env) and _is_plain_object(value):
            return {"kind": "object", "class": _name(kind), "attributes": self.attributes(value, path)}
        raise NotImplementedError(f"{path} is a {_name(kind)}, whose state cannot be written down")

    def _alone(self, array: np.ndarray[Any, Any], path: str) -> np.ndarray[Any, Any]:
        owner: Any = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self._alive.append(owner)
        if type(owner.base).__name__ == "PyCapsule":
            raise NotImplementedError(f"{path} is an array in the memory of another library, such as a simulator's")
        if self._memory.setdefault(id(owner), id(array)) != id(array):
            raise NotImplementedError(f"{path} shares its memory with another array of the environment")
        return array


def _written(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    if array.dtype.kind in _NUMBERS:
        return {"value": array.copy()}
    return {"bytes": array.tobytes(), "dtype": array.dtype.str, "shape": array.shape}


def _array(node: dict[str, Any]) -> np.ndarray[Any, Any]:
    if "value" in node:
        return np.array(node["value"])
    return np.frombuffer(node["bytes"], node["dtype"]).reshape(node["shape"]).copy()


def _spaces(space: gym.Space[Any]) -> list[gym.Space[Any]]:
    """Returns the space and all spaces nested in it, always in the same order."""
    inner = getattr(space, "spaces", ())
    found = [space]
    for one in inner.values() if isinstance(inner, dict) else inner:
        found += _spaces(one)
    for name in ("feature_space", "node_space", "edge_space"):  # of Sequence and Graph
        if isinstance(one := getattr(space, name, None), gym.Space):
            found += _spaces(one)
    return found


def space_streams(space: gym.Space[Any]) -> list[dict[str, Any]]:
    """Returns the states of the random generators of a space and of all spaces nested in it.

    A generator that was not seeded before is seeded here from the system's entropy, so that the space continues from
    the returned state.

    :param space: the space.
    :return: one state for each space, for :func:`set_space_streams`.
    >>> space = gym.spaces.Tuple([gym.spaces.Discrete(9), gym.spaces.Discrete(9)])
    >>> streams, first = space_streams(space), space.sample()
    >>> set_space_streams(space, streams)
    >>> space.sample() == first
    True
    """
    return [_stream_state(one.np_random) for one in _spaces(space)]


def set_space_streams(space: gym.Space[Any], streams: list[dict[str, Any]]) -> None:
    """Restores the states of random generators that :func:`space_streams` returned.

    :param space: a space with the same parts.
    :param streams: the states.
    :raises ValueError: the number of states is not the number of spaces.
    """
    for one, state in zip(_spaces(space), streams, strict=True):
        one._np_random = stream_of(state["state"])  # noqa: SLF001


def _stream_state(stream: np.random.Generator) -> dict[str, Any]:
    return {"state": dict(stream.bit_generator.state)}


class _Reader:
    """Converts plain data back into values. Existing objects change only in :meth:`finish`."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._objects: list[tuple[Any, dict[str, Any]]] = []
        self._simulations: list[tuple[Any, dict[str, Any]]] = []

    def attributes(self, owner: object, written: dict[str, Any], path: str) -> dict[str, Any]:
        now = vars(owner)
        values = {name: self.read(node, f"{path}.{name}", now.get(name)) for name, node in written.items()}
        if isinstance(owner, gym.Wrapper):
            values[_INNER] = now[_INNER]
        return values

    def finish(self) -> None:
        for owner, attributes in self._objects:
            _assign(owner, attributes)
        for data, arrays in self._simulations:
            _simulate(data, arrays)

    def read(self, node: object, path: str, now: object = None) -> Any:
        """Converts plain data into a value.

        :param node: the plain data.
        :param path: where the value is, for error messages.
        :param now: the value that is there at present.
        """
        if not isinstance(node, dict):
            return node
        if node["kind"] == "again":
            return self._made[node["of"]]
        value = self._value(node, path, now)
        self._made[node["number"]] = value
        return value

    def _value(self, node: dict[str, Any], path: str, now: object) -> Any:
        kind = node["kind"]
        if kind == "scalar":
            return _array(node)[()]
        if kind == "array":
            return _array(node)
        if kind in ("list", "dict", "OrderedDict", "deque"):
            return self._container(node, path, now)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](
                self.read(item, f"{path}[{i}]", _at(now, kind, i)) for i, item in enumerate(node["items"])
            )
        if kind == "generator":
            return stream_of(node["state"])
        if kind == "random":
            stream = random.Random()
            version, numbers, gauss = node["state"]
            stream.setstate((version, tuple(numbers), gauss))
            return stream
        if kind == "space":
            return self._space(node, path, now)
        if kind == "object" and _name(type(now)) == node["class"]:
            self._made[node["number"]] = now
            self._objects.append((now, self.attributes(now, node["attributes"], path)))
            return now
        if kind == "simulation" and _kinds(_simulation(now)) == _kinds(node["arrays"]):
            self._simulations.append((now, node["arrays"]))
            return now
        if kind == "fixed" and _fixed(now) == node["is"]:
            return now
        wanted = node.get("class") or node.get("is")
        raise NotImplementedError(f"{path} was {wanted} and is a {_name(type(now))} now")

    def _container(self, node: dict[str, Any], path: str, now: object) -> Any:
        """Restores a container; it is registered before it is filled, because it may contain itself."""
        kind, items = node["kind"], node["items"]
        value: Any = deque(maxlen=node["maxlen"]) if kind == "deque" else ([] if kind == "list" else _MAPPINGS[kind]())
        self._made[node["number"]] = value
        for i, item in enumerate(items):
            if kind in _MAPPINGS:
                key = self.read(item[0], path)
                value[key] = self.read(item[1], f"{path}[{key!r}]", _at(now, kind, key))
            else:
                value.append(self.read(item, f"{path}[{i}]", _at(now, kind, i)))
        return value

    def _space(self, node: dict[str, Any], path: str, now: object) -> Any:
        spaces = _spaces(now) if isinstance(now, gym.Space) else []
        if len(spaces) != len(node["streams"]):
            raise NotImplementedError(f"{path} was another space")
        for space, stream in zip(spaces, node["streams"], strict=True):
            self._objects.append((space, {**vars(space), "_np_random": self.read(stream, path)}))
        return now


def _at(container: Any, kind: str, key: Any) -> Any:
    """Returns the present entry ``key`` of a container; None if there is none or the container is not of this kind."""
    if type(container).__name__ != kind:
        return None
    if kind in _MAPPINGS:
        return container.get(key)
    return container[key] if hasattr(container, "__getitem__") and key < len(container) else None


def _assign(owner: object, attributes: dict[str, Any]) -> None:
    vars(owner).clear()
    vars(owner).update(attributes)
