"""Public functions with arguments that are amounts: sizes, counts, capacities, windows, depths and indices."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import rlfast
import rlfast._core

MODULES = (
    "_core",
    "data",
    "env",
    "experiment",
    "exploration",
    "functional",
    "interop.cleanrl",
    "policy",
    "trainer",
    "utils",
    "utils.net.atari",
    "utils.net.common",
    "utils.net.continuous",
    "utils.net.discrete",
)
"""Modules whose names others use, and that need no package beside torch."""
INTEGERS = re.compile(r"\b(int|integer|(NonNegative|Positive)Int|Index|IndexLike|Ids|Seeds|Size)\b")
"""Annotations of amounts. Arrays are amounts where their names say so: others are data."""
ALWAYS = frozenset(["id", "ids", "index", "indices", "seed", "shape", "size", "stack_num"])
"""Names of amounts, whatever their annotations."""
NATIVE = frozenset(
    """
    action actions ask bank banks batch_size before bound by capacities capacity columns count cursors data end env
    envs files foreign greedy horizon id ids index indices inputs kind known leaves length limit max_episode_steps n
    n_step needed note num_envs offset options phase pid places powers priority ready ring rings seed seeds shape
    size sizes slots snapshot spins stack_num start starts steps unfinished value worker
    """.split()  # noqa: SIM905
)
"""Names of amounts in the engine, whose signatures have no annotations."""
NEVER = frozenset(["device", "self", "args", "kwargs", "cls"])


@dataclass(frozen=True)
class Found:
    """A public function, and its arguments that are amounts."""

    name: str
    function: Callable[..., Any]
    owner: type | None
    amounts: tuple[str, ...]

    @property
    def is_constructor(self) -> bool:
        """Returns whether the function is a constructor."""
        return self.owner is not None and self.name.endswith(".__init__")


def modules() -> Iterator[Any]:
    """The public modules, and the engine."""
    yield rlfast
    for name in MODULES:
        yield importlib.import_module(f"rlfast.{name}")


def public(module: Any) -> Iterator[Any]:
    """What a module defines for others."""
    listed = getattr(module, "__all__", None)
    for name in listed or [name for name in vars(module) if not name.startswith("_")]:
        thing = getattr(module, name)
        home = getattr(thing, "__module__", None) or ""
        if callable(thing) and (home.startswith("rlfast") if listed else home == module.__name__):
            yield thing


def amounts(function: Callable[..., Any], *, native: bool) -> tuple[str, ...]:
    """The arguments of a function that are amounts."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return ()
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.name not in NEVER
        and "Callable" not in str(parameter.annotation)
        and (
            parameter.name in NATIVE
            if native
            else parameter.name in ALWAYS or INTEGERS.search(str(parameter.annotation))
        )
    )


def found() -> list[Found]:
    """Returns all public functions with amounts, by name."""
    functions: dict[str, Found] = {}
    seen: set[int] = set()

    def note(name: str, function: Callable[..., Any], owner: type | None, *, native: bool) -> None:
        if id(function) not in seen and (these := amounts(function, native=native)):
            seen.add(id(function))
            functions[name] = Found(name, function, owner, these)

    for module in modules():
        for thing in public(module):
            native = module is rlfast._core or getattr(thing, "__module__", "") == "rlfast._core"
            native = native or thing is rlfast._core.SegmentTree
            if not isinstance(thing, type):
                note(f"{module.__name__}.{thing.__name__}", thing, None, native=native)
                continue
            for base in thing.__mro__:
                if not base.__module__.startswith("rlfast"):
                    continue
                for key, raw in vars(base).items():
                    member = getattr(raw, "__func__", raw)
                    name = f"{module.__name__}.{base.__name__}.{key}"
                    wanted = not key.startswith("_") or key in ("__init__", "__getitem__", "__call__")
                    if wanted and callable(member) and not (key == "__init__" and base is not thing):
                        note(name, member, thing, native=native)
            if native:
                note(f"{module.__name__}.{thing.__name__}.__init__", thing, thing, native=True)
    return sorted(functions.values(), key=lambda one: one.name)
