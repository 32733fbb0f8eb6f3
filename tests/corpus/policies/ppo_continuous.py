"""PPO on a Box: Independent normals made from logits, the usual initialization, one whole update."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, VectorReplayBuffer
from tianshou.policy import PPOPolicy
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.continuous import ActorProb, Critic
from torch.distributions import Independent, Normal

net_a = Net((3,), hidden_sizes=[8, 8], activation=torch.nn.Tanh, device="cpu")
actor = ActorProb(net_a, (2,), unbounded=True, device="cpu")
net_c = Net((3,), hidden_sizes=[8, 8], activation=torch.nn.Tanh, device="cpu")
critic = Critic(net_c, device="cpu")
torch.nn.init.constant_(actor.sigma_param, -0.5)
actor_critic = ActorCritic(actor, critic)
for i, p in enumerate(actor_critic.parameters()):
    with torch.no_grad():
        p.copy_(torch.cos(torch.arange(p.numel(), dtype=torch.float32) * 0.7 + i).reshape(p.shape) / 3)
optim = torch.optim.Adam(actor_critic.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optim, lr_lambda=lambda epoch: 1 - epoch / 10)


def dist(*logits):
    return Independent(Normal(*logits), 1)


policy = PPOPolicy(
    actor=actor,
    critic=critic,
    optim=optim,
    dist_fn=dist,
    action_space=gym.spaces.Box(-2, 2, (2,)),
    eps_clip=0.2,
    value_clip=True,
    dual_clip=3.0,
    advantage_normalization=True,
    recompute_advantage=True,
    vf_coef=0.25,
    ent_coef=0.01,
    max_grad_norm=0.5,
    gae_lambda=0.9,
    discount_factor=0.95,
    reward_normalization=True,
    action_scaling=True,
    action_bound_method="clip",
    lr_scheduler=scheduler,
    deterministic_eval=True,
)
rng = np.random.default_rng(1)
buffer = VectorReplayBuffer(40, 2)
for t in range(20):
    buffer.add(
        Batch(
            obs=rng.normal(size=(2, 3)).astype(np.float32),
            act=rng.normal(size=(2, 2)).astype(np.float32),
            rew=rng.normal(size=2),
            terminated=np.array([t % 7 == 6, False]),
            truncated=np.array([False, t % 8 == 7]),
            obs_next=rng.normal(size=(2, 3)).astype(np.float32),
            info={},
        )
    )
policy.train()
stats = policy.update(0, buffer, batch_size=40, repeat=2)
policy.eval()
result = policy(Batch(obs=rng.normal(size=(2, 3)).astype(np.float32), info={}))
print(
    json.dumps(
        {
            "loss": stats.loss.mean,
            "clip": stats.clip_loss.mean,
            "vf": stats.vf_loss.mean,
            "ent": stats.ent_loss.mean,
            "weights": torch.cat([p.flatten() for p in actor_critic.parameters()]).tolist(),
            "lr": optim.param_groups[0]["lr"],
            "act": result.act.tolist(),
            "mapped": policy.map_action(np.array([[0.5, -3.0]])).tolist(),
        }
    )
)
