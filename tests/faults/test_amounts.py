"""Impossible values for every amount of engine, buffers and environments raise exceptions, and never abort or hang."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("resource", reason="limits of POSIX")

from faults.amounts import recipes, sweep
from faults.amounts.found import found
from faults.amounts.values import MORE, VALUES
from machine import PATIENCE

VALID = "a valid call"
FOUND = {one.name: one for one in found() if not recipes.excused(one)}


@pytest.fixture(autouse=True, scope="module")
def _warm():
    recipes.warm()


def cases(one, values):
    """Calls of one function: one as it should be, and then each amount with each value."""
    yield VALID, lambda: recipes.call_well(one)
    for amount in one.amounts:
        for name, value in values.items():
            ends = (one.name, amount, name) in recipes.MEANT
            if not ends and ((one.name, amount) not in recipes.UNENDING or name in recipes.SMALL):
                yield f"{amount} = {name}", lambda amount=amount, value=value: recipes.call(one, **{amount: value()})


@pytest.mark.parametrize("name", FOUND)
def test_no_value_of_an_amount_ends_or_stops_the_process(name):
    bad = sweep.run(list(cases(FOUND[name], VALUES)), PATIENCE)
    assert VALID not in bad, f"{name} has no valid call in recipes.py: {bad[VALID]}"
    assert not bad, f"{name}: {bad}"


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_no_other_value_does_either(name):
    bad = sweep.run(list(cases(FOUND[name], MORE)), 600)
    assert not bad, f"{name}: {bad}"
