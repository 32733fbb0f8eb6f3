"""Finding, saving and restoring the training state of a policy, also in lists, dicts, submodules and objects."""

import inspect
import sys
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from functools import wraps
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlfast.utils.runtime.seeding import SeededMixin

_SCALAR_TYPES = (type(None), bool, int, float, str)
_CONTAINERS = (list, tuple, deque, dict, OrderedDict, defaultdict, Counter, set, frozenset)
_KINDS = "biuf"
_MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))  # attributes of every module: parameters, hooks and the like
_SKIPPED = _MODULE_ATTRIBUTES | {
    *("_rng", "_torch_rng", "lr_scheduler"),  # they have their own entries in the state
    "_compiled",  # the graph of an update, which each policy makes for itself
    "agent_id",  # the weights of one agent may be loaded for another
    *("_lagged", "_initial_values", "_sampled", "_sampled_weight", "updating"),
}
_FOREIGN = sys.stdlib_module_names | {"torch", "numpy", "gymnasium", "envpool", "ray", "pettingzoo", "wandb"}
_MAX_DEPTH = 6  # levels below the policy that are searched
_LIBRARY_MODULES = ("rlfast.data", "rlfast.env", "rlfast.trainer", "rlfast.experiment", "rlfast.utils.logger")

Values: TypeAlias = dict[str, Any]


class Slot(NamedTuple):
    """A value and its place."""

    owner: Any
    """The object, list or dict that holds the value."""
    name: Any
    """The name of the attribute, the index or the key."""
    value: Any


class FoundState(NamedTuple):
    """The training state of a policy except weights and its random streams, by place, such as ``critic_optims.0``."""

    optimizers: dict[str, torch.optim.Optimizer]
    parts: dict[str, Any]
    """Objects with ``state_dict`` and ``load_state_dict``: schedules, normalisers, noise, networks in lists."""
    slots: dict[str, Slot]
    """Numbers, arrays, tensors and containers of these."""


def find(policy: nn.Module) -> FoundState:
    """Return the training state of a policy."""
    found = FoundState({}, {}, {})
    registered = {id(module) for module in policy.modules()}
    seen = {*map(id, policy.parameters()), *map(id, policy.buffers())}
    todo = deque([(policy, "", 0)])
    while todo:
        owner, path, depth = todo.popleft()
        for name, value in [*_items(owner)]:
            place = f"{path}{name}"
            if _is_plain(value):
                if not isinstance(value, torch.Tensor) or id(value) not in seen:
                    found.slots[place] = Slot(owner, name, value)
            elif id(value) not in seen:
                seen.add(id(value))
                if not _keep(found, place, value, registered) and depth < _MAX_DEPTH:
                    todo.append((value, f"{place}.", depth + 1))
    return found


def _keep(found: FoundState, place: str, value: object, registered: set[int]) -> bool:
    """Add ``value`` to ``found`` if it is an optimizer or a part.

    :return: whether its own attributes need no search.
    """
    if isinstance(value, torch.optim.Optimizer):
        found.optimizers[place] = value
        return True
    if isinstance(value, nn.Module) and id(value) in registered:
        return type(value).get_extra_state is not nn.Module.get_extra_state  # then its state_dict has its whole state
    if isinstance(value, list | tuple | dict | deque):
        return False
    if isinstance(value, np.random.Generator | torch.Generator):
        found.parts[place] = _Stream(value)
        return True
    if _is_foreign(value):
        return True
    if all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict")):
        found.parts[place] = value
        return True
    return not (hasattr(value, "__dict__") or hasattr(value, "__slots__"))


class _Stream:
    """A random stream with ``state_dict`` and ``load_state_dict``."""

    def __init__(self, stream: np.random.Generator | torch.Generator) -> None:
        self._stream = stream

    def state_dict(self) -> dict[str, Any]:
        if isinstance(self._stream, torch.Generator):
            return {"torch": self._stream.get_state()}
        return {"numpy": dict(self._stream.bit_generator.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(self._stream, torch.Generator):
            self._stream.set_state(state["torch"])
        else:
            self._stream.bit_generator.state = state["numpy"]


def _items(owner: object) -> Iterator[tuple[Any, Any]]:
    if isinstance(owner, nn.Module):
        if not type(owner).__module__.startswith("torch."):
            yield from ((name, value) for name, value in vars(owner).items() if name not in _SKIPPED)
        yield from owner._modules.items()  # noqa: SLF001
    elif isinstance(owner, dict):
        yield from owner.items()
    elif isinstance(owner, list | tuple | deque):
        yield from enumerate(owner)
    else:
        names = dict.fromkeys((*getattr(owner, "__dict__", ()), *_slots(type(owner))))
        if isinstance(owner, SeededMixin):
            names.pop("_rng", None)  # it may not have been made yet
        yield from ((name, getattr(owner, name)) for name in names if hasattr(owner, name))


def _slots(kind: type) -> Iterator[str]:
    for one in kind.__mro__:
        names = vars(one).get("__slots__", ())
        yield from (names,) if isinstance(names, str) else names


def _is_foreign(value: object) -> bool:
    """Return whether ``value`` is not a policy's state: a function, an environment, a buffer, a logger and the like."""
    if isinstance(value, type | ModuleType | gym.Env | gym.Space) or inspect.isroutine(value):
        return True
    home = type(value).__module__
    if isinstance(value, torch.optim.lr_scheduler.LRScheduler | nn.Module):
        return False
    return home.partition(".")[0] in _FOREIGN or home.startswith(_LIBRARY_MODULES)


def _is_plain(value: Any, depth: int = 0) -> bool:
    if type(value) in _SCALAR_TYPES:
        return True
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in _KINDS
    if isinstance(value, torch.Tensor):
        return not (depth and isinstance(value, nn.Parameter))
    if depth > _MAX_DEPTH or type(value) not in _CONTAINERS:
        return False
    if isinstance(value, set | frozenset):
        return all(map(_is_key, value))
    if isinstance(value, dict):
        return all(_is_key(key) and _is_plain(entry, depth + 1) for key, entry in value.items())
    return all(_is_plain(entry, depth + 1) for entry in value)


def _is_key(key: object) -> bool:
    return type(key) in _SCALAR_TYPES or isinstance(key, np.generic) or (type(key) is tuple and all(map(_is_key, key)))


# -- values that have changed since a policy was made ----------------------------------------------------------------


def records_initial_values(construct: Callable[..., None]) -> Callable[..., None]:
    """Decorate a constructor of policies so that the outermost one, at its end, calls ``completed`` and records the
    initial values of the policy's state.
    """

    @wraps(construct)
    def init(policy: Any, /, *args: Any, **kwargs: Any) -> None:
        outermost = "_initial_values" not in vars(policy)
        for name in kwargs.keys() & policy._refused_options if outermost else ():  # noqa: SLF001 (of every policy)
            raise TypeError(f"{type(policy).__name__}.__init__() got an unexpected keyword argument {name!r}")
        vars(policy).setdefault("_initial_values", {})
        construct(policy, *args, **kwargs)
        if outermost:
            policy.completed()
            vars(policy)["_initial_values"] = {
                place: _fingerprint(slot.value) for place, slot in find(policy).slots.items()
            }

    return init


def values_of(policy: nn.Module) -> dict[str, Values]:
    """Return the values that have changed since the policy was made, and unchanged numbers and empty containers.

    Arguments of the constructor are not training state: a policy that loads these values keeps its own arguments.
    """
    made: Values = vars(policy)["_initial_values"]
    slots = find(policy).slots
    changed = {place: s for place, s in slots.items() if place not in made or made[place] != _fingerprint(s.value)}
    return {
        "changed": {place: _serialized(slot.value) for place, slot in changed.items()},
        "made_with": {
            place: _serialized(slot.value)
            for place, slot in slots.items()
            if place not in changed and (type(slot.value) in _SCALAR_TYPES or _is_empty(slot.value))
        },
    }


def set_values(policy: nn.Module, state: dict[str, Values]) -> None:
    """Restore the values of :func:`values_of`. A number that was unchanged there and has changed here is set back."""
    made: Values = vars(policy)["_initial_values"]
    slots = find(policy).slots
    for place, value in state["made_with"].items():
        if place in slots and place in made and made[place] != _fingerprint(slots[place].value):
            _put(slots[place], _restored(value, slots[place].value))
    for place, written in state["changed"].items():
        slot = slots.get(place) or _new_slot(policy, place)
        if slot is not None:
            _put(slot, _restored(written, slot.value))


def _is_empty(value: object) -> bool:
    return isinstance(value, dict | list | set) and not value


def _fingerprint(value: Any) -> Any:
    """Return a fingerprint that changes when the value does."""
    if type(value) in _SCALAR_TYPES:
        return repr(value)  # NaN equals itself so
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().reshape(-1)
        return (str(value.dtype), tuple(value.shape), zlib.crc32(flat.view(torch.uint8).numpy().tobytes()))
    if isinstance(value, np.ndarray | np.generic):
        return (value.dtype.str, value.shape, zlib.crc32(value.tobytes()))
    if isinstance(value, set | frozenset):
        return (type(value), frozenset(map(_fingerprint, value)))
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    return (type(value), tuple((key, _fingerprint(entry)) for key, entry in entries))


def _serialized(value: object) -> Any:
    """Return the value as numbers, lists, dicts and tensors, which ``torch.load`` reads with ``weights_only=True``."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": torch.from_numpy(value.copy())}
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {"dict": [[_as_key(key), _serialized(entry)] for key, entry in value.items()]}
    if isinstance(value, set | frozenset):
        return {type(value).__name__: [_as_key(entry) for entry in value]}
    if isinstance(value, list | tuple | deque):
        return {type(value).__name__: [_serialized(entry) for entry in value]}
    return value


def _as_key(key: object) -> Any:
    """Return a key as scalars of Python and tuples of them."""
    if isinstance(key, tuple):
        return tuple(map(_as_key, key))
    return key.item() if isinstance(key, np.generic) else key


def _restored(written: object, old: object) -> Any:
    """Return the value that :func:`_serialized` was given. ``old`` is changed in place if possible, as others may hold
    it.
    """
    if isinstance(written, dict):
        (kind, entries) = next(iter(written.items()))
        return _read_entries(kind, entries, old)
    if isinstance(written, torch.Tensor):
        if not isinstance(old, torch.Tensor) or old.shape != written.shape:
            return written.clone()
        with torch.no_grad():
            return old.copy_(written)
    return type(old)(written) if isinstance(old, np.generic) and written is not None else written


def _read_entries(kind: str, entries: Any, old: object) -> Any:
    if kind == "array":
        array = entries.cpu().numpy()
        if not isinstance(old, np.ndarray) or old.shape != array.shape or old.dtype != array.dtype:
            return array.copy()
        old[...] = array
        return old
    if kind == "dict":
        known = old if isinstance(old, dict) else {}
        read = {key: _restored(entry, known.get(key)) for key, entry in entries}
        known.clear()
        known.update(read)
        return known
    if kind == "frozenset":
        return frozenset(entries)
    if kind == "set":
        known_set: set[Any] = old if isinstance(old, set) else set()
        known_set.clear()
        known_set.update(entries)
        return known_set
    before = [*old] if isinstance(old, list | tuple | deque) else []
    listed = [_restored(entry, before[i] if i < len(before) else None) for i, entry in enumerate(entries)]
    if kind == "tuple":
        return tuple(listed)
    known_list: Any = old if isinstance(old, list | deque) else deque() if kind == "deque" else []
    known_list.clear()
    known_list.extend(listed)
    return known_list


def _new_slot(policy: object, place: str) -> Slot | None:
    """Return the place of an attribute, or an entry of a dict, that was added after the policy was made."""
    owner = policy
    *path, name = place.split(".")
    for step in path:
        if isinstance(owner, dict):
            owner = owner.get(step)
        elif isinstance(owner, list | tuple | deque):
            owner = owner[int(step)] if step.isdigit() and int(step) < len(owner) else None
        else:
            owner = getattr(owner, step, None)
    if owner is None or isinstance(owner, list | tuple | deque):
        return None
    return Slot(owner, name, None)


def _put(slot: Slot, value: object) -> None:
    if value is slot.value:
        return
    if isinstance(slot.owner, dict | list):
        slot.owner[slot.name] = value
    elif not isinstance(slot.owner, tuple | deque):
        setattr(slot.owner, slot.name, value)
