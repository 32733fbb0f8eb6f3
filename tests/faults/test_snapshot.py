"""Damaged snapshots are refused, and refusing one changes nothing."""

import os
import pickle
import random
import struct

import numpy as np
import pytest

from faults.engines import CAPACITIES, add, contents, engine


@pytest.fixture
def victim():
    """An engine with rows of its own, which a bad snapshot must leave alone."""
    return add(engine(), 5, first=40)


@pytest.fixture
def snapshot():
    return add(engine(), 23).dump()


def refused(victim, snapshot):
    before = contents(victim)
    with pytest.raises(ValueError, match=r"\w{4,}"):
        victim.restore(snapshot)
    assert contents(victim) == before


def test_a_whole_snapshot_is_taken(victim, snapshot):
    victim.restore(snapshot)
    assert contents(victim) == snapshot


@pytest.mark.pitfall("D6")
def test_every_truncation_is_refused(victim, snapshot):
    for length in range(len(snapshot)):
        refused(victim, snapshot[:length])


def test_bytes_after_the_end_are_refused(victim, snapshot):
    for tail in (b"\0", b"\0" * 4096, snapshot):
        refused(victim, snapshot + tail)


@pytest.mark.pitfall("D7")
def test_every_flipped_byte_is_refused(victim, snapshot):
    chance = random.Random(0)
    for place in range(len(snapshot)):
        broken = bytearray(snapshot)
        broken[place] ^= 1 << chance.randrange(8)
        refused(victim, bytes(broken))


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize("size", [2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1])
def test_giant_numbers_are_refused_wherever_they_stand(victim, snapshot, size):
    for place in range(len(snapshot) - 8):
        broken = snapshot[:place] + struct.pack("<Q", size) + snapshot[place + 8 :]
        if broken != snapshot:
            refused(victim, broken)


class Trap:
    def __reduce__(self):
        return os.mkdir, (str(Trap.folder),)


@pytest.mark.pitfall("D7")
def test_a_pickle_is_refused_and_not_run(victim, tmp_path):
    Trap.folder = tmp_path / "trapped"
    bomb = pickle.dumps(Trap())
    refused(victim, bomb)
    file = tmp_path / "bomb"
    file.write_bytes(bomb)
    with pytest.raises(ValueError, match=r"\w{4,}"):
        victim.open(str(file))
    assert not Trap.folder.exists()


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize("junk", [b"", b"\0", b"\x89HDF\r\n\x1a\n" + b"\0" * 100, os.urandom(1000), b"PK\x03\x04" * 30])
def test_other_files_are_refused(victim, junk):
    refused(victim, junk)


def test_a_snapshot_of_other_capacities_is_refused(victim):
    for capacities in ([7], [4, 7], [7, 4, 1], [7, 5]):
        refused(victim, add(engine(capacities), 9).dump())


def test_a_snapshot_comes_back_from_a_file(tmp_path, victim, snapshot):
    source = engine()
    source.restore(snapshot)
    source.save(str(tmp_path / "replay"), b"learning step 7")
    assert victim.read_header(str(tmp_path / "replay")) == (CAPACITIES, b"learning step 7")
    victim.open(str(tmp_path / "replay"))
    assert contents(victim) == snapshot
    assert [file.name for file in tmp_path.iterdir()] == ["replay"]


def test_a_missing_file_and_a_folder_are_refused(victim, tmp_path):
    before = contents(victim)
    for path, error, text in (
        (tmp_path / "missing", OSError, r"\w{4,}"),
        (tmp_path, ValueError, "is a folder: a regular file is needed here"),
    ):
        with pytest.raises(error, match=text):
            victim.open(str(path))
        with pytest.raises(error, match=text):
            victim.read_header(str(path))
    with pytest.raises(OSError, match=r"\w{4,}"):
        victim.save(str(tmp_path / "no folder" / "replay"))
    assert contents(victim) == before


@pytest.mark.pitfall("D7")
def test_a_broken_file_is_refused_by_all_who_read_it(victim, tmp_path, snapshot):
    source, file = engine(), tmp_path / "replay"
    source.restore(snapshot)
    source.save(str(file), b"extra")
    whole, before = file.read_bytes(), contents(victim)
    step = max(1, len(whole) // 500)
    for place in range(0, len(whole), step):
        for broken in (whole[:place], whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :]):
            file.write_bytes(broken)
            with pytest.raises(ValueError, match=r"\w{4,}"):
                victim.open(str(file))
    assert contents(victim) == before
    file.write_bytes(whole)
    victim.open(str(file))
    assert np.array_equal(victim.chronological(), source.chronological())
