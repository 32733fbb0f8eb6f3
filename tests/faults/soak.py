"""Adds, samples, kills and reopens without end, and tells after each round what the process holds.

PYTHONPATH=tests python -m faults.soak SECONDS FOLDER
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from data.buffer.shared.rows import check_whole, row, rows
from rlfast._core import end_with
from rlfast.data import Batch, PrioritizedVectorReplayBuffer, ReplayBuffer, SharedReplayBuffer, VectorReplayBuffer
from rlfast.env import SubprocVectorEnv
from scripted import Scripted

CAPACITY, FLUSH = 400, 37
"""Rows of the buffer in a folder, and rows between two calls of its ``flush``."""


def transitions(first: int, count: int) -> Batch:
    """Rows whose every field tells their number."""
    number = np.arange(first, first + count)
    return Batch(
        obs=number[:, None].repeat(3, 1).astype(np.float32), act=number, rew=number.astype(float),
        terminated=number % 9 == 8, truncated=np.zeros(count, bool),
        obs_next=(number[:, None] + 1).repeat(3, 1).astype(np.float32), info=Batch(),
    )  # fmt: skip


def check_numbers(batch: Batch) -> None:
    number = batch.rew.astype(int)
    assert np.array_equal(batch.act, number)
    assert np.array_equal(batch.obs, number[:, None].repeat(3, 1))
    assert np.array_equal(batch.obs_next, number[:, None].repeat(3, 1) + 1)


def end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


class Soak:
    """All that goes on in a round.

    :param folder: for files.
    :param seed: of the moments at which processes are killed.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.shared = SharedReplayBuffer(300, 3, row(0), seed=0)
        self.priorities = PrioritizedVectorReplayBuffer(256, 4, alpha=0.6, beta=0.4)
        self.packed = VectorReplayBuffer(
            128, 2, storage="lz4", stack_num=2, ignore_obs_next=True, save_only_last_obs=True
        )
        self.rounds = 0

    def round(self) -> None:
        self.actors_of_a_shared_buffer()
        self.owner_of_a_folder()
        self.frames_in_ram()
        self.rows_with_priorities()
        self.worker_processes()
        self.rounds += 1

    def actors_of_a_shared_buffer(self) -> None:
        """Three processes add to rings of their own while this one samples, until they are killed one by one."""
        actors = [self.forked(lambda ring=ring: write(self.shared, ring)) for ring in range(3)]  # type: ignore[misc]
        while not len(self.shared):
            time.sleep(1e-3)
        for actor in actors:
            until = time.monotonic() + self.chance.random() * 0.02
            while time.monotonic() < until:
                check_whole(self.shared.sample(16)[0])
            end(actor)
        check_whole(self.shared.sample(0)[0])

    def owner_of_a_folder(self) -> None:
        """A process adds and flushes until it is killed; another opens the folder and finds what was flushed."""
        folder, told = self.folder / "buffer", self.folder / "flushed"
        owner = self.forked(lambda: keep(folder, told))
        before = int(told.read_text()) if told.exists() else -1
        while not told.exists() or int(told.read_text() or -1) <= before:
            time.sleep(1e-3)
        time.sleep(self.chance.random() * 0.02)
        end(owner)
        flushed = int(told.read_text() or before)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # rows that came after the last flush are gone
            buffer = ReplayBuffer.open(folder)
        batch = buffer.sample(0)[0]
        check_numbers(batch)
        number = np.sort(batch.act)
        assert number[-1] >= flushed, f"{flushed} was flushed, and {number[-1]} is the last"
        assert np.array_equal(number, np.arange(number[-1] + 1)[-CAPACITY:]), "rows are missing"
        if self.rounds % 50 == 49:
            del buffer
            shutil.rmtree(folder)
            told.unlink()

    def frames_in_ram(self) -> None:
        """Packed pictures, which a snapshot keeps."""
        first, file = 100 * self.rounds, self.folder / "frames.snapshot"
        for number in range(first, first + 100):
            frame = np.full((2, 2, 84, 84), number % 251, np.uint8)
            done = np.full(2, number % 50 == 49)
            self.packed.add(Batch(obs=frame, act=np.full(2, number), rew=np.zeros(2), terminated=done,
                                  truncated=np.zeros(2, bool), obs_next=frame, info=Batch()))  # fmt: skip
        batch, _ = self.packed.sample(32)
        assert np.array_equal(batch.obs[:, -1, 0, 0], batch.act % 251)
        self.packed.save(file)
        again = VectorReplayBuffer.load(file)
        assert np.array_equal(again.sample(0)[0].obs, self.packed.sample(0)[0].obs)

    def rows_with_priorities(self) -> None:
        for number in range(100):
            self.priorities.add(transitions(100 * self.rounds + number, 4), buffer_ids=np.arange(4))
        for size in (8, 64, 5_000):
            batch, indices = self.priorities.sample(size)
            check_numbers(batch)
            self.priorities.update_weight(indices, batch.rew % 5 + 0.1)

    def worker_processes(self) -> None:
        """One of two worker processes is killed in the middle of its episodes and built anew."""
        with SubprocVectorEnv([Where] * 4, num_workers=2, on_error="restart", context="fork") as envs:
            envs.reset(seed=self.rounds)
            for step in range(4):
                if step == 2:
                    os.kill(envs.get_env_attr("pid", self.chance.choice([0, 3]))[0], signal.SIGKILL)
                envs.send(np.zeros(4, int))
                rows = envs.recv()
                ended = rows.env_id[rows.done]
                if len(ended):
                    envs.reset(ended)
            assert envs.restarts in (1, 2)

    def forked(self, work: Callable[[], None]) -> int:
        parent, child = os.getpid(), os.fork()
        if not child:
            try:
                end_with(parent)
                work()
            finally:
                os._exit(1)
        return child


class Where(Scripted):
    def __init__(self) -> None:
        super().__init__(length=50)
        self.pid = os.getpid()


def write(buffer: SharedReplayBuffer, ring: int) -> None:
    writer = buffer.writer([ring])
    batch, _ = buffer.sample(0)
    newest = int(batch.rew[batch.info.ring == ring].max(initial=-1)) if len(batch.rew) else -1
    for number in range(newest + 1, 1 << 60):
        writer.add(rows([number], [ring], terminated=number % 10 == 0))


def keep(folder: Path, told: Path) -> None:
    """Goes on with the buffer of a folder, and writes the number of the newest row that was flushed to a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        buffer = ReplayBuffer.open(folder) if told.exists() else ReplayBuffer(CAPACITY, storage=str(folder))
    first = int(buffer.sample(0)[0].act.max()) + 1 if len(buffer) else 0
    for number in range(first, 1 << 60):
        buffer.add(transitions(number, 1)[0])
        if number % FLUSH == FLUSH - 1:
            buffer.flush()
            new = told.with_suffix(".new")
            new.write_text(str(number))
            new.rename(told)


def held() -> dict[str, Any]:
    """What this process holds of the machine."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    return {
        "memory": int(status["VmRSS"].split()[0]) << 10,
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "mappings": Path("/proc/self/maps").read_text().count("\n"),
        "threads": int(status["Threads"]),
        "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    }


def main() -> None:
    seconds, folder = float(sys.argv[1]), Path(sys.argv[2])
    soak, until = Soak(folder), time.monotonic() + seconds
    while time.monotonic() < until or soak.rounds < 8:
        soak.round()
        sys.stdout.write(json.dumps({"round": soak.rounds, **held()}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
