"""Algorithms that learn from transitions, for observations of 4 numbers, and 2 continuous or 3 discrete actions."""

from functools import partial

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from continuous import ensemble, normal_actor
from rlfast import policy as policies
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.policy import AutoAlpha
from rlfast.utils.net import discrete
from rlfast.utils.net.common import MLP, BranchingNet, EnsembleLinear, Net, SimbaNet
from rlfast.utils.net.continuous import VAE, Actor, ActorProb, Critic, Perturbation, StateDependentNoise
from rlfast.utils.net.discrete import (
    FractionProposalNetwork,
    FullQuantileFunction,
    ImplicitQuantileNetwork,
    NoisyLinear,
)
from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLayerNorm, UnitLinear
from rlfast.utils.optim import adam

BOX, THREE = Box(-2.0, 2.0, (2,)), Discrete(3)


def net(**options):
    return Net(4, 3, hidden_sizes=[8], **options)


def features():
    return Net(4, hidden_sizes=[8])


def critic():
    return Critic(Net(4, 2, hidden_sizes=[8], concat=True))


def actor():
    return Actor(features(), 2)


def noisy_net():
    streams = {"hidden_sizes": [6], "linear_layer": NoisyLinear}
    return net(softmax=True, num_atoms=3, dueling_param=(streams, streams))


def dropout_layer(size, inputs, outputs):
    """Dropout of nothing, as its masks differ between a graph and what it was made of."""
    return nn.Sequential(EnsembleLinear(size, inputs, outputs), nn.Dropout(0.0), EnsembleLayerNorm(size, outputs))


def normalized_layer(size, inputs, outputs):
    return nn.Sequential(BatchRenorm(inputs, size, warmup_steps=3), EnsembleLinear(size, inputs, outputs))


def unit_layer(size, inputs, outputs):
    return nn.Sequential(BatchRenorm(inputs, size, warmup_steps=3), UnitLinear(inputs, outputs, size))


def simba_actor():
    return ActorProb(SimbaNet(4, hidden_sizes=[8]), 2, unbounded=True, conditioned_sigma=True)


def sde_actor():
    return ActorProb(features(), 2, unbounded=True, sde=partial(StateDependentNoise, sample_freq=3), clip_mean=2.0)


def simba_critic():
    return Critic(SimbaNet(4, 2, hidden_sizes=[8, 8], concat=True))


def normalized_actor():
    layers = Net(4, hidden_sizes=[8], linear_layer=lambda i, o: nn.Sequential(BatchRenorm(i), nn.Linear(i, o)))
    return ActorProb(layers, 2, unbounded=True, conditioned_sigma=True)


def categorical_actor():
    return discrete.Actor(features(), 3, softmax_output=False)


def values():
    return discrete.Critic(features(), last_size=3)


def vae():
    return VAE(MLP(6, hidden_sizes=[8]), MLP(4 + 3, 2, [8]), hidden_dim=8, latent_dim=3, max_action=1.0)


def perturbation():
    return Perturbation(Net(6, 2, hidden_sizes=[8]), 1.0)


ATOMS = {"num_atoms": 3, "v_min": 0.0, "v_max": 2.0}
DRAWN = {"num_sampled_action": 3, "forward_sampled_times": 5}
CONTINUOUS = {
    "ddpg": ("DDPGPolicy", {"actor": actor, "critic": critic}, {}),
    "td3": ("TD3Policy", {"actor": actor, "critic": critic}, {}),
    "sac": ("SACPolicy", {"actor": normal_actor, "critic": critic}, {}),
    "redq": (
        "REDQPolicy",
        {"actor": normal_actor, "critic": lambda: ensemble(5)},
        {"ensemble_size": 5, "actor_delay": 2},
    ),
    "tqc": ("TQCPolicy", {"actor": normal_actor, "critic": lambda: ensemble(3, output_dim=5)}, {}),
    "droq": ("DroQPolicy", {"actor": normal_actor, "critic": lambda: ensemble(2, dropout_layer)}, {"actor_delay": 2}),
    "crossq": (
        "CrossQPolicy",
        {"actor": normalized_actor, "critic": lambda: ensemble(2, normalized_layer)},
        {"policy_delay": 2},
    ),
    "xqc": (
        "XQCPolicy",
        {"actor": normalized_actor, "critic": lambda: ensemble(2, unit_layer, output_dim=5)},
        {"policy_delay": 2, "num_atoms": 5},
    ),
    "simba": ("SACPolicy", {"actor": simba_actor, "critic": simba_critic}, {}),
    "sde": ("SACPolicy", {"actor": sde_actor, "critic": critic}, {}),
    "imitation": ("ImitationPolicy", {"actor": actor}, {}),
    "td3-bc": ("TD3BCPolicy", {"actor": actor, "critic": critic}, {}),
    "rebrac": ("ReBRACPolicy", {"actor": actor, "critic": critic}, {}),
    "cql": ("CQLPolicy", {"actor": normal_actor, "critic": critic}, {"num_repeat_actions": 3}),
    "iql": (
        "IQLPolicy",
        {"actor": lambda: ActorProb(features(), 2), "critic": critic, "value": lambda: discrete.Critic(features())},
        {},
    ),
    "bcq": ("BCQPolicy", {"actor_perturbation": perturbation, "critic": critic, "vae": vae}, DRAWN),
}
DISCRETE = {
    "dqn": ("DQNPolicy", {"model": net}, {}),
    "c51": ("C51Policy", {"model": lambda: net(softmax=True, num_atoms=3)}, ATOMS),
    "qrdqn": ("QRDQNPolicy", {"model": lambda: net(num_atoms=2)}, {"num_quantiles": 2}),
    "rainbow": ("RainbowPolicy", {"model": noisy_net}, ATOMS),
    "iqn": ("IQNPolicy", {"model": lambda: ImplicitQuantileNetwork(features(), 3, num_cosines=6)}, {}),
    "fqf": (
        "FQFPolicy",
        {
            "model": lambda: FullQuantileFunction(features(), 3, num_cosines=6),
            "fraction_model": lambda: FractionProposalNetwork(3, 8),
        },
        {"num_fractions": 3},
    ),
    "bdq": (
        "BranchingDQNPolicy",
        {"model": lambda: BranchingNet(4, 2, 3, [8], [6], [5])},
        {"action_space": MultiDiscrete([3, 3])},
    ),
    "discrete-sac": ("DiscreteSACPolicy", {"actor": categorical_actor, "critic": values}, {}),
    "discrete imitation": ("ImitationPolicy", {"actor": net}, {}),
    "discrete-bcq": ("DiscreteBCQPolicy", {"model": net, "imitator": net}, {}),
    "discrete-cql": ("DiscreteCQLPolicy", {"model": lambda: net(num_atoms=5)}, {"num_quantiles": 5}),
    "discrete-crr": ("DiscreteCRRPolicy", {"actor": categorical_actor, "critic": values}, {}),
}
ALL = CONTINUOUS | DISCRETE
IMITATING = ("imitation", "discrete imitation")
LEARNED_TEMPERATURE = ("sac", "redq", "tqc", "droq", "crossq", "xqc", "simba", "sde", "cql", "discrete-sac")
LAGGED = ("dqn", "c51", "qrdqn", "rainbow", "iqn", "fqf", "bdq", "discrete-bcq", "discrete-cql", "discrete-crr")


def optimizers_of(name):
    """Return the names of the optimizers that the policy is given."""
    if name == "fqf":
        return ["optim", "fraction_optim"]
    if name in IMITATING or (name in DISCRETE and name != "discrete-sac"):
        return ["optim"]
    return [f"{network}_optim" for network in ALL[name][1]]


def kind_of(name):
    return getattr(policies, ALL[name][0])


def make_policy(name, seed=0, lr=1e-3, **options):
    """Make a policy; those with target networks that are copied copy them at every second step."""
    torch.manual_seed(seed)
    networks = {one: make() for one, make in ALL[name][1].items() if one not in options}
    given = dict.fromkeys(optimizers_of(name), adam(lr)) | {"action_space": BOX if name in CONTINUOUS else THREE}
    given |= {"target_update_freq": 2} if name in LAGGED else {}
    policy = kind_of(name)(**networks, **given | ALL[name][2] | options)
    policy.seed(seed)
    return policy


def learned_temperature(name):
    return {"alpha": AutoAlpha(-2.0, 0.0, adam(0.1))} if name in LEARNED_TEMPERATURE else {}


def rows(name, kind=VectorReplayBuffer, **options):
    """Give 100 transitions that the policy can learn from, in two rings."""
    rng, buffer = np.random.default_rng(0), kind(100, 2, seed=0, **options)
    for t in range(50):
        obs, obs_next = rng.normal(size=(2, 2, 4)).astype(np.float32)
        flags = {"terminated": np.full(2, t % 10 == 9), "truncated": np.full(2, t % 7 == 6)}
        if name in CONTINUOUS:
            act = rng.uniform(-1, 1, (2, 2)).astype(np.float32)
        else:
            act = rng.integers(3, size=(2, 2) if name == "bdq" else 2)
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=2), obs_next=obs_next, info={}, **flags))
    return buffer
