"""The chi-square test: it accepts a fair die nearly always, and rejects a loaded one."""

import numpy as np
import pytest

from oracle.chi_square import is_plausible


def counts_of(probability, draws, seed):
    draw = np.random.default_rng(seed).choice(len(probability), draws, p=np.asarray(probability) / np.sum(probability))
    return np.bincount(draw, minlength=len(probability))


def test_a_fair_sampler_passes_all_but_one_time_in_a_thousand():
    probability = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    passed = sum(is_plausible(counts_of(probability, 2000, seed), probability) for seed in range(2000))
    assert 1988 <= passed < 2000


def test_a_slightly_loaded_die_is_noticed():
    fair = np.ones(6)
    loaded = np.array([1.02, 1, 1, 1, 1, 0.98])
    assert not is_plausible(counts_of(loaded, 1_000_000, 0), fair)


def test_what_cannot_be_drawn_was_not():
    assert not is_plausible(np.array([100, 1, 100]), np.array([1.0, 0.0, 1.0]))


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="too few draws"):
        is_plausible(np.array([1, 2]), np.array([1.0, 1.0]))
