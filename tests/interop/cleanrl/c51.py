"""Categorical DQN on stacked frames, as a script in CleanRL's style; the buffer saves memory."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn, optim

SEED, STEPS, STARTS, BATCH, GAMMA = 1, 150, 60, 16, 0.99
ATOMS, V_MIN, V_MAX = 11, -5.0, 5.0


class Frames(gym.Env):
    """Stacks of four frames that show where a point moves."""

    observation_space = gym.spaces.Box(0, 255, (4, 18, 18), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def _frame(self):
        frame = np.zeros((18, 18), np.uint8)
        frame[self.place, :] = 255
        return frame

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.age = int(self.np_random.integers(4, 14)), 0
        self.stack = np.stack([self._frame()] * 4)
        return self.stack, {}

    def step(self, action):
        self.place = min(17, max(0, self.place + int(action) - 1))
        self.age += 1
        self.stack = np.concatenate((self.stack[1:], self._frame()[None]))
        return self.stack, float(action == 1), self.place in (0, 17), self.age >= 12, {}


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.n = env.single_action_space.n
        self.register_buffer("atoms", torch.linspace(V_MIN, V_MAX, steps=ATOMS))
        self.network = nn.Sequential(
            nn.Conv2d(4, 8, 6, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(200, self.n * ATOMS)
        )

    def get_action(self, x, action=None):
        pmfs = torch.softmax(self.network(x / 255.0).view(len(x), self.n, ATOMS), dim=2)
        if action is None:
            action = torch.argmax((pmfs * self.atoms).sum(2), 1)
        return action, pmfs[torch.arange(len(x)), action]


if __name__ == "__main__":
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch.device("cpu")
    envs = gym.vector.SyncVectorEnv([Frames], autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    envs.single_action_space.seed(SEED)
    q_network, target_network = QNetwork(envs), QNetwork(envs)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = optim.Adam(q_network.parameters(), lr=1e-3, eps=0.01 / BATCH)
    rb = ReplayBuffer(
        100,
        envs.single_observation_space,
        envs.single_action_space,
        device,
        optimize_memory_usage=True,
        handle_timeout_termination=False,
    )
    obs, _ = envs.reset(seed=SEED)
    for global_step in range(STEPS):
        if np.random.rand() < max(0.1, 1 - global_step / 100):
            actions = np.array([envs.single_action_space.sample() for _ in range(envs.num_envs)])
        else:
            actions, _ = q_network.get_action(torch.Tensor(obs))
            actions = actions.numpy()
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
                _, next_pmfs = target_network.get_action(data.next_observations)
                next_atoms = data.rewards + GAMMA * target_network.atoms * (1 - data.dones)
                delta_z = target_network.atoms[1] - target_network.atoms[0]
                b = (next_atoms.clamp(V_MIN, V_MAX) - V_MIN) / delta_z
                lower, upper = b.floor().clamp(0, ATOMS - 1), b.ceil().clamp(0, ATOMS - 1)
                d_m_l = (upper + (lower == upper).float() - b) * next_pmfs
                d_m_u = (b - lower) * next_pmfs
                target_pmfs = torch.zeros_like(next_pmfs)
                for i in range(len(target_pmfs)):
                    target_pmfs[i].index_add_(0, lower[i].long(), d_m_l[i])
                    target_pmfs[i].index_add_(0, upper[i].long(), d_m_u[i])
            _, old_pmfs = q_network.get_action(data.observations, data.actions.flatten())
            loss = (-(target_pmfs * old_pmfs.clamp(min=1e-5, max=1 - 1e-5).log()).sum(-1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if global_step % 40 == 0:
                target_network.load_state_dict(q_network.state_dict())
    learned = q_network.state_dict()
