"""N-step samples; ``test_replay.py`` compares them with SB3's."""

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from interop.sb3.comparing import assert_same
from interop.streams import OBSERVATIONS, steps
from rlfast.interop import sb3

NUMBER, DISCRETE = spaces.Box(-1000, 1000, (1,)), spaces.Discrete(2)


def filled(capacity, rewards, done=(), timeout=(), **kwargs):
    buffer = sb3.NStepReplayBuffer(capacity, NUMBER, DISCRETE, device="cpu", n_steps=3, gamma=0.5, **kwargs)
    for i, reward in enumerate(rewards):
        obs = np.array([[i]])
        infos = [{"TimeLimit.truncated": i in timeout}]
        ends = np.array([i in done or i in timeout])
        buffer.add(obs, obs + 0.5, np.array([0]), np.array([reward]), ends, infos)
    return buffer


def answers(buffer, rows):
    """Reward, ``dones``, discount and next observation of each row."""
    batch = buffer._get_samples(np.array(rows))
    return [
        tuple(float(part[k, 0]) for part in (batch.rewards, batch.dones, batch.discounts, batch.next_observations))
        for k in range(len(rows))
    ]


@pytest.mark.pitfall("A5")
@pytest.mark.parametrize("saving", [False, True])
def test_ends_of_episodes_and_the_seam(saving):
    buffer = filled(6, [1, 2, 4, 8, 16, 32], done=[2], timeout=[4], optimize_memory_usage=saving)
    assert answers(buffer, range(6)) == [
        (3.0, 1.0, 0.125, 2.5),
        (4.0, 1.0, 0.25, 2.5),
        (4.0, 1.0, 0.5, 2.5),
        (16.0, 0.0, 0.25, 4.5),
        (16.0, 0.0, 0.5, 4.5),
        (32.0, 0.0, 0.5, 5.5),
    ]
    buffer.add(np.array([[6]]), np.array([[6.5]]), np.array([0]), np.array([64]), np.array([False]), [{}])
    assert answers(buffer, [5, 0, 1]) == [(64.0, 0.0, 0.25, 6.5), (64.0, 0.0, 0.5, 6.5), (4.0, 1.0, 0.25, 2.5)]


@pytest.mark.pitfall("A8")
def test_rows_that_were_never_written_are_no_future():
    buffer = filled(100, [1] * 10)
    assert answers(buffer, [8]) == [(1.5, 0.0, 0.25, 9.5)]


def test_without_timeouts_every_end_is_one():
    buffer = filled(6, [1, 2, 4], timeout=[1], handle_timeout_termination=False)
    assert answers(buffer, [0]) == [(2.0, 1.0, 0.25, 1.5)]


def test_dicts_have_the_answers_of_their_parts():
    parts = OBSERVATIONS["dict"]
    buffers = [sb3.NStepReplayBuffer(30, space, DISCRETE, n_envs=2, device="cpu") for space in (parts, *parts.values())]
    for step in steps(parts, DISCRETE, 2, 20):
        buffers[0].add(*step)
        for buffer, key in zip(buffers[1:], parts, strict=True):
            buffer.add(*step._replace(obs=step.obs[key], next_obs=step.next_obs[key]))
    batches = []
    for buffer in buffers:
        np.random.seed(0)
        batches.append(buffer.sample(16))
    whole, *others = batches
    for key, other in zip(parts, others, strict=True):
        assert_same(whole.observations[key], other.observations)
        assert_same(whole.next_observations[key], other.next_observations)
        assert_same(whole.rewards, other.rewards)
        assert_same(whole.discounts, other.discounts)


def test_ends_written_by_hand_count():
    buffer = filled(8, [1, 1, 1, 1])
    buffer.dones[1] = True
    assert answers(buffer, [0]) == [(1.5, 1.0, 0.25, 1.5)]


def test_a_transition_has_at_least_one_step():
    with pytest.raises(ValueError, match="n_steps must be at least 1, got 0"):
        sb3.NStepReplayBuffer(8, NUMBER, DISCRETE, n_steps=0)
