"""What a policy is given: two fields, and the step before as attributes."""

import copy
import pickle

import numpy as np
import pytest

from rlfast.data import Batch
from rlfast.data.collect.observed import policy_input

STEP = {
    "act": np.array([1, 2, 3]),
    "rew": np.array([0.1, 0.2, 0.3]),
    "terminated": np.array([True, False, False]),
    "truncated": np.array([False, False, True]),
    "obs_next": {"x": np.array([4, 5, 6])},
}


def given(ids, known=(0, 2, 5), before=STEP):
    ids = np.array(ids)
    fields = {"obs": ids * 1.0, "info": Batch(env_id=ids)}
    return policy_input(fields, ids, None if before is None else (np.array(known), before))


def test_the_step_before_of_others_is_picked_by_environment():
    batch = given([5, 0])
    assert (batch.act.tolist(), batch.done.tolist(), batch.rew.tolist()) == ([3, 1], [True, True], [0.3, 0.1])
    assert batch.obs_next["x"].tolist() == [6, 4]
    same_number = given([2, 5, 0])
    assert same_number.act.tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    "batch", [given([0, 1]), given([0, 2, 5], before=None), given([7])], ids=["one is new", "none", "all are new"]
)
def test_without_a_row_for_each_there_is_nothing(batch):
    for key in ("act", "rew", "terminated", "truncated", "done", "obs_next", "policy"):
        value = getattr(batch, key)
        assert isinstance(value, Batch)
        assert len(value.keys()) == 0


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch)), lambda b: b[:1]]
)
def test_copies_have_no_step_before(again):
    batch = again(given([0, 2, 5]))
    assert batch.obs[0] == 0.0
    with pytest.raises(AttributeError, match="act"):
        batch.act
