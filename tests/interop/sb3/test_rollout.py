"""Rollout buffers and their advantages, compared with SB3's."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from stable_baselines3.common import buffers as host

from interop.sb3.comparing import assert_same
from interop.streams import ACTIONS, OBSERVATIONS, draw
from rlfast.interop import sb3

PAIRS = [(obs, "discrete") for obs in OBSERVATIONS] + [("box", act) for act in ACTIONS if act != "discrete"]


def fill(buffers, obs_space, act_space, envs, seed=0):
    rng = np.random.default_rng(seed)
    th.manual_seed(seed)
    for space in (obs_space, act_space):
        space.seed(seed)
    for _ in range(buffers[0].buffer_size):
        row = (draw(obs_space, envs), draw(act_space, envs), rng.normal(size=envs), rng.random(envs) < 0.2)
        value, log_prob = th.randn(envs, 1), th.randn(envs)
        for buffer in buffers:
            buffer.add(*row, value, log_prob)
    last_values, dones = th.randn(envs, 1), rng.random(envs) < 0.5
    for buffer in buffers:
        buffer.compute_returns_and_advantage(last_values, dones)


@pytest.mark.parametrize("envs", [1, 2, 9])
@pytest.mark.parametrize(("obs", "act"), PAIRS)
def test_minibatches_are_the_hosts(obs, act, envs):
    obs_space, act_space = OBSERVATIONS[obs], ACTIONS[act]
    kind = "DictRolloutBuffer" if isinstance(obs_space, spaces.Dict) else "RolloutBuffer"
    arguments = (12, obs_space, act_space)
    pair = [getattr(m, kind)(*arguments, device="cpu", gae_lambda=0.9, gamma=0.97, n_envs=envs) for m in (sb3, host)]
    assert isinstance(pair[0], getattr(host, kind))
    for seed in range(2):
        fill(pair, obs_space, act_space, envs, seed)
        assert_same(pair[0].advantages, pair[1].advantages)
        assert_same(pair[0].returns, pair[1].returns)
        for batch_size in (None, 5):
            batches = []
            for buffer in pair:
                np.random.seed(seed)
                batches.append(list(buffer.get(batch_size)))
            assert len(batches[0]) == len(batches[1])
            for one, other in zip(*batches, strict=True):
                assert_same(one, other)
        for buffer in pair:
            buffer.reset()


@pytest.mark.pitfall("A3")
def test_advantages_by_hand():
    box, one = spaces.Box(-1, 1, (1,)), th.zeros(1)
    buffer = sb3.RolloutBuffer(3, box, spaces.Discrete(2), device="cpu", gae_lambda=0.8, gamma=0.9)
    for start in (True, False, True):  # the second step ended an episode
        buffer.add(np.zeros((1, 1)), np.array([0]), np.ones(1), np.array([start]), one + 0.5, one)
    buffer.compute_returns_and_advantage(one + 0.5, np.array([False]))
    np.testing.assert_allclose(buffer.advantages[:, 0], [1.31, 0.5, 0.95], rtol=1e-6)


def test_a_minibatch_is_nobody_elses():
    box = spaces.Box(-1, 1, (2,))
    buffer = sb3.RolloutBuffer(4, box, spaces.Discrete(2), device="cpu")
    fill([buffer], box, spaces.Discrete(2), 1)
    (batch,) = buffer.get()
    before = [part.clone() for part in batch]
    for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
        getattr(buffer, name)[:] = 9
    for part, was in zip(batch, before, strict=True):
        assert th.equal(part, was)


def test_a_part_filled_rollout_cannot_be_read():
    buffer = sb3.RolloutBuffer(4, spaces.Box(-1, 1, (2,)), spaces.Discrete(2), device="cpu")
    with pytest.raises(AssertionError):
        next(buffer.get())
