"""The public buffers against the slow model under random programs."""

import pytest

from property.buffers import Buffers, Cached
from property.runner import run_seed


@pytest.mark.parametrize("target", [Buffers, Cached])
@pytest.mark.parametrize("block", range(10))
def test_random_programs(block, target):
    done, seed = 0, 1000 * block
    while done < 300:
        done += run_seed(seed, target)
        seed += 1


@pytest.mark.long
@pytest.mark.parametrize("target", [Buffers, Cached])
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs(block, target):
    done, seed = 0, 1_000_000 * (block + 1)
    while done < 10_000:
        done += run_seed(seed, target, every=4)
        seed += 1
