import numpy as np
import pytest

from rlfast.experiment.build import build
from rlfast.experiment.config import stream_seed


@pytest.mark.pitfall("E9")
def test_no_two_environments_share_a_seed(tiny):
    parts = build(tiny(num_envs=4, eval_envs=4))
    first = np.concatenate([c.env.reset()[0] for c in (parts.train_collector, parts.test_collector)])
    assert len({row.tobytes() for row in first}) == 8
    again = build(tiny(num_envs=4, eval_envs=4))
    np.testing.assert_array_equal(again.train_collector.env.reset()[0], first[:4])
    parts.close()
    assert parts.train_collector.is_closed
    assert parts.test_collector.is_closed


def test_streams_are_named():
    seeds = {stream_seed(seed, name) for seed in range(20) for name in ("torch", "policy", "sampler", "env/train/0")}
    assert len(seeds) == 80


def test_a_device_that_is_not_there(tiny):
    with pytest.raises(ValueError, match="--device abacus cannot be used here"):
        build(tiny(device="abacus"))
