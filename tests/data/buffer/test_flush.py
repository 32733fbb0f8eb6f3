"""A buffer that is kept in its folder is there after its process is gone."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlfast.data import Batch, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer

ENVS = 2


def observed(step):
    """Stacks of frames and a column of its own."""
    frames = (np.arange(4)[:, None, None] + step * np.ones((4, 16, 17))).astype(np.uint8)
    return {"frames": np.stack([frames] * ENVS), "at": np.full((ENVS, 200), step, float)}


def add(buffer, steps, start=0):
    """Adds rows whose episodes end now and then."""
    for step in range(start, start + steps):
        end = np.arange(ENVS) + 5 == step % 11
        row = Batch(obs=observed(step), act=np.full(ENVS, step), rew=np.arange(ENVS) + step, terminated=end)
        row.truncated, row.obs_next = np.zeros(ENVS, bool), observed(step + 1)
        buffer.add(row, buffer_ids=np.arange(ENVS))


def same(one, other):
    """Both have the same rows and draw the same ones."""
    assert len(one) == len(other)
    first, second = one[:], other[:]
    for key in ("act", "rew", "terminated", "done"):
        assert np.array_equal(first[key], second[key]), key
    for key in ("obs", "obs_next"):
        assert np.array_equal(first[key].frames, second[key].frames), key
        assert np.array_equal(first[key]["at"], second[key]["at"]), key
    assert one.unfinished_index().tolist() == other.unfinished_index().tolist()
    assert one.sample(20)[1].tolist() == other.sample(20)[1].tolist()


def made(folder, kind=VectorReplayBuffer, size=40, **options):
    return kind(size * ENVS, ENVS, storage=str(folder), seed=3, **options)


@pytest.mark.parametrize("flushes", [(1,), (7, 1, 30), (60, 60, 3, 200), (0, 5)])
@pytest.mark.parametrize("save_obs_next", [True, False])
def test_all_rows_before_the_last_flush_are_there(tmp_path, flushes, save_obs_next):
    options = {"ignore_obs_next": not save_obs_next}
    kept, plain = made(tmp_path, **options), VectorReplayBuffer(40 * ENVS, ENVS, seed=3, **options)
    done = 0
    for steps in flushes:
        for buffer in (kept, plain):
            add(buffer, steps, done)
        done += steps
        kept.flush()
    del kept, buffer
    again = VectorReplayBuffer.open(tmp_path)
    same(plain, again)
    for buffer in (plain, again):  # it goes on, and is kept again
        add(buffer, 9, done)
    again.flush()
    again.flush()
    del again, buffer
    same(plain, VectorReplayBuffer.open(tmp_path))


def test_a_long_journal_gives_way_to_a_snapshot(tmp_path):
    kept, plain = made(tmp_path, size=300), VectorReplayBuffer(300 * ENVS, ENVS, seed=3)
    for block in range(30):
        for buffer in (kept, plain):
            add(buffer, 50, 50 * block)
        kept.flush()
    names = sorted(path.name for path in tmp_path.iterdir() if path.name not in ("lock", "heads"))
    assert len(names) == 2
    assert int(names[0].removeprefix("base-")) > 0
    del kept, buffer
    same(plain, VectorReplayBuffer.open(tmp_path))


def test_resets_new_columns_ends_and_priorities_are_kept(tmp_path):
    kept = made(tmp_path, PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4)
    plain = PrioritizedVectorReplayBuffer(40 * ENVS, ENVS, seed=3, alpha=0.6, beta=0.4)
    changes = [
        lambda buffer: add(buffer, 30),
        lambda buffer: buffer.update_weight(np.arange(10), np.arange(1.0, 11.0)),
        lambda buffer: buffer.close_episodes([0]),
        lambda buffer: buffer.buffers[1].reset(),
        lambda buffer: add(buffer, 7, 50),
    ]
    for change in changes:
        change(kept)
        change(plain)
        kept.flush()
        del kept
        kept = PrioritizedVectorReplayBuffer.open(tmp_path)
        same(plain, kept)
        assert np.array_equal(plain.weight[np.arange(20)], kept.weight[np.arange(20)])


CRASH = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from data.buffer.test_flush import add, made
buffer = made({folder!r})
add(buffer, 33)
buffer.flush()
add(buffer, 12, 33)
buffer.flush()
add(buffer, {later}, 45)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("later", [0, 1, 25, 100])
def test_a_killed_process_loses_what_came_after_the_flush(tmp_path, later):
    tests = str(Path(__file__).parents[2])
    program = CRASH.format(tests=tests, folder=str(tmp_path), later=later)
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    plain = VectorReplayBuffer(40 * ENVS, ENVS, seed=3)
    add(plain, 45)
    if later:
        with pytest.warns(UserWarning, match=f"^{later * ENVS} rows were added"):
            again = VectorReplayBuffer.open(tmp_path)
    else:
        again = VectorReplayBuffer.open(tmp_path)
    same(plain, again)


@pytest.fixture
def flushed(tmp_path):
    buffer = made(tmp_path)
    for block in range(3):
        add(buffer, 10, 10 * block)
        buffer.flush()
    del buffer
    return tmp_path


def journal(folder):
    return next(path for path in folder.iterdir() if path.name.startswith("journal-"))


def test_interrupted_flush_leaves_no_trace(flushed):
    path = journal(flushed)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(16) + whole[24:900])  # its beginning was not written yet
    again = VectorReplayBuffer.open(flushed)
    assert len(again) == 30 * ENVS
    add(again, 3, 30)
    again.flush()
    del again
    assert len(VectorReplayBuffer.open(flushed)) == 33 * ENVS


def test_damage_is_one_clear_error(flushed):
    path = journal(flushed)
    whole = path.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(whole), 60).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"damaged|no journal|cut short|version") as error:
            VectorReplayBuffer.open(flushed)
        assert "\n" not in str(error.value)
    path.write_bytes(whole)
    assert len(VectorReplayBuffer.open(flushed)) == 30 * ENVS


def test_a_folder_of_another_version_is_named(flushed):
    path = journal(flushed)
    path.write_bytes(b"RLFASTJ\x02" + path.read_bytes()[8:])
    with pytest.raises(ValueError, match="version"):
        VectorReplayBuffer.open(flushed)


def test_a_folder_is_for_one_buffer_at_a_time(flushed):
    holder = VectorReplayBuffer.open(flushed)
    with pytest.raises(BlockingIOError, match="is in use"):
        VectorReplayBuffer.open(flushed)
    program = f"from rlfast.data import VectorReplayBuffer; VectorReplayBuffer.open({str(flushed)!r})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.stderr.splitlines()[-1].startswith("BlockingIOError")
    assert "is in use" in found.stderr
    del holder
    other = made(flushed)
    add(other, 1)
    with pytest.raises(ValueError, match="holds another buffer"):
        other.flush()


def test_flush_and_open_errors(tmp_path):
    with pytest.raises(ValueError, match=r"storage=FOLDER"):
        ReplayBuffer(4).flush()
    with pytest.raises(ValueError, match="holds no buffer"):
        ReplayBuffer.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        ReplayBuffer.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="manager"):
        made(tmp_path / "rows").buffers[0].flush()
    objects = ReplayBuffer(4, storage=str(tmp_path / "objects"))
    objects.add(Batch(obs=object(), act=0, rew=0.0, terminated=False, truncated=False, obs_next=object()))
    with pytest.raises(TypeError, match="Python objects"):
        objects.flush()


def test_open_of_unflushed_folder_raises(tmp_path):
    buffer = made(tmp_path)
    add(buffer, 5)
    assert list(tmp_path.iterdir()) == []
