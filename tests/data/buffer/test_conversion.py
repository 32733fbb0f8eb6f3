"""One conversion: rows that have the form of the columns are read as they are, all others are converted once."""

from collections import OrderedDict
from types import MappingProxyType

import numpy as np
import pytest

from rlfast.data import Batch, CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer.store.store import Store

OBS, OBS_NEXT = np.arange(3, dtype=np.float32), np.arange(1, 4, dtype=np.float32)
ROW = {"obs": OBS, "act": np.int64(1), "rew": 1.0, "terminated": False, "truncated": False, "obs_next": OBS_NEXT}
SPACED = np.arange(6, dtype=np.float32)[::2]


READ = {  # rows that are read without conversion
    "batch": Batch(ROW),
    "dict": dict(ROW),
    "ordered dict": OrderedDict(reversed(ROW.items())),
    "empty info": {**ROW, "info": {}, "policy": Batch()},
    "done": {**ROW, "done": True},
    "other floats": {**ROW, "obs": OBS.astype(np.float64), "rew": np.float32(0.5)},
    "other integers": {**ROW, "act": np.int8(7), "obs": OBS.astype(np.int16)},
    "Python's numbers": {**ROW, "act": True, "rew": 2},
    "a float without a fraction": {**ROW, "act": 5.0},
    "numbers as flags": {**ROW, "terminated": np.uint8(1)},
    "array without axes": {**ROW, "act": np.array(3)},
    "no obs_next": {key: value for key, value in ROW.items() if key != "obs_next"} | {"obs_next": None},
}
CONVERTED = {
    "mapping": MappingProxyType(ROW),
    "lists": {**ROW, "obs": [0.0, 1.0, 2.0], "obs_next": [1, 2, 3]},
    "half floats": {**ROW, "obs": OBS.astype(np.float16)},
    "other byte order": {**ROW, "obs": OBS.astype(">f4")},
    "gaps": {**ROW, "obs": SPACED},
    "more axes": {**ROW, "obs": OBS[None]},
    "new column": {**ROW, "extra": np.ones(2)},
    "new objects": {**ROW, "info": {"name": "x"}},
}
quiet = pytest.mark.filterwarnings("ignore:.*obs_next is not given", "ignore:.*is repeated to fill")


def batched(row, copies):
    return {key: value if value is None else np.stack([np.asarray(value)] * copies) for key, value in row.items()}


def state(buffer):
    """Returns all columns of a buffer, with their dtypes."""
    columns = {path: buffer._store.column(path[0], None) for path in buffer._store.schema.columns()}
    return {path: str(column) if len(path) > 1 else (column.dtype, column.tolist()) for path, column in columns.items()}


class Conversions:
    """Counts conversions."""

    def __init__(self, monkeypatch):
        self.count, convert = 0, Store.convert

        def counted(store, batch, rows):
            self.count += 1
            return convert(store, batch, rows)

        monkeypatch.setattr(Store, "convert", counted)


@pytest.fixture
def conversions(monkeypatch):
    return Conversions(monkeypatch)


@quiet
@pytest.mark.parametrize("case", [*READ, *CONVERTED])
def test_reading_equals_converting(case):
    row = (READ | CONVERTED)[case]
    read, converted = ReplayBuffer(4), ReplayBuffer(4)
    for buffer in (read, converted):
        buffer.add(Batch(ROW))
    converted._core.convert_by(converted._store._converter, always=True)
    given = [[part.tolist() for part in buffer.add(row)] for buffer in (read, converted)]
    assert given[0] == given[1]
    assert state(read) == state(converted)


ADDS = {  # adds a row in one of the ways there are
    "add": lambda buffer, row: buffer.add(row),
    "append": lambda buffer, row: buffer.append(**{key: row[key] for key in ROW}),
}


@quiet
@pytest.mark.parametrize("way", ADDS)
@pytest.mark.parametrize("case", [*READ, *CONVERTED])
def test_rows_are_converted_once_or_never(case, way, conversions):
    buffer = ReplayBuffer(4)
    buffer.add(Batch(ROW))
    conversions.count = 0
    ADDS[way](buffer, (READ | CONVERTED)[case])
    converts = case in CONVERTED if way == "add" else case not in (*READ, "mapping", "new column", "new objects")
    if (case, way) == ("no obs_next", "append"):
        converts = True  # and warns
    assert (conversions.count, len(buffer)) == (int(converts), 2)


BUFFERS = {  # a buffer, the row that it gets, and the ids
    "leading axis": (lambda: ReplayBuffer(4), batched(ROW, 1), [0]),
    "vector": (lambda: VectorReplayBuffer(8, 2), batched(ROW, 2), None),
    "vector with ids": (lambda: VectorReplayBuffer(8, 2), batched(ROW, 2), [1, -2]),
    "child": (lambda: VectorReplayBuffer(8, 2).buffers[1], ROW, None),
    "cached": (lambda: CachedReplayBuffer(ReplayBuffer(4), 2, 3), batched(ROW, 2), np.array([1, 0])),
}


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("wrap", [Batch, dict])
def test_all_buffers_read_rows_that_fit(kind, wrap, conversions):
    make, row, ids = BUFFERS[kind]
    buffer = make()
    buffer.add(wrap(row), ids)
    first = conversions.count
    buffer.add(wrap(row), ids)
    assert (first, conversions.count) == (1, 1)
    assert buffer[:].obs.tolist() == [OBS.tolist()] * len(buffer)
    assert len(buffer) == (4 if isinstance(row["rew"], np.ndarray) and len(row["rew"]) == 2 else 2)


def test_a_row_of_objects_is_converted_once(conversions):
    buffer = ReplayBuffer(4)
    for name in "abc":
        buffer.add({**ROW, "info": {"name": name}})
    assert conversions.count == 3
    assert buffer.info.name.tolist() == ["a", "b", "c", None]


@pytest.mark.parametrize("row", [5, [1, 2], None, "row"])
def test_what_is_no_row_is_refused(row):
    buffer = ReplayBuffer(4)
    for _ in range(2):
        with pytest.raises(TypeError, match="a Batch or a dict"):
            buffer.add(row)
        buffer.reset()
        buffer.add(ROW)
    assert len(buffer) == 1
