"""Each offline policy for observations of 4 numbers, with 2 continuous or 3 discrete actions."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from continuous import normal_actor, transitions
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.policy import (
    BCQPolicy,
    CQLPolicy,
    DiscreteBCQPolicy,
    DiscreteCQLPolicy,
    DiscreteCRRPolicy,
    ImitationPolicy,
    IQLPolicy,
    ReBRACPolicy,
    TD3BCPolicy,
)
from rlfast.utils.net import discrete
from rlfast.utils.net.common import MLP, Net
from rlfast.utils.net.continuous import VAE, Actor, ActorProb, Critic, Perturbation
from rlfast.utils.optim import adam

BOX = Box(-2.0, 2.0, (2,))


def critic():
    return Critic(Net(4, 2, hidden_sizes=[8], concat=True))


def actor_and_critic(actor):
    return {"actor": actor, "critic": critic()}


def parts_of(name):
    """Give the class of a policy, its networks and its arguments without optimizers."""
    if name == "imitation":
        return ImitationPolicy, {"actor": Actor(Net(4, hidden_sizes=[8]), 2)}, {"action_space": BOX}
    if name == "discrete imitation":
        return ImitationPolicy, {"actor": Net(4, 3, hidden_sizes=[8])}, {"action_space": Discrete(3)}
    if name in ("td3-bc", "rebrac"):
        kind = TD3BCPolicy if name == "td3-bc" else ReBRACPolicy
        return kind, actor_and_critic(Actor(Net(4, hidden_sizes=[8]), 2)), {"action_space": BOX}
    if name == "cql":
        return CQLPolicy, actor_and_critic(normal_actor()), {"action_space": BOX, "num_repeat_actions": 3}
    if name == "iql":
        nets = actor_and_critic(ActorProb(Net(4, hidden_sizes=[8]), 2))
        return IQLPolicy, nets | {"value": discrete.Critic(Net(4, hidden_sizes=[8]))}, {"action_space": BOX}
    if name == "bcq":
        vae = VAE(MLP(6, hidden_sizes=[8]), MLP(4 + 3, 2, [8]), hidden_dim=8, latent_dim=3, max_action=1.0)
        nets = {"actor_perturbation": Perturbation(Net(6, 2, hidden_sizes=[8]), 1.0), "critic": critic(), "vae": vae}
        return BCQPolicy, nets, {"action_space": BOX, "num_sampled_action": 3, "forward_sampled_times": 5}
    space = {"action_space": Discrete(3)}
    if name == "discrete-bcq":
        nets = {one: Net(4, 3, hidden_sizes=[8]) for one in ("model", "imitator")}
        return DiscreteBCQPolicy, nets, space | {"target_update_freq": 2}
    if name == "discrete-cql":
        options = {"num_quantiles": 5, "target_update_freq": 2}
        return DiscreteCQLPolicy, {"model": Net(4, 3, hidden_sizes=[8], num_atoms=5)}, space | options
    nets = {
        "actor": discrete.Actor(Net(4, hidden_sizes=[8]), 3, softmax_output=False),
        "critic": discrete.Critic(Net(4, hidden_sizes=[8]), last_size=3),
    }
    return DiscreteCRRPolicy, nets, space | {"target_update_freq": 2}


CONTINUOUS = ("imitation", "td3-bc", "rebrac", "cql", "iql", "bcq")
DISCRETE = ("discrete imitation", "discrete-bcq", "discrete-cql", "discrete-crr")
ONE_OPTIMIZER = ("imitation", *DISCRETE)


def make_policy(name, seed=0, **options):
    torch.manual_seed(seed)
    kind, networks, given = parts_of(name)
    names = ["optim"] if name in ONE_OPTIMIZER else [f"{network}_optim" for network in networks]
    policy = kind(**networks, **dict.fromkeys(names, adam(1e-3)), **given | options)
    policy.seed(seed)
    return policy


def rows(name, kind=VectorReplayBuffer, **options):
    """Give 100 transitions that the policy can learn from."""
    if name in CONTINUOUS:
        return transitions(kind, **options)
    rng, buffer = np.random.default_rng(0), kind(100, 2, seed=0, **options)
    for t in range(50):
        obs, obs_next = rng.normal(size=(2, 2, 4)).astype(np.float32)
        flags = {"terminated": np.full(2, t % 10 == 9), "truncated": np.full(2, t % 7 == 6)}
        act = rng.integers(3, size=2)
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=2), obs_next=obs_next, info={}, **flags))
    return buffer
