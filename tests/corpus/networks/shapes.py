"""Networks of utils.net: what goes in and what comes out."""

import json

import numpy as np
import torch
from tianshou.utils.net.common import MLP, ActorCritic, Net, Recurrent
from tianshou.utils.net.continuous import Actor, ActorProb, Critic, RecurrentActorProb, RecurrentCritic
from tianshou.utils.net.discrete import Actor as DiscreteActor
from tianshou.utils.net.discrete import Critic as DiscreteCritic

torch.manual_seed(0)
obs = np.ones((5, 3), np.float32)
out = {}
mlp = MLP(3, 2, hidden_sizes=(4, 4), norm_layer=torch.nn.LayerNorm, activation=torch.nn.Tanh)
out["mlp"] = [list(mlp(obs).shape), mlp.output_dim, sum(p.numel() for p in mlp.parameters())]
net = Net((3,), 2, hidden_sizes=[8], softmax=True)
logits, state = net(obs)
out["net"] = [list(logits.shape), state is None, logits.sum(dim=1).tolist(), net.output_dim]
dueling = Net(3, 2, hidden_sizes=[8], num_atoms=4, dueling_param=({"hidden_sizes": [4]}, {"hidden_sizes": [4]}))
out["dueling"] = [list(dueling(obs)[0].shape), sum(p.numel() for p in dueling.parameters())]
actor = Actor(Net(3, hidden_sizes=[8]), (2,), max_action=2.0)
out["actor"] = [list(actor(obs)[0].shape), bool((actor(obs)[0].abs() <= 2).all())]
prob = ActorProb(Net(3, hidden_sizes=[8]), (2,), unbounded=True, conditioned_sigma=True)
(mu, sigma), _ = prob(obs)
out["prob"] = [list(mu.shape), bool((sigma > 0).all())]
fixed = ActorProb(Net(3, hidden_sizes=[8]), (2,))
out["fixed"] = [list(fixed.sigma_param.shape), list(fixed(obs)[0][1].shape)]
critic = Critic(Net(3, 2, hidden_sizes=[8], concat=True))
out["critic"] = [list(critic(obs, np.ones((5, 2), np.float32)).shape), list(Critic(Net(3, hidden_sizes=[8]))(obs).shape)]
heads = [DiscreteActor(Net(3, hidden_sizes=[8]), 4), DiscreteCritic(Net(3, hidden_sizes=[8]))]
out["discrete"] = [list(heads[0](obs)[0].shape), heads[0](obs)[0].sum(dim=1).tolist(), list(heads[1](obs).shape)]
both = ActorCritic(*heads)
out["both"] = len(list(both.parameters())) == sum(len(list(h.parameters())) for h in heads)
memory = Recurrent(1, 3, 2, hidden_layer_size=6)
value, state = memory(np.ones((5, 4, 3), np.float32))
value, again = memory(np.ones((5, 3), np.float32), state)
out["memory"] = [list(value.shape), sorted(state), list(again["hidden"].shape)]
recurrent = RecurrentActorProb(1, (3,), (2,), hidden_layer_size=6)
out["recurrent"] = [list(recurrent(np.ones((5, 4, 3), np.float32))[0][0].shape)]
out["value"] = list(RecurrentCritic(1, (3,), (2,), hidden_layer_size=6)(np.ones((5, 4, 3), np.float32), np.ones((5, 2), np.float32)).shape)
print(json.dumps(out))
