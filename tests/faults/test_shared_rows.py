"""Threads that share a buffer see rows of one moment: each call is atomic, wherever Python switches threads."""

import pickle
import threading
import zlib

import numpy as np
import pytest

from faults.whole_rows import EPISODE, KINDS, UNITS, Made, row
from interrupts import LIBRARY, points, spread, switch
from rlfast.data import Batch, ReplayBuffer

BUFFERS = LIBRARY + "data/buffer/"
ALL = KINDS | UNITS


def check_sample(kind: str, made: Made, batch: Batch) -> None:
    """Checks what is drawn."""
    act = np.asarray(batch.act)
    if "n-step" in kind:
        last = batch.obs_next - 1
        sums = [sum(range(first, int(end) + 1)) for first, end in zip(act, last, strict=True)]
        assert (batch.rew == sums).all()
        assert (batch.terminated == (last % EPISODE == EPISODE - 1)).all()
        assert [named.i for named in batch.info.named] == act.tolist()
    elif "sequence" in kind:
        made.check(batch)
        for rows, mask in zip(act, batch.mask, strict=True):
            assert (np.diff(rows[mask]) == 1).all()
            assert len(set(rows // EPISODE)) == 1
    elif kind == "stack":
        assert (batch.obs[:, -1] == act).all()
        assert (np.diff(batch.obs, axis=1) == 1).all()
        assert (batch.obs[:, 0] // EPISODE == act // EPISODE).all()
        assert [[named.i for named in stack] for stack in batch.info.named] == batch.obs.tolist()
    elif "hindsight" in kind:
        made.check(batch)
        goal = batch.obs.desired_goal[:, 0]
        own_episode = (act < goal) & (goal <= act - act % EPISODE + EPISODE)
        assert ((goal == -5) | own_episode).all()
        assert (batch.obs_next.observation[:, 0] == act + 1).all()
    else:
        made.check(batch)


def check(kind: str, count: int, within: str) -> None:
    """Lets another thread overwrite all rows at ``count`` points of a draw."""
    draw = ALL[kind]().add(23)
    total = points(lambda: draw.buffer.sample(8), within)
    for point in spread(total, count, zlib.crc32(kind.encode())):
        made = ALL[kind]().add(23)
        batch, _ = switch(lambda made=made: made.buffer.sample(8), point, lambda made=made: made.add(27), within)
        try:
            check_sample(kind, made, batch)
            check_sample(kind, made, made.buffer.sample(8)[0])
        except BaseException as error:
            error.add_note(f"{kind}: switched at point {point}")
            raise


@pytest.mark.parametrize("kind", ALL)
def test_samples_are_of_one_moment(kind):
    check(kind, 10, BUFFERS)


@pytest.mark.long
@pytest.mark.parametrize("kind", ALL)
def test_samples_are_of_one_moment_at_every_bytecode(kind):
    check(kind, 10**9, LIBRARY)


def test_drawn_goals_are_not_given_to_later_rows():
    made = KINDS["hindsight"]().add(23)
    index = made.buffer.sample_indices(16)
    made.add(20)
    batch = made.buffer[index]
    assert (batch.obs.desired_goal == -5).all()


@pytest.mark.parametrize("late", [False, True], ids=["same columns", "other columns"])
def test_two_threads_may_add_the_first_rows(late):
    def one(i: int) -> dict:
        more = {f"column{i}": i, f"object{i}": str(i)} if late else {}
        return row(i, number=i, name=f"x{i}", **more)

    empty = ReplayBuffer(20)
    total = points(lambda: empty.add(one(0)), BUFFERS)
    for point in spread(total, 60):
        buffer = ReplayBuffer(20, seed=0)
        switch(lambda buffer=buffer: buffer.add(one(0)), point, lambda buffer=buffer: buffer.add(one(1)), BUFFERS)
        batch = buffer[:]
        assert sorted(batch.act.tolist()) == [0, 1]
        for k, i in enumerate(batch.act.tolist()):
            assert (batch.info.name[k], batch.info.number[k]) == (f"x{i}", i)
            assert not late or (batch.info[f"column{i}"][k], batch.info[f"object{i}"][k]) == (i, str(i))
            assert not late or (batch.info[f"column{1 - i}"][k], batch.info[f"object{1 - i}"][k]) == (0, None)


def test_reading_all_rows_leaves_sample_avail():
    made = Made(ReplayBuffer(20, stack_num=3, sample_avail=True, seed=0)).add(23)

    def draw() -> None:
        batch, _ = made.buffer.sample(64)
        assert (np.diff(batch.obs, axis=1) == 1).all()

    for point in range(points(lambda: made.buffer[1:], BUFFERS)):
        switch(lambda: made.buffer[1:], point, draw, BUFFERS)


COPIES = {
    "pickle": lambda buffer, _: pickle.loads(pickle.dumps(buffer)),
    "save": lambda buffer, path: (buffer.save(path, allow_pickle=True), type(buffer).load(path, allow_pickle=True))[1],
    "hdf5": lambda buffer, path: (buffer.save_hdf5(path), type(buffer).load_hdf5(path, allow_pickle=True))[1],
    "update": lambda buffer, _: (own := ReplayBuffer(20), own.update(buffer))[0],
    "slice": lambda buffer, _: buffer[:],
}


@pytest.mark.parametrize("kind", ["ring", "ignore_obs_next", "object obs"])
@pytest.mark.parametrize("way", COPIES)
def test_copies_are_of_one_moment(way, kind, tmp_path):
    def copied(made: Made) -> object:
        return COPIES[way](made.buffer, tmp_path / "file")

    copied(KINDS[kind]().add(23))
    made = KINDS[kind]().add(23)
    total = points(lambda: copied(made), BUFFERS)
    for point in spread(total, 2 if way == "hdf5" else 8):
        made = KINDS[kind]().add(23)
        copy = switch(lambda made=made: copied(made), point, lambda made=made: made.add(27), BUFFERS)
        batch = copy if isinstance(copy, Batch) else copy[copy.sample_indices(0)]
        made.check(batch)
        assert (np.diff(batch.act) == 1).all()


@pytest.mark.parametrize("objects", [False, True], ids=["numbers", "objects"])
def test_episodes_move_once_out_of_caches(objects):
    """While another thread adds to another cache, and reads."""

    def made() -> Made:
        cached = KINDS["cached"]()
        cached.objects = objects
        return cached.add(9)

    def add(of: Made, cache: int) -> None:
        more = {} if objects else {"number": 9 + 100 * cache}
        of.buffer.add(Batch.stack([Batch(row(9 + 100 * cache, **more))]), buffer_ids=[cache])

    counted = made()
    total = points(lambda: add(counted, 0), BUFFERS)
    for point in spread(total, 40):
        one = made()
        switch(lambda one=one: add(one, 0), point, lambda one=one: add(one, 1), BUFFERS)
        one.look()
        rows = one.buffer.main_buffer[:].act.tolist()
        assert sorted(rows) == [*range(10), *range(100, 110)]
        assert rows in ([*range(10), *range(100, 110)], [*range(100, 110), *range(10)])


def test_writers_get_their_turn_between_readers():
    """Readers that hold the rows again and again do not keep a writer out for ever."""
    made, over = KINDS["ring"]().add(23), threading.Event()
    failed = []

    def read() -> None:
        try:
            while not over.is_set():
                made.check(made.buffer.sample(16)[0])
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for reader in readers:
        reader.start()
    made.add(200)
    over.set()
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()
    assert not failed


def test_a_thread_that_holds_rows_may_write_them():
    made = KINDS["ring"]().add(3)
    made.buffer._core.hold(lambda: made.buffer._core.hold(lambda: made.add(2)))
    assert len(made.buffer) == 5
    with pytest.raises(ZeroDivisionError):
        made.buffer._core.hold(lambda: 1 / 0)
    thread = threading.Thread(target=made.add, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert len(made.buffer) == 6


def test_managers_and_their_buffers_share_a_hold():
    made = KINDS["vector"]().add(12)
    child, seen = made.buffer.buffers[1], []

    def look() -> None:
        thread = threading.Thread(target=made.add, daemon=True)
        thread.start()
        thread.join(0.01)
        seen.append((len(child), child[:].act[-1]))

    made.buffer._core.hold(look)
    assert seen == [(12, 111)]
