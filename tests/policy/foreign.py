"""Policies as users of Tianshou 1.0 write them, which also run with Tianshou after ``sed s/rlfast/tianshou/``."""

from copy import deepcopy
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal
from torch.optim.lr_scheduler import LambdaLR

from rlfast.data import Batch, SequenceSummaryStats, to_numpy, to_torch, to_torch_as
from rlfast.policy import BasePolicy, DQNPolicy, PPOPolicy, SACPolicy
from rlfast.policy.base import TrainingStats, TrainingStatsWrapper
from rlfast.utils import MultipleLRSchedulers, RunningMeanStd
from rlfast.utils.net.common import ActorCritic, Net
from rlfast.utils.net.continuous import Actor as BoundedActor
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as ActionCritic
from rlfast.utils.net.discrete import Actor, Critic

DISCRETE = gym.spaces.Discrete(2)
BOX = gym.spaces.Box(-2.0, 2.0, (1,))


@dataclass(kw_only=True)
class LossStats(TrainingStats):
    loss: float


def net(size=4, actions=2):
    return Net(state_shape=(size,), action_shape=actions, hidden_sizes=[16])


class Reinforce(BasePolicy):
    """Monte Carlo policy gradient, from the base class up."""

    def __init__(self):
        super().__init__(action_space=DISCRETE)
        self.actor = net()
        self.optim = torch.optim.Adam(self.actor.parameters(), lr=1e-2)
        self.rms = RunningMeanStd()

    def forward(self, batch, state=None, **kwargs):
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        dist = Categorical(logits=logits)
        act = dist.sample() if self.training else logits.argmax(-1)
        return Batch(logits=logits, act=act, state=hidden, dist=dist)

    def process_fn(self, batch, buffer, indices):
        returns, _ = self.compute_episodic_return(batch, buffer, indices, gamma=0.99, gae_lambda=1.0)
        self.rms.update(returns)
        batch.returns = (returns - self.rms.mean) / np.sqrt(self.rms.var + 1e-8)
        return batch

    def learn(self, batch, batch_size, repeat, *args, **kwargs):
        losses = []
        for _ in range(repeat):
            for minibatch in batch.split(batch_size or -1, merge_last=True):
                self.optim.zero_grad()
                result = self(minibatch)
                act = to_torch_as(minibatch.act, result.act)
                returns = to_torch(minibatch.returns, torch.float, result.act.device)
                loss = -(result.dist.log_prob(act) * returns).mean()
                loss.backward()
                self.optim.step()
                losses.append(loss.item())
        assert self.updating
        return ReinforceStats(loss=SequenceSummaryStats.from_sequence(losses))


@dataclass(kw_only=True)
class ReinforceStats(TrainingStats):
    loss: SequenceSummaryStats


class Sarsa(BasePolicy):
    """Expected values under epsilon-greedy, with a target network and a schedule of its own."""

    def __init__(self):
        super().__init__(action_space=DISCRETE, action_bound_method=None)
        self.model = net()
        self.model_old = deepcopy(self.model)
        self.model_old.eval()
        self.optim = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.lr_scheduler = LambdaLR(self.optim, lambda epoch: 0.99**epoch)
        self.gamma, self.n_step, self.steps = 0.9, 2, 0

    def train(self, mode=True):
        self.training = mode
        self.model.train(mode)
        return self

    def forward(self, batch, state=None, model="model", **kwargs):
        logits, hidden = getattr(self, model)(batch.obs, state=state, info=batch.info)
        return Batch(logits=logits, act=to_numpy(logits.max(dim=1)[1]), state=hidden)

    def _target_q(self, buffer, indices):
        following = Batch(obs=buffer[indices].obs_next, info=[None] * len(indices))
        values = self(following, model="model_old").logits
        return 0.9 * values.max(dim=1)[0] + 0.1 * values.mean(dim=1)

    def process_fn(self, batch, buffer, indices):
        return self.compute_nstep_return(batch, buffer, indices, self._target_q, self.gamma, self.n_step)

    def learn(self, batch, *args, **kwargs):
        self.soft_update(self.model_old, self.model, 0.05)
        weight = batch.pop("weight", 1.0)
        q = self(batch).logits
        q = q[np.arange(len(q)), batch.act]
        td = to_torch_as(batch.returns.flatten(), q) - q
        loss = (td.pow(2) * weight).mean()
        batch.weight = td
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        self.steps += 1
        return LossStats(loss=loss.item())

    def exploration_noise(self, act, batch):
        random = np.random.rand(len(act)) < 0.2
        act[random] = np.random.randint(self.action_space.n, size=random.sum())
        return act


class Ddpg(BasePolicy):
    """Two optimizers, two targets, noise of its own, and a schedule for each."""

    def __init__(self):
        super().__init__(action_space=BOX, action_scaling=True, observation_space=None)
        self.actor = BoundedActor(Net(3, hidden_sizes=[16]), 1)
        self.critic = ActionCritic(Net(3, 1, hidden_sizes=[16], concat=True))
        self.actor_old, self.critic_old = deepcopy(self.actor).eval(), deepcopy(self.critic).eval()
        self.optims = [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (self.actor, self.critic)]
        self.lr_scheduler = MultipleLRSchedulers(*(LambdaLR(o, lambda epoch: 1 / (1 + epoch)) for o in self.optims))

    def forward(self, batch, state=None, model="actor", **kwargs):
        act, hidden = getattr(self, model)(batch.obs, state=state, info=batch.info)
        return Batch(act=act, state=hidden)

    def exploration_noise(self, act, batch):
        assert self.action_type == "continuous"
        return act + np.random.normal(0, 0.1, act.shape)

    def _target_q(self, buffer, indices):
        following = Batch(obs=buffer[indices].obs_next, info=[None] * len(indices))
        return self.critic_old(following.obs, self(following, model="actor_old").act)

    def process_fn(self, batch, buffer, indices):
        return self.compute_nstep_return(
            batch=batch, buffer=buffer, indices=indices, target_q_fn=self._target_q, gamma=0.99, n_step=1
        )

    def learn(self, batch, *args, **kwargs):
        td = self.critic(batch.obs, batch.act).flatten() - batch.returns.flatten()
        critic_loss = (td.pow(2) * getattr(batch, "weight", 1.0)).mean()
        batch.weight = td
        self.optims[1].zero_grad()
        critic_loss.backward()
        self.optims[1].step()
        actor_loss = -self.critic(batch.obs, self(batch).act).mean()
        self.optims[0].zero_grad()
        actor_loss.backward()
        self.optims[0].step()
        for old, new in ((self.actor_old, self.actor), (self.critic_old, self.critic)):
            self.soft_update(old, new, 0.005)
        return DdpgStats(actor_loss=actor_loss.item(), critic_loss=critic_loss.item())


@dataclass(kw_only=True)
class DdpgStats(TrainingStats):
    actor_loss: float
    critic_loss: float
    alpha: float | None = None


def dqn_options(model):
    return {
        "model": model,
        "optim": torch.optim.Adam(model.parameters(), lr=1e-3),
        "action_space": DISCRETE,
        "target_update_freq": 10,
    }


class Categorical51(DQNPolicy):
    """Distributional values: another target, other action values and another loss."""

    def __init__(self, atoms=11):
        super().__init__(**dqn_options(Net(4, 2, hidden_sizes=[16], softmax=True, num_atoms=atoms)))
        self.support = nn.Parameter(torch.linspace(-5, 5, atoms), requires_grad=False)

    def compute_q_value(self, logits, mask):
        return super().compute_q_value((logits * self.support).sum(2), mask)

    def _target_q(self, buffer, indices):
        return self.support.repeat(len(indices), 1)

    def learn(self, batch, *args, **kwargs):
        if self._target and self._iter % self.freq == 0:
            self.sync_weight()
        self.optim.zero_grad()
        with torch.no_grad():
            following = self(Batch(obs=batch.obs_next, info=[None] * len(batch)))
            dist = self(Batch(obs=batch.obs_next, info=[None] * len(batch)), model="model_old").logits
            dist = dist[np.arange(len(batch)), following.act, :].unsqueeze(1)
            width = self.support[1] - self.support[0]
            support = batch.returns.clamp(-5, 5).unsqueeze(1)
            spread = (1 - (support - self.support.view(1, -1, 1)).abs() / width).clamp(0, 1)
            target = (spread * dist).sum(-1)
        weight = batch.pop("weight", 1.0)
        chosen = self(batch).logits[np.arange(len(batch)), batch.act, :]
        entropy = -(target * torch.log(chosen + 1e-8)).sum(1)
        loss = (entropy * weight).mean()
        batch.weight = entropy.detach()
        loss.backward()
        self.optim.step()
        self._iter += 1
        return LossStats(loss=loss.item())


class CountingDqn(DQNPolicy):
    """Its own forward and noise, with the learning that is there."""

    def __init__(self):
        super().__init__(**dqn_options(net()), estimation_step=2)
        self.asked = {"acting": 0, "learning": 0}

    def forward(self, batch, state=None, model="model", **kwargs):
        self.asked["learning" if self.updating else "acting"] += 1
        result = super().forward(batch, state, model, **kwargs)
        return Batch(logits=result.logits * 1.0, act=result.act, state=result.state)

    def exploration_noise(self, act, batch):
        return super().exploration_noise(act, batch)


class ShapedPpo(PPOPolicy):
    """Rewards are shaped in process_fn, and learn is wrapped."""

    def __init__(self):
        shared = Net(4, hidden_sizes=[16])
        actor, critic = Actor(shared, 2), Critic(shared)
        optim = torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=1e-3)
        super().__init__(
            actor=actor,
            critic=critic,
            optim=optim,
            dist_fn=torch.distributions.Categorical,
            action_space=DISCRETE,
            action_scaling=False,
            lr_scheduler=LambdaLR(optim, lr_lambda=lambda epoch: 1 - epoch / 100),
        )

    def process_fn(self, batch, buffer, indices):
        batch.rew = batch.rew - 0.01 * np.abs(np.asarray(batch.obs)[:, 0])
        return super().process_fn(batch, buffer, indices)

    def learn(self, batch, batch_size, repeat, *args, **kwargs):
        stats = super().learn(batch, batch_size, repeat, *args, **kwargs)
        stats.loss_of_last_epoch = stats.loss.mean
        return stats


class GaussianPpo(PPOPolicy):
    """A sampled action is squashed by a forward of its own."""

    def __init__(self):
        actor = ActorProb(Net(3, hidden_sizes=[16]), 1, unbounded=True)
        critic = ActionCritic(Net(3, hidden_sizes=[16]))
        super().__init__(
            actor=actor,
            critic=critic,
            optim=torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=1e-3),
            dist_fn=lambda *logits: Independent(Normal(*logits), 1),
            action_space=BOX,
            max_grad_norm=0.5,
            recompute_advantage=True,
        )

    def forward(self, batch, state=None, **kwargs):
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        mean, std = logits
        dist = self.dist_fn(mean, std.clamp(min=0.1))
        return Batch(logits=mean, act=dist.sample(), state=hidden, dist=dist)


class ClippedSac(SACPolicy):
    """Targets are clipped, and statistics are extended."""

    def __init__(self):
        log_alpha = torch.zeros(1, requires_grad=True)
        actor = ActorProb(Net(3, hidden_sizes=[16]), 1, unbounded=True, conditioned_sigma=True)
        critics = [ActionCritic(Net(3, 1, hidden_sizes=[16], concat=True)) for _ in range(2)]
        super().__init__(
            actor=actor,
            actor_optim=torch.optim.Adam(actor.parameters(), lr=1e-3),
            critic=critics[0],
            critic_optim=torch.optim.Adam(critics[0].parameters(), lr=1e-3),
            critic2=critics[1],
            critic2_optim=torch.optim.Adam(critics[1].parameters(), lr=1e-3),
            action_space=BOX,
            alpha=(-1.0, log_alpha, torch.optim.Adam([log_alpha], lr=1e-3)),
        )

    def _target_q(self, buffer, indices):
        return super()._target_q(buffer, indices).clamp(-50, 50)

    def learn(self, batch, *args, **kwargs):
        stats = super().learn(batch, *args, **kwargs)
        stats.alpha = self.alpha.item()
        return stats


class CuriousStats(TrainingStatsWrapper):
    def __init__(self, wrapped_stats, *, curiosity_loss):
        self.curiosity_loss = curiosity_loss
        super().__init__(wrapped_stats)


class Curious(BasePolicy):
    """A policy around a policy, which adds what surprises it to the reward."""

    def __init__(self):
        inner = CountingDqn()
        super().__init__(action_space=inner.action_space, observation_space=inner.observation_space)
        self.policy, self.model = inner, nn.Linear(4, 4)
        self.optim = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def train(self, mode=True):
        self.policy.train(mode)
        self.training = mode
        return self

    def forward(self, batch, state=None, **kwargs):
        return self.policy.forward(batch, state, **kwargs)

    def exploration_noise(self, act, batch):
        return self.policy.exploration_noise(act, batch)

    def set_eps(self, eps):
        self.policy.set_eps(eps)

    def process_fn(self, batch, buffer, indices):
        surprise = (self.model(torch.as_tensor(batch.obs)) - torch.as_tensor(batch.obs_next)).pow(2).mean(1)
        batch.policy = Batch(orig_rew=batch.rew)
        batch.rew = batch.rew + to_numpy(surprise * 0.01)
        return self.policy.process_fn(batch, buffer, indices)

    def post_process_fn(self, batch, buffer, indices):
        self.policy.post_process_fn(batch, buffer, indices)
        batch.rew = batch.policy.orig_rew

    def learn(self, batch, *args, **kwargs):
        stats = self.policy.learn(batch, **kwargs)
        loss = (self.model(torch.as_tensor(batch.obs)) - torch.as_tensor(batch.obs_next)).pow(2).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return CuriousStats(stats, curiosity_loss=loss.item())


class Greedy(BasePolicy):
    """Learns nothing; its statistics are a class of its own with nothing in it."""

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=(np.asarray(batch.obs)[:, 2] > 0).astype(int))

    def learn(self, batch, *args, **kwargs):
        return NoStats()


class NoStats(TrainingStats):
    pass


class OwnPriorities(Sarsa):
    """Tells the buffer its priorities in a way of its own."""

    def post_process_fn(self, batch, buffer, indices):
        if hasattr(buffer, "update_weight"):
            buffer.update_weight(indices, batch.weight.abs() + 0.1)


class OwnPrioritiesOfDqn(DQNPolicy):
    """The same on an algorithm that is there, which leaves its errors as ``batch.weight``."""

    def __init__(self):
        super().__init__(**dqn_options(net()))
        self.errors = []

    def post_process_fn(self, batch, buffer, indices):
        self.errors.append(float(batch.weight.abs().mean()))
        super().post_process_fn(batch, buffer, indices)


OFF_POLICY = (Sarsa, Categorical51, CountingDqn, Curious, OwnPriorities, OwnPrioritiesOfDqn, Ddpg, ClippedSac)
ON_POLICY = (Reinforce, ShapedPpo, GaussianPpo)
OF_PENDULUM = (Ddpg, ClippedSac, GaussianPpo)
