import numpy as np
import pytest

from rlfast.data.collect import episodes
from rlfast.data.collect.episodes import Episodes
from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info


def columns(rows):
    table = episodes.columns(np.arange(len(rows)), Info.of(rows)).to_dict()
    assert table.pop("env_id").tolist() == list(range(len(rows)))
    return table


def test_columns_of_dicts():
    marker = object()
    rows = [{"n": 1, "deep": {"x": np.zeros(2)}, "o": marker}, {"n": 2, "deep": {"x": np.ones(2)}, "o": marker}]
    table = columns(rows)
    assert table["n"].tolist() == [1, 2]
    np.testing.assert_array_equal(table["deep"]["x"], [[0, 0], [1, 1]])
    assert table["o"].dtype == object
    assert columns([{}, {}]) == {}


def test_missing_keys_are_zero_or_none():
    rows = [{}, {"n": 3, "s": "x", "deep": {"f": 1.5}}, {"deep": {"g": np.ones(2, np.float32)}}]
    table = columns(rows)
    assert table["n"].tolist() == [0, 3, 0]
    assert table["n"].dtype == np.int64
    assert table["s"].tolist() == [None, "x", None]
    assert table["deep"]["f"].tolist() == [0.0, 1.5, 0.0]
    np.testing.assert_array_equal(table["deep"]["g"], [[0, 0], [0, 0], [1, 1]])


def test_infos_of_some_environments_replace_theirs_alone():
    latest = Episodes(3)
    assert {*latest.infos(np.array([0, 2])).keys()} == {"env_id"}
    for ids, infos, wanted in (
        ([0, 1, 2], [{"n": 1}, {"n": 2}, {"n": 3}], [1, 2, 3]),
        ([0, 2], [{}, {"n": 30}], [0, 2, 30]),
        ([1], [{}], [0, 0, 30]),
    ):
        latest.show(np.array(ids), np.zeros(len(ids)), Info.of(infos))
        table = latest.infos(np.arange(3))
        assert (table["n"].tolist(), table["env_id"].tolist()) == (wanted, [0, 1, 2])
        assert latest.infos(np.array([1, 2]))["n"].tolist() == wanted[1:]
    latest.show(np.arange(3), np.zeros(3), Info(3))
    assert {*latest.infos(np.arange(3)).keys()} == {"env_id"}


def test_at_the_end_of_an_episode_the_infos_of_its_last_step_count():
    obs, done = np.zeros((2, 1)), np.array([True, False])
    step = {"obs": obs, "obs_next": obs, "rew": np.zeros(2), "terminated": done, "truncated": done & False}
    rows = Rows(env_id=np.array([3, 5]), info=Info.of([{"n": 1}, {"n": 2}]), **step)
    table = episodes.infos_of_transitions(rows)
    assert (table["n"].tolist(), table["env_id"].tolist()) == ([1, 2], [3, 5])
    rows.final_info = Info.of([{"n": 9}, {}])
    table = episodes.infos_of_transitions(rows)
    assert (table["n"].tolist(), table["env_id"].tolist()) == ([9, 2], [3, 5])


def test_masks_of_columns_are_left_out():
    info = Info(2, columns={"n": np.array([1, 0]), "_n": np.array([True, False]), "_own": np.array([7, 8])})
    table = episodes.columns(np.arange(2), info)
    assert table.keys() == {"n", "_own", "env_id"}
    nested = episodes.columns(np.arange(2), Info(2, columns={"deep": info.columns()}))
    assert nested["deep"].keys() == {"n", "_own"}


def test_a_key_with_an_underscore_is_kept_beside_the_key_without():
    for other in (5, True, np.ones(2), {"x": 1}):
        rows = [{"a": 1, "_a": other}, {}, {"_a": other, "a": 3}]
        info = Info.of(rows)
        table = columns(rows)
        assert table.keys() == {"a", "_a"}
        assert table["a"].tolist() == [1, 0, 3]
        again = Info(3, columns=info.columns())
        assert episodes.columns(np.arange(3), again).keys() == {"a", "_a", "env_id"}
        np.testing.assert_equal(again.dicts()[2], rows[2])


def test_keys_that_are_no_text_become_text():
    rows = [{7: 1, "deep": {(1, 2): 3}}, {7: 2}]
    for info in (Info.of(rows), Info(2, columns=Info.of(rows).columns())):
        table = episodes.columns(np.arange(2), info)
        assert table.keys() == {"7", "deep", "env_id"}
        assert table["7"].tolist() == [1, 2]
        assert table["deep"]["(1, 2)"].tolist() == [3, 0]
        assert info.dicts() == rows
    assert columns([{7: 1, "7": 2}]).keys() == {"7", "7_"}
    assert Info(1, columns={7: np.array([1])}).columns().keys() == {7, "_7"}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((1, 0.5), np.float64),
        ((2**53, 0.5), np.float64),
        ((np.uint64(5), np.int64(-1)), np.float64),
        ((np.int32(1), 2**40), np.int64),
        ((True, np.bool_(False)), np.bool_),
        ((0.5, 2**53 + 1), object),
        ((np.float32(0.5), np.int64(2**53 + 1)), object),
        ((np.uint64(2**64 - 1), np.int64(-1)), object),
        ((np.array([1, 2**53 + 1]), np.array([0.5, 1.0])), object),
        ((True, 2), object),
        ((np.bool_(True), 0.5), object),
    ],
    ids=str,
)
def test_numbers_of_several_dtypes_keep_their_values(values, dtype):
    column = Info.of([{"a": value} for value in values]).columns()["a"]
    assert column.dtype == dtype
    for kept, value in zip(column, values, strict=True):
        assert np.asarray(kept).tolist() == np.asarray(value).tolist()
        assert isinstance(kept, bool | np.bool_) == isinstance(value, bool | np.bool_)
