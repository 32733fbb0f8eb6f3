"""Runs a program on the tested object and on its model, and shrinks a failing program."""

from collections import deque
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from oracle.replay import Fields, Path, Replay, Row
from property.compare import rows_at, same
from property.observations import ACTIONS, LATE, transition
from property.programs import (
    Add,
    Bad,
    Beta,
    Close,
    Config,
    Draw,
    Drop,
    Extend,
    Install,
    Late,
    Many,
    Operation,
    Persist,
    Program,
    Reset,
    Update,
    random_program,
    random_step,
    shorter,
)

RESERVED = ("info", "policy")  # names of late keys that a storage may have


class Subject(Protocol):
    """What is tested. ``update_priority`` gives how many updates were refused as stale."""

    objects: bool  # whether observations may hold Python objects

    def __init__(self, config: Config) -> None: ...
    def model(self) -> Replay: ...
    def supports(self, operation: Operation) -> bool: ...
    def add(self, rings: list[int], rows: list[Fields], *, vector: bool) -> tuple[NDArray[Any], ...]: ...
    def reset(self, ring: int | None, keep_statistics: bool) -> None: ...
    def close_episode(self, ring: int) -> None: ...
    def extend(self, ring: int, source: str, other: Any) -> NDArray[np.int64]:
        """Appends to a ring the rows of ``other``, or (without one) of the ring itself, or of all; where they are."""

    def install(self, storage: list[Fields]) -> None:
        """Puts rows into the whole storage, one for each slot."""

    def stored(self, fields: Fields) -> Fields:
        """What is kept of a row."""

    def draw(self, size: int) -> NDArray[np.int64]: ...
    def update_priority(self, index: NDArray[np.int64], priority: NDArray[np.float64]) -> int: ...
    def set_beta(self, beta: float) -> None: ...
    def persist(self, how: str) -> bool:
        """Saves and loads; whether index arrays drawn before still know their rows, and refusals are still counted."""

    def refuse(self, what: str, model: Replay) -> None:
        """Passes input that must raise an error."""

    def compare(self, model: Replay, random: Random) -> None:
        """Raises where it differs from its model."""

    def close(self) -> None:
        """Releases the resources of the subject."""


class Machine:
    """The subject, its model, and the values that a program keeps between steps."""

    def __init__(self, subject: Subject, config: Config) -> None:
        self.config = config
        self.subject, self.model = subject, subject.model()
        self.late: set[Path] = set()
        self.previous: dict[int, Fields] = {}  # the next observation that a ring's newest row ended in
        self.tickets: deque[tuple[Any, list[Row]]] = deque(maxlen=4)

    def do(self, operation: Operation) -> None:
        match operation:
            case Add():
                self.add(operation)
            case Many(count, seed):
                random, rings = Random(seed), range(len(self.config.capacities))
                for _ in range(count):
                    self.add(Add(tuple(random_step(random, ring) for ring in rings)))
            case Reset(ring, keep_statistics):
                self.subject.reset(ring, keep_statistics)
                self.model.reset(ring, keep_statistics)
            case Draw(size):
                self.draw(size)
            case Update():
                self.update(operation)
            case Late(path):
                self.late.add(path)
            case Drop(path):
                self.late.discard(path)
            case Close(ring):
                self.subject.close_episode(ring)
                self.model.close_episode(ring)
            case Extend():
                self.extend(operation)
            case Install(seed):
                self.install(seed)
            case Persist(how):
                if not self.subject.persist(how):
                    self.tickets.clear()
                    self.model.stale_updates = 0
            case Beta(beta):
                self.model.beta = beta
                self.subject.set_beta(beta)
            case Bad(what):
                self.subject.refuse(what, self.model)

    def add(self, operation: Add) -> None:
        kind, rest = self.config.kind, ACTIONS[self.config.act] | {path: LATE[path] for path in self.late}
        rings, rows, wants = [step.ring for step in operation.steps], [], []
        for step in operation.steps:
            fields, later = transition(step, kind, rest, self.config.agents, self.previous.get(step.ring))
            self.previous[step.ring] = later
            rows.append(fields)
            alone = not operation.vector and len(self.model.rings) == 1 and not self.config.save_obs_next
            if alone and fields.get(("obs_next",), np.array(0)).tolist() is None:
                fields = fields.copy()
                del fields["obs_next",]  # None in a row alone is no next observation
            wants.append(self.model.add(step.ring, fields))
        got = self.subject.add(rings, rows, vector=operation.vector)
        names = ("index", "return", "length", "start")
        assert len(got) in (1, 4), "append gives the index alone"
        for name, column, want in zip(names, got, zip(*wants, strict=True), strict=False):
            assert len(column) == len(rows), f"add gave {len(column)} of {name}"
            np.testing.assert_array_equal(column, np.array(want), err_msg=f"{name} given by add")

    def extend(self, operation: Extend) -> None:
        if operation.source != "other":
            self._append(operation, self.model, self.model.live(None if operation.source == "all" else operation.ring))
            return
        kind = type(self.subject)
        with closing(kind(replace(self.config, capacities=(operation.capacity,)))) as subject:
            other = Machine(subject, subject.config)
            other.late = self.late
            for step in operation.steps:
                other.add(Add((step,), vector=False))
            self._append(operation, other.model, other.model.live(), subject)

    def _append(self, operation: Extend, source: Replay, rows: list[Row], other: Subject | None = None) -> None:
        fields = source.take(rows, 1)
        got = self.subject.extend(operation.ring, operation.source, other)
        want = []
        for place in range(len(rows) if self.model.rings[operation.ring].capacity else 0):
            row = {path: column[place, ...].copy() for path, column in fields.items() if path != ("done",)}
            if place + 1 < len(rows) and rows[place + 1].ring != rows[place].ring:
                row["truncated",] |= ~row["terminated",]
            want.append(Replay.add(self.model, operation.ring, row)[0])
        same("update", got, np.array(want, np.int64))

    def install(self, seed: int) -> None:
        kind, rest, random = self.config.kind, dict(ACTIONS[self.config.act]), Random(seed)
        rest |= {
            path: LATE[path]
            for path in sorted(self.late | (self.model.columns.keys() & LATE.keys()))
            if path[0] in RESERVED
        }
        storage, previous = [], None
        for _ in range(sum(ring.capacity for ring in self.model.rings)):
            fields, previous = transition(random_step(random, 0), kind, rest, self.config.agents, previous)
            storage.append(self.subject.stored(fields))
        self.subject.install(storage)
        self.model.install(storage)
        self.tickets.clear()
        self.previous.clear()

    def draw(self, size: int) -> None:
        if self.model.candidates():
            index = self.subject.draw(size)
            self.tickets.append((index, rows_at(self.model, index)))

    def update(self, operation: Update) -> None:
        if self.config.alpha is None or not self.model.live():
            return
        random = np.random.default_rng(operation.seed)
        if operation.bare:
            rows = [self.model.live()[place] for place in random.integers(0, len(self.model.live()), 3)]
            index = np.array([self.model.index(row) for row in rows])
        elif self.tickets:
            index, rows = self.tickets[operation.ticket % len(self.tickets)]
        else:
            return
        priority = random.integers(0, 20, len(rows)) / 4.0
        refused = self.subject.update_priority(index, priority)
        assert refused == self.model.update_priority(rows, priority), f"{refused} stale updates refused"


def run(program: Program, target: type[Subject], every: int = 1) -> int:
    """Runs a program, comparing everything after each ``every`` operations; gives the number of operations."""
    with closing(target(program.config)) as subject:
        machine = Machine(subject, program.config)
        for number, operation in enumerate(program.operations, 1):
            if not subject.supports(operation):
                continue
            try:
                machine.do(operation)
                if number % every == 0 or number == len(program.operations):
                    subject.compare(machine.model, Random(number))
            except BaseException as error:
                error.add_note(f"at operation {number}: {operation}")
                raise
    return len(program.operations)


def failure(program: Program, target: type[Subject]) -> BaseException | None:
    try:
        run(program, target)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of the engine is no Exception
        return error
    return None


def shrink(program: Program, target: type[Subject]) -> Program:
    """A smaller program that fails with the same type of error."""
    error = failure(program, target)
    kind, smaller = type(error), error is not None
    while smaller:
        smaller = False
        for candidate in shorter(program):
            if type(failure(candidate, target)) is kind:
                program, smaller = candidate, True
                break
    return program


def run_seed(seed: int, target: type[Subject], every: int = 1) -> int:
    """Runs the program of a seed; a failure carries the smallest program that still fails, comparing at each step."""
    random = Random(seed)
    program = random_program(random, random.randint(10, 150), objects=target.objects)
    try:
        return run(program, target, every)
    except BaseException as error:
        error.add_note(f"seed {seed}, shrunk to:\nrun({shrink(program, target)!r}, {target.__name__})")
        raise
