"""Folders of rows that strangers made: their files are opened for writing, and must be files of the folder alone."""

import os
import random
import shutil
import signal

import numpy as np
import pytest

from rlfast.data import Batch, ReplayBuffer

ROW = {"obs": np.zeros(3), "act": 0, "rew": 0.0, "terminated": False, "truncated": False, "obs_next": np.ones(3)}
FILES = ["heads", "journal-0", "base-0", "lock"]
"""The files of a folder."""
LATER = ["base-1", "journal-1", "base-1.PID.tmp"]
"""Files that a later flush makes, PID being this process's."""


@pytest.fixture(autouse=True)
def _deadline():
    """Ends the process where something waits for a pipe."""
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def folder(tmp_path):
    kept = ReplayBuffer(25, storage=str(tmp_path / "rows"), seed=3)
    for _ in range(5):
        kept.add(Batch(ROW))
    kept.flush()
    kept.add(Batch(ROW))
    kept.flush()
    return tmp_path / "rows"


def symbolic(path, target):
    path.symlink_to(target)


def hard(path, target):
    path.hardlink_to(target)


def nowhere(path, target):
    target.unlink()
    path.symlink_to(target)


def within(path, target):
    target.rename(path.with_name("inside"))
    target.write_bytes(path.with_name("inside").read_bytes())
    path.symlink_to(path.with_name("inside"))


def pipe(path, _):
    os.mkfifo(path)


def subfolder(path, _):
    path.mkdir()
    (path / "kept").write_text("kept")


def device(path, _):
    path.symlink_to("/dev/zero")


def use(folder):
    """Opens a folder, adds rows, and flushes to the journal and to a new snapshot."""
    buffer = ReplayBuffer.open(folder)
    for step in range(40):
        buffer.add(Batch(ROW))
        if step == 20:
            buffer.reset()
        if step in (3, 20):
            buffer.flush()
    buffer.flush()
    return len(buffer)


@pytest.mark.parametrize("name", [*FILES, *LATER])
@pytest.mark.parametrize("kind", [symbolic, hard, nowhere, within, pipe, subfolder, device])
@pytest.mark.parametrize("content", ["precious", "own"])
def test_other_files_are_not_changed(folder, tmp_path, name, kind, content):
    target = tmp_path / "precious"
    own = (folder / name).read_bytes() if name in FILES else b""
    target.write_bytes(own if content == "own" else b"precious" * 10)
    name = name.replace("PID", str(os.getpid()))
    (folder / name).unlink(missing_ok=True)
    kept = target.read_bytes()
    kind(folder / name, target)
    try:
        use(folder)
    except (ValueError, OSError) as error:
        assert str(folder) in str(error)  # noqa: PT017 (some are harmless, and work)
    else:
        assert name not in FILES or (name == "base-0" and kind is hard)
    if kind is nowhere:
        assert not target.exists()
    else:
        assert target.read_bytes() == kept


@pytest.mark.parametrize("name", FILES)
def test_a_link_is_named(folder, tmp_path, name):
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"rows/{name} is a symbolic link: a regular file is needed here"):
        ReplayBuffer.open(folder)


def test_a_hard_link_is_named(folder, tmp_path):
    (tmp_path / "copy").hardlink_to(folder / "journal-0")
    with pytest.raises(ValueError, match=r"journal-0 has 2 names \(hard links\).* copy the folder"):
        ReplayBuffer.open(folder)
    shutil.copytree(folder, tmp_path / "copied")
    assert len(ReplayBuffer.open(tmp_path / "copied")) == 6


def test_a_folder_reached_by_a_link_is_that_folder(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    assert use(tmp_path / "link") == 19


@pytest.mark.parametrize(
    "count", [b"precious", (2**63).to_bytes(8, "little"), b"\xff" * 8, (2**50 + 7).to_bytes(8, "little")]
)
def test_counts_that_cannot_be_are_an_error(folder, count):
    (folder / "heads").write_bytes(count)
    with pytest.raises(
        ValueError, match=r"heads: it counts \d+ rows of ring 0, of which 6 were kept.* delete this file"
    ):
        ReplayBuffer.open(folder)
    assert (folder / "heads").read_bytes() == count
    (folder / "heads").unlink()
    assert len(ReplayBuffer.open(folder)) == 6


@pytest.mark.parametrize("content", [b"\0", b"precious" * 10, bytes(16), bytes(2**20)])
def test_counts_of_another_number_of_rings_are_an_error(folder, content):
    (folder / "heads").write_bytes(content)
    with pytest.raises(ValueError, match=r"heads has \d+ bytes, the counts of 1 rings have 8: it is damaged"):
        ReplayBuffer.open(folder)


def test_rows_that_are_gone_are_counted(folder):
    (folder / "heads").write_bytes((6 + 1000).to_bytes(8, "little"))
    with pytest.warns(UserWarning, match="1,?000"):
        assert len(ReplayBuffer.open(folder)) == 6


def test_a_snapshot_is_saved_beside_a_link(tmp_path):
    buffer = ReplayBuffer(5, seed=0)
    buffer.add(Batch(ROW))
    (tmp_path / "precious").write_bytes(b"precious")
    for name in ("rows", f"rows.{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    buffer.save(tmp_path / "rows")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert len(ReplayBuffer.load(tmp_path / "rows")) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "rows"]


def attack(folder, cases, seed=0):
    """Opens damaged copies of a folder, uses what was opened, and returns how many were refused."""
    chance, refused, copy = random.Random(seed), 0, folder.with_name("copy")
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    for _ in range(cases):
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for name, data in whole.items():
            (copy / name).write_bytes(data)
        for _ in range(chance.randrange(1, 3)):
            path = copy / chance.choice([*whole])
            data = bytearray(path.read_bytes()) if path.exists() else bytearray()
            at = chance.randrange(len(data) + 1)
            match chance.randrange(6):
                case 0:
                    del data[at:]
                case 1:
                    data[at:at] = bytes(chance.randrange(1, 40))
                case 2:
                    data[at : at + 8] = chance.choice([0, 1, 2**32, 2**63, 2**64 - 1]).to_bytes(8, "little")
                case 3:
                    path.unlink(missing_ok=True)
                    continue
                case 4 if data:
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                case _:
                    path = copy / chance.choice(["base-1", "journal-1", "base-18446744073709551615", "base-x"])
            path.write_bytes(data)
        try:
            use(copy)
        except (ValueError, OSError, MemoryError):
            refused += 1
        except UserWarning:  # rows that are gone
            pass
    return refused


def test_damaged_folders_do_no_harm(folder):
    assert 5 < attack(folder, 40) < 40
