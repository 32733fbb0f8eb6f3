"""Arguments that a script gives by mistake, and catches."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, Collector, ReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.exploration import GaussianNoise
from tianshou.policy import (
    A2CPolicy,
    BasePolicy,
    C51Policy,
    DDPGPolicy,
    DiscreteBCQPolicy,
    DQNPolicy,
    IQNPolicy,
    PGPolicy,
    PPOPolicy,
    PSRLPolicy,
    QRDQNPolicy,
)
from tianshou.trainer import OffpolicyTrainer
from tianshou.utils.net.common import MLP, Net
from tianshou.utils.net.continuous import Actor, Critic
from torch import nn

two, box = gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (2,))
net = Net(3, 2, hidden_sizes=[4])
actor = Actor(MLP(3, 4), (2,), preprocess_net_output_dim=4)
critic = Critic(MLP(5, 4), preprocess_net_output_dim=4)


def values(kind, **given):
    return lambda: kind(model=net, optim=torch.optim.Adam(net.parameters()), action_space=two, **given)


def gradient(kind, **given):
    return lambda: kind(
        actor=net,
        optim=torch.optim.Adam(net.parameters()),
        dist_fn=torch.distributions.Categorical,
        action_space=two,
        action_scaling=False,
        **given,
    )


def ddpg(**given):
    optims = [torch.optim.Adam(one.parameters()) for one in (actor, critic)]
    return lambda: DDPGPolicy(actor=actor, actor_optim=optims[0], critic=critic, critic_optim=optims[1], action_space=box, **given)


def bcq(**given):
    optim = torch.optim.Adam(net.parameters())
    return lambda: DiscreteBCQPolicy(model=net, imitator=net, optim=optim, action_space=two, **{"target_update_freq": 8, **given})


def psrl(**given):
    return lambda: PSRLPolicy(
        trans_count_prior=np.ones((2, 2, 2)),
        rew_mean_prior=np.zeros((2, 2)),
        rew_std_prior=np.ones((2, 2)),
        action_space=two,
        **given,
    )


buffer = ReplayBuffer(4)
buffer.add(Batch(obs=[0.0], act=0, rew=1.0, terminated=False, truncated=False, obs_next=[1.0]))
row = buffer[[0]], buffer, np.array([0])


def target(buffer, indices):
    return torch.zeros(len(indices))


class Counter(gym.Env):
    action_space, observation_space = two, gym.spaces.Box(0, 9, (3,))

    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.ones(3, np.float32), 1.0, True, False, {}


def trainer(**given):
    policy = values(DQNPolicy)()
    collectors = [Collector(policy, DummyVectorEnv([Counter])) for _ in range(2)]
    settings = {
        "train_collector": collectors[0],
        "test_collector": collectors[1],
        "max_epoch": 1,
        "step_per_epoch": 2,
        "step_per_collect": 1,
        "episode_per_test": 1,
        "batch_size": 1,
        "verbose": False,
        "show_progress": False,
        **given,
    }
    return lambda: OffpolicyTrainer(policy=policy, **settings).run()


scaled = ddpg(action_scaling=True, action_bound_method=None)()
calls = {
    "discount": values(DQNPolicy, discount_factor=1.5),
    "steps": values(DQNPolicy, estimation_step=0),
    "quantiles": values(QRDQNPolicy, num_quantiles=1),
    "atoms": values(C51Policy, num_atoms=1),
    "range": values(C51Policy, v_min=1.0, v_max=0.0),
    "samples": values(IQNPolicy, sample_size=1),
    "online samples": values(IQNPolicy, online_sample_size=1),
    "tau": ddpg(tau=2.0),
    "gamma": ddpg(gamma=-1.0),
    "bound": ddpg(action_bound_method="tanh"),
    "pg": gradient(PGPolicy, discount_factor=2.0),
    "lambda": gradient(A2CPolicy, critic=net, gae_lambda=2.0),
    "clip": gradient(PPOPolicy, critic=net, dual_clip=0.5),
    "threshold": bcq(unlikely_action_threshold=2.0),
    "frequency": bcq(target_update_freq=0),
    "eps": bcq(eval_eps=1.0),
    "psrl": psrl(discount_factor=2.0),
    "noise": lambda: GaussianNoise(sigma=-1.0),
    "norm": lambda: BasePolicy.compute_nstep_return(*row, target, rew_norm=True),
    "dqn norm": lambda: values(DQNPolicy, reward_normalization=True)().process_fn(*row),
    "no values": lambda: BasePolicy.compute_episodic_return(*row, gae_lambda=0.5),
    "scaled": lambda: scaled.map_action(np.array([[2.0, 0.0]])),
    "layers": lambda: MLP(3, 2, [4, 4], norm_layer=[nn.LayerNorm]),
    "layer options": lambda: MLP(3, 2, [4, 4], norm_layer=[nn.LayerNorm] * 2, norm_args=[{}]),
    "activations": lambda: MLP(3, 2, [4, 4], activation=[nn.ReLU]),
    "no test": trainer(episode_per_test=None),
    "no training": trainer(train_collector=None),
    "two ways to save": trainer(save_fn=print, save_best_fn=print),
    "good": trainer(),
}


def refused(function):
    try:
        function()
    except AssertionError:
        return True
    return False


print(json.dumps({name: refused(function) for name, function in calls.items()}))
