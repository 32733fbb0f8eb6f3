"""Stable-Baselines3."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, HerReplayBuffer
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.distributions import DiagGaussianDistribution, SquashedDiagGaussianDistribution
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.save_util import load_from_pkl, save_to_pkl
from stable_baselines3.common.utils import polyak_update
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize
from torch import nn

from bench.museum.adapters import DoesNotApply
from bench.museum.operations.rows import Row
from bench.museum.operations.scripted import Counter, Shown, Starts


def versions() -> dict[str, str]:
    return {
        "stable-baselines3": version("stable-baselines3"),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "gymnasium": gym.__version__,
    }


def box_of(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype == np.uint8:
        return spaces.Box(0, 255, array.shape, np.uint8)
    if array.dtype == bool:
        raise DoesNotApply("no space of booleans")
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        return spaces.Box(limits.min, limits.max, array.shape, array.dtype)
    return spaces.Box(-np.inf, np.inf, array.shape, array.dtype)


def space_of(obs: Any) -> Any:
    return spaces.Dict({key: box_of(value) for key, value in obs.items()}) if isinstance(obs, dict) else box_of(obs)


class Buffer:
    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def add(self, row: Row) -> None:
        def batched(obs: Any) -> Any:
            return (
                {key: np.asarray(value)[None] for key, value in obs.items()}
                if isinstance(obs, dict)
                else np.asarray(obs)[None]
            )

        done, info = row.terminated or row.truncated, {"TimeLimit.truncated": row.truncated and not row.terminated}
        act, rew = np.array([[np.asarray(row.act)]]), np.array([row.rew])
        self.buffer.add(batched(row.obs), batched(row.obs_next), act, rew, np.array([done]), [info])

    def sample(self, count: int) -> dict[str, Any]:
        batch = self.buffer.sample(count)

        def arrays(obs: Any) -> Any:
            return {key: value.numpy() for key, value in obs.items()} if isinstance(obs, dict) else obs.numpy()

        return {
            "obs": arrays(batch.observations),
            "act": batch.actions.numpy(),
            "rew": batch.rewards.numpy().ravel(),
            "terminal": batch.dones.numpy().ravel(),
            "obs_next": arrays(batch.next_observations),
            "discount": None if batch.discounts is None else batch.discounts.numpy().ravel(),
        }

    def size(self) -> int:
        return int(self.buffer.size())

    def save(self, path: Path) -> None:
        save_to_pkl(path.with_suffix(".pkl"), self.buffer)

    def load(self, path: Path) -> Buffer:
        return Buffer(load_from_pkl(path.with_suffix(".pkl")))


def action_space_of(act: Any) -> Any:
    return spaces.Discrete(2**30) if np.asarray(act).dtype.kind in "iu" else box_of([act])


def replay(capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True) -> Buffer:
    if stack > 1:
        raise DoesNotApply("stacks are made by environments (VecFrameStack)")
    kind = DictReplayBuffer if isinstance(example.obs, dict) else ReplayBuffer
    spaces_ = space_of(example.obs), action_space_of(example.act)
    options = {"optimize_memory_usage": compact, "handle_timeout_termination": time_limits or not compact}
    return Buffer(kind(capacity, *spaces_, device="cpu", **options))


def nstep(capacity: int, rows: list[Row], n_step: int, gamma: float, value: Any, prioritized: bool) -> Any:
    if prioritized:
        raise DoesNotApply("no prioritized replay")
    if np.isnan(value(np.array([row.obs_next[0] for row in rows]))).any():
        raise DoesNotApply("algorithms compute the target")
    buffer = Buffer(
        NStepReplayBuffer(
            capacity, space_of(rows[0].obs), action_space_of(rows[0].act), device="cpu", n_steps=n_step, gamma=gamma
        )
    )
    for row in rows:
        buffer.add(row)
    batch = buffer.sample(64 * capacity)
    target = batch["rew"] + batch["discount"] * (1 - batch["terminal"]) * value(batch["obs_next"].ravel())
    return zip(batch["obs"].ravel(), target, strict=True)


def gae(rew: Any, value: Any, value_next: Any, terminated: Any, truncated: Any, gamma: float, gae_lambda: float) -> Any:
    """What A2C computes for a roll-out in which the critic gives the observation itself."""
    steps, envs = rew.shape
    columns = (rew, value, value_next, terminated, truncated)
    makers = [partial(Shown, *(column[:, env] for column in columns)) for env in range(envs)]
    model = A2C(
        "MlpPolicy",
        DummyVecEnv(makers),
        n_steps=steps,
        gamma=gamma,
        gae_lambda=gae_lambda,
        learning_rate=0.0,
        policy_kwargs={"net_arch": []},
        device="cpu",
    )
    with torch.no_grad():
        model.policy.value_net.weight.fill_(1.0)
        model.policy.value_net.bias.zero_()
    model.learn(steps * envs)
    return model.rollout_buffer.advantages.reshape(envs, steps).T  # learning has put environments one after another


def ppo_stays_finite(steps: int, batch_size: int) -> bool:
    model = PPO("MlpPolicy", DummyVecEnv([Starts]), n_steps=steps, batch_size=batch_size, n_epochs=2, device="cpu")
    model.learn(steps)
    return all(bool(torch.isfinite(weight).all()) for weight in model.policy.parameters())


class Goals(gym.Env):
    """Only its spaces and its reward are asked for."""

    def __init__(self, example: Row, reward: Any) -> None:
        self.observation_space, self.action_space = space_of(example.obs), action_space_of(example.act)
        self.reward = reward

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return self.reward(achieved, desired)


def her(capacity: int, example: Row, reward: Any, episode_length: int) -> Buffer:
    envs = DummyVecEnv([partial(Goals, example, reward)])
    spaces_ = envs.observation_space, envs.action_space
    return Buffer(HerReplayBuffer(capacity, *spaces_, env=envs, device="cpu", n_sampled_goal=8))


def hostile_file(folder: Path, payload: Any) -> Any:
    """What ``load_replay_buffer`` reads is a pickle."""
    save_to_pkl(folder / "buffer.pkl", payload)
    model = DQN("MlpPolicy", DummyVecEnv([Counter]), device="cpu", buffer_size=10)
    return lambda: model.load_replay_buffer(folder / "buffer.pkl")


# -- environments


class Vector:
    def __init__(self, envs: Any) -> None:
        self.envs = envs

    def reset(self, seed: int) -> Any:
        self.envs.seed(seed)
        return self.envs.reset()

    def step(self, actions: np.ndarray) -> Any:
        obs, _, _, self.info = self.envs.step(actions)
        return obs

    def infos(self, key: str) -> list[Any]:
        return [info[key] for info in self.info]


def vector(makers: list[Any], workers: bool) -> Vector:
    return Vector((SubprocVecEnv if workers else DummyVecEnv)(makers))


def own_way(mode: str) -> None:
    if mode not in {"", "same"}:
        raise DoesNotApply("environments are always reset in the step that ends an episode")


def play(makers: list[Any], steps: int, mode: str, workers: bool) -> Any:
    own_way(mode)
    envs = (SubprocVecEnv if workers else DummyVecEnv)(makers)
    obs, rows = envs.reset(), [[] for _ in makers]
    for _ in range(steps):
        after, rew, done, infos = envs.step(np.zeros(len(makers), int))
        for env, info in enumerate(infos):
            last = info["terminal_observation"] if done[env] else after[env]
            cut = bool(info.get("TimeLimit.truncated", False))
            rows[env].append((obs[env], np.array(last), rew[env], bool(done[env]) and not cut, cut))
        obs = after
    return rows


def statistics(makers: list[Any], steps: int, mode: str) -> Any:
    own_way(mode)
    envs = VecMonitor(DummyVecEnv(makers))
    envs.reset()
    found = []
    for _ in range(steps):
        *_, infos = envs.step(np.zeros(len(makers), int))
        found += [(info["episode"]["r"], info["episode"]["l"]) for info in infos if "episode" in info]
    return found


def rewards_seen(makers: list[Any], steps: int, mode: str) -> float:
    own_way(mode)
    envs = VecNormalize(DummyVecEnv(makers))
    envs.reset()
    before = envs.ret_rms.count
    for _ in range(steps):
        envs.step(np.zeros(len(makers), int))
    return float(envs.ret_rms.count - before)


def step_without_reset() -> Any:
    return DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2).step(np.zeros(2, int))[1]


def first_observations(seed: int, envs: int) -> Any:
    vectors = DummyVecEnv([Starts] * envs)
    vectors.seed(seed)
    return [np.array(vectors.reset()), np.array(vectors.reset())]


def wide_step(envs: int) -> Any:
    vectors = DummyVecEnv([Counter] * envs)
    vectors.reset()
    return vectors.step(np.zeros(envs, int))[0]


def random_actions(environment: Any, steps: int) -> None:
    """DQN before it learns."""
    model = DQN(
        "MlpPolicy", DummyVecEnv([lambda: environment]), learning_starts=10 * steps, buffer_size=100, device="cpu"
    )
    model.learn(steps)


class Fixed(nn.Module):
    def __init__(self, value: float, size: int) -> None:
        super().__init__()
        self.value, self.size = value, size

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.full((len(features), self.size), self.value)


def extreme_actions(environment: Any, steps: int) -> None:
    """TD3, whose actor gives -1 or 1."""
    for value in (-1.0, 1.0):
        model = sb3.TD3(
            "MlpPolicy", DummyVecEnv([lambda: environment]), learning_starts=0, buffer_size=100, device="cpu"
        )
        model.policy.actor.mu = Fixed(value, environment.action_space.shape[0])
        evaluate_steps(model, model.get_env(), steps)


def evaluate_steps(model: Any, envs: Any, steps: int) -> None:
    obs = envs.reset()
    for _ in range(steps):
        obs, *_ = envs.step(model.predict(obs, deterministic=True)[0])


def mean_return(makers: list[Any], episodes: int) -> float:
    model = A2C("MlpPolicy", DummyVecEnv([Counter]), device="cpu")
    envs = DummyVecEnv([lambda make=make: Monitor(make()) for make in makers])
    return float(evaluate_policy(model, envs, n_eval_episodes=episodes)[0])


def collected(makers: list[Any], counts: list[int]) -> Any:
    """What DQN stores in several calls of ``learn``."""
    model = DQN("MlpPolicy", DummyVecEnv(makers), learning_starts=10_000, buffer_size=100, train_freq=1, device="cpu")
    for count in counts:
        model.learn(count, reset_num_timesteps=False)
    buffer = model.replay_buffer
    return list(zip(buffer.observations[: buffer.pos], buffer.next_observations[: buffer.pos], strict=True))


# -- learning


class Normalizer:
    """The statistics of observations of VecNormalize."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.envs = VecNormalize(DummyVecEnv([lambda: Wide(size)]), norm_reward=False)

    def update(self, rows: np.ndarray) -> None:
        self.envs.obs_rms.update(rows)

    def normalize(self, rows: np.ndarray) -> Any:
        return self.envs.normalize_obs(rows)

    def moments(self) -> tuple[Any, Any]:
        return self.envs.obs_rms.mean, self.envs.obs_rms.var

    def restored(self) -> Normalizer:
        import tempfile

        other = Normalizer(self.size)
        with tempfile.TemporaryDirectory() as folder:
            self.envs.save(folder + "/statistics.pkl")
            other.envs = VecNormalize.load(folder + "/statistics.pkl", DummyVecEnv([lambda: Wide(self.size)]))
        return other


class Wide(Counter):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)


def normalizer(size: int) -> Normalizer:
    return Normalizer(size)


def frozen(offset: float) -> Any:
    envs = VecNormalize(DummyVecEnv([lambda: Counter(length=2)]), norm_reward=False)
    envs.obs_rms.update(np.random.default_rng(0).normal(offset, 3.0, (1000, 1)))
    envs.training = False
    before = np.array(envs.obs_rms.mean), np.array(envs.obs_rms.var)
    envs.reset()
    envs.step(np.zeros(1, int))
    *_, infos = envs.step(np.zeros(1, int))
    final = float(infos[0]["terminal_observation"][0])
    same = np.array_equal(before[0], envs.obs_rms.mean) and np.array_equal(before[1], envs.obs_rms.var)
    expected = (2 - before[0].item()) / np.sqrt(before[1].item())
    return {"unchanged": bool(same), "final is normalised": bool(np.isclose(final, expected, rtol=1e-3))}


def map_action(space: Any, action: np.ndarray) -> Any:
    """What ``predict`` gives for a policy that squashes its actions."""
    environment = Counter()
    environment.action_space = space
    model = sb3.TD3("MlpPolicy", DummyVecEnv([lambda: environment]), buffer_size=10, device="cpu")
    return model.policy.unscale_action(np.clip(action, -1, 1))  # as its algorithms do: noise is clipped, then scaled


def squashed_log_prob(mean: float, log_std: float, action: float) -> float:
    distribution = SquashedDiagGaussianDistribution(1).proba_distribution(
        torch.tensor([[mean]]), torch.tensor([[log_std]])
    )
    return distribution.log_prob(torch.tensor([[action]])).item()


def gaussian_log_prob(mean: float, std: float, action: float) -> float:
    distribution = DiagGaussianDistribution(1).proba_distribution(torch.tensor([[mean]]), torch.tensor([np.log(std)]))
    return distribution.log_prob(torch.tensor([[action]])).item()


def gaussian_noise(std: float, count: int) -> Any:
    return NormalActionNoise(np.zeros(count), np.full(count, std))()


def polyak(target: nn.Module, source: nn.Module, tau: float) -> None:
    """As its algorithms do, which update the statistics of BatchNorm in a call of their own."""
    from stable_baselines3.common.utils import get_parameters_by_name

    polyak_update(source.parameters(), target.parameters(), tau)
    polyak_update(get_parameters_by_name(source, ["running_"]), get_parameters_by_name(target, ["running_"]), 1.0)
