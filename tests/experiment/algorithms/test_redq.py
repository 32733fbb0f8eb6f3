from dataclasses import replace

import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError, train
from rlfast.utils.net.common import EnsembleLinear


@pytest.fixture
def tiny(run_dir):
    def make(**changes):
        config = ALGORITHMS["redq"].config(
            run_dir=run_dir,
            max_steps=80,
            num_envs=2,
            eval_episodes=2,
            eval_envs=2,
            eval_interval=40,
            hidden_sizes=(8,),
            collect_steps=4,
            updates_per_step=0.5,
            batch_size=8,
            buffer_size=100,
            start_steps=20,
            progress=False,
        )
        return replace(config, **changes)

    return make


def test_settings_reach_their_parts(tiny):
    parts = build(tiny(learning_rate=0.25, gamma=0.5, n_step=3, tau=0.125, ensemble_size=7, subset_size=3))
    policy = parts.policy
    assert (policy.critic_optim.defaults["lr"], policy.actor_optim.defaults["lr"]) == (0.25, 0.25)
    assert (policy.gamma, policy.estimation_step, policy.tau) == (0.5, 3, 0.125)
    assert (policy.ensemble_size, policy.subset_size) == (7, 3)
    layers = [layer for layer in policy.critic.modules() if isinstance(layer, EnsembleLinear)]
    assert [tuple(layer.weight.shape) for layer in layers] == [(7, 4, 8), (7, 8, 1)]
    parts.close()
    parts = build(tiny(actor_delay=5, target_mode="mean", auto_alpha=False, alpha=0.75))
    policy = parts.policy
    assert (policy.actor_delay, policy.target_mode, policy.alpha, policy.is_auto_alpha) == (5, "mean", 0.75, False)
    parts.close()


def test_a_learned_temperature(tiny):
    parts = build(tiny(alpha=0.5, alpha_learning_rate=0.125, target_entropy=-3.0))
    policy = parts.policy
    assert (policy.alpha.item(), policy.target_entropy) == (0.5, -3.0)
    assert policy.alpha_optim.defaults["lr"] == 0.125
    parts.close()


def test_more_critics_in_a_subset_than_there_are(tiny):
    with pytest.raises(ValueError, match="--subset-size 11 must be at most --ensemble-size 10"):
        tiny(subset_size=11)


def test_discrete_actions_are_refused(tiny):
    with pytest.raises(ConfigError, match="REDQ needs continuous actions, and those of CartPole-v1 are Discrete"):
        train(tiny(env="CartPole-v1"))
