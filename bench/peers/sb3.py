"""The driver of Stable-Baselines3, whose samples are torch tensors.

The variant ``rlfast`` is Stable-Baselines3 with rlfast's buffers.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from gymnasium.spaces import Box, Dict, Discrete, Space
from stable_baselines3.common import buffers
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor

from bench.peers import workload

VARIANT = ""
Step = tuple[Any, Any, Any, Any, Any, list[dict[str, Any]]]


def kind(name: str) -> Any:
    """Returns the buffer class with this name, Stable-Baselines3's or rlfast's."""
    if VARIANT:
        from rlfast.interop import sb3

        return getattr(sb3, name)
    return stable_baselines3.HerReplayBuffer if name == "HerReplayBuffer" else getattr(buffers, name)


def versions() -> dict[str, str]:
    return {
        "stable-baselines3": stable_baselines3.__version__,
        "gymnasium": gymnasium.__version__,
        "numpy": np.__version__,
        "torch": torch.__version__,
    }


def spaces(obs_dim: int, act_dim: int, dtype: Any = np.float32) -> tuple[Space[Any], Space[Any]]:
    act: Space[Any] = Box(-1, 1, (act_dim,)) if act_dim else Discrete(2)
    return Box(-np.inf, np.inf, (obs_dim,), dtype), act


def arguments(steps: list[workload.Transition], envs: int) -> list[Step]:
    """Returns the positional arguments of ``add``, with a leading axis of environments, and infos with timeouts."""
    out = []
    for step in steps:
        rows = workload.Transition(*(np.asarray(value)[None] for value in step)) if envs == 1 else step
        infos = [{"TimeLimit.truncated": bool(flag)} for flag in rows.truncated]
        out.append((rows.obs, rows.obs_next, rows.act, rows.rew, rows.terminated | rows.truncated, infos))
    return out


def adding(buffer: ReplayBuffer, steps: list[Step]) -> Any:
    """Adds steps to the buffer, which it fills first, so that all its memory is in RAM."""
    stream = cycle(steps)

    def run(count: int) -> None:
        for step in islice(stream, count):
            buffer.add(*step)

    run(buffer.buffer_size)
    return run


def add_one(obs_dim: int, rows: int) -> dict[str, Any]:
    buffer = kind("ReplayBuffer")(rows, *spaces(obs_dim, 0), device="cpu", n_envs=1)
    return with_infos(adding(buffer, arguments(workload.single_steps(10_000, obs_dim, 0), 1)), None)


def add_vector(envs: int, obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    buffer = kind("ReplayBuffer")(rows, *spaces(obs_dim, act_dim), device="cpu", n_envs=envs)
    return with_infos(adding(buffer, arguments(workload.vector_steps(1000, envs, obs_dim, act_dim), envs)), envs)


def with_infos(add: Any, envs: int | None) -> dict[str, Any]:
    """Returns the same operation for all kinds of infos, of which the buffer stores nothing but timeouts."""
    return {"add": add, **{f"add {name}": add for name in workload.infos(envs)}}


def atari_buffer(rows: int, envs: int) -> ReplayBuffer:
    """Prepares the mode that saves memory, in which only rlfast's buffer tells timeouts from terminal states."""
    obs = Box(0, 255, (workload.STACK, *workload.FRAME), np.uint8)
    saving = {"optimize_memory_usage": True, "handle_timeout_termination": bool(VARIANT)}
    return kind("ReplayBuffer")(rows, obs, Discrete(6), device="cpu", n_envs=envs, **saving)


def add_atari(envs: int, rows: int) -> dict[str, Any]:
    return {"add": adding(atari_buffer(rows, envs), arguments(workload.atari_steps(envs), envs))}


def sample_rows(rows: int, obs_dim: int, act_dim: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = kind("ReplayBuffer")(rows, *spaces(obs_dim, act_dim), device="cpu", n_envs=1)
    if VARIANT:
        for block in workload.chunks(rows, obs_dim, act_dim):
            buffer.extend(
                *zip(*arguments([workload.Transition(*row) for row in zip(*block, strict=True)], 1), strict=True)
            )
        return workload.sampling(buffer.sample, batch_sizes)
    at = 0
    for block in workload.chunks(rows, obs_dim, act_dim):
        part = slice(at, at + len(block.rew))
        buffer.observations[part, 0], buffer.next_observations[part, 0] = block.obs, block.obs_next
        buffer.actions[part, 0] = block.act.reshape(len(block.rew), -1)
        buffer.rewards[part, 0], buffer.dones[part, 0] = block.rew, block.terminated | block.truncated
        buffer.timeouts[part, 0] = block.truncated
        at = part.stop
    buffer.full = True
    return workload.sampling(buffer.sample, batch_sizes)


def sample_atari(rows: int, envs: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = atari_buffer(rows, envs)
    adding(buffer, arguments(workload.atari_steps(envs), envs))
    return workload.sampling(buffer.sample, batch_sizes)


def nstep(rows: int, envs: int, n_step: int, batch_size: int) -> dict[str, Any]:
    buffer = kind("NStepReplayBuffer")(rows, *spaces(4, 0), device="cpu", n_envs=envs, n_steps=n_step, gamma=0.99)
    adding(buffer, arguments(workload.vector_steps(1000, envs, 4, 0), envs))
    target_q = torch.rand(batch_size, 1)

    def with_sample(count: int) -> None:
        for _ in range(count):
            batch = buffer.sample(batch_size)
            batch.rewards + (1 - batch.dones) * batch.discounts * target_q

    return {"sample+nstep": with_sample}


class Judge:
    """The part of a vector environment that a hindsight buffer uses."""

    def env_method(self, _name: str, achieved: Any, desired: Any, _infos: Any, indices: Any) -> list[Any]:
        return [-(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32) for _ in indices]


def hindsight(rows: int, batch_size: int) -> dict[str, Any]:
    """Prepares observations of 10 numbers, goals of 3, and episodes of 50 steps, as in Fetch environments."""
    shapes = {"observation": 10, "achieved_goal": 3, "desired_goal": 3}
    space = Dict({key: Box(-np.inf, np.inf, (n,)) for key, n in shapes.items()})
    buffer = kind("HerReplayBuffer")(rows, space, Box(-1, 1, (4,)), Judge(), device="cpu")
    rng = np.random.default_rng(0)
    obs, action, reward = space.sample(), np.zeros((1, 4), np.float32), np.zeros(1)
    obs = {key: value[None] for key, value in obs.items()}
    for i in range(rows):
        next_obs = {key: rng.random((1, n), dtype=np.float32) for key, n in shapes.items()}
        buffer.add(obs, next_obs, action, reward, np.array([i % 50 == 49]), [{"TimeLimit.truncated": i % 50 == 49}])
        obs = next_obs
    return workload.sampling(buffer.sample, [batch_size])


def gae(steps: int, envs: int) -> dict[str, Any]:
    data = workload.returns_data(steps, envs)
    buffer = kind("RolloutBuffer")(steps, *spaces(4, 0), device="cpu", gamma=0.99, gae_lambda=0.95, n_envs=envs)
    end = data["terminated"] | data["truncated"]
    buffer.rewards[:], buffer.values[:], buffer.episode_starts[1:] = data["rew"], data["value"], end[:-1]
    last_value, done = torch.from_numpy(data["value_next"][-1]), end[-1]

    def call(count: int) -> None:
        for _ in range(count):
            buffer.compute_returns_and_advantage(last_value, done)

    return {"call": call}


def memory_atari(envs: int, rows: int) -> dict[str, Any]:
    steps = arguments(workload.atari_steps(envs), envs)

    def fill_new(rows: int = rows) -> ReplayBuffer:
        buffer = atari_buffer(rows, envs)
        adding(buffer, steps)
        return buffer

    fill_new(16 * envs)  # what the first use loads is not the buffer's memory
    return {"fill": fill_new}


def memory_rows(obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    steps = arguments(workload.single_steps(10_000, obs_dim, act_dim, dtype="float64", episode=1000), 1)

    def fill_new(rows: int = rows) -> ReplayBuffer:
        buffer = kind("ReplayBuffer")(rows, *spaces(obs_dim, act_dim, np.float64), device="cpu", n_envs=1)
        adding(buffer, steps)
        return buffer

    fill_new(16)
    return {"fill": fill_new}


def dqn(envs: int, hidden: list[int]) -> dict[str, Any]:
    """Prepares the settings of ``bench.peers.dqn``, but without double Q-learning, which SB3 does not have."""
    nstep = {"n_steps": 3}
    if VARIANT:
        nstep = {"replay_buffer_class": kind("NStepReplayBuffer"), "replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.9}}
    model = stable_baselines3.DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=envs),
        learning_rate=1e-3,
        buffer_size=20_000,
        learning_starts=1000,
        batch_size=64,
        gamma=0.9,
        train_freq=1,
        gradient_steps=1,
        **nstep,
        target_update_interval=320 * envs,
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        policy_kwargs={"net_arch": hidden},
        seed=0,
        device="cpu",
    )
    model.learn(2000)

    def run(count: int) -> None:
        model.learn(count * envs, reset_num_timesteps=False)

    return {"train": run}


def collect(task: str, envs: int, size: int) -> dict[str, Any]:
    """Prepares ``collect_rollouts`` of DQN with an MLP [64, 64] or NatureCNN."""
    from bench.peers import tasks

    model = stable_baselines3.DQN(
        "CnnPolicy" if task == "image" else "MlpPolicy",
        DummyVecEnv([lambda: tasks.make(task)] * envs),
        buffer_size=size,
        learning_starts=0,
        exploration_initial_eps=0.1,
        exploration_final_eps=0.1,
        seed=0,
        device="cpu",
    )
    _, callback = model._setup_learn(10**9, None)

    def operation(learning_starts: float) -> Any:
        def run(count: int) -> None:
            train_freq = TrainFreq(count, TrainFrequencyUnit.STEP)
            model.collect_rollouts(
                model.env, callback, train_freq, model.replay_buffer, learning_starts=int(learning_starts)
            )

        return run

    operations = {"policy": operation(0), "random": operation(1e12)}
    operations["random"](size // envs)  # the buffer is full, and all its memory in RAM
    return operations


def steady_dqn() -> Any:
    """Returns a DQN with the network that all libraries have."""
    from bench.peers import tasks

    model = stable_baselines3.DQN("MlpPolicy", make_vec_env("CartPole-v1"), buffer_size=1, device="cpu")
    model.policy.q_net.q_net = tasks.network("cartpole")
    return model


def choose() -> dict[str, Any]:
    """Prepares the choice of an action for one observation."""
    model, obs = steady_dqn(), np.full(4, 0.01, np.float32)

    def run(count: int) -> None:
        for _ in range(count):
            model.predict(obs, deterministic=True)

    return {"choose": run}


def evaluate(envs: int, episodes: int, limit: int) -> dict[str, Any]:
    from bench.peers import tasks

    model = steady_dqn()
    venv = VecMonitor(DummyVecEnv([lambda: tasks.make("cartpole", limit)] * envs))

    def run(count: int) -> None:
        for _ in range(count):
            evaluate_policy(model, venv, n_eval_episodes=episodes)

    return {"evaluate": run}


def pong(envs: int) -> Any:
    import ale_py

    gymnasium.register_envs(ale_py)
    return VecFrameStack(make_atari_env("PongNoFrameskip-v4", envs), 4)


def training(algorithm: str) -> dict[str, Any]:
    """Prepares the settings of ``bench.peers.training``; PPO has a network for each head."""
    from bench.peers.training import BATCH, ENVS, STEPS, TASKS, UPDATES, WARM_UP

    if algorithm == "dqn":
        return dqn(ENVS[algorithm], [128] * 4)
    options: dict[str, Any] = {
        "td3": {"buffer_size": 20_000, "learning_starts": WARM_UP["td3"], "train_freq": 1, "gradient_steps": 1}
        | {"policy_kwargs": {"net_arch": [256, 256]}},
        "ppo": {
            "n_steps": STEPS["ppo"] // ENVS["ppo"],
            "normalize_advantage": False,
            "policy_kwargs": {"net_arch": [64, 64], "activation_fn": torch.nn.ReLU},
        },
        "ppo_cheetah": {"n_steps": STEPS["ppo_cheetah"] // ENVS["ppo_cheetah"]},
        "sac": {"buffer_size": 20_000, "learning_starts": WARM_UP["sac"]},
        "dqn_pong": {
            "buffer_size": 20_000,
            "learning_starts": WARM_UP["dqn_pong"],
            "train_freq": 1,
            "gradient_steps": UPDATES["dqn_pong"],
            "batch_size": BATCH["dqn_pong"],
            "target_update_interval": 2000,
            "exploration_initial_eps": 0.1,
            "exploration_final_eps": 0.1,
            "optimize_memory_usage": True,
            "replay_buffer_kwargs": {"handle_timeout_termination": False},  # which that mode asks for
        },
    }[algorithm]
    images = algorithm == "dqn_pong"
    venv = pong(ENVS[algorithm]) if images else make_vec_env(TASKS[algorithm], n_envs=ENVS[algorithm])
    kind = getattr(stable_baselines3, algorithm.partition("_")[0].upper())
    model = kind("CnnPolicy" if images else "MlpPolicy", venv, seed=0, device="cpu", **options)
    model.learn(WARM_UP[algorithm] + STEPS[algorithm])

    def run(count: int) -> None:
        model.learn(count * STEPS[algorithm], reset_num_timesteps=False)

    return {"train": run}


ZOO: dict[str, dict[str, Any]] = {  # settings published by RL Baselines3 Zoo
    "dqn": {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
    "ppo": {
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": lambda left: 0.001 * left,
        "clip_range": lambda left: 0.2 * left,
    },
    "sac": {"learning_rate": 1e-3},
    "td3": {
        "gamma": 0.98,
        "buffer_size": 200_000,
        "learning_starts": 10_000,
        "action_noise": NormalActionNoise(np.zeros(1), np.full(1, 0.1)),
        "train_freq": 1,
        "gradient_steps": 1,
        "learning_rate": 1e-3,
        "policy_kwargs": {"net_arch": [400, 300]},
    },
}
ZOO_STEPS = {"dqn": 50_000, "ppo": 100_000, "sac": 20_000, "td3": 20_000}
ZOO_ENVS = {"dqn": 1, "ppo": 8, "sac": 1, "td3": 1}
TEST_INTERVAL = {"dqn": 2000, "ppo": 8192, "sac": 2000, "td3": 2000}  # environment steps, as in rlfast's presets


script = training


def first_steps(algorithm: str) -> dict[str, Any]:
    return workload.first_steps("sb3", algorithm)


def threshold(algorithm: str) -> dict[str, Any]:
    """Tests as rlfast does: 20 episodes in 20 environments."""
    from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold

    from bench.peers.thresholds import RETURNS, timed
    from bench.peers.training import TASKS

    task, envs = TASKS[algorithm], ZOO_ENVS[algorithm]
    kind = getattr(stable_baselines3, algorithm.upper())

    def run(seed: int) -> bool:
        stop = StopTrainingOnRewardThreshold(RETURNS[algorithm])
        tests = EvalCallback(
            make_vec_env(task, n_envs=20, seed=seed + 1000),
            callback_on_new_best=stop,
            n_eval_episodes=20,
            eval_freq=TEST_INTERVAL[algorithm] // envs,
            verbose=0,
        )
        model = kind("MlpPolicy", make_vec_env(task, n_envs=envs), seed=seed, device="cpu", **ZOO[algorithm])
        model.learn(ZOO_STEPS[algorithm], callback=tests)
        return bool(tests.best_mean_reward >= RETURNS[algorithm])

    return timed(run)
