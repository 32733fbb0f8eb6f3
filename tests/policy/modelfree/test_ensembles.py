"""What actor-critic algorithms with ensembles of critics share."""

import numpy as np
import pytest
import torch

from algorithms import make_policy
from continuous import OBS
from rlfast.data import Batch, ReplayBuffer
from rlfast.utils.net.continuous import RecurrentActorProb


@pytest.mark.parametrize("name", ["tqc", "droq", "crossq", "xqc"])
def test_actions(name):
    policy = make_policy(name)
    result = policy(OBS)
    assert (result.act.shape, result.log_prob.shape) == ((100, 2), (100, 1))
    assert result.act.abs().max() < 1
    assert torch.equal(policy.eval()(OBS).act, policy.actor(OBS.obs)[0][0].tanh())
    assert policy.compute_action(np.zeros(4, np.float32)).shape == (2,)


@pytest.mark.parametrize("name", ["redq", "tqc", "droq", "crossq", "xqc"])
def test_recurrent_actors_start_from_stored_states(name):
    seen = []

    class Actor(RecurrentActorProb):
        def forward(self, obs, state=None, info=None):
            seen.append((np.asarray(obs)[:, 0].tolist(), state["hidden"][:, 0, 0].tolist()))
            return super().forward(obs, state, info)

    buffer = ReplayBuffer(20, seed=0)
    for t in range(12):
        state = {part: np.full((1, 5), float(t % 6), np.float32) for part in ("hidden", "cell")}
        obs = np.full((2, 4), [[t], [t + 1]], np.float32)
        row = Batch(obs=obs[0], obs_next=obs[1], act=np.zeros(2, np.float32), rew=1.0, policy={"hidden_state": state})
        buffer.add(Batch(row, terminated=t == 5, truncated=False, info={}))
    actor = Actor(1, (4,), (2,), hidden_layer_size=5, unbounded=True, conditioned_sigma=True)
    every_step = {
        "redq": {"actor_delay": 1},
        "droq": {"actor_delay": 1},
        "crossq": {"policy_delay": 1},
        "xqc": {"policy_delay": 1},
    }.get(name, {})
    policy = make_policy(name, actor=actor, **every_step)
    batch, indices = buffer[[0, 3, 7]], np.array([0, 3, 7])
    policy.learn(policy.process_fn(batch, buffer, indices))
    assert ([1.0, 4.0, 8.0], [1.0, 4.0, 2.0]) in seen  # the states before the next observations
    assert ([0.0, 3.0, 7.0], [0.0, 3.0, 1.0]) in seen  # and before these
