"""Actors and critics on one network, discrete and continuous."""

import json

import numpy as np
import torch
from tianshou.utils.net import continuous, discrete
from tianshou.utils.net.common import MLP, ActorCritic, Net, get_dict_state_decorator


def fixed(net):
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.cos(torch.arange(p.numel(), dtype=torch.float32) * 0.4 + i).reshape(p.shape) / 4)
    return net


obs = np.linspace(-1, 1, 8).reshape(2, 4)
trunk = Net((4,), hidden_sizes=[6])
actor, critic = discrete.Actor(trunk, 3), discrete.Critic(trunk, last_size=2)
both = fixed(ActorCritic(actor, critic))
logits = discrete.Actor(trunk, 3, softmax_output=False)
fixed(logits)
mean = fixed(continuous.Actor(Net((4,), hidden_sizes=[6]), (2,), max_action=3.0))
prob = fixed(continuous.ActorProb(Net((4,), hidden_sizes=[6]), (2,), conditioned_sigma=True))
free = fixed(continuous.ActorProb(Net((4,), hidden_sizes=[6]), (2,), unbounded=True))
value = fixed(continuous.Critic(Net((4,), (2,), hidden_sizes=[6], concat=True)))
decorate, size = get_dict_state_decorator({"a": (2,), "b": [2]}, ["b", "a"])
decorated = fixed(decorate(Net)(size, 2))
plain = fixed(Net(size, 2))
print(
    json.dumps(
        {
            "actor": actor(obs)[0].tolist(),
            "critic": critic(obs).tolist(),
            "shared": len(list(both.parameters())),
            "logits": logits(obs)[0].tolist(),
            "mean": mean(obs)[0].tolist(),
            "prob": [x.tolist() for x in prob(obs)[0]],
            "free": [x.tolist() for x in free(obs)[0]],
            "value": value(obs, np.ones((2, 2))).tolist(),
            "dict": decorated({"a": obs[:, :2], "b": obs[:, 2:]})[0].tolist(),
            "flat": plain(np.concatenate([obs[:, 2:], obs[:, :2]], 1))[0].tolist(),
            "mlp": fixed(MLP(4, 2, [3, 3], norm_layer=torch.nn.LayerNorm, activation=torch.nn.Tanh))(obs).tolist(),
            "dims": [trunk.output_dim, actor.get_output_dim(), MLP(4, hidden_sizes=[7]).output_dim],
        }
    )
)
