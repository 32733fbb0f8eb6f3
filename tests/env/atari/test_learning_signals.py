"""What learning gets at the ends of games: truncation bootstraps from the true last frame, and a lost life does not."""

import numpy as np
import pytest
import torch

pytest.importorskip("ale_py", reason="ale-py is not installed")

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.data.buffer import NStep
from rlfast.env.atari import AtariEnv, make_atari_vec
from rlfast.policy import BasePolicy, RandomPolicy


def collected(game, buffer, steps, **options):
    """Fills the buffer by random actions; returns the statistics."""
    envs = make_atari_vec(game, 2, seed=1, vector_kwargs={"placement": "in-process"}, **options)
    policy = RandomPolicy(action_space=envs.single_action_space)
    policy.seed(0)
    with Collector(policy, envs, buffer) as collector:
        collector.reset()
        return collector.collect(n_step=steps)


@pytest.mark.parametrize("kept", [{}, {"ignore_obs_next": True}])
def test_truncated_game_bootstraps_from_last_frame(kept):
    """With a limit of 60 frames, the last observation is that of the environment itself, stepped by hand."""
    buffer = VectorReplayBuffer(400, 2, **kept)
    collected("Pong", buffer, 120, max_frames=60, noop_max=0)
    rows = buffer[buffer.sample_indices(0)]
    assert rows.truncated.sum() >= 4
    assert not rows.terminated.any()
    first, last = 0, int(np.flatnonzero(rows.truncated)[0])
    env = AtariEnv("Pong", max_frames=60, noop_max=0)
    env.reset(seed=1)
    obs, _ = env.reset()  # as the collector's
    for k in range(first, last + 1):
        np.testing.assert_array_equal(rows.obs[k], obs)
        obs, _, terminated, truncated, _ = env.step(int(rows.act[k]))
        np.testing.assert_array_equal(rows.obs_next[k], obs)
    assert (terminated, truncated) == (False, True)
    index = buffer.sample_indices(0)[[last]]
    batch = BasePolicy.compute_nstep_return(
        buffer[index], buffer, index, lambda own, at: torch.tensor(own[at].obs_next[:, -1].mean((1, 2))), gamma=0.5
    )
    assert float(batch.returns[0]) == pytest.approx(rows.rew[last] + 0.5 * obs[-1].mean(), rel=1e-5)


def test_lost_life_ends_episode_not_game():
    buffer = VectorReplayBuffer(2_000, 2)
    collected("Breakout", buffer, 800, clip_rewards=False)
    rows = buffer[buffer.sample_indices(0)]
    lost = np.flatnonzero(rows.terminated & ~rows.info.game_over)
    assert len(lost) >= 4
    batch = NStep(3, 0.9).expand(buffer, buffer.sample_indices(0)[lost])
    assert not np.any(batch.discount)
    np.testing.assert_array_equal(batch.rew, rows.rew[lost])
    own, later = rows[lost], rows[lost + 1]
    assert (later.info.game_return >= own.info.game_return)[~later.info.game_over].all()
    assert (own.info.lives > 0).all()
    assert rows.info.game_return.max() > 1
