"""The samples that policies learn from with real buffers, compared with the oracle."""

import numpy as np
import pytest
import torch

from rlfast.data import Batch, HERReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer.options.units import NStep
from rlfast.policy import BasePolicy
from rlfast.utils.net.common import Net


def copy_rows(oracle, buffer):
    """Give the real buffer the rows that the oracle's first ring was ever given."""
    for row in oracle.replay.rings[0].history:
        buffer.add(Batch({path[0]: value for path, value in row.fields.items()}, info={}))
    return buffer


@pytest.mark.parametrize("steps", [12, 70])
@pytest.mark.parametrize("n_step", [1, 3])
def test_nstep_targets(make_dqn, make_buffer, n_step, steps):
    oracle = make_buffer(30, steps=steps)
    buffer = copy_rows(oracle, ReplayBuffer(30))
    policy = make_dqn(estimation_step=n_step, target_update_freq=5)
    indices = buffer.sample_indices(0)
    assert np.array_equal(indices, oracle.all())
    real = policy.process_fn(buffer[indices], buffer, indices).returns
    slow = policy.process_fn(oracle.batch(indices), oracle, indices).returns
    assert torch.allclose(real, slow, atol=1e-6)


def test_a_unit_of_n_steps_gives_the_targets_of_n_steps(make_dqn, make_buffer):
    oracle = make_buffer(30, steps=70)
    buffer = copy_rows(oracle, ReplayBuffer(30, unit=NStep(3, 0.9), seed=0))
    batch, indices = buffer.sample(64)
    real = make_dqn(discount_factor=0.9).process_fn(batch, buffer, indices).returns
    slow = make_dqn(discount_factor=0.9, estimation_step=3).process_fn(oracle.batch(indices), oracle, indices).returns
    assert torch.allclose(real, slow, atol=1e-6)


def test_episodic_returns(make_buffer):
    oracle = make_buffer(30, steps=70)
    buffer = copy_rows(oracle, ReplayBuffer(30))
    indices = buffer.sample_indices(0)
    v_s, v_s_ = np.random.default_rng(0).normal(size=(2, len(indices)))
    real = BasePolicy.compute_episodic_return(buffer[indices], buffer, indices, v_s_, v_s)
    slow = BasePolicy.compute_episodic_return(oracle.batch(indices), oracle, indices, v_s_, v_s)
    for mine, theirs in zip(real, slow, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-10)


@pytest.mark.parametrize("clip", [False, True])
def test_priorities_reach_the_buffer(make_dqn, make_buffer, clip):
    buffer = copy_rows(make_buffer(30, steps=70), PrioritizedReplayBuffer(30, alpha=0.5, beta=0.4, seed=0))
    before = buffer.weight[np.arange(30)].copy()
    policy = make_dqn(clip_loss_grad=clip, target_update_freq=5)
    batch, indices = buffer.sample(8)
    batch = policy.process_fn(batch, buffer, indices)
    policy.learn(batch)
    policy.post_process_fn(batch, buffer, indices)
    expected = before.copy()
    for index, error in zip(indices, batch.td_error.tolist(), strict=True):
        expected[index] = (abs(error) + np.finfo(np.float32).eps) ** 0.5
    assert buffer.weight[np.arange(30)] == pytest.approx(expected)


def test_hindsight_rewards_enter_the_targets(make_dqn):
    def distance_free(achieved, desired, info=None):
        return np.full(len(achieved), 100.0)

    buffer = HERReplayBuffer(40, compute_reward_fn=distance_free, horizon=10, future_k=8, seed=0)
    for t in range(40):
        goal = {"observation": np.full(2, t, np.float32), "achieved_goal": np.zeros(1), "desired_goal": np.ones(1)}
        buffer.add(Batch(obs=goal, act=0, rew=0.0, terminated=False, truncated=t % 10 == 9, obs_next=goal, info={}))

    class OnParts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)
            torch.nn.init.zeros_(self.layer.weight)
            torch.nn.init.zeros_(self.layer.bias)

        def forward(self, obs, state=None, info=None):
            parts = np.concatenate([obs.observation, obs.achieved_goal, obs.desired_goal], axis=1)
            return self.layer(torch.as_tensor(parts, dtype=torch.float32)), state

    policy = make_dqn(OnParts(), discount_factor=0.5, estimation_step=2)
    batch, indices = buffer.sample(64)
    returns = policy.process_fn(batch, buffer, indices).returns.flatten().numpy()
    relabelled = batch.rew == 100.0
    assert relabelled.any()
    last = np.asarray(buffer.next(indices)) == indices
    assert returns == pytest.approx(np.where(relabelled, np.where(last, 100.0, 150.0), 0.0))


@pytest.mark.parametrize(
    "options", [{"stack_num": 3}, {"ignore_obs_next": True}, {"stack_num": 2, "sample_avail": True}]
)
def test_targets_on_stacked_and_vector_buffers(make_dqn, options):
    buffer = VectorReplayBuffer(60, 3, seed=0, **options)
    rng = np.random.default_rng(0)
    for t in range(40):
        obs, rew = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=3)
        flags = {"terminated": np.full(3, t % 9 == 8), "truncated": np.full(3, t % 7 == 6)}
        row = Batch(obs=obs, act=np.arange(3), rew=rew, obs_next=obs + 1, info={}, **flags)
        buffer.add(row, np.arange(3))
    policy = make_dqn(Net(4 * options.get("stack_num", 1), 3, [16]), discount_factor=0.5, estimation_step=3)
    batch, indices = buffer.sample(32)
    returns = policy.process_fn(batch, buffer, indices).returns.flatten().tolist()
    for start, target in zip(indices, returns, strict=True):
        rows = [start]
        while len(rows) < 3 and buffer.next(rows[-1]) != rows[-1]:
            rows.append(buffer.next(rows[-1]))
        last = buffer[np.array(rows[-1:])]
        expected = sum(0.5**k * buffer.rew[row] for k, row in enumerate(rows))
        if not last.terminated[0]:
            expected += 0.5 ** len(rows) * policy.model(last.obs_next)[0].max().item()
        assert target == pytest.approx(expected, abs=1e-5)
