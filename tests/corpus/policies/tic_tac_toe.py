"""Two agents in a game of turns: whose policy acts on what, and the names of what they learn."""

import json

import gymnasium as gym
import numpy as np
import torch
from pettingzoo.classic import tictactoe_v3
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.policy import DQNPolicy, MultiAgentPolicyManager, RandomPolicy
from tianshou.trainer import OffpolicyTrainer
from tianshou.utils.net.common import Net


class First(RandomPolicy):
    """Takes the first free cell."""

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.argmax(batch.obs.mask, axis=1), state=None)

    def exploration_noise(self, act, batch):
        return act


def make_game():
    return PettingZooEnv(tictactoe_v3.env())


env = make_game()
net = Net(state_shape=env.observation_space["observation"].shape, action_shape=9, hidden_sizes=[16])
with torch.no_grad():
    for parameter in net.parameters():
        parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
learner = DQNPolicy(
    model=net,
    optim=torch.optim.Adam(net.parameters(), lr=1e-3),
    action_space=env.action_space,
    discount_factor=0.9,
    estimation_step=3,
    target_update_freq=320,
)
learner.set_eps(0.0)
policy = MultiAgentPolicyManager(policies=[learner, First(action_space=env.action_space)], env=env)
collector = Collector(policy, DummyVectorEnv([make_game] * 2), VectorReplayBuffer(200, 2), exploration_noise=True)
collector.reset()
result = collector.collect(n_episode=2)
rows = collector.buffer.sample_indices(0)
games = {
    "returns": result.returns.tolist(),
    "lens": result.lens.tolist(),
    "agents": collector.buffer.obs.agent_id[rows].tolist(),
    "acts": collector.buffer.act[rows].tolist(),
    "rewards": collector.buffer.rew[rows].tolist(),
}
collector.reset_env()
before = [parameter.clone() for parameter in net.parameters()]
trainer = OffpolicyTrainer(
    policy=policy,
    train_collector=collector,
    test_collector=Collector(policy, DummyVectorEnv([make_game]), exploration_noise=True),
    max_epoch=1,
    step_per_epoch=40,
    step_per_collect=10,
    episode_per_test=1,
    batch_size=16,
    update_per_step=0.1,
    train_fn=lambda epoch, env_step: policy.policies["player_1"].set_eps(0.1),
    test_fn=lambda epoch, env_step: policy.policies[env.agents[0]].set_eps(0.0),
    test_in_train=False,
    reward_metric=lambda returns: returns[:, 0],
    verbose=False,
    show_progress=False,
)
trainer.reset()
for stats in trainer:
    losses = sorted(stats.training_stat.get_loss_stats_dict())
policy.replace_policy(RandomPolicy(action_space=env.action_space), "player_2")
print(
    json.dumps(
        {
            **games,
            "losses": losses,
            "learned": [bool((old != new).any()) for old, new in zip(before, net.parameters())],
            "kinds": [type(one).__name__ for one in policy.policies.values()],
            "names": [one.agent_id for one in policy.policies.values()],
            "same": policy.policies["player_1"] is learner,
        }
    )
)
