import pytest
from torch import nn

from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLayerNorm, EnsembleLinear


@pytest.fixture
def policy_of(parts_of):
    return lambda name, **changes: parts_of(name, **changes).policy


def layers(network, kind):
    return [layer for layer in network.modules() if isinstance(layer, kind)]


def shapes(network, kind=EnsembleLinear):
    return [tuple(layer.weight.shape) for layer in layers(network, kind)]


@pytest.mark.parametrize("name", ["tqc", "droq", "crossq"])
def test_deviations_depend_on_observations(policy_of, name):
    assert not hasattr(policy_of(name).actor, "sigma_param")


def test_redq(policy_of, short):
    policy = policy_of("redq", ensemble_size=7, subset_size=3, actor_delay=5, target_mode="mean")
    assert (policy.ensemble_size, policy.subset_size, policy.actor_delay) == (7, 3, 5)
    assert policy.target_mode == "mean"
    assert shapes(policy.critic) == [(7, 4, 8), (7, 8, 1)]
    with pytest.raises(ValueError, match="--subset-size 11 must be at most --ensemble-size 10"):
        short("redq", subset_size=11)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_rlpd(policy_of, layer_norm):
    policy = policy_of("rlpd", ensemble_size=7, subset_size=3, backup_entropy=False, layer_norm=layer_norm)
    assert (policy.ensemble_size, policy.subset_size, policy.backup_entropy) == (7, 3, False)
    assert shapes(policy.critic) == [(7, 4, 8), (7, 8, 1)]
    assert shapes(policy.critic, EnsembleLayerNorm) == [(7, 1, 8)] * layer_norm


def test_tqc(policy_of, short):
    policy = policy_of("tqc", ensemble_size=3, num_quantiles=7, top_quantiles_to_drop_per_net=4)
    assert shapes(policy.critic) == [(3, 4, 8), (3, 8, 7)]
    assert policy.top_quantiles_to_drop_per_net == 4
    with pytest.raises(ValueError, match="--top-quantiles-to-drop-per-net 25 must be less than --num-quantiles 25"):
        short("tqc", top_quantiles_to_drop_per_net=25)


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
