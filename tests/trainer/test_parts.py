"""Parts of a trainer are asked for what they have, whatever class they are of."""

from types import SimpleNamespace

import pytest

from rlfast.data import Collector
from rlfast.trainer import _parts


class Plain(Collector):
    pass


class CollectsInItsOwnWay(Collector):
    def collect(self):
        return "own"


class EvaluatesToo(CollectsInItsOwnWay):
    def evaluate(self):
        return "own"


class EvaluatesOnly(Collector):
    def evaluate(self):
        return "own"


class OfNoClassOfOurs:
    def collect(self):
        return "own"


class OfNoClassOfOursThatEvaluates(OfNoClassOfOurs):
    def evaluate(self):
        return "own"


@pytest.mark.parametrize(
    ("kind", "by_collect"),
    [
        (Plain, False),
        (CollectsInItsOwnWay, True),
        (EvaluatesToo, False),
        (EvaluatesOnly, False),
        (OfNoClassOfOurs, True),
        (OfNoClassOfOursThatEvaluates, False),
        (SimpleNamespace, True),  # whose methods are attributes of the object
    ],
)
def test_a_test_is_a_collect_where_only_collect_is_the_classes_own(kind, by_collect):
    assert _parts.tests_by_collect(kind.__new__(kind)) is by_collect
