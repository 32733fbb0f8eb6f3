"""A shared buffer among processes: handing it over, reading beside writers, and processes that are killed."""

import multiprocessing
import os
import pickle
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from data.buffer.shared.rows import check_whole, row, rows
from machine import PATIENCE, wait_until
from rlfast.data import NStep, Prioritized, SharedReplayBuffer

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
METHODS = ["fork", "spawn", "forkserver"]
RINGS = 3


def made(size: int = 300, **options: object) -> SharedReplayBuffer:
    return SharedReplayBuffer(size, RINGS, row(0), seed=0, **options)  # type: ignore[arg-type]


def write_forever(buffer: SharedReplayBuffer, ring: int, told: Connection | None = None) -> None:
    """Adds rows whose numbers count up, and tells the number after each ``add`` that returned."""
    writer = buffer.writer([ring])
    newest = writer_newest(buffer, ring)
    for number in range(newest + 1, 1 << 60):
        writer.add(rows([number], [ring], terminated=number % 10 == 0))
        if told is not None:
            told.send_bytes(number.to_bytes(8, "little"))


def writer_newest(buffer: SharedReplayBuffer, ring: int) -> int:
    """The number of the newest row of a ring, or -1."""
    batch, indices = buffer.sample(0)
    mine = batch.info.ring == ring
    return int(batch.rew[mine].max()) if len(indices) and mine.any() else -1


def write_some(buffer: SharedReplayBuffer, ring: int) -> None:
    with buffer.writer([ring]) as writer:
        for number in range(5):
            writer.add(rows([number], [ring]))


def write_from(queue: "multiprocessing.Queue[SharedReplayBuffer]", ring: int) -> None:
    write_some(queue.get(timeout=PATIENCE), ring)


def learn(buffer: SharedReplayBuffer, told: Connection) -> None:
    while True:
        batch, indices = buffer.sample(32)
        check_whole(batch)
        if hasattr(buffer, "update_weight"):
            buffer.update_weight(indices, batch.rew % 7)
        told.send_bytes(b"x")


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("method", METHODS)
def test_a_process_gets_it_as_an_argument(method):
    context = multiprocessing.get_context(method)
    buffer = made()
    processes = [context.Process(target=write_some, args=(buffer, ring)) for ring in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
        process.close()
    assert len(buffer) == 10
    assert sorted(check_whole(buffer.sample(0)[0]).tolist()) == sorted([*range(5)] * 2)


@pytest.mark.parametrize("method", METHODS)
def test_a_process_gets_it_through_a_queue(method):
    context = multiprocessing.get_context(method)
    queue, buffer = context.Queue(), made()
    process = context.Process(target=write_from, args=(queue, 1))
    process.start()
    queue.put(buffer)
    process.join()
    assert process.exitcode == 0
    assert len(buffer) == 5
    queue.close()


def test_handing_over_leaves_no_file_open():
    context = multiprocessing.get_context("spawn")
    counts = []
    for _ in range(3):
        buffer = made()
        process = context.Process(target=write_some, args=(buffer, 0))
        process.start()
        process.join()
        assert process.exitcode == 0
        process.close()
        del buffer, process
        counts.append(files())
    assert counts[1] == counts[2]  # the first starts the tracker of resources


def test_a_pickle_that_nobody_hands_over_is_an_error():
    data = pickle.dumps(made())
    with pytest.raises((OSError, EOFError, ValueError, KeyError, pickle.UnpicklingError)):
        pickle.loads(data[:-20])
    assert pickle.loads(data).maxsize == 300


def test_a_forked_child_does_not_write_the_rings_of_its_parent():
    buffer = made()
    writer = buffer.writer([0])
    writer.add(rows([1], [0]))
    child = os.fork()
    if not child:
        try:
            writer.add(rows([2], [0]))
        except RuntimeError:
            del writer  # which leaves its parent the owner
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(ValueError, match="has a writer already"):
        buffer.writer([0])
    writer.add(rows([2], [0]))
    assert check_whole(buffer.sample(0)[0]).tolist() == [1, 2]


@pytest.mark.parametrize("options", [{}, {"sampler": Prioritized(0.6, 0.4)}], ids=["uniform", "prioritized"])
def test_rows_that_are_overwritten_all_the_time_are_never_torn(options):
    context = multiprocessing.get_context("fork")
    buffer = made(9, **options)  # three rows a ring: nearly all are overwritten soon
    processes = [context.Process(target=write_forever, args=(buffer, ring), daemon=True) for ring in range(RINGS)]
    for process in processes:
        process.start()
    try:
        wait_until(lambda: len(buffer) == 9)
        seen = set()

        def rows_have_come_and_gone():
            batch, indices = buffer.sample(64)
            seen.update(check_whole(batch).tolist())
            if options:
                buffer.update_weight(indices, np.ones(64))
            return len(seen) > 30

        for _ in range(300):
            rows_have_come_and_gone()
        wait_until(rows_have_come_and_gone)  # on one core, writers may have had no turn yet
    finally:
        for process in processes:
            process.kill()
            process.join()


def test_sums_over_rows_that_are_overwritten_are_those_of_successive_rows():
    context = multiprocessing.get_context("fork")
    buffer = made(15, unit=NStep(4, 1.0), stack_num=3)
    processes = [context.Process(target=write_forever, args=(buffer, ring), daemon=True) for ring in range(RINGS)]
    for process in processes:
        process.start()
    try:
        wait_until(lambda: len(buffer) == 15)
        for _ in range(300):
            batch, _ = buffer.sample(64)
            newest = batch.obs.a[:, -1, 0]
            last = batch.obs_next.a[:, -1, 0] - 1
            assert ((last >= newest) & (last < newest + 4)).all()
            np.testing.assert_array_equal(batch.rew, (newest + last) * (last - newest + 1) / 2)
            stack = batch.obs.a
            assert (stack == stack[..., :1]).all()
            assert np.isin(np.diff(stack[..., 0], axis=1), [0, 1]).all()
            assert (batch.terminated == (last % 10 == 0)).all()
            assert (batch.discount == ~batch.terminated).all()
    finally:
        for process in processes:
            process.kill()
            process.join()


def storm(kills: int, seed: int) -> None:
    """Kills writers and learners at random moments, and checks after each death that nobody else loses or waits."""
    context = multiprocessing.get_context("fork")
    rng = np.random.default_rng(seed)
    buffer = made(60, sampler=Prioritized(0.6, 0.4))
    ends = {}

    def start(ring: int) -> None:
        ours, theirs = context.Pipe(duplex=False)
        target, args = (write_forever, (buffer, ring, theirs)) if ring < RINGS else (learn, (buffer, theirs))
        process = context.Process(target=target, args=args, daemon=True)
        process.start()
        theirs.close()
        ends[ring] = process, ours

    def newest_told(ring: int) -> bytes:
        """Takes all that a process has told."""
        told = b""
        while ends[ring][1].poll():
            try:
                told = ends[ring][1].recv_bytes()
            except EOFError:
                break
        return told

    told = dict.fromkeys(range(RINGS), -1)
    try:
        for ring in range(RINGS):
            start(ring)
        wait_until(lambda: all(writer_newest(buffer, ring) > 0 for ring in range(RINGS)))
        start(RINGS)
        for _ in range(kills):
            victim = int(rng.integers(RINGS + 1))
            time.sleep(float(rng.random()) * 0.004)
            process, _ = ends[victim]
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            for ring in range(RINGS):
                last = newest_told(ring)
                told[ring] = int.from_bytes(last, "little") if last else told[ring]
            numbers = check_whole(buffer.sample(0)[0])
            assert len(numbers) <= 60
            for ring in range(RINGS):  # every row whose add returned is there, up to those that have come since
                assert writer_newest(buffer, ring) >= told[ring]
            if victim < RINGS:
                batch, _ = buffer.sample(0)
                mine = batch.rew[batch.info.ring == victim]
                assert len(mine) == min(mine[-1] + 1, 20), "a row is missing"
                assert (np.diff(mine) == 1).all(), "a row is missing"
                assert told[victim] <= mine[-1] <= told[victim] + 1, "more than the row being written was lost"
            ends[victim][1].close()
            start(victim)
            for ring in range(RINGS + 1):  # all others go on, and so does the new one
                newest_told(ring)
                assert ends[ring][1].poll(PATIENCE), "a process is blocked"
    finally:
        for process, end in ends.values():
            process.kill()
            process.join()
            end.close()


def test_a_process_that_is_killed_loses_the_row_it_was_writing_and_blocks_nobody():
    storm(20, seed=1)


@pytest.mark.long
def test_a_thousand_processes_are_killed():
    storm(1000, seed=2)
