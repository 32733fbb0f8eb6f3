from dataclasses import replace

import pytest
from torch import nn

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError, train
from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLayerNorm, EnsembleLinear

NAMES = ["redq", "tqc", "droq", "crossq"]


@pytest.fixture
def tiny(run_dir):
    def make(name, **changes):
        config = ALGORITHMS[name].config(
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


@pytest.fixture
def policy_of(tiny):
    made = []

    def make(name, **changes):
        made.append(build(tiny(name, **changes)))
        return made[-1].policy

    yield make
    for parts in made:
        parts.close()


def layers(network, kind):
    return [layer for layer in network.modules() if isinstance(layer, kind)]


def shapes(network, kind=EnsembleLinear):
    return [tuple(layer.weight.shape) for layer in layers(network, kind)]


@pytest.mark.parametrize("name", NAMES)
def test_settings_reach_their_parts(policy_of, name):
    policy = policy_of(name, learning_rate=0.25, gamma=0.5, n_step=3, alpha=0.5, alpha_learning_rate=0.125)
    assert (policy.critic_optim.defaults["lr"], policy.actor_optim.defaults["lr"]) == (0.25, 0.25)
    assert (policy.gamma, policy.estimation_step) == (0.5, 3)
    assert policy.alpha_optim.defaults["lr"] == 0.125
    assert (policy.alpha.item(), policy.target_entropy) == (0.5, -1.0)
    assert policy_of(name, target_entropy=-3.0).target_entropy == -3.0
    fixed = policy_of(name, auto_alpha=False, alpha=0.75)
    assert (fixed.alpha, fixed.is_auto_alpha) == (0.75, False)


@pytest.mark.parametrize("name", NAMES[:3])
def test_target_networks(policy_of, name):
    assert policy_of(name, tau=0.125).tau == 0.125


@pytest.mark.parametrize("name", NAMES)
def test_discrete_actions_are_refused(tiny, name):
    title = ALGORITHMS[name].title
    with pytest.raises(ConfigError, match=f"{title} needs continuous actions, and those of CartPole-v1 are Discrete"):
        train(tiny(name, env="CartPole-v1"))


def test_redq(policy_of, tiny):
    policy = policy_of("redq", ensemble_size=7, subset_size=3, actor_delay=5, target_mode="mean")
    assert (policy.ensemble_size, policy.subset_size, policy.actor_delay) == (7, 3, 5)
    assert policy.target_mode == "mean"
    assert shapes(policy.critic) == [(7, 4, 8), (7, 8, 1)]
    with pytest.raises(ValueError, match="--subset-size 11 must be at most --ensemble-size 10"):
        tiny("redq", subset_size=11)


def test_tqc(policy_of, tiny):
    policy = policy_of("tqc", ensemble_size=3, num_quantiles=7, top_quantiles_to_drop_per_net=4)
    assert shapes(policy.critic) == [(3, 4, 8), (3, 8, 7)]
    assert policy.top_quantiles_to_drop_per_net == 4
    with pytest.raises(ValueError, match="--top-quantiles-to-drop-per-net 25 must be less than --num-quantiles 25"):
        tiny("tqc", top_quantiles_to_drop_per_net=25)


def test_droq(policy_of):
    policy = policy_of("droq", ensemble_size=3, dropout=0.25, actor_delay=5)
    assert policy.actor_delay == 5
    hidden = policy.critic.preprocess.model.model
    assert [type(layer) for layer in [*hidden[0], hidden[1]]] == [
        EnsembleLinear,
        nn.Dropout,
        EnsembleLayerNorm,
        nn.ReLU,
    ]
    assert [layer.p for layer in layers(policy.critic, nn.Dropout)] == [0.25]
    assert shapes(policy.critic) == [(3, 4, 8), (3, 8, 1)]
    assert shapes(policy.critic, EnsembleLayerNorm) == [(3, 1, 8)]


def test_crossq(policy_of):
    policy = policy_of(
        "crossq", ensemble_size=3, critic_hidden_sizes=(6, 5), policy_delay=5, momentum=0.5, warmup_steps=9
    )
    assert policy.policy_delay == 5
    assert shapes(policy.critic) == [(3, 4, 6), (3, 6, 5), (3, 5, 1)]
    assert shapes(policy.critic, BatchRenorm) == [(3, 1, 4), (3, 1, 6), (3, 1, 5)]
    assert shapes(policy.actor, BatchRenorm) == [(3,)]
    norms = [*layers(policy.critic, BatchRenorm), *layers(policy.actor, BatchRenorm)]
    assert {(norm.momentum, norm.warmup_steps) for norm in norms} == {(0.5, 9)}
    assert policy.critic_optim.defaults["betas"] == policy.actor_optim.defaults["betas"] == (0.5, 0.999)
