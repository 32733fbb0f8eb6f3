import numpy as np
import pytest

from rlfast.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer
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


def test_settings_reach_their_parts(tiny):
    parts = build(
        tiny(prioritized=True, alpha=0.3, beta=0.7, n_step=4, double=False, huber=False, gamma=0.5, learning_rate=0.25)
    )
    buffer, policy = parts.train_collector.buffer, parts.policy
    assert type(buffer) is PrioritizedVectorReplayBuffer
    assert (buffer.maxsize, buffer.buffer_num) == (100, 2)
    assert (buffer.options["alpha"], buffer.options["beta"]) == (0.3, 0.7)
    assert (policy.n_step, policy.is_double, policy.clip_loss_grad, policy.gamma) == (4, False, False, 0.5)
    assert policy.optim.defaults["lr"] == 0.25
    assert policy.freq == 5
    assert not policy.model.use_dueling
    assert parts.train_collector.exploration_noise
    assert not parts.test_collector.exploration_noise
    other = build(tiny(dueling=True, target_update_freq=0))
    assert type(other.train_collector.buffer) is VectorReplayBuffer
    assert other.policy.model.use_dueling
    assert other.policy.model_old is None


def test_a_device_that_is_not_there(tiny):
    with pytest.raises(ValueError, match="--device abacus cannot be used here"):
        build(tiny(device="abacus"))
