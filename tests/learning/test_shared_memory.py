"""Agents whose actors are processes that write a shared buffer reach the thresholds of their presets."""

import multiprocessing
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import pytest
import torch

from rlfast.data import Batch, Collector, NStep, SharedReplayBuffer, Transition
from rlfast.env import NativeVectorEnv
from rlfast.experiment import ALGORITHMS
from rlfast.experiment.declaration import Declaration

ACTORS, ENVS, STEPS = 2, 4, 64
"""Actors, environments of each, and environment steps of an order."""


def act(buffer: SharedReplayBuffer, config: Any, number: int, orders: Connection) -> None:
    """Collects as the learner orders."""
    torch.set_num_threads(1)
    envs = NativeVectorEnv(config.env, ENVS, autoreset_mode=None)
    policy = Declaration().policy(config, envs.observation_space[0], envs.action_space[0])
    policy.seed(number)
    rings = range(number * ENVS, (number + 1) * ENVS)
    collector = Collector(policy, envs, buffer.writer(rings), exploration_noise=True)
    collector.reset(gym_reset_kwargs={"seed": [1000 + ring for ring in rings]})
    while True:
        weights, epsilon = orders.recv()
        if weights is not None:
            policy.load_state_dict(weights, strict=False)
        if epsilon is not None:
            policy.set_eps(epsilon)
        orders.send(collector.collect(n_step=STEPS, random=weights is None).n_collected_steps)


def weights_of(policy: Any) -> dict[str, torch.Tensor]:
    return {key: value for key, value in policy.state_dict().items() if isinstance(value, torch.Tensor)}


def returns_of(policy: Any, config: Any) -> float:
    """The mean return of 20 episodes."""
    envs = NativeVectorEnv(config.env, 20, autoreset_mode=None)
    policy.eval()
    if hasattr(policy, "set_eps"):
        policy.set_eps(0.0)
    tests = Collector(policy, envs)
    tests.reset()
    mean = tests.collect(n_episode=20).returns.mean()
    policy.train()
    return float(mean)


@pytest.mark.learning
@pytest.mark.filterwarnings("ignore:only weights were loaded")
@pytest.mark.parametrize(("name", "env"), [("dqn", "CartPole-v1"), ("sac", "Pendulum-v1")])
def test_agents_in_processes_reach_their_thresholds(name, env):
    preset = replace(ALGORITHMS[name].preset(env), env=env)
    # The buffer sums rewards, as its rows may be overwritten before a policy reads them.
    config = replace(preset, n_step=1)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    np.random.seed(0)
    one = NativeVectorEnv(env, 1, autoreset_mode=None)
    policy = Declaration().policy(config, one.observation_space[0], one.action_space[0])
    policy.seed(0)
    policy.train()
    obs, act_space = one.reset()[0][0], one.action_space[0]
    act_shape = np.zeros(act_space.shape, act_space.dtype)
    row = Batch(obs=obs, act=act_shape, rew=0.0, terminated=False, truncated=False, obs_next=obs)
    unit = NStep(preset.n_step, config.gamma) if preset.n_step > 1 else Transition()
    buffer = SharedReplayBuffer(config.buffer_size, ACTORS * ENVS, row, unit=unit, seed=0)
    context = multiprocessing.get_context("spawn")
    ends = []
    for number in range(ACTORS):
        ours, theirs = context.Pipe()
        context.Process(target=act, args=(buffer, config, number, theirs), daemon=True).start()
        theirs.close()
        ends.append(ours)
    explores = hasattr(policy, "set_eps")
    steps = updates = 0
    best = -np.inf
    next_test = config.eval_interval
    for end in ends:
        end.send((None, None))
    while steps < 2 * config.max_steps:
        for end in wait(ends):
            steps += end.recv()
            random = steps < config.start_steps
            end.send((None if random else weights_of(policy), config.eps_at(steps) if explores else None))
        while steps >= config.start_steps and updates < (steps - config.start_steps) * config.updates_per_step:
            policy.update(config.batch_size, buffer)
            updates += 1
        if steps >= next_test:
            next_test += config.eval_interval
            best = max(best, returns_of(policy, config))
            if best >= config.stop_return:
                break
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    assert best >= config.stop_return, f"{name} got {best} in {steps} steps"
    assert updates > 100
    assert len(buffer) >= min(steps, config.buffer_size)
