"""Every amount of the engine, of buffers and of environments: an error of Python, never an abort or a hang."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("resource", reason="limits of POSIX")

from faults.amounts import recipes, sweep
from faults.amounts.found import found
from faults.amounts.values import MORE, VALUES

FOUND = {one.name: one for one in found() if not recipes.excused(one)}


@pytest.fixture(autouse=True, scope="module")
def _warm():
    recipes.warm()


def cases(one, values):
    """Calls of one function: each amount with each value, and the rest as it should be."""
    for amount in one.amounts:
        for name, value in values.items():
            if (one.name, amount) not in recipes.UNENDING or name in recipes.SMALL:
                yield f"{amount} = {name}", lambda amount=amount, value=value: recipes.call(one, **{amount: value()})


@pytest.mark.parametrize("name", FOUND)
def test_no_value_of_an_amount_ends_or_stops_the_process(name):
    one = FOUND[name]
    base = sweep.run([("a valid call", lambda: recipes.call_well(one))], 60)
    assert not base, f"{name} has no valid call in recipes.py: {base}"
    bad = sweep.run(list(cases(one, VALUES)), 60)
    assert not bad, f"{name}: {bad}"


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_no_other_value_does_either(name):
    bad = sweep.run(list(cases(FOUND[name], MORE)), 120)
    assert not bad, f"{name}: {bad}"
