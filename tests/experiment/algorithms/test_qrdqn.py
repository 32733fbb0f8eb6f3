import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError


def parts_of(**changes):
    return build(ALGORITHMS["qrdqn"].config(hidden_sizes=(8,), buffer_size=100, progress=False, **changes))


def test_settings_reach_their_parts():
    parts = parts_of(learning_rate=0.25, gamma=0.5, n_step=2, target_update_freq=7, double=False, quantiles=4)
    policy = parts.policy
    assert policy.optim.defaults["lr"] == 0.25
    assert (policy.gamma, policy.n_step, policy.freq, policy.is_double) == (0.5, 2, 7, False)
    assert policy.tau_hat.flatten().tolist() == [0.125, 0.375, 0.625, 0.875]
    assert policy(policy_input(parts)).logits.shape[1] == 2
    parts.close()


def policy_input(parts):
    from rlfast.data import Batch

    return Batch(obs=parts.train_collector.env.reset()[0], info={})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"env": "Pendulum-v1"}, "QRDQN needs discrete actions, and those of Pendulum-v1 are Box"),
        ({"recurrent": True}, "--recurrent cannot be had with QRDQN"),
    ],
)
def test_what_is_refused(changes, match):
    with pytest.raises((ConfigError, ValueError), match=match):
        parts_of(**changes)
