"""TD3, as a script in CleanRL's style."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn, optim

SEED, STEPS, STARTS, BATCH, GAMMA, TAU = 1, 160, 60, 32, 0.99, 0.005


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.fc1 = nn.Linear(env.single_observation_space.shape[0] + env.single_action_space.shape[0], 32)
        self.fc2 = nn.Linear(32, 1)

    def forward(self, x, a):
        return self.fc2(F.relu(self.fc1(torch.cat([x, a], 1))))


class Actor(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.fc1 = nn.Linear(env.single_observation_space.shape[0], 32)
        self.fc_mu = nn.Linear(32, env.single_action_space.shape[0])
        self.scale = float(env.single_action_space.high[0])

    def forward(self, x):
        return torch.tanh(self.fc_mu(F.relu(self.fc1(x)))) * self.scale


if __name__ == "__main__":
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch.device("cpu")
    same_step = gym.vector.AutoresetMode.SAME_STEP
    num_envs = 2
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make("Pendulum-v1", max_episode_steps=25)] * num_envs, autoreset_mode=same_step
    )
    envs.single_action_space.seed(SEED)
    actor, qf1, qf2 = Actor(envs), QNetwork(envs), QNetwork(envs)
    target_actor, qf1_target, qf2_target = Actor(envs), QNetwork(envs), QNetwork(envs)
    pairs = [(actor, target_actor), (qf1, qf1_target), (qf2, qf2_target)]
    for network, target in pairs:
        target.load_state_dict(network.state_dict())
    q_optimizer = optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=1e-3)
    actor_optimizer = optim.Adam(actor.parameters(), lr=1e-3)
    envs.single_observation_space.dtype = np.float32
    rb = ReplayBuffer(
        200,
        envs.single_observation_space,
        envs.single_action_space,
        device,
        n_envs=num_envs,
        handle_timeout_termination=False,
    )
    obs, _ = envs.reset(seed=SEED)
    for global_step in range(STEPS):
        if global_step < STARTS:
            actions = np.array([envs.single_action_space.sample() for _ in range(envs.num_envs)])
        else:
            with torch.no_grad():
                actions = actor(torch.Tensor(obs))
                actions += torch.normal(0, torch.full_like(actions, actor.scale * 0.1))
                actions = actions.numpy().clip(envs.single_action_space.low, envs.single_action_space.high)
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
                noise = (torch.randn_like(data.actions) * 0.2).clamp(-0.5, 0.5) * target_actor.scale
                next_actions = (target_actor(data.next_observations) + noise).clamp(-actor.scale, actor.scale)
                target_q = torch.min(
                    qf1_target(data.next_observations, next_actions), qf2_target(data.next_observations, next_actions)
                )
                next_q_value = data.rewards.flatten() + (1 - data.dones.flatten()) * GAMMA * target_q.view(-1)
            qf_loss = F.mse_loss(qf1(data.observations, data.actions).view(-1), next_q_value)
            qf_loss = qf_loss + F.mse_loss(qf2(data.observations, data.actions).view(-1), next_q_value)
            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()
            if global_step % 2 == 0:
                actor_loss = -qf1(data.observations, actor(data.observations)).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                for network, target in pairs:
                    for param, target_param in zip(network.parameters(), target.parameters(), strict=True):
                        target_param.data.copy_(TAU * param.data + (1 - TAU) * target_param.data)
    learned = actor.state_dict() | {f"q{key}": value for key, value in qf1.state_dict().items()}
