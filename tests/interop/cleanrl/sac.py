"""SAC with a tuned temperature, as a script in CleanRL's style."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn, optim

SEED, STEPS, STARTS, BATCH, GAMMA, TAU = 1, 140, 60, 32, 0.99, 0.005


class SoftQNetwork(nn.Module):
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
        self.fc_mean = nn.Linear(32, env.single_action_space.shape[0])
        self.fc_logstd = nn.Linear(32, env.single_action_space.shape[0])
        self.scale = float(env.single_action_space.high[0])

    def get_action(self, x):
        x = F.relu(self.fc1(x))
        normal = torch.distributions.Normal(self.fc_mean(x), (2.5 * torch.tanh(self.fc_logstd(x)) - 1.5).exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(self.scale * (1 - y_t.pow(2)) + 1e-6)
        return y_t * self.scale, log_prob.sum(1, keepdim=True)


if __name__ == "__main__":
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch.device("cpu")
    same_step = gym.vector.AutoresetMode.SAME_STEP
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1", max_episode_steps=25)], autoreset_mode=same_step)
    envs.single_action_space.seed(SEED)
    actor = Actor(envs)
    qf1, qf2, qf1_target, qf2_target = (SoftQNetwork(envs) for _ in range(4))
    qf1_target.load_state_dict(qf1.state_dict())
    qf2_target.load_state_dict(qf2.state_dict())
    q_optimizer = optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=1e-3)
    actor_optimizer = optim.Adam(actor.parameters(), lr=1e-3)
    log_alpha = torch.zeros(1, requires_grad=True)
    a_optimizer = optim.Adam([log_alpha], lr=1e-3)
    rb = ReplayBuffer(
        200, envs.single_observation_space, envs.single_action_space, device, n_envs=1, handle_timeout_termination=False
    )
    obs, _ = envs.reset(seed=SEED)
    for global_step in range(STEPS):
        if global_step < STARTS:
            actions = np.array([envs.single_action_space.sample() for _ in range(envs.num_envs)])
        else:
            actions, _ = actor.get_action(torch.Tensor(obs))
            actions = actions.detach().numpy()
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        real_next_obs = next_obs.copy()
        for idx, trunc in enumerate(truncations):
            if trunc:
                real_next_obs[idx] = infos["final_obs"][idx]
        rb.add(obs, real_next_obs, actions, rewards, terminations, infos)
        obs = next_obs
        if global_step > STARTS:
            data = rb.sample(BATCH)
            alpha = log_alpha.exp().item()
            with torch.no_grad():
                next_actions, next_log_pi = actor.get_action(data.next_observations)
                min_q = torch.min(
                    qf1_target(data.next_observations, next_actions), qf2_target(data.next_observations, next_actions)
                )
                target = data.rewards + (1 - data.dones) * GAMMA * (min_q - alpha * next_log_pi)
            qf_loss = F.mse_loss(qf1(data.observations, data.actions), target)
            qf_loss = qf_loss + F.mse_loss(qf2(data.observations, data.actions), target)
            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()
            pi, log_pi = actor.get_action(data.observations)
            actor_loss = (alpha * log_pi - torch.min(qf1(data.observations, pi), qf2(data.observations, pi))).mean()
            actor_optimizer.zero_grad()
            actor_loss.backward()
            actor_optimizer.step()
            alpha_loss = (-log_alpha.exp() * (log_pi.detach() - 1.0)).mean()
            a_optimizer.zero_grad()
            alpha_loss.backward()
            a_optimizer.step()
            for network, target_network in ((qf1, qf1_target), (qf2, qf2_target)):
                for param, target_param in zip(network.parameters(), target_network.parameters(), strict=True):
                    target_param.data.copy_(TAU * param.data + (1 - TAU) * target_param.data)
    learned = actor.state_dict() | {"log_alpha": log_alpha.detach()}
