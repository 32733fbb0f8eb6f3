"""Snapshots with correct checksums and wrong contents are refused or harmless."""

import random
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from faults.engines import add, contents, engine

POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def table_entry(crc):
    for _ in range(8):
        crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
    return crc


TABLE = [table_entry(byte) for byte in range(256)]


def sections(snapshot):
    """``(tag, bytes)`` of each section after the mark of eight bytes."""
    place, result = 8, []
    while place < len(snapshot):
        length = struct.unpack_from("<Q", snapshot, place + 4)[0]
        result.append((snapshot[place : place + 4], snapshot[place + 12 : place + 12 + length]))
        place += 16 + length
    return result


def joined(mark, parts):
    """The snapshot of these sections, with checksums that are right."""
    result = bytearray(mark)
    for tag, data in parts:
        section = tag + struct.pack("<Q", len(data)) + data
        result += section + struct.pack("<I", crc32c(section))
    return bytes(result)


NUMBERS = [0, 1, 2, 7, 8, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def broken(chance, parts):
    """Returns the sections with one fault."""
    parts = list(parts)
    victim = chance.randrange(len(parts))
    tag, data = parts[victim]
    match chance.choice(["number", "number", "bit", "bit", "bit", "cut", "longer", "gone", "twice", "swap", "tag"]):
        case "number" if len(data) >= 8:
            place = chance.randrange(0, len(data) - 7, chance.choice([1, 8]))
            data = data[:place] + struct.pack("<Q", chance.choice(NUMBERS)) + data[place + 8 :]
        case "bit" if data:
            place = chance.randrange(len(data))
            data = data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
        case "cut":
            data = data[: chance.randrange(len(data) + 1)]
        case "longer":
            data += bytes(chance.randrange(1, 40))
        case "gone":
            del parts[victim]
            return parts
        case "twice":
            parts.insert(victim, parts[victim])
            return parts
        case "swap":
            other = chance.randrange(len(parts))
            parts[victim], parts[other] = parts[other], parts[victim]
            return parts
        case "tag":
            tag = chance.choice(parts)[0]
    parts[victim] = (tag, data)
    return parts


def stacked(rows):
    """An engine with stacked frames, late columns and rows that do not follow each other."""
    replay = engine([7, 4], stack_num=2)
    random_ = np.random.default_rng(0)
    flags = [((name,), np.dtype(bool), ()) for name in ("terminated", "truncated")]
    frames = [((name,), np.dtype("u1"), (3, 2, 2)) for name in ("obs", "obs_next")]
    replay.define([*frames, (("act",), np.dtype("i8"), ()), (("rew",), np.dtype("f8"), ()), *flags])
    replay.define([(("info", "late"), np.dtype("f4"), (2,))])
    for number in range(rows):
        obs = random_.integers(0, 2, (1, 3, 2, 2), np.uint8)
        after = np.concatenate([obs[:, 1:], random_.integers(0, 2, (1, 1, 2, 2), np.uint8)], 1)
        end = np.array([number % 5 == 3])
        fields = {"obs": obs, "obs_next": after, "act": np.array([1]), "rew": np.array([0.5]), "terminated": end}
        late = {"late": np.ones((1, 2), np.float32)}
        replay.add(fields | {"truncated": np.array([False]), "info": late}, np.array([number % 2]))
    return replay


def use(replay):
    """Everything that reads or writes rows."""
    rows = replay.chronological()
    replay.take(rows)
    replay.nstep(rows, 3, 0.9)
    replay.window(rows, 2, 3)
    replay.hindsight(rows, 4, 5)
    if len(rows):
        replay.sample(20)
        replay.update_priority(rows, np.ones(len(rows)))
    replay.restore(replay.dump())
    replay.reset()


def attack(seed, number):
    """Restores ``number`` damaged snapshots and returns how many were accepted."""
    chance, let_in = random.Random(seed), 0
    originals = [add(engine(), 23).dump(), stacked(25).dump(), stacked(3).dump(), engine().dump()]
    for _ in range(number):
        original = chance.choice(originals)
        snapshot = joined(original[:8], broken(chance, sections(original)))
        victim = chance.choice([lambda: add(engine(), 5), lambda: stacked(5)])()
        before = contents(victim)
        try:
            victim.restore(snapshot)
        except (ValueError, MemoryError):
            assert contents(victim) == before
            continue
        let_in += 1
        try:
            use(victim)
        except (ValueError, MemoryError):
            continue  # numbers that make no sense, such as a stack of a million rows, may be refused later too
    return let_in


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize(
    ("true", "false"),
    [
        (b"<f8", b"|O8"),  # a reward is no pointer to a Python object
        (b"<i8", b"|O8"),
        (b"<f8", b"|V8"),
        (b"<f8", b"<M8"),
        (b"|b1", b"|i1"),
        (b"<f4", b"<f8"),
        (b"<f8", b"<f4"),
        (b"<i8", b"<U8"),
        (b"<i8", b"?!?"),
    ],
    ids=str,
)
def test_a_dtype_that_the_bytes_do_not_have_is_refused(true, false):
    whole, victim = add(engine(), 23).dump(), add(engine(), 5)
    parts = [(tag, data.replace(true, false) if tag == b"LEAF" else data) for tag, data in sections(whole)]
    before = contents(victim)
    with pytest.raises(ValueError, match=r"damaged|got"):
        victim.restore(joined(whole[:8], parts))
    assert contents(victim) == before


ATTACKER = """
    import resource, sys
    sys.path[:0] = {path!r}
    from faults.test_hostile import attack
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))  # so that greed is an error
    attack(0, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(attack({seed}, {number}), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_the_parts_of_a_snapshot_can_be_put_together_again():
    for whole in (add(engine(), 23).dump(), stacked(25).dump()):
        assert joined(whole[:8], sections(whole)) == whole


@pytest.mark.skipif(sys.platform != "linux", reason="limits and counts memory as Linux does")
@pytest.mark.pitfall("D7")
@pytest.mark.parametrize("number", [2000, pytest.param(100_000, marks=pytest.mark.long)], ids=["quick", "long"])
def test_contents_that_contradict_themselves_do_no_harm(number):
    """In a process of its own, so that a crash is seen as one."""
    script = textwrap.dedent(ATTACKER.format(path=sys.path, seed=1, number=number))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    let_in, kilobytes = map(int, done.stdout.split())
    assert let_in < number
    assert kilobytes < 64 * 1024


def test_frames_whose_bytes_are_more_than_a_number_holds():
    """Their product is 2**64 and what is there: right, if nobody looks beyond 64 bits."""
    count, frame, there = 2**32 - 65_535, 2**32 + 65_536, 65_536
    assert count * frame == 2**64 + there
    victim = engine([1], alpha=None)
    frames = [((name,), np.dtype("u1"), (2, 512)) for name in ("obs", "obs_next")]
    numbers = {"act": "i8", "rew": "f8", "terminated": "?", "truncated": "?"}
    victim.define(frames + [((name,), np.dtype(kind), ()) for name, kind in numbers.items()])
    snapshot = victim.dump()
    parts = dict(sections(snapshot))
    parts[b"LEAF"] = parts[b"LEAF"].replace(struct.pack("<2Q", 2, 512), struct.pack("<2Q", 2, frame))
    parts[b"FRAM"] = struct.pack("<2Q", 0, count) + bytes(there)
    with pytest.raises((ValueError, MemoryError)) as raised:
        victim.restore(joined(snapshot[:8], parts.items()))
    if "1 rows of" in str(raised.value):
        pytest.skip("this machine has no memory for a row, which is checked first")
    assert f"damaged: {count} frames in {there} bytes" in str(raised.value)
    assert victim.dump() == snapshot
