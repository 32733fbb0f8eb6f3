"""PPO on a Discrete space with probabilities, on a network that both heads share."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, VectorReplayBuffer
from tianshou.policy import PPOPolicy
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.discrete import Actor, Critic

net = Net(4, hidden_sizes=[8], device="cpu")
actor = Actor(net, 3, device="cpu")
critic = Critic(net, device="cpu")
both = ActorCritic(actor, critic)
for i, p in enumerate(both.parameters()):
    with torch.no_grad():
        p.copy_(torch.cos(torch.arange(p.numel(), dtype=torch.float32) * 0.7 + i).reshape(p.shape) / 3)
optim = torch.optim.SGD(both.parameters(), lr=1e-2)
policy = PPOPolicy(
    actor=actor,
    critic=critic,
    optim=optim,
    dist_fn=torch.distributions.Categorical,
    action_space=gym.spaces.Discrete(3),
    action_scaling=False,
    max_batchsize=16,
)
rng = np.random.default_rng(1)
buffer = VectorReplayBuffer(60, 3)
for t in range(20):
    buffer.add(
        Batch(
            obs=rng.normal(size=(3, 4)),
            act=rng.integers(3, size=3),
            rew=np.ones(3),
            terminated=rng.random(3) < 0.2,
            truncated=np.zeros(3, bool),
            obs_next=rng.normal(size=(3, 4)),
            info={},
        )
    )
before = policy(Batch(obs=np.ones((1, 4)), info=Batch()))
stats = policy.update(sample_size=0, buffer=buffer, batch_size=60, repeat=3)
after = policy(Batch(obs=np.ones((1, 4)), info=Batch()))
print(
    json.dumps(
        {
            "before": before.dist.probs.tolist(),
            "after": after.dist.probs.tolist(),
            "logits": after.logits.tolist(),
            "loss": [stats.loss.mean, stats.loss.max, stats.clip_loss.mean, stats.vf_loss.min, stats.ent_loss.mean],
            "names": sorted(stats.get_loss_stats_dict()),
        }
    )
)
