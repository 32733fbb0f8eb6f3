"""Impossible values for every amount of engine, buffers and environments raise exceptions, and never abort or hang."""

import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

pytest.importorskip("torch")
pytest.importorskip("resource", reason="limits of POSIX")

from faults.amounts import recipes, sweep
from faults.amounts.found import found
from faults.amounts.values import MORE, VALUES
from machine import PATIENCE

VALID = "a valid call"
FOUND = {one.name: one for one in found() if not recipes.excused(one)}


@pytest.fixture(scope="module")
def clean_process(tmp_path_factory):
    """A process that has run no other test: what those leave behind, such as threads, is not in its children."""
    folder = (str(tmp_path_factory.mktemp("amounts")),)
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=recipes.prepare, initargs=folder) as processes:
        yield processes


def cases(one, values):
    """Calls of one function: one as it should be, and then each amount with each value."""
    yield VALID, lambda: recipes.call_well(one)
    for amount in one.amounts:
        for name, value in values.items():
            ends = (one.name, amount, name) in recipes.MEANT
            if not ends and ((one.name, amount) not in recipes.UNENDING or name in recipes.SMALL):
                yield f"{amount} = {name}", lambda amount=amount, value=value: recipes.call(one, **{amount: value()})


def outcomes(name, seconds, *, more=False):
    """Calls of one function that end neither with a result nor with an exception."""
    return sweep.run(list(cases(FOUND[name], MORE if more else VALUES)), seconds)


def test_a_call_that_ends_its_process_is_found_with_its_place():
    calls = [
        ("well", int),
        ("ends", lambda: os.kill(os.getpid(), signal.SIGSEGV)),
        ("exits", lambda: sys.exit(3)),
        ("well again", int),
    ]
    bad = sweep.run(calls, PATIENCE)
    assert list(bad) == ["ends", "exits"]
    assert bad["ends"].startswith("dies of SIGSEGV\n")
    assert "in outcome" in bad["ends"]
    assert bad["exits"] == "SystemExit: 3"


@pytest.mark.parametrize("name", FOUND)
def test_no_value_of_an_amount_ends_or_stops_the_process(name, clean_process):
    bad = clean_process.submit(outcomes, name, PATIENCE).result()
    assert VALID not in bad, f"{name} has no valid call in recipes.py: {bad[VALID]}"
    assert not bad, f"{name}: {bad}"


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_no_other_value_does_either(name, clean_process):
    bad = clean_process.submit(outcomes, name, 600, more=True).result()
    assert not bad, f"{name}: {bad}"
