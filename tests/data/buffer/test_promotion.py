"""Columns other than observations, actions, rewards and flags take values that do not fit the earlier rows."""

import pickle
import warnings

import numpy as np
import pytest

from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    HERReplayBuffer,
    NStep,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env.backends.info import Info

FLOAT, OBJECT = np.dtype(float), np.dtype(object)
MANY = 2**53 + 1

#: name: (the first value, the later one, the dtype of the promoted column)
CASES = {
    "integer, float": (0, 0.5, FLOAT),
    "integer, None": (3, None, FLOAT),
    "integer, NaN": (3, np.nan, FLOAT),
    "integer, array of one float": (3, np.array(0.5), FLOAT),
    "flag, number": (True, 2, FLOAT),
    "flag, fraction": (False, 0.5, FLOAT),
    "int32, large": (np.int32(1), 2**40, FLOAT),
    "uint8, negative": (np.uint8(1), -1, FLOAT),
    "float32, large": (np.float32(1.5), 1e300, FLOAT),
    "float16, large integer": (np.float16(1.5), 2**40, FLOAT),
    "integers, floats": (np.array([1, 2]), np.array([0.5, 1.5]), FLOAT),
    "flag, None": (True, None, OBJECT),
    "large integer, float": (MANY, 0.5, OBJECT),
    "float, large integer": (0.5, MANY, OBJECT),
    "integer, huge": (1, 10**30, OBJECT),
    "float, complex": (1.5, 2j, OBJECT),
    "complex, word": (2j, "x", OBJECT),
    "integer, word": (3, "x", OBJECT),
    "integer, list of words": (3, ["x", "y"], OBJECT),
    "longer array": (np.zeros(2), np.ones(3), OBJECT),
    "shorter array": (np.zeros(3), np.ones(1), OBJECT),
    "array, number": (np.zeros(2), 1.0, OBJECT),
    "number, array": (1.0, np.ones(2), OBJECT),
    "array of another rank": (np.zeros((2, 2)), np.ones((2, 2, 2)), OBJECT),
    "array, ragged": (np.zeros(2), [[1], [2, 3]], OBJECT),
    "dict, number": ({"p": 1}, 3, OBJECT),
    "dict, word": ({"p": 1, "q": {"r": "x"}}, "x", OBJECT),
    "dict, None": ({"p": 1}, None, OBJECT),
    "number, dict": (3, {"p": 1}, OBJECT),
    "words, fewer words": (["a", "b"], ["c"], OBJECT),
    "words, more words": (["a", "b"], ["c", "d", "e"], OBJECT),
    "words, None": (["a", "b"], None, OBJECT),
    "words, one word": (["a", "b"], "c", OBJECT),
    "words, numbers": (["a", "b"], [1, 2, 3], OBJECT),
    "one word in a list, None": (["a"], None, OBJECT),
    "words, dict": (["a", "b"], {"p": 1}, OBJECT),
    "number, empty dict": (3, {}, OBJECT),
    "array, dict": (np.zeros(2), {"p": {"q": 1}}, OBJECT),
}


def row(i, key="info", **more):
    fields = {"obs": np.full(2, float(i)), "act": i, "rew": float(i), "obs_next": np.full(2, i + 1.0)}
    return Batch({**fields, "terminated": False, "truncated": False, "info": {}, **more})


def same(one, other):
    if isinstance(one, dict):
        keys = set(one.keys())
        return isinstance(other, dict) and keys == set(other.keys()) and all(same(one[k], other[k]) for k in keys)
    if isinstance(one, float) and np.isnan(one):
        return other is None or np.isnan(other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.squeeze().tolist() == other.squeeze().tolist()
    return bool(np.array_equal(np.asarray(one, object), np.asarray(other, object)))


def add_pair(buffer, first, later, wrap=lambda value: {"info": {"a": value}}):
    """Adds rows 0 to 4; the last two have the later value."""
    for i in range(3):
        buffer.add(row(i, **wrap(first)))
    with pytest.warns(UserWarning, match=r"\.?a is promoted from .* to (float64|objects)") as told:
        buffer.add(row(3, **wrap(later)))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # later rows of either kind are silent
        buffer.add(row(4, **wrap(later)))
        buffer.add(row(5, **wrap(first)))
    return [first, first, first, later, later, first]


@pytest.mark.parametrize("case", CASES)
def test_rows_keep_their_values(case):
    first, later, dtype = CASES[case]
    buffer = ReplayBuffer(8)
    wanted = add_pair(buffer, first, later)
    column = buffer.info.a
    assert column.dtype == dtype
    rows = buffer[:]
    assert all(same(rows.info.a[i], value) for i, value in enumerate(wanted))
    assert rows.act.tolist() == [*range(6)]
    batch, indices = buffer.sample(20)
    assert all(same(batch.info.a[i], wanted[row]) for i, row in enumerate(indices.tolist()))


WRAPPED = {
    "a field of its own": (lambda value: {"a": value}, lambda rows: rows.a),
    "policy": (lambda value: {"policy": {"a": value}}, lambda rows: rows.policy.a),
    "deep in infos": (lambda value: {"info": {"b": {"a": value}}}, lambda rows: rows.info.b.a),
    "beside others": (lambda value: {"info": {"ab": 1, "a": value, "b": {"a": 7}}}, lambda rows: rows.info.a),
}


@pytest.mark.parametrize("place", WRAPPED)
@pytest.mark.parametrize("case", ["integer, float", "longer array", "dict, number", "number, dict"])
def test_all_but_strict_fields_are_promoted(place, case):
    first, later, _ = CASES[case]
    wrap, look = WRAPPED[place]
    buffer = ReplayBuffer(8)
    wanted = add_pair(buffer, first, later, wrap)
    assert all(same(look(buffer[:])[i], value) for i, value in enumerate(wanted))
    if place == "beside others":
        assert buffer[:].info.ab.tolist() == [1] * 6
        assert buffer[:].info.b.a.tolist() == [7] * 6


@pytest.mark.parametrize("case", [case for case in CASES if not {*case.split(", ")} & {"large integer", "complex"}])
def test_vectors_of_rows_are_promoted(case):
    first, later, _ = CASES[case]
    buffer = VectorReplayBuffer(12, 3)
    infos = [[first] * 3, [first, later, first], [later] * 3]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for values in infos:
            fields = Batch.stack([row(i) for i in range(3)])
            fields.info = Batch(Info.of([{"a": value} for value in values]).values())
            buffer.add(fields, [0, 1, 2])
    assert len(told) == (0 if isinstance(first, list) else 1)  # lists are objects from the first row on
    for ring in range(3):
        found = buffer.buffers[ring][:].info.a
        wanted = [values[ring] for values in infos]
        assert all(map(same, found, wanted)), found


def test_rows_of_words_are_promoted_to_lists():
    buffer = VectorReplayBuffer(8, 2)

    def add(words):
        buffer.add(Batch({**Batch.stack([row(0), row(1)]), "info": {"k": words}}))

    add([["a", "b"], ["c", "d"]])
    with pytest.warns(UserWarning, match=r"info\.k is promoted from object of shape \(2,\) to objects"):
        add([["e"], ["f"]])
    add([None, ["g", "h", "i"]])
    assert buffer.buffers[0][:].info.k.tolist() == [["a", "b"], ["e"], None]
    assert buffer.buffers[1][:].info.k.tolist() == [["c", "d"], ["f"], ["g", "h", "i"]]


def test_a_column_can_be_promoted_twice():
    buffer = ReplayBuffer(8)
    buffer.add(row(0, info={"a": 1}))
    for value, dtype in ((0.5, "float64"), ("x", "objects")):
        with pytest.warns(UserWarning, match=f"info.a is promoted .* to {dtype}"):
            buffer.add(row(1, info={"a": value}))
    buffer.add(row(2, info={"a": {"p": 1}}))
    assert buffer[:].info.a.tolist() == [1.0, 0.5, "x", {"p": 1}]


EMPTY = {
    "after a number": ([{"a": 1}, 3, {}], [{"a": 1}, 3, {}]),
    "between": ([3, {}, {"a": 1}, {"a": {}}], [3, {}, {"a": 1}, {"a": {}}]),
    "words": ([{"a": "x", "b": {"c": 1}}, "y", {}], [{"a": "x", "b": {"c": 1}}, "y", {}]),
}


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("case", EMPTY)
def test_dicts_become_plain_dicts(case, ways):
    given, wanted = EMPTY[case]
    buffer = VectorReplayBuffer(12, 2)
    for value in given:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for ids in ([0, 1],) if ways == 1 else ([0], [1]):
                infos = Info.of([{"k": value}] * len(ids)).values()
                buffer.add(Batch({**Batch.stack([row(0)] * len(ids)), "info": infos}), ids)
    for ring in buffer.buffers:
        found = [ring.info.k[i] for i in range(len(wanted))]
        assert found == wanted
        assert list(map(type, found)) == list(map(type, wanted))


@pytest.mark.parametrize("value", [{"a": 1}, {"a": {"b": "x"}}, {}])
def test_one_dict_for_all_rows_becomes_one_for_each(value):
    buffer = VectorReplayBuffer(12, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in ({"a": 1}, 3, value):
            buffer.add(Batch({**Batch.stack([row(0), row(1)]), "info": {"k": one}}))
    cells = [ring.info.k[2] for ring in buffer.buffers]
    assert cells == [value, value]
    assert cells[0] is not cells[1]


def test_a_promoted_group_takes_its_name_for_all_rows():
    buffer = ReplayBuffer(4)
    buffer.add(row(0, info={"a": {"p": 1, "name": "x"}, "b": 2}))
    with pytest.warns(UserWarning, match=r"info\.a is promoted from a group"):
        buffer.add(row(1, info={"a": 5, "b": 3}))
    assert buffer[:].info.a.tolist() == [{"p": 1, "name": "x"}, 5]
    assert buffer[:].info.b.tolist() == [2, 3]
    assert {*buffer.info.keys()} == {"a", "b"}


@pytest.mark.parametrize("key", ["obs", "obs_next", "act", "rew"])
def test_strict_fields_are_never_promoted(key):
    buffer = ReplayBuffer(4)
    buffer.add(row(0, obs=1, obs_next=1, act=1, rew=[1.0]))
    for bad in ("x", {"p": 1}, [1.0, 2.0], *([] if key == "obs_next" else [None])):
        with pytest.raises((TypeError, ValueError, KeyError)):
            buffer.add(row(1, **{"obs": 1, "obs_next": 1, "act": 1, "rew": [1.0], key: bad}))
    assert len(buffer) == 1


def test_a_refused_row_promotes_nothing():
    buffer = ReplayBuffer(4)
    buffer.add(row(0, info={"a": 1}))
    with warnings.catch_warnings(), pytest.raises(ValueError, match="act"):
        warnings.simplefilter("error")
        buffer.add(row(1, act=[1, 2], info={"a": 0.5}))
    assert buffer.info.a.dtype == np.int64


def test_a_wrong_number_of_rows_promotes_nothing():
    buffer = VectorReplayBuffer(9, 3)
    rows = Batch.stack([row(i, info={"a": i}) for i in range(3)])
    buffer.add(rows)
    rows.info.__dict__["a"] = np.arange(2)
    with pytest.raises(ValueError, match="one row for each buffer id"):
        buffer.add(rows)
    assert buffer.info.a.dtype == np.int64


def test_keys_that_are_no_text_become_text():
    buffer = ReplayBuffer(4)
    for i in range(2):
        buffer.add({**row(i), "info": {7: i, "b": {(1, 2): i}}})
    assert buffer[:].info["7"].tolist() == [0, 1]
    assert buffer[:].info.b["(1, 2)"].tolist() == [0, 1]


# -- what else a buffer has --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [0.5, "x", {"p": 1}])
def test_the_rest_of_the_buffer_stays(later):
    buffer = PrioritizedReplayBuffer(8, alpha=1.0, beta=1.0, seed=3)
    for i in range(5):
        buffer.add(row(i, info={"a": i}))
    _, indices = buffer.sample(4)
    with pytest.warns(UserWarning, match="promoted"):
        buffer.add(row(5, info={"a": later}))
    buffer.update_weight(indices, np.full(4, 3.0))
    assert buffer.stale_updates == 0
    assert np.allclose(buffer.weight[indices], 3.0)
    _, reward, length, _ = buffer.add(row(6, terminated=True, info={"a": later}))
    assert (reward.item(), length.item()) == (21, 7)
    assert [same(value, wanted) for value, wanted in zip(buffer[:].info.a, [*range(5), later, later], strict=True)]


@pytest.mark.parametrize("later", [0.5, "x", {"p": 1}])
def test_a_wrapped_ring_keeps_its_values(later):
    buffer = VectorReplayBuffer(8, 2)
    for i in range(6):
        buffer.add(Batch.stack([row(i, info={"a": i})]), [0])
    with pytest.warns(UserWarning, match="promoted"):
        buffer.add(Batch.stack([row(6, info={"a": later})]), [1])
    assert [*buffer.buffers[0][:].info.a] == [2, 3, 4, 5]
    assert same(buffer.buffers[1][:].info.a[0], later)


def saved(buffer, folder):
    buffer.save(folder / "b", allow_pickle=True)
    return type(buffer).load(folder / "b", allow_pickle=True)


def saved_as_hdf5(buffer, folder):
    buffer.save_hdf5(folder / "b.h5")
    return type(buffer).load_hdf5(folder / "b.h5", allow_pickle=True)


STORED = {"snapshot": saved, "pickle": lambda buffer, _: pickle.loads(pickle.dumps(buffer)), "HDF5": saved_as_hdf5}


@pytest.mark.parametrize("way", STORED)
@pytest.mark.parametrize("case", ["integer, float", "integer, None", "longer array", "dict, number", "number, dict"])
def test_promoted_buffers_are_stored(case, way, tmp_path):
    first, later, dtype = CASES[case]
    buffer = VectorReplayBuffer(24, 2)

    def add(i, value, *, promoted=False):
        rows = Batch.stack([row(i)] * 2)
        column = np.empty(2, object)
        column[:] = [Batch(value) if isinstance(value, dict) else value] * 2
        rows.info = (
            Batch.stack([Batch(a=value)] * 2) if not promoted and not isinstance(value, str) else Batch(a=column)
        )
        buffer.add(rows)

    add(0, first)
    with pytest.warns(UserWarning, match="promoted"):
        add(1, later, promoted=True)
    buffer = STORED[way](buffer, tmp_path)
    assert buffer.info.a.dtype == dtype
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings are given once in each process
        add(2, later, promoted=True)
    add(3, "then a word", promoted=True) if dtype == OBJECT else add(3, 2.5)
    last = "then a word" if dtype == OBJECT else 2.5
    assert all(
        same(found, value)
        for found, value in zip(buffer.buffers[1][:].info.a, [first, later, later, last], strict=True)
    )


@pytest.mark.parametrize("case", ["dict, number", "dict, word", "number, dict", "array, dict", "words, fewer words"])
def test_promoted_dicts_need_no_pickles_in_hdf5(case, tmp_path):
    first, later, _ = CASES[case]
    buffer = VectorReplayBuffer(12, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (first, later, first, later):
            infos = Info.of([{"a": value}] * 2).values()
            buffer.add(Batch({**Batch.stack([row(0)] * 2), "info": infos}))
    buffer.save_hdf5(tmp_path / "b.h5")
    again = VectorReplayBuffer.load_hdf5(tmp_path / "b.h5")
    assert repr(again.info.a.tolist()) == repr(buffer.info.a.tolist())


PLAIN = {
    "words": ["a", None, "b" * 9],
    "lists": [["a", "b"], ("c", 1), {"x": [1.5, None]}],
    "arrays": [np.zeros(3), np.arange(2, dtype=np.uint8), np.zeros((0, 2))],
    "arrays of words": [np.array(["a", None], object), np.array(["b", "c"]), np.str_("d")],
    "numbers": [np.float32(1.5), 10**30, float("nan")],
    "keys": [{1: 2, (1, "a"): b"x"}, {}, True],
}


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("case", PLAIN)
def test_plain_objects_are_saved_without_pickles(case, vector, tmp_path):
    buffer = VectorReplayBuffer(8, 2, ignore_obs_next=True) if vector else ReplayBuffer(8, ignore_obs_next=True)
    for i, value in enumerate(PLAIN[case]):
        cell = np.empty((), object)
        cell[()] = value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = row(i, obs="s", obs_next=f"t{i}", terminated=True, info={"a": cell})
            buffer.add(Batch.stack([one]), [i % 2]) if vector else buffer.add(one)
    buffer.save(tmp_path / "b")
    for allowed in (False, True):
        again = type(buffer).load(tmp_path / "b", allow_pickle=allowed)
        assert repr(again.info.a.tolist()) == repr(buffer.info.a.tolist())
        assert repr([type(value) for value in again.info.a]) == repr([type(value) for value in buffer.info.a])
        assert again[:].obs_next.tolist() == buffer[:].obs_next.tolist()


@pytest.mark.parametrize("value", [object(), {"x": [object()]}, np.array(["a", object()], object)])
def test_other_objects_are_saved_as_pickles_only(value, tmp_path):
    buffer = ReplayBuffer(8)
    cell = np.empty((), object)
    cell[()] = value
    buffer.add(row(0, info={"a": cell}))
    with pytest.raises(TypeError, match=r"info.a(\.x)?: .* pass allow_pickle=True"):
        buffer.save(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_promoted_numbers_are_flushed_and_opened(tmp_path):
    buffer = ReplayBuffer(8, storage=str(tmp_path))
    buffer.add(row(0, info={"a": 1}))
    buffer.flush()
    with pytest.warns(UserWarning, match="promoted"):
        buffer.add(row(1, info={"a": 0.5}))
    buffer.flush()
    buffer.add(row(2, info={"a": 2.5}))
    buffer.flush()
    del buffer
    again = ReplayBuffer.open(tmp_path)
    assert again[:].info.a.tolist() == [1.0, 0.5, 2.5]
    again.add(row(3, info={"a": 3.5}))
    assert again[:].info.a.tolist() == [1.0, 0.5, 2.5, 3.5]


BUFFERS = {
    "stacks": lambda: ReplayBuffer(8, stack_num=2),
    "without obs_next": lambda: ReplayBuffer(8, ignore_obs_next=True),
    "sample_avail": lambda: ReplayBuffer(8, stack_num=3, sample_avail=True),
    "last frames": lambda: ReplayBuffer(8, save_only_last_obs=True),
    "n steps": lambda: ReplayBuffer(8, unit=NStep(2, 0.9)),
    "packed": lambda: ReplayBuffer(8, storage="lz4"),
    "hindsight": lambda: HERReplayBuffer(
        8, compute_reward_fn=lambda a, d: (a != d).any(-1) * -1.0, horizon=8, future_k=4
    ),
    "cached": lambda: CachedReplayBuffer(ReplayBuffer(8), 1, 8),
}


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("case", ["integer, float", "longer array", "dict, number"])
def test_every_kind_of_buffer_promotes(kind, case):
    first, later, _ = CASES[case]
    buffer = BUFFERS[kind]()
    goals = {name: np.ones(2) for name in ("achieved_goal", "desired_goal", "observation")}
    told = []
    for i, value in enumerate([first, first, later, first]):
        seen = {"obs": goals, "obs_next": goals} if kind == "hindsight" else {}
        one = row(i, info={"a": value}, terminated=i == 3, **seen)
        with warnings.catch_warnings(record=True) as now:
            warnings.simplefilter("always")
            buffer.add(Batch.stack([one]), [0]) if kind == "cached" else buffer.add(one)
        told += [str(one.message) for one in now if "promoted" in str(one.message)]
    assert len(told) == 1
    assert len(buffer) == 4
    newest = buffer[buffer.sample_indices(0)].info.a
    stacked = newest[-1][-1] if kind in ("stacks", "sample_avail") else newest[-1]
    assert same(stacked, first)
