import math

import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build


def parts_of(**changes):
    config = ALGORITHMS["discrete-sac"].config(buffer_size=100, progress=False, **{"hidden_sizes": (8,), **changes})
    return build(config)


def test_settings_reach_their_parts():
    parts = parts_of(learning_rate=0.25, gamma=0.5, n_step=2, tau=0.125, alpha=0.5, alpha_learning_rate=0.75)
    policy = parts.policy
    rates = {policy.actor_optim.defaults["lr"], policy.critic_optim.defaults["lr"], policy.critic2_optim.defaults["lr"]}
    assert rates == {0.25}
    assert (policy.gamma, policy.n_step, policy.tau) == (0.5, 2, 0.125)
    assert policy.alpha.item() == pytest.approx(0.5)
    assert policy.alpha_optim.defaults["lr"] == 0.75
    assert policy.target_entropy == pytest.approx(0.98 * math.log(2))
    networks = [{id(p) for p in network.parameters()} for network in (policy.actor, policy.critic, policy.critic2)]
    assert networks[0].isdisjoint(networks[1] | networks[2])
    assert networks[1].isdisjoint(networks[2])
    parts.close()


def test_a_fixed_temperature_and_another_entropy():
    parts = parts_of(auto_alpha=False, alpha=0.25)
    assert (parts.policy.alpha, parts.policy.is_auto_alpha) == (0.25, False)
    parts.close()
    parts = parts_of(target_entropy=0.5)
    assert parts.policy.target_entropy == 0.5
    parts.close()


def test_what_is_refused():
    with pytest.raises(ValueError, match="Discrete SAC needs discrete actions, and those of Pendulum-v1 are Box"):
        parts_of(env="Pendulum-v1")
