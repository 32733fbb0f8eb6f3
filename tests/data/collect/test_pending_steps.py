"""What was sent comes back with what it led to, whoever returns first."""

import numpy as np
import pytest

from rlfast.data.collect.pending_steps import PendingSteps


def ids(*values):
    return np.array(values, dtype=np.int64)


def sent(*values):
    """Returns fields whose rows contain the number of their environment."""
    return {"act": np.array(values), "obs": {"deep": 10 * np.array(values)}}


def check(rows, *values):
    assert rows["act"].tolist() == [*values]
    assert rows["obs"]["deep"].tolist() == [10 * value for value in values]


def test_all_together_come_back_as_they_were_put():
    steps, fields = PendingSteps(3), sent(5, 6, 7)
    assert steps.idle(ids(0, 1, 2)).tolist() == [0, 1, 2]
    steps.put(ids(0, 1, 2), fields)
    assert steps.waiting.tolist() == [0, 1, 2]
    assert steps.idle(ids(0, 1, 2)).tolist() == []
    assert steps.take(ids(0, 1, 2)) is fields
    assert steps.waiting.tolist() == []
    assert steps.idle(ids(0, 2)).tolist() == [0, 2]


def test_a_part_that_comes_back_together_does_so_as_it_was_put():
    steps, fields = PendingSteps(3), sent(5, 7)
    steps.put(ids(0, 2), fields)
    assert steps.idle(ids(0, 1, 2)).tolist() == [1]
    assert steps.take(ids(0, 2)) is fields
    assert steps.waiting.tolist() == []


@pytest.mark.parametrize("order", [(2, 0), (0,), (2,)])
def test_a_part_in_another_order_or_of_fewer(order):
    steps = PendingSteps(3)
    steps.put(ids(0, 2), sent(5, 7))
    check(steps.take(ids(*order)), *(5 if i == 0 else 7 for i in order))
    assert steps.waiting.tolist() == [i for i in (0, 2) if i not in order]


def test_steps_are_sent_while_others_are_pending():
    steps = PendingSteps(4)
    steps.put(ids(0, 1, 2, 3), sent(0, 1, 2, 3))
    check(steps.take(ids(3, 1)), 3, 1)
    assert steps.waiting.tolist() == [0, 2]
    assert steps.idle(ids(0, 1, 2, 3)).tolist() == [1, 3]
    steps.put(ids(1, 3), sent(11, 13))
    assert steps.waiting.tolist() == [0, 1, 2, 3]
    assert steps.idle(ids(1, 3)).tolist() == []
    check(steps.take(ids(0, 1)), 0, 11)
    steps.put(ids(0), sent(20))
    check(steps.take(ids(2, 3, 0)), 2, 13, 20)
    assert steps.waiting.tolist() == []
    again = sent(30, 31, 32, 33)
    steps.put(ids(0, 1, 2, 3), again)
    assert steps.take(ids(0, 1, 2, 3)) is again  # as at first


def test_two_vector_steps_are_pending_at_once():
    steps = PendingSteps(4)
    steps.put(ids(0, 1), sent(0, 1))
    steps.put(ids(3), sent(3))
    assert steps.waiting.tolist() == [0, 1, 3]
    check(steps.take(ids(3, 0)), 3, 0)
    check(steps.take(ids(1)), 1)


@pytest.mark.parametrize("spread", [False, True])
def test_what_is_pending_can_be_forgotten(spread):
    steps = PendingSteps(3)
    steps.put(ids(0, 1), sent(0, 1))
    if spread:
        steps.put(ids(2), sent(2))
    steps.clear()
    assert steps.waiting.tolist() == []
    assert steps.idle(ids(0, 1, 2)).tolist() == [0, 1, 2]
    fields = sent(5, 6, 7)
    steps.put(ids(0, 1, 2), fields)
    assert steps.take(ids(0, 1, 2)) is fields
