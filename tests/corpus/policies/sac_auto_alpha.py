"""SAC with a learned temperature as a triple, two critics, and the statistics of its updates."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import SACPolicy
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ActorProb, Critic

torch.manual_seed(0)
space = gym.spaces.Box(-1, 1, (2,))
actor = ActorProb(Net((3,), hidden_sizes=[8], device="cpu"), (2,), device="cpu", unbounded=True, conditioned_sigma=True)
critics = [Critic(Net((3,), (2,), hidden_sizes=[8], concat=True, device="cpu"), device="cpu") for _ in range(2)]
target_entropy = -float(np.prod(space.shape))
log_alpha = torch.zeros(1, requires_grad=True, device="cpu")
alpha_optim = torch.optim.Adam([log_alpha], lr=1e-2)
policy = SACPolicy(
    actor=actor,
    actor_optim=torch.optim.Adam(actor.parameters(), lr=1e-3),
    critic=critics[0],
    critic_optim=torch.optim.Adam(critics[0].parameters(), lr=1e-3),
    critic2=critics[1],
    critic2_optim=torch.optim.Adam(critics[1].parameters(), lr=1e-3),
    tau=0.01,
    gamma=0.9,
    alpha=(target_entropy, log_alpha, alpha_optim),
    estimation_step=2,
    action_space=space,
)
rng = np.random.default_rng(0)
buffer = ReplayBuffer(50)
for t in range(50):
    buffer.add(
        Batch(
            obs=rng.normal(size=3).astype(np.float32),
            act=rng.uniform(-1, 1, 2).astype(np.float32),
            rew=1.0,
            terminated=t % 10 == 9,
            truncated=False,
            obs_next=rng.normal(size=3).astype(np.float32),
            info={},
        )
    )
stats = [policy.update(32, buffer) for _ in range(5)]
last = stats[-1]
policy.eval()
a = policy(Batch(obs=np.zeros((2, 3), np.float32), info={}))
b = policy(Batch(obs=np.zeros((2, 3), np.float32), info={}))
print(
    json.dumps(
        {
            "names": sorted(vars(last))[:0] + sorted(last.get_loss_stats_dict()),
            "alpha": 0.9 < float(last.alpha) < 1.1,
            "moved": log_alpha.item() != 0.0,
            "finite": bool(np.isfinite([last.actor_loss, last.critic1_loss, last.critic2_loss, last.alpha_loss]).all()),
            "same": bool(torch.equal(a.act, b.act)),
            "shape": list(a.act.shape),
            "lagged": any(not torch.equal(p, q) for p, q in zip(policy.critic.parameters(), policy.critic_old.parameters())),
        }
    )
)
