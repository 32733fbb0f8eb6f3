"""Runs a program on the engine and on its model, and makes a failing one small."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from oracle.replay import Fields, Path, Replay, Row
from property.compare import compare, rows_at
from property.engine import Engine, nest
from property.observations import ACTIONS, LATE, OBSERVATIONS, transition
from property.programs import (
    Add,
    Bad,
    Beta,
    Close,
    Config,
    Draw,
    Drop,
    Late,
    Operation,
    Persist,
    Program,
    Reset,
    Update,
    shorter,
)
from rlfast import _core


def model_of(config: Config) -> Replay:
    return Replay(
        config.capacities,
        stack_num=config.stack_num,
        save_obs_next=config.save_obs_next,
        sample_avail=config.sample_avail,
        alpha=config.alpha,
        beta=config.beta,
        weight_norm=config.weight_norm,
    )


class Machine:
    """One engine, its model, and what a program remembers between steps."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.engine, self.model = Engine(config), model_of(config)
        self.late: set[Path] = set()
        self.previous: dict[int, Fields] = {}  # the next observation that a ring's newest row ended in
        self.tickets: deque[tuple[Any, list[Row]]] = deque(maxlen=4)

    def do(self, operation: Operation) -> None:
        match operation:
            case Add():
                self.add(operation)
            case Reset(ring, keep_statistics):
                self.engine.reset(ring, keep_statistics)
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
                self.engine.close_episode(ring)
                self.model.close_episode(ring)
            case Persist(how):
                self.engine.persist(how)
                self.engine.replay.beta = self.model.beta
            case Beta(beta):
                self.engine.replay.beta = self.model.beta = beta
            case Bad(what):
                self.refuse(what)

    def add(self, operation: Add) -> None:
        kind, rest = OBSERVATIONS[self.config.obs], ACTIONS[self.config.act] | {path: LATE[path] for path in self.late}
        rings, rows, wants = [step.ring for step in operation.steps], [], []
        for step in operation.steps:
            fields, later = transition(step, kind, rest, self.config.agents, self.previous.get(step.ring))
            self.previous[step.ring] = later
            rows.append(fields)
            wants.append(self.model.add(step.ring, fields))
        got = self.engine.add(rings, rows, vector=operation.vector)
        names = ("index", "return", "length", "start")
        for name, column, want in zip(names, got, zip(*wants, strict=True), strict=True):
            assert len(column) == len(rows), f"add gave {len(column)} of {name}"
            np.testing.assert_array_equal(column, np.array(want), err_msg=f"{name} given by add")

    def draw(self, size: int) -> None:
        if self.model.candidates():
            index = self.engine.replay.draw(size)
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
        refused = self.engine.update_priority(index, priority)
        assert refused == self.model.update_priority(rows, priority), f"{refused} stale updates refused"

    def refuse(self, what: str) -> None:
        """Input that must raise; the comparison that follows sees that nothing changed."""
        replay, live = self.engine.replay, self.model.live()
        if not live:
            return
        place = np.array([self.model.index(live[-1])])
        fields = {path: self.model.value(live[-1], path) for path in self.model.columns}
        if not self.config.save_obs_next:
            fields = {path: value for path, value in fields.items() if path[0] != "obs_next"}
        priorities = {"nan priority": np.nan, "infinite priority": np.inf, "negative priority": -1.0}
        if what in priorities:
            if self.config.alpha is not None:
                values = np.array([1.0, priorities[what]])
                must_raise(ValueError, lambda: replay.update_priority(np.repeat(place, 2), values))
            return
        match what:
            case "shape":
                fields["act",] = np.zeros(11)
            case "dtype":
                fields["rew",] = np.asarray("much")
            case "missing key":
                del fields["truncated",]
            case "index":
                total = sum(self.config.capacities)
                must_raise(IndexError, lambda: replay.take(np.array([total])))
                must_raise(IndexError, lambda: replay.take(np.array([-total - 1])))
                return
        ring = len(self.config.capacities) if what == "ring" else 0
        batch = {path: np.asarray(value)[None] for path, value in fields.items()}
        wanted = (_core.SchemaMismatch, IndexError, ValueError, KeyError, TypeError)
        must_raise(wanted, lambda: self.engine.replay.add(nest(batch), np.array([ring])))


def must_raise(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"nothing was raised, wanted {kind}")


def run(program: Program) -> int:
    """Runs a program, comparing everything after each operation; gives the number of operations."""
    machine = Machine(program.config)
    for number, operation in enumerate(program.operations):
        try:
            machine.do(operation)
            compare(machine.engine, machine.model, Random(number))
        except BaseException as error:
            error.add_note(f"at operation {number}: {operation}")
            raise
    return len(program.operations)


def failure(program: Program) -> BaseException | None:
    try:
        run(program)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of the engine is no Exception
        return error
    return None


def shrink(program: Program) -> Program:
    """A smaller program that fails with the same type of error."""
    kind = type(failure(program))
    smaller = True
    while smaller:
        smaller = False
        for candidate in shorter(program):
            if type(failure(candidate)) is kind:
                program, smaller = candidate, True
                break
    return program
