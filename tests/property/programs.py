"""Random programs: the object to build, and the operations on it. They are plain data that print and shrink."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random
from typing import Any

from oracle.replay import Path
from property.observations import ACTIONS, ADVANCE, ENDS, FOLLOW, LATE, OBJECT_OBSERVATIONS, OBSERVATIONS, Kind, Step

STORAGES = ("ram", "folder", "lz4", "zstd")
"""Where rows are; "folder" stands for a new one."""


@dataclass(frozen=True)
class Config:
    """How a buffer is made and what its rows look like."""

    capacities: tuple[int, ...]
    stack_num: int = 1
    save_obs_next: bool = True
    sample_avail: bool = False
    alpha: float | None = None
    beta: float = 1.0
    weight_norm: bool = True
    obs: str = "vector"
    act: str = "discrete"
    agents: int = 0
    n_step: int = 3
    gamma: float = 0.9
    storage: str = "ram"
    save_only_last_obs: bool = False
    unit: str = "row"
    length: int = 3
    burn_in: int = 1

    @property
    def kind(self) -> Kind:
        """The leaves of an observation."""
        return (OBSERVATIONS | OBJECT_OBSERVATIONS)[self.obs]

    def options(self) -> dict[str, Any]:
        """What the model is made of, beside its capacities."""
        names = ("stack_num", "save_obs_next", "sample_avail", "alpha", "beta", "weight_norm")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Add:
    """One row (``vector`` False) or several at once, as a rule of different rings."""

    steps: tuple[Step, ...]
    vector: bool = True


@dataclass(frozen=True)
class Many:
    """``count`` vector steps of all rings, compared once at the end."""

    count: int
    seed: int


@dataclass(frozen=True)
class Reset:
    ring: int | None = None
    keep_statistics: bool = False


@dataclass(frozen=True)
class Draw:
    """A sample whose indices are kept for a later update."""

    size: int


@dataclass(frozen=True)
class Update:
    """New priorities for the indices of one of the last samples, or for rows named by bare integers."""

    ticket: int
    seed: int
    bare: bool = False


@dataclass(frozen=True)
class Late:
    """Rows have one more key from now on."""

    path: Path


@dataclass(frozen=True)
class Drop:
    """Rows lack a key that came late from now on."""

    path: Path


@dataclass(frozen=True)
class Close:
    """Ends the running episode of a ring."""

    ring: int


@dataclass(frozen=True)
class Extend:
    """Appends to a ring what another buffer of ``capacity`` rows keeps of ``steps``; or itself, or all rings."""

    ring: int
    source: str
    capacity: int = 0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Install:
    """New contents for a whole storage; which rows of it are live stays."""

    seed: int


@dataclass(frozen=True)
class Persist:
    """Saves, makes a new buffer and loads."""

    how: str


@dataclass(frozen=True)
class Beta:
    beta: float


@dataclass(frozen=True)
class Bad:
    """Input that must be refused and change nothing."""

    what: str


Operation = Add | Many | Reset | Draw | Update | Late | Drop | Close | Extend | Install | Persist | Beta | Bad
BAD = ("nan priority", "infinite priority", "negative priority", "shape", "dtype", "missing key", "ring", "index")
PERSIST = ("memory", "file", "copy", "hdf5", "columns")
UNITS = ("row", "row", "stack", "n-step", "sequence")
SOURCES = ("other", "other", "itself", "all")


@dataclass(frozen=True)
class Program:
    config: Config
    operations: tuple[Operation, ...]


def random_config(random: Random, *, objects: bool) -> Config:
    # Small rings wrap often, a fourth is large enough for long episodes, and a few fill more than a chunk of anything.
    largest = random.choice((4, 8, 12, 40)) if random.random() < 0.97 else 400
    capacities = [random.randint(1, largest) for _ in range(random.choice((1, 1, 2, 3, 5)))]
    return Config(
        capacities=tuple(capacities),
        stack_num=random.choice((1, 1, 2, 3, 4)),
        save_obs_next=random.random() < 0.8,
        sample_avail=random.random() < 0.3,
        alpha=random.choice((None, None, 0.6, 1.0)),
        beta=random.choice((0.0, 0.4, 1.0)),
        weight_norm=random.random() < 0.5,
        obs=random.choice(sorted(OBSERVATIONS | OBJECT_OBSERVATIONS if objects else OBSERVATIONS)),
        act=random.choice(sorted(ACTIONS)),
        agents=random.choice((0, 0, 0, 2)),
        n_step=random.randint(1, 6),
        gamma=random.choice((0.5, 0.9, 1.0)),
        storage=random.choice(STORAGES),
        save_only_last_obs=random.random() < 0.2,
        unit=random.choice(UNITS),
        length=random.randint(1, 5),
        burn_in=random.randint(0, 3),
    )


def random_step(random: Random, ring: int) -> Step:
    choice = random.choice
    return Step(ring, random.getrandbits(32), choice(FOLLOW), choice(ADVANCE), choice(ENDS))


def random_operation(random: Random, rings: int) -> Operation:
    kind = random.random()
    if kind < 0.35:
        return Add((random_step(random, random.randrange(rings)),), vector=False)
    if kind < 0.6:
        draw = random.choices if random.random() < 0.15 else random.sample
        chosen = draw(range(rings), k=random.randint(1, rings))
        return Add(tuple(random_step(random, ring) for ring in chosen))
    if kind < 0.61:
        return Many(random.randint(5, 120), random.getrandbits(32))
    if kind < 0.7:
        return Draw(random.randint(1, 9))
    if kind < 0.79:
        return Update(random.randrange(4), random.getrandbits(32), bare=random.random() < 0.3)
    if kind < 0.81:
        return Reset(random.choice((None, random.randrange(rings))), random.random() < 0.5)
    if kind < 0.83:
        return Late(random.choice(sorted(LATE)))
    if kind < 0.84:
        return Drop(random.choice(sorted(LATE)))
    if kind < 0.87:
        return Close(random.randrange(rings))
    if kind < 0.9:
        source = random.choice(SOURCES)
        steps = tuple(random_step(random, 0) for _ in range(random.randint(0, 12) if source == "other" else 0))
        return Extend(random.randrange(rings), source, random.randint(1, 10), steps)
    if kind < 0.92:
        return Install(random.getrandbits(32))
    if kind < 0.95:
        return Persist(random.choice(PERSIST))
    if kind < 0.96:
        return Beta(random.choice((0.0, 0.5, 1.0)))
    return Bad(random.choice(BAD))


def random_program(random: Random, length: int, *, objects: bool = False) -> Program:
    """:param objects: whether observations may hold Python objects."""
    config = random_config(random, objects=objects)
    return Program(config, tuple(random_operation(random, len(config.capacities)) for _ in range(length)))


def shorter(program: Program) -> Sequence[Program]:
    """Returns programs without one of their parts, the largest parts first."""
    config, operations = program.config, program.operations
    result, size = [], len(operations) // 2
    while size:
        starts = range(0, len(operations), size)
        result += [Program(config, operations[:start] + operations[start + size :]) for start in starts]
        size //= 2
    for place, operation in enumerate(operations):
        if isinstance(operation, Add) and len(operation.steps) > 1:
            for step in operation.steps:
                less = Add(tuple(other for other in operation.steps if other is not step))
                result.append(Program(config, (*operations[:place], less, *operations[place + 1 :])))
    return result


def storages(config: Config) -> Iterator[str]:
    """The storages of a buffer and of those that are restored from it."""
    first = STORAGES.index(config.storage)
    return cycle(STORAGES[first:] + STORAGES[:first])
