import numpy as np
import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError, train


def parts_of(**changes):
    return build(ALGORITHMS["drqn"].config(buffer_size=100, progress=False, **{"hidden_sizes": (8,), **changes}))


def test_settings_reach_their_parts():
    parts = parts_of(learning_rate=0.25, gamma=0.5, n_step=2, target_update_freq=7, double=False, huber=True, burn_in=5)
    policy = parts.policy
    assert policy.optim.defaults["lr"] == 0.25
    assert (policy.gamma, policy.n_step, policy.freq, policy.is_double) == (0.5, 2, 7, False)
    assert policy.clip_loss_grad
    assert parts.train_collector.buffer.stack_num == 6
    parts.close()


def test_some_numbers_are_seen_and_the_state_of_the_memory_is_stored():
    parts = parts_of(observe=(0, 2), burn_in=2)
    collector = parts.train_collector
    whole = build(ALGORITHMS["dqn"].config(hidden_sizes=(8,), buffer_size=100, progress=False))
    first, second = collector.env.reset()[0], whole.train_collector.env.reset()[0]
    assert np.array_equal(first, second[:, [0, 2]])
    whole.close()
    collector.collect(n_step=80, reset_before_collect=True)
    batch, _ = collector.buffer.sample(6)
    assert batch.obs.shape == (6, 3, 2)
    assert batch.policy.hidden_state.hidden.shape[0] == 6
    assert np.isfinite(parts.policy.update(6, collector.buffer).loss)
    parts.close()


def test_prioritized_stacks():
    parts = parts_of(prioritized=True)
    assert parts.train_collector.buffer.stack_num == 4
    parts.close()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"recurrent": False}, "DRQN needs a memory"),
        ({"observe": (0, 4)}, r"--observe \[0, 4\] names places of a vector"),
        ({"env": "Pendulum-v1"}, "DRQN needs discrete actions"),
    ],
)
def test_what_is_refused(run_dir, changes, match):
    config = ALGORITHMS["drqn"].config(hidden_sizes=(8,), buffer_size=100, progress=False, run_dir=run_dir, **changes)
    with pytest.raises(ConfigError, match=match):
        train(config)
