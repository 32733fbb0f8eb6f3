"""An interrupted call of a buffer is done or was never begun: a row is there with its own values, or not at all."""

import copy
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults.whole_rows import KINDS, Made, Named, reward, row
from interrupts import LIBRARY, FailsOnce, Interrupt, interrupt, points, spread
from rlfast.data import Batch, HERReplayBuffer, ReplayBuffer

BUFFERS = LIBRARY + "data/buffer/"
Operation = Callable[[Made, Path], object]


def _update(made: Made, _: Path) -> None:
    other = ReplayBuffer(10, seed=0)
    for i in range(50, 55):
        other.add(Batch(row(i, made.form, **({} if made.objects else {"number": i}))))
    made.buffer.update(other)


def _new_column(made: Made, _: Path) -> None:
    one = made.row()
    one.info.late = np.array([Named(0)] * made.rings) if made.rings else Named(0)
    one.late = np.zeros(made.rings) if made.rings else 0.0
    made.buffer.add(one)


def _set_batch(made: Made, _: Path) -> None:
    batch = Batch({key: made.buffer._meta[key] for key in made.buffer._meta.keys()}, copy=True)  # noqa: SIM118
    made.buffer.set_batch(batch)


def _assign(made: Made, _: Path) -> None:
    made.buffer._meta.act = made.buffer.act + 0
    made.add()


ADDING: dict[str, tuple[int, Operation]] = {  # the rows before it, and the operation
    "first add": (0, lambda made, _: made.add()),
    "add": (8, lambda made, _: made.add()),
    "add that ends an episode": (9, lambda made, _: made.add()),
    "add to a full ring": (23, lambda made, _: made.add()),
    "new column": (8, _new_column),
    "assigned column": (8, _assign),
}
REMOVING: dict[str, tuple[int, Operation]] = {"reset": (8, lambda made, _: made.buffer.reset())}
OTHERS: dict[str, tuple[int, Operation]] = {
    "sample": (23, lambda made, _: made.buffer.sample(4)),
    "index": (23, lambda made, _: made.buffer[made.buffer.sample_indices(4)]),
    "slice": (23, lambda made, _: made.buffer[:]),
    "close": (5, lambda made, _: made.buffer.close_episodes()),
    "pickle": (5, lambda made, _: pickle.loads(pickle.dumps(made.buffer))),
    "copy": (5, lambda made, _: copy.deepcopy(made.buffer)),
    "save": (5, lambda made, folder: made.buffer.save(folder / "saved", allow_pickle=True)),
    "save_hdf5": (5, lambda made, folder: made.buffer.save_hdf5(folder / "saved.hdf5")),
    "set_array_at_key": (5, lambda made, _: made.buffer.set_array_at_key(np.zeros(made.buffer.maxsize), "more")),
    "set_batch": (20, _set_batch),
}
OPERATIONS = ADDING | REMOVING | OTHERS | {"update": (8, _update)}
ONE_RING = {"update"}


def acts(made: Made) -> list[int]:
    """The rows of a buffer."""
    index = made.buffer.sample_indices(0)
    return sorted(np.asarray(made.buffer[index].act).tolist()) if len(index) else []


def prepared(kind: str, operation: str) -> Made:
    return KINDS[kind]().add(OPERATIONS[operation][0])


CASES = [
    (kind, operation)
    for kind in KINDS
    for operation in OPERATIONS
    if not (operation in ONE_RING and KINDS[kind]().rings)
    and (kind, operation) != ("ignore_obs_next", "set_batch")  # which has no obs_next of ends of episodes
]


def check(kind: str, operation: str, folder: Path, count: int, within: str) -> None:
    """Interrupts an operation at ``count`` points, each with a new buffer."""
    work = OPERATIONS[operation][1]
    before, once = acts(prepared(kind, operation)), prepared(kind, operation)
    work(once, folder)  # modules that it imports are there from now on
    after, counted = acts(once), prepared(kind, operation)
    total = points(lambda: work(counted, folder), within)
    for point in spread(total, count, zlib.crc32(f"{kind}{operation}".encode())):
        made = prepared(kind, operation)
        place = interrupt(lambda made=made: work(made, folder), point, within=within)
        try:
            there = acts(made)
            assert there in (before, after)
            if there:
                made.look()
            made.next += 5  # rows after a gap, whatever the interrupted call took
            made.add()
            made.look()
            assert len(acts(made)) == len(set(acts(made)))
            made.check(made.buffer.sample(8)[0])
        except BaseException as error:
            error.add_note(f"{kind}, {operation}: interrupted at point {point}, {place}")
            raise


@pytest.mark.parametrize(("kind", "operation"), CASES)
def test_interrupted_calls_leave_whole_rows(kind, operation, tmp_path):
    check(kind, operation, tmp_path, 15 if operation in ADDING else 3, BUFFERS)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "operation"), CASES)
def test_bytecodes_of_the_whole_library_may_be_interrupted(kind, operation, tmp_path):
    """Together these are 10^5 interrupts."""
    check(kind, operation, tmp_path, 700, LIBRARY)


@pytest.mark.parametrize("at", range(3))
def test_reward_functions_may_raise(at):
    """The third call reads rows that were drawn before."""
    function = FailsOnce(reward, at)
    made = Made(HERReplayBuffer(20, function, horizon=10, future_k=1000.0, seed=0), "goals").add(23)
    index = made.buffer.sample_indices(8)
    for call in (lambda: made.buffer.sample(8), lambda: made.buffer.nstep(index, 3, 0.9), lambda: made.buffer[index]):
        try:
            call()
        except Interrupt:
            assert function.calls == at + 1
    assert function.calls == 3
    made.add()
    made.check(made.buffer.sample(8)[0])


@pytest.mark.parametrize("key", ["obs", "act", "rew", "terminated", "info", "obs_next"])
def test_values_of_users_may_raise(key):
    class Value:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise Interrupt

        __float__ = __index__ = __bool__ = __array__

    class Items(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise Interrupt

    made = Made(ReplayBuffer(20, seed=0)).add(3)
    one = row(3)
    one[key] = Items(a=1) if key == "info" else Value()
    with pytest.raises((Interrupt, TypeError)):
        made.buffer.add(one)
    made.next += 1
    made.add()
    assert acts(made) == [0, 1, 2, 4]
    made.look()


def test_interrupted_append_leaves_whole_rows():
    def appended(buffer: ReplayBuffer, i: int) -> None:
        one = row(i, "objects")
        buffer.append(**{key: one[key] for key in ("obs", "act", "rew", "terminated", "truncated", "obs_next")})

    def filled(number: int) -> ReplayBuffer:
        buffer = ReplayBuffer(5, seed=0)
        for i in range(number):
            appended(buffer, i)
        return buffer

    for number in (0, 7):
        counted = filled(number)
        total = points(lambda counted=counted, number=number: appended(counted, number), BUFFERS)
        for point in spread(total, 60):
            buffer = filled(number)
            interrupt(lambda buffer=buffer, number=number: appended(buffer, number), point, within=BUFFERS)
            appended(buffer, 50)
            batch = buffer[:]
            assert [named.i for named in batch.obs.named] == batch.act.tolist()
            assert batch.act[-1] == 50
