"""If saving is killed at any moment, or the disk is full at any byte, the previous file or the rows are unchanged."""

import errno
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from faults.engines import add, contents, engine
from rlfast.data import Batch, ReplayBuffer

resource = pytest.importorskip("resource", reason="POSIX limits and signals")

WIDTH = 300  # rows wide enough that saving takes a while


def saved_states(path):
    """Two states that the saving process alternates between."""
    states = [add(engine([64, 64]), rows, width=WIDTH) for rows in (50, 110)]
    states[0].save(str(path))
    return states


def script(text, **values):
    return [sys.executable, "-c", textwrap.dedent(text.format(path=sys.path, **values))]


KILLER = """
    import sys
    sys.path[:0] = {path!r}
    from faults.test_crash import kill_while_saving
    kill_while_saving({file!r}, {kills})
"""


def kill_while_saving(path, kills):
    """Forks a process that saves without end, kills it, and looks at what is left; many times."""
    chance, states = random.Random(0), saved_states(path)
    whole, on_disk, changes, longest = [contents(state) for state in states], 0, 0, 0.01
    for _ in range(kills):
        child = os.fork()
        while not child:
            for state in (states[1 - on_disk], states[on_disk]):
                state.save(path)
        time.sleep(chance.random() * longest)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        survivor = engine([64, 64])
        survivor.open(path)
        found = whole.index(contents(survivor))
        longest *= 1.3 if found == on_disk else 0.7  # about as long as one save takes on this machine, today
        on_disk, changes = found, changes + (found != on_disk)
    assert changes > kills / 10, f"of {kills} processes only {changes} came to save anything before they died"
    survivor.save(path)  # what the dead left behind is in nobody's way
    survivor.open(path)


@pytest.mark.pitfall("D6")
@pytest.mark.parametrize("kills", [100, pytest.param(1000, marks=pytest.mark.long)], ids=["quick", "long"])
def test_killed_while_saving(tmp_path, kills):
    command = script(KILLER, file=str(tmp_path / "replay"), kills=kills)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


LIMITED = """
    import resource, sys
    sys.path[:0] = {path!r}
    from faults.test_crash import save_within_limits
    save_within_limits({file!r}, {limits!r})
"""


def save_within_limits(path, limits):
    """Saves with the size of files limited to each of ``limits``; every one is too small."""
    states = saved_states(path)
    before = contents(states[1])
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        with pytest.raises(OSError, match=r"\w{4,}") as refused:
            states[1].save(path)
        assert refused.value.errno == errno.EFBIG, refused.value
        assert contents(states[1]) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.pitfall("D6")
def test_no_room_for_the_new_file_at_any_block(tmp_path):
    file = tmp_path / "replay"
    first, second = saved_states(file)
    size = len(contents(second))
    limits = [1, *range(512, size, 4096), size - 1]
    done = subprocess.run(script(LIMITED, file=str(file), limits=limits), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [left.name for left in tmp_path.iterdir()] == ["replay"]
    survivor = engine([64, 64])
    survivor.open(str(file))
    assert contents(survivor) == contents(first)


ON_A_SMALL_DISK = """
    import errno, sys
    sys.path[:0] = {path!r}
    from faults import test_crash
    test_crash.{attempt}({folder!r})
"""


def saving_on_a_full_disk(folder):
    """The second save does not fit beside the first."""
    file = f"{folder}/replay"
    small, large = add(engine([64, 64]), 40, width=WIDTH), add(engine([512, 512]), 900, width=WIDTH)
    small.save(file)
    for attempt in (lambda: large.save(file), lambda: add(engine([4096], storage=f"{folder}/rows"), 1, width=WIDTH)):
        with pytest.raises(OSError, match=r"\w{4,}") as refused:
            attempt()
        assert refused.value.errno == errno.ENOSPC, refused.value
    survivor = engine([64, 64])
    survivor.open(file)
    assert contents(survivor) == contents(small)


def replacing_all_rows_on_a_full_disk(folder):
    """New rows whose ``obs_next`` is another than the ``obs`` after it take more room than there is."""
    rows, numbers = 400, np.arange(401 * 64, dtype=np.float32).reshape(401, 64)
    flags = np.zeros(rows, bool)
    whole = {"act": flags, "rew": np.ones(rows), "terminated": flags, "truncated": flags, "done": flags}
    buffer = ReplayBuffer(rows, storage=folder)
    for k in range(rows):
        buffer.add(Batch(obs=numbers[k], obs_next=numbers[k + 1], info={}, **{key: whole[key][k] for key in whole}))
    disk = os.statvfs(folder)
    Path(folder, "filler").write_bytes(bytes(disk.f_bsize * (disk.f_bavail - 4)))
    with pytest.raises(OSError, match="no storage space"):
        buffer.set_batch(Batch(obs=-numbers[1:], obs_next=numbers[:-1], info={}, **whole))
    batch, index = buffer.sample(0)
    assert index.tolist() == list(range(rows))
    assert np.array_equal(batch.obs, numbers[:-1])
    assert np.array_equal(batch.obs_next, numbers[1:])


@pytest.mark.pitfall("D6")
@pytest.mark.parametrize("attempt", [saving_on_a_full_disk, replacing_all_rows_on_a_full_disk])
def test_a_full_disk(tmp_path, attempt):
    """On a tmpfs in a mount namespace of its own, for which Linux asks no privilege where user namespaces are on."""
    shell = 'mount -t tmpfs -o size=256k tmpfs "$0" && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", shell, str(tmp_path)]
    try:
        allowed = subprocess.run([*inside, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("no user namespaces here")
    command = inside + script(ON_A_SMALL_DISK, folder=str(tmp_path), attempt=attempt.__name__)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_may_not_be_written(tmp_path):
    replay = add(engine(), 5)
    with pytest.raises(OSError, match=r"\w{4,}"):
        replay.save("/proc/replay" if sys.platform == "linux" else os.devnull + "/replay")
    assert list(tmp_path.iterdir()) == []
