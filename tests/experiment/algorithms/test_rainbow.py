import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.schedules import apply_schedules
from rlfast.utils.net.discrete import NoisyLinear


def parts_of(**changes):
    return build(ALGORITHMS["rainbow"].config(hidden_sizes=(8,), buffer_size=100, progress=False, **changes))


def test_settings_reach_their_parts():
    parts = parts_of(
        learning_rate=0.25, gamma=0.5, n_step=2, target_update_freq=7, double=False, atoms=5, v_min=-1.0, v_max=3.0
    )
    policy = parts.policy
    assert policy.optim.defaults["lr"] == 0.25
    assert (policy.gamma, policy.n_step, policy.freq, policy.is_double) == (0.5, 2, 7, False)
    assert policy.support.tolist() == [-1.0, 0.0, 1.0, 2.0, 3.0]
    parts.close()


def test_the_exponent_of_the_weights_rises():
    parts = parts_of(beta=0.5, beta_end=1.0, beta_steps=100)
    buffer = parts.train_collector.buffer
    assert buffer._beta == 0.5
    for step, expected in ((0, 0.5), (50, 0.75), (100, 1.0), (1000, 1.0)):
        parts.before_collect(1, step)
        assert buffer._beta == expected
    parts.close()


@pytest.mark.parametrize(("dueling", "expected"), [(True, 4), (False, 2)])
def test_which_layers_are_noisy(dueling, expected):
    parts = parts_of(noisy_std=0.25, dueling=dueling)
    layers = [module for module in parts.policy.model.modules() if isinstance(module, NoisyLinear)]
    assert [layer.sigma for layer in layers] == [0.25] * expected
    parts.close()


def test_no_action_is_random_unless_asked_for():
    algorithm, parts = ALGORITHMS["rainbow"], parts_of()
    apply_schedules(algorithm.config(), parts.policy, 0)
    assert parts.policy.eps == 0.0
    apply_schedules(algorithm.config(eps_start=1.0, eps_steps=100), parts.policy, 25)
    assert parts.policy.eps == 0.75
    parts.close()
