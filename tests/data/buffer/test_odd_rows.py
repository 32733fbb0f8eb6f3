"""Rows with unusual or changing types of fields are accepted as in Tianshou 1.0, unless a number would be cut."""

import warnings

import numpy as np
import pytest

from rlfast.data import Batch, ReplayBuffer


def row(**fields):
    obs = np.array([1.0, 2.0])
    return {"obs": obs, "act": 1, "rew": 1.0, "terminated": False, "truncated": False, "obs_next": obs + 1} | fields


def info(value):
    return row(info={"a": value})


def plain(value):
    if isinstance(value, Batch):
        return {key: plain(inner) for key, inner in value.items()}
    return value.tolist()


TAKEN = {
    "words for obs_next beside numbers": ([row(obs_next="str")] * 2, "obs_next", ["str", "str"]),
    "no obs_next later": ([row(), row(obs_next=None)], "obs_next", [[2, 3], [1, 2]]),
    "words for obs": ([row(obs="a", obs_next="b"), row(obs="c", obs_next="d")], "obs", ["a", "c"]),
    "a list of one action": ([row(act=[1]), row(act=[2])], "act", [[1], [2]]),
    "then an action alone": ([row(act=[1]), row(act=2)], "act", [[1], [2]]),
    "an action, then a list": ([row(act=1), row(act=[2])], "act", [1, 2]),
    "actions in dicts": ([row(act={"a": 1}), row(act={"a": 2})], "act", {"a": [1, 2]}),
    "None for an action": ([row(act=None), row(act=1)], "act", [None, 1]),
    "an axis more": ([row(), row(obs=np.array([[5.0, 6.0]]))], "obs", [[1, 2], [5, 6]]),
    "a list of one reward": ([row(rew=[1.0]), row(rew=2)], "rew", [[1], [2]]),
    "a list of one flag": ([row(terminated=[True]), row(terminated=np.array(False))], "terminated", [True, False]),
    "numbers for flags": ([row(terminated=1), row(terminated=0.0)], "terminated", [True, False]),
    "infos that grow and shrink": (
        [info({"b": 1}), info({"b": 2, "c": 3}), row(info={})],
        "info",
        {"a": {"b": [1, 2, 0], "c": [0, 3, 0]}},
    ),
    "words, then numbers": ([info("x"), info(3)], "info", {"a": ["x", 3]}),
    "None, then numbers": ([info(None), info(3)], "info", {"a": [None, 3]}),
    "objects in infos": ([info({"b": object}), info({"b": 3})], "info", {"a": {"b": [object, 3]}}),
    "an info that comes late": ([row(info={}), row(info={"a": 1})], "info", {"a": [0, 1]}),
    "a policy that comes once": ([row(policy={"h": np.ones(2)}), row()], "policy", {"h": [[1, 1], [0, 0]]}),
}
SAID = {
    "a number for an observation": ([row(), row(obs=0)], "obs", [[1, 2], [0, 0]], "obs came in shape"),
    "numbers for flags that are neither 0 nor 1": (
        [row(), row(terminated=2)],
        "terminated",
        [False, True],
        "is a flag",
    ),
    "no obs_next": (
        [row(), {k: v for k, v in row().items() if k != "obs_next"}],
        "obs_next",
        [[2, 3], [1, 2]],
        "obs_next is not given",
    ),
    "None among floats": ([info(np.float64(3.5)), info(None)], "info", None, "info.a came as None"),
}
REFUSED = {
    "words among numbers": [row(), row(obs_next="str")],
    "a dict for an array": [row(), row(obs={"a": 1})],
    "another length": [row(act=np.zeros(2)), row(act=np.zeros(3))],
    "half a step among whole ones": [row(act=1), row(act=1.5)],
    "None among actions": [row(act=3), row(act=None)],
}


@pytest.mark.parametrize("case", TAKEN)
def test_unusual_rows_are_converted(case):
    rows, key, wanted = TAKEN[case]
    buffer = ReplayBuffer(4)
    for fields in rows:
        buffer.add(Batch(fields))
    assert plain(buffer[np.arange(len(rows))][key]) == wanted


@pytest.mark.parametrize("case", SAID)
def test_unusual_rows_warn_once(case):
    (first, odd), key, wanted, said = SAID[case]
    buffer = ReplayBuffer(4)
    buffer.add(Batch(first))
    with pytest.warns(UserWarning, match=said):
        buffer.add(Batch(odd))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.add(Batch(odd))
    if wanted is None:
        np.testing.assert_array_equal(buffer[:].info.a, [3.5, np.nan, np.nan])
    else:
        assert plain(buffer[np.arange(2)][key]) == wanted


@pytest.mark.parametrize("case", REFUSED)
def test_meaningless_rows_raise_and_change_nothing(case):
    first, odd = REFUSED[case]
    buffer = ReplayBuffer(4)
    buffer.add(Batch(first))
    before = str(buffer)
    with warnings.catch_warnings(), pytest.raises((TypeError, ValueError)):
        warnings.simplefilter("error")  # nothing is said of rows that are refused
        buffer.add(Batch(odd))
    assert str(buffer) == before
