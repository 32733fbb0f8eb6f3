"""Rows of another dtype than the column's: the fast path accepts and refuses the same rows as the general one."""

import numpy as np
import pytest

from rlfast.data import Batch, ReplayBuffer, VectorReplayBuffer
from rlfast.data._leaves import convert

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8")
VALUES = {
    "b": [False, True],
    "i": [0, 1, -1, 2, "min", "max"],
    "u": [0, 1, 2, 200, "max"],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 200.0, 256.0, np.nan, np.inf, -np.inf, "max", 2.0**31, 2.0**63, 2.0**64],
    "c": [0, 1, 0.5, 1j],
}
PLAIN = set(DTYPES) - {"f2", "c8"}


def values(dtype):
    kind = np.dtype(dtype).kind
    limits = np.iinfo(dtype) if kind in "iu" else np.finfo(dtype) if kind in "fc" else None
    for value in VALUES[kind]:
        with np.errstate(over="ignore"):
            yield np.array(getattr(limits, value) if isinstance(value, str) else value, dtype)


def row(act):
    return {"obs": np.zeros(2), "act": act, "rew": 0.0, "terminated": False, "truncated": False, "obs_next": np.ones(2)}


def wanted(value, dtype):
    """Returns the expected values of the column, or the expected error."""
    try:
        return convert(value, np.dtype(dtype), ("act",)).tobytes()
    except TypeError:
        return TypeError


def outcome(write, buffer, *arguments, **row):
    """Returns the values of the newest row, or the error."""
    try:
        index = write(*arguments, **row)
    except TypeError:
        return TypeError
    newest = index if isinstance(index, int) else index[0][-1]
    return buffer[np.array([newest])].act.tobytes()


@pytest.mark.parametrize("column", DTYPES)
@pytest.mark.parametrize("given", DTYPES)
def test_append_and_add_convert_dtypes_alike(given, column):
    """Append and add of one row, of several, as scalars and as arrays of them."""
    for value in values(given):
        want = wanted(value, column)
        for one in (value, np.full(3, value)):
            buffer, vector = ReplayBuffer(8), VectorReplayBuffer(8, 2)
            first = row(np.zeros(one.shape, column))
            buffer.add(Batch(first))
            vector.add(Batch.stack([Batch(first)] * 2))
            expected = want if want is TypeError else want * max(one.size, 1)
            assert outcome(buffer.append, buffer, **row(one)) == expected
            assert outcome(buffer.add, buffer, Batch(row(one))) == expected
            assert len(buffer) == (1 if want is TypeError else 3)
            assert outcome(vector.add, vector, Batch.stack([Batch(row(one))] * 2)) == expected
            assert len(vector) == (2 if want is TypeError else 4)


@pytest.mark.parametrize("column", ["f4", "f8"])
@pytest.mark.parametrize("value", [True, 3, 2.5, np.nan, np.float32(1.5), np.int16(7), np.bool_(1)])
def test_numbers_of_python_and_numpy_go_into_floats(value, column):
    buffer = ReplayBuffer(4)
    buffer.add(Batch(row(np.zeros((), column))))
    buffer.append(**row(value))
    np.testing.assert_array_equal(buffer[:].act, np.array([0, value], column))


@pytest.mark.parametrize("value", [1.5, np.nan, 2**63, -(2**63) - 1, 300])
def test_integer_overflow_raises(value):
    buffer = ReplayBuffer(4)
    buffer.add(Batch(row(np.uint8(0))))
    with pytest.raises(TypeError, match="act"):
        buffer.append(**row(value))
    assert len(buffer) == 1


@pytest.mark.parametrize("column", sorted(PLAIN))
@pytest.mark.parametrize("given", sorted(PLAIN))
def test_engine_casts_other_dtypes(given, column):
    """Conversion in Python would take a hundred times as long."""
    buffer, converted = ReplayBuffer(8), []
    buffer.add(Batch(row(np.zeros(3, column))))
    buffer._core.convert_by(lambda row, count: converted.append(row))
    for _ in range(3):
        buffer.append(**row(np.ones(3, given)))
    assert not converted
    np.testing.assert_array_equal(buffer[np.arange(4)].act, np.repeat([[0], [1], [1], [1]], 3, 1).astype(column))
