"""rlfast."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from bench.museum.adapters.tianshou_names import Buffer, Shared, publish
from bench.museum.operations.rows import Row
from bench.museum.operations.scripted import Counter
from rlfast import data, env
from rlfast.data.buffer import Sequence
from rlfast.functional import DiagonalNormal, SquashedNormal
from rlfast.policy import BasePolicy, MultiAgentPolicyManager, PPOPolicy, RandomPolicy, TRPOPolicy
from rlfast.utils import RunningMeanStd
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb, Critic

TENSOR_INDICES = True
COMPILED = True  # its engine raises errors where Python has no frame


def versions() -> dict[str, str]:
    return {
        "rlfast": version("rlfast"),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "gymnasium": gym.__version__,
    }


class Constant(BasePolicy):
    """Always the same action."""

    def __init__(self, environment: Any, value: float) -> None:
        space = environment.action_space
        super().__init__(action_space=space, action_scaling=isinstance(space, gym.spaces.Box))
        self.value = value

    def forward(self, batch: Any, state: Any = None, **kwargs: Any) -> Any:
        if isinstance(self.action_space, gym.spaces.Box):
            return data.Batch(act=np.full((len(batch.obs), *self.action_space.shape), self.value, np.float32))
        return data.Batch(act=np.full(len(batch.obs), int(self.value)))

    def learn(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class Snapshots(Buffer):
    """Buffers that are saved as snapshots."""

    def save(self, path: Path) -> None:
        self.buffer.save(path)

    def load(self, path: Path) -> Buffer:
        return Snapshots(self.data, type(self.buffer).load(path))


class Windows(Buffer):
    """Buffers of sequences."""

    def sample(self, count: int) -> Any:
        batch, _ = self.buffer.sample(count)
        return [obs[mask] for obs, mask in zip(batch.obs, batch.mask, strict=True)]


def replay(capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True) -> Buffer:
    return Snapshots(data, data.ReplayBuffer(capacity, stack_num=stack))  # what follows is stored once in any case


def prioritized(capacity: int, alpha: float, beta: float) -> Buffer:
    return Snapshots(data, data.PrioritizedReplayBuffer(capacity, alpha=alpha, beta=beta))


def sequences(capacity: int, length: int) -> Buffer:
    return Windows(data, data.ReplayBuffer(capacity, unit=Sequence(length)))


class Normalizer:
    def __init__(self) -> None:
        self.rms = RunningMeanStd()

    def update(self, rows: np.ndarray) -> None:
        self.rms.update(rows)

    def normalize(self, rows: np.ndarray) -> Any:
        return self.rms.norm(rows)

    def moments(self) -> tuple[Any, Any]:
        return self.rms.mean, self.rms.var

    def restored(self) -> Normalizer:
        other = Normalizer()
        other.rms.load_state_dict(self.rms.state_dict())
        return other


def normalizer(size: int) -> Normalizer:
    return Normalizer()


def hostile_file(folder: Path, payload: Any) -> Any:
    buffer = data.ReplayBuffer(2)
    buffer.add(data.Batch(obs=0, act=0, rew=0.0, terminated=False, truncated=False, obs_next=1, info={"x": payload}))
    buffer.save(folder / "buffer", allow_pickle=True)
    return lambda: data.ReplayBuffer.load(folder / "buffer")


MODES = {"same": "same-step", "next": "next-step", "disabled": "disabled", "": None}


def play(makers: list[Any], steps: int, mode: str, workers: bool) -> Any:
    kind = env.SubprocVectorEnv if workers else env.DummyVectorEnv
    return shared.rows_of(kind(makers, autoreset_mode=MODES[mode]), steps)


def statistics(makers: list[Any], steps: int, mode: str) -> Any:
    return shared.collected_statistics(env.DummyVectorEnv(makers, autoreset_mode=MODES[mode]), steps)


def rewards_seen(makers: list[Any], steps: int, mode: str) -> float:
    vector = env.VectorEnvNormReward(env.DummyVectorEnv(makers, autoreset_mode=MODES[mode]))
    shared.rows_of(vector, steps)
    return float(vector.return_rms.count)


def step_after_the_end(makers: list[Any], steps: int) -> Any:
    vector = env.DummyVectorEnv(makers, autoreset_mode="disabled")
    vector.reset()
    for _ in range(steps):
        obs, *_ = vector.step(np.zeros(len(makers), int))
    return obs.ravel().tolist()


def own_starts(tasks: list[str], envs: int) -> dict[str, Any]:
    found = {}
    for id in set(tasks) & set(env.native.ids()):
        vector = env.NativeVectorEnv(id, envs)
        found[id] = np.concatenate([np.reshape(vector.reset()[0], (envs, -1)) for _ in range(3)])
    return found


def limited_cartpole(envs: int, limit: int) -> Any:
    return env.NativeVectorEnv("CartPole-v1", envs, max_episode_steps=limit)


def polyak(target: nn.Module, source: nn.Module, tau: float) -> None:
    BasePolicy.soft_update(target, source, tau)


def normal(mean: float, std: float, kind: Any) -> Any:
    return kind(torch.full((1, 1), float(mean)), torch.full((1, 1), float(std)))


def squashed_log_prob(mean: float, log_std: float, action: float) -> float:
    return normal(mean, np.exp(log_std), SquashedNormal).log_prob(torch.full((1, 1), action)).item()


def gaussian_log_prob(mean: float, std: float, action: float) -> float:
    return normal(mean, std, DiagonalNormal).log_prob(torch.full((1, 1), float(action))).item()


def on_policy(kind: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    actor = ActorProb(Net(1, hidden_sizes=[8]), 1)
    critic = Critic(Net(1, hidden_sizes=[8]))
    parts = [*critic.parameters()] + ([*actor.parameters()] if kind is PPOPolicy else [])
    return kind(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam(parts, lr=1e-3),
        dist_fn=lambda *given: DiagonalNormal(*(given if len(given) > 1 else given[0])),
        action_space=gym.spaces.Box(-1.0, 1.0, (1,), np.float32),
        **options,
    )


def some_rows(steps: int) -> Any:
    buffer, random = data.ReplayBuffer(steps), np.random.default_rng(0)
    for step in range(steps):
        values = {"obs": random.normal(size=1), "act": random.normal(size=1), "obs_next": random.normal(size=1)}
        values = {key: value.astype(np.float32) for key, value in values.items()}
        buffer.add(data.Batch(**values, rew=float(step), terminated=False, truncated=False, info={}))
    return buffer


def ppo_stays_finite(steps: int, batch_size: int) -> bool:
    policy = on_policy(PPOPolicy, advantage_normalization=True)
    policy.update(0, some_rows(steps), batch_size=batch_size, repeat=2)
    return all(bool(torch.isfinite(weight).all()) for weight in policy.parameters())


def trpo_kl(limit: float) -> float:
    stats = on_policy(TRPOPolicy, max_kl=limit).update(0, some_rows(64), batch_size=64, repeat=1)
    return float(stats.kl.mean)


def random_actions_of_a_mode(environment: Any, steps: int, mode: str) -> None:
    vector = env.DummyVectorEnv([lambda: environment], autoreset_mode=MODES[mode])
    policy = RandomPolicy(action_space=environment.action_space)
    data.Collector(policy, vector, data.VectorReplayBuffer(steps, 1)).collect(n_step=steps, random=True)


def mean_return(makers: list[Any], episodes: int) -> float:
    """Collector.evaluate, whose documentation says why it is not ``collect(n_episode)``."""
    collector = data.Collector(Constant(Counter(), 0), env.DummyVectorEnv(makers))
    return float(collector.evaluate(episodes).returns.mean())


def agents_turns(lives: list[int]) -> list[int]:
    game, environment = shared.agents_game(lives)
    game.turns.update(dict.fromkeys(game.turns, 0))
    policies = [RandomPolicy(action_space=gym.spaces.Discrete(2)) for _ in lives]
    policy = MultiAgentPolicyManager(policies=policies, env=environment)
    data.Collector(policy, env.DummyVectorEnv([lambda: environment])).collect(n_episode=1)
    return list(game.turns.values())


shared = Shared(data, env, BasePolicy, Constant, data.Collector)
publish(shared, globals())
