"""What was sent comes back with what it led to, whoever returns first."""

import numpy as np

from rlfast.data.collect.python_steps import PendingSteps


def ids(*values):
    return np.array(values, dtype=np.int64)


def sent(*values):
    """Returns fields whose rows contain the number of their environment."""
    return {"act": np.array(values), "obs": {"deep": 10 * np.array(values)}}


def check(rows, *values):
    assert rows["act"].tolist() == [*values]
    assert rows["obs"]["deep"].tolist() == [10 * value for value in values]


def test_rows_come_back_in_the_order_that_is_asked_for():
    steps = PendingSteps(4)
    assert steps.idle(ids(0, 1, 2, 3)).tolist() == [0, 1, 2, 3]
    steps.put(ids(0, 1, 2, 3), sent(0, 1, 2, 3))
    check(steps.take(ids(3, 1)), 3, 1)
    assert (steps.waiting.tolist(), steps.idle(ids(0, 1, 2, 3)).tolist()) == ([0, 2], [1, 3])
    steps.put(ids(1, 3), sent(11, 13))  # while others are pending
    assert (steps.waiting.tolist(), steps.idle(ids(1, 3)).tolist()) == ([0, 1, 2, 3], [])
    check(steps.take(ids(0, 1)), 0, 11)
    steps.put(ids(0), sent(20))
    check(steps.take(ids(2, 3, 0)), 2, 13, 20)
    assert steps.waiting.tolist() == []


def test_fields_may_change_once_all_have_returned():
    steps = PendingSteps(2)
    steps.put(ids(0, 1), {**sent(1, 2), "policy": np.zeros(2)})
    steps.take(ids(0, 1))
    steps.put(ids(1), {"act": np.array([0.5]), "obs": {"deep": np.array(["x"])}})
    rows = steps.take(ids(1))
    assert (rows["act"].tolist(), rows["obs"]["deep"].tolist(), [*rows]) == ([0.5], ["x"], ["act", "obs"])


def test_pending_steps_can_be_forgotten():
    steps = PendingSteps(3)
    steps.put(ids(0, 1), sent(0, 1))
    steps.clear()
    assert (steps.waiting.tolist(), steps.idle(ids(0, 1, 2)).tolist()) == ([], [0, 1, 2])
