"""PPO, as a script in CleanRL's style: the buffer is tensors, the advantages are a loop."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.distributions.categorical import Categorical

SEED, NUM_ENVS, NUM_STEPS, ITERATIONS, GAMMA, GAE_LAMBDA = 1, 3, 16, 8, 0.99, 0.95


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        inputs = int(np.prod(envs.single_observation_space.shape))
        self.critic = nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, envs.single_action_space.n))

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), self.critic(x)


if __name__ == "__main__":
    torch.manual_seed(SEED)
    envs = gym.vector.SyncVectorEnv(
        [lambda: gym.make("CartPole-v1", max_episode_steps=12)] * NUM_ENVS,
        autoreset_mode=gym.vector.AutoresetMode.SAME_STEP,
    )
    agent = Agent(envs)
    optimizer = optim.Adam(agent.parameters(), lr=1e-3)
    obs = torch.zeros((NUM_STEPS, NUM_ENVS, *envs.single_observation_space.shape))
    actions = torch.zeros((NUM_STEPS, NUM_ENVS))
    logprobs, rewards, dones, values = (torch.zeros((NUM_STEPS, NUM_ENVS)) for _ in range(4))
    next_obs = torch.Tensor(envs.reset(seed=SEED)[0])
    next_done = torch.zeros(NUM_ENVS)
    for _ in range(ITERATIONS):
        for step in range(NUM_STEPS):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step], logprobs[step] = action, logprob
            next_obs, reward, terminations, truncations, infos = envs.step(action.numpy())
            rewards[step] = torch.tensor(reward)
            next_obs, next_done = torch.Tensor(next_obs), torch.Tensor(np.logical_or(terminations, truncations))
        with torch.no_grad():
            next_value = agent.critic(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0
        for t in reversed(range(NUM_STEPS)):
            if t == NUM_STEPS - 1:
                nextnonterminal = 1.0 - next_done
                nextvalues = next_value
            else:
                nextnonterminal = 1.0 - dones[t + 1]
                nextvalues = values[t + 1]
            delta = rewards[t] + GAMMA * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + GAMMA * GAE_LAMBDA * nextnonterminal * lastgaelam
        returns = advantages + values
        _, newlogprob, newvalue = agent.get_action_and_value(obs.flatten(0, 1), actions.flatten())
        ratio = (newlogprob - logprobs.flatten()).exp()
        policy_loss = -(advantages.flatten() * ratio.clamp(0.8, 1.2)).mean()
        value_loss = 0.5 * ((newvalue.view(-1) - returns.flatten()) ** 2).mean()
        optimizer.zero_grad()
        (policy_loss + 0.5 * value_loss).backward()
        optimizer.step()
    learned = agent.state_dict()
