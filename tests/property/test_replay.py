"""The engine against the slow model under random programs; a failure prints the smallest program that still fails."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from property.engine import Engine
from property.programs import random_program
from property.runner import run, run_seed


@pytest.mark.parametrize("block", range(20))
def test_ten_thousand_operations(block):
    done, seed = 0, 1000 * block
    while done < 500:
        done += run_seed(seed, Engine)
        seed += 1


@pytest.mark.long
@pytest.mark.parametrize("block", range(100))
def test_a_million_operations(block):
    done, seed = 0, 1_000_000 * (block + 1)
    while done < 10_000:
        done += run_seed(seed, Engine, every=4)
        seed += 1


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_short_programs(random, length):
    run(random_program(random, length), Engine)
