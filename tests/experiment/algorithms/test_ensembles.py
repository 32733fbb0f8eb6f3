import pytest
import torch
from torch import nn

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import ConfigError, train
from rlfast.utils.net.common import SimbaNet
from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLayerNorm, EnsembleLinear, UnitLinear


@pytest.fixture
def policy_of(parts_of):
    return lambda name, **changes: parts_of(name, **changes).policy


def layers(network, kind):
    return [layer for layer in network.modules() if isinstance(layer, kind)]


def shapes(network, kind=EnsembleLinear):
    return [tuple(layer.weight.shape) for layer in layers(network, kind)]


@pytest.mark.parametrize("name", ["tqc", "droq", "crossq", "xqc"])
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


def test_xqc(policy_of, short):
    policy = policy_of("xqc", ensemble_size=3, critic_hidden_sizes=(6, 5), num_atoms=7, v_max=2.0, momentum=0.5)
    assert shapes(policy.critic, UnitLinear) == [(3, 4, 6), (3, 6, 5), (3, 5, 7)]
    assert shapes(policy.critic) == []
    assert shapes(policy.critic, BatchRenorm) == [(3, 1, 4), (3, 1, 6), (3, 1, 5)]
    assert shapes(policy.actor, UnitLinear) == [(3, 8)]
    assert shapes(policy.actor, BatchRenorm) == [(3,), (8,)]
    kinds = [type(one) for one in policy.critic.modules() if not [*one.children()]]
    assert kinds == [BatchRenorm, *[UnitLinear, BatchRenorm, nn.ReLU] * 2, UnitLinear]  # of the released code
    assert [layer.bias_weights is None for layer in layers(policy.critic, UnitLinear)] == [True, True, False]
    assert {norm.momentum for norm in layers(policy.critic, BatchRenorm)} == {0.5}
    assert policy.support[[0, -1]].tolist() == [-2.0, 2.0]


@pytest.mark.parametrize("name", ["droq", "crossq", "xqc"])
def test_networks_with_layers_of_their_own_have_no_other(short, name):
    assert ALGORITHMS[name].config.network == "mlp"
    with pytest.raises(TypeError, match="network"):
        short(name, network="simba")


@pytest.mark.parametrize(("name", "norms"), [("sac", 5), ("td3", 6), ("ddpg", 4), ("tqc", 3), ("redq", 3)])
def test_simba(policy_of, name, norms):
    sizes = {"hidden_sizes": (8,), "critic_hidden_sizes": (6, 6)}
    policy = policy_of(name, network="simba", **sizes)
    actor, critic = policy.actor.preprocess, policy.critic.preprocess
    assert (type(actor), type(critic)) == (SimbaNet, SimbaNet)
    assert [(net.output_dim, len(net.blocks)) for net in (actor, critic)] == [(8, 1), (6, 2)]
    assert critic.norm.mean.shape == (3,)  # not of the action
    decays = {optim.defaults["weight_decay"] for optim in (policy.actor_optim, policy.critic_optim)}
    assert decays == {0.01}
    assert type(policy.critic_optim) is torch.optim.AdamW
    assert policy_of(name, network="simba", weight_decay=0.5, **sizes).critic_optim.defaults["weight_decay"] == 0.5
    assert policy_of(name, network="simba", weight_decay=0.0, **sizes).critic_optim.defaults["weight_decay"] == 0.0
    assert len(policy._norms) == norms  # target networks have their own


def test_sizes_of_critics(policy_of):
    policy = policy_of("sac", hidden_sizes=(8,), critic_hidden_sizes=(6, 5))
    assert [len(layer.weight) for layer in layers(policy.actor.preprocess, nn.Linear)] == [8]
    assert [len(layer.weight) for layer in layers(policy.critic2, nn.Linear)] == [6, 5, 1]
    assert type(policy.critic_optim) is torch.optim.Adam
    discrete = policy_of("discrete-sac", hidden_sizes=(8,), critic_hidden_sizes=(6, 5))
    assert [len(layer.weight) for layer in layers(discrete.critic, nn.Linear)] == [6, 5, 2]
    assert [len(layer.weight) for layer in layers(discrete.actor, nn.Linear)] == [8, 2]


def test_simba_for_discrete_actions(policy_of):
    policy = policy_of("discrete-sac", network="simba", hidden_sizes=(8,), critic_hidden_sizes=(6, 6))
    assert [type(net.preprocess) for net in (policy.actor, policy.critic)] == [SimbaNet, SimbaNet]
    assert policy.critic.preprocess.output_dim == 6


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hidden_sizes": (8, 6)}, r"--hidden-sizes must be one width, .* got \[8, 6\]"),
        ({"hidden_sizes": ()}, r"--hidden-sizes must be one width, .* got \[\]"),
        ({"critic_hidden_sizes": (8, 6)}, r"--critic-hidden-sizes must be one width"),
        ({"recurrent": True}, "--network simba and --recurrent exclude each other"),
    ],
)
def test_simba_refuses(short, changes, match):
    with pytest.raises(ValueError, match=match):
        short("sac", network="simba", **changes)


def test_simba_needs_vectors(short):
    config = short("discrete-sac", network="simba", env="Catch-v0", hidden_sizes=(8,))
    with pytest.raises(ConfigError, match="needs observations that are vectors"):
        train(config)
