"""DQN, as a script in CleanRL's style: one file, one environment loop, one buffer."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn, optim

SEED, STEPS, STARTS, BATCH, GAMMA = 1, 260, 60, 32, 0.99


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(np.array(env.single_observation_space.shape).prod(), 32),
            nn.ReLU(),
            nn.Linear(32, env.single_action_space.n),
        )

    def forward(self, x):
        return self.network(x)


if __name__ == "__main__":
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch.device("cpu")
    same_step = gym.vector.AutoresetMode.SAME_STEP
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1", max_episode_steps=15)], autoreset_mode=same_step)
    envs.single_action_space.seed(SEED)
    q_network, target_network = QNetwork(envs), QNetwork(envs)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = optim.Adam(q_network.parameters(), lr=1e-3)
    rb = ReplayBuffer(
        200, envs.single_observation_space, envs.single_action_space, device, handle_timeout_termination=False
    )
    obs, _ = envs.reset(seed=SEED)
    for global_step in range(STEPS):
        if np.random.rand() < max(0.05, 1 - global_step / 200):
            actions = np.array([envs.single_action_space.sample() for _ in range(envs.num_envs)])
        else:
            actions = torch.argmax(q_network(torch.Tensor(obs)), dim=1).numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        real_next_obs = next_obs.copy()
        for idx, trunc in enumerate(truncations):
            if trunc:
                real_next_obs[idx] = infos["final_obs"][idx]
        rb.add(obs, real_next_obs, actions, rewards, terminations, infos)
        obs = next_obs
        if global_step > STARTS:
            data = rb.sample(BATCH)
            with torch.no_grad():
                target_max, _ = target_network(data.next_observations).max(dim=1)
                td_target = data.rewards.flatten() + GAMMA * target_max * (1 - data.dones.flatten())
            old_val = q_network(data.observations).gather(1, data.actions).squeeze()
            loss = F.mse_loss(td_target, old_val)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if global_step % 50 == 0:
                target_network.load_state_dict(q_network.state_dict())
    learned = q_network.state_dict()
