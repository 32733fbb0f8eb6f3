"""Small policies of several algorithms, for tests of trainers."""

import gymnasium as gym
import numpy as np
import torch

from rlfast.policy import DDPGPolicy, DQNPolicy, ICMPolicy, PPOPolicy, SACPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor as RealActor
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as RealCritic
from rlfast.utils.net.discrete import Actor, Critic, IntrinsicCuriosityModule
from rlfast.utils.optim import adam

SPACE = gym.spaces.Discrete(2)
BOX = gym.spaces.Box(-1, 1, (1,), np.float32)


def dqn(width=4, model=None, lr=1e-3, **options):
    model = Net(width, 2, [8]) if model is None else model
    return DQNPolicy(model=model, optim=adam(lr), action_space=SPACE, **options)


def ppo(width=4):
    return PPOPolicy(
        actor=Actor(Net(width, hidden_sizes=[8]), 2, softmax_output=False),
        critic=Critic(Net(width, hidden_sizes=[8])),
        optim=adam(1e-3),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=SPACE,
        action_scaling=False,
    )


def curious(policy, width=4):
    model = IntrinsicCuriosityModule(torch.nn.Linear(width, 8), 8, 2)
    scales = {"lr_scale": 1.0, "reward_scale": 0.1, "forward_loss_weight": 0.2}
    optim = torch.optim.Adam(model.parameters())
    return ICMPolicy(policy=policy, model=model, optim=optim, action_space=SPACE, **scales)


def sac(width, space=BOX, **options):
    actor = ActorProb(Net(width, hidden_sizes=[8]), (1,), unbounded=True, conditioned_sigma=True)
    critic = RealCritic(Net(width, (1,), [8], concat=True))
    optims = {"actor_optim": adam(1e-3), "critic_optim": adam(1e-3)}
    return SACPolicy(actor=actor, critic=critic, action_space=space, **optims, **options)


def ddpg(width, space=BOX):
    actor, critic = RealActor(Net(width, hidden_sizes=[8]), (1,)), RealCritic(Net(width, (1,), [8], concat=True))
    return DDPGPolicy(actor=actor, actor_optim=adam(1e-3), critic=critic, critic_optim=adam(1e-3), action_space=space)
