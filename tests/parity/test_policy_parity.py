"""The same transitions, parameters and draws through Tianshou 1.0 and through rlfast."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from rlfast.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.policy import BasePolicy, DQNPolicy
from rlfast.utils.net.common import Net

PYTHON = os.environ.get("RLFAST_TIANSHOU_PYTHON")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0 to compare with"
)
SCRIPT = Path(__file__).with_name("policy_driver.py")
SIZE, STEPS, RINGS = 90, 50, 3  # 30 rows a ring: each wraps


def tianshou(folder, given, options):
    np.savez(folder / "in.npz", options=json.dumps(options | {"size": SIZE}), **given)
    subprocess.run([PYTHON, "-W", "ignore", SCRIPT, folder / "in.npz", folder / "out.npz"], check=True, timeout=110)
    return dict(np.load(folder / "out.npz"))


@pytest.fixture
def rows():
    """Give transitions ``[steps, rings, ...]``; a fifth of them ends an episode, half of these by time."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(STEPS + 1, RINGS, 4)).astype(np.float32)
    end = rng.random((STEPS, RINGS)) < 0.2
    terminated = end & (rng.random((STEPS, RINGS)) < 0.5)
    return {
        "obs": obs[:-1],
        "act": rng.integers(3, size=(STEPS, RINGS)),
        "rew": rng.normal(size=(STEPS, RINGS)),
        "terminated": terminated,
        "truncated": end & ~terminated,
        "obs_next": obs[1:] + end[..., None].astype(np.float32),
    }


def fill(buffer, rows):
    for t in range(STEPS):
        buffer.add(Batch({key: value[t] for key, value in rows.items()}, info={}), buffer_ids=np.arange(RINGS))
    return buffer


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (0.9, 1.0)])
def test_compute_episodic_return(rows, tmp_path, gamma, gae_lambda):
    v_s, v_s_ = np.random.default_rng(1).normal(size=(2, SIZE))
    options = {"work": "episodic", "prioritized": False, "gamma": gamma, "gae_lambda": gae_lambda}
    theirs = tianshou(tmp_path, rows | {"v_s": v_s, "v_s_": v_s_}, options)
    buffer = fill(VectorReplayBuffer(SIZE, RINGS), rows)
    indices = buffer.sample_indices(0)
    assert np.array_equal(indices, theirs["indices"])
    batch, v_s, v_s_ = buffer[indices], v_s[indices], v_s_[indices]
    returns, advantage = BasePolicy.compute_episodic_return(batch, buffer, indices, v_s_, v_s, gamma, gae_lambda)
    assert returns == pytest.approx(theirs["returns"], abs=1e-5)
    assert advantage == pytest.approx(theirs["advantage"], abs=1e-5)
    bare = BasePolicy.compute_episodic_return(batch, buffer, indices, v_s_, None, gamma, gae_lambda)[0]
    assert bare == pytest.approx(theirs["bare"], abs=1e-5)  # returns alone: pitfall A10 is in the advantages
    plain = BasePolicy.compute_episodic_return(batch, buffer, indices, gamma=gamma, gae_lambda=1.0)[0]
    assert plain == pytest.approx(theirs["plain"], abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"n_step": 1, "freq": 4, "is_double": True, "clip": False, "prioritized": False},
        {"n_step": 3, "freq": 4, "is_double": False, "clip": True, "prioritized": False},
        {"n_step": 3, "freq": 0, "is_double": True, "clip": False, "prioritized": False},
        {"n_step": 3, "freq": 4, "is_double": True, "clip": False, "prioritized": True},
    ],
    ids=["double", "nature-nstep-huber", "no-target", "prioritized-nstep"],
)
def test_dqn(rows, tmp_path, options):
    options = options | {"work": "dqn", "gamma": 0.9}
    torch.manual_seed(0)
    model = Net((4,), 3, hidden_sizes=[16, 16])
    parameters = {f"parameter_{i}": p.detach().numpy().copy() for i, p in enumerate(model.parameters())}
    draws = np.random.default_rng(2).integers(SIZE, size=(20, 32))
    theirs = tianshou(tmp_path, rows | parameters | {"draws": draws}, options)

    if options["prioritized"]:
        buffer = fill(PrioritizedVectorReplayBuffer(SIZE, RINGS, alpha=0.6, beta=0.4), rows)
    else:
        buffer = fill(VectorReplayBuffer(SIZE, RINGS), rows)
    policy = DQNPolicy(
        model=model,
        optim=torch.optim.SGD(model.parameters(), lr=0.05),
        action_space=Discrete(3),
        discount_factor=options["gamma"],
        estimation_step=options["n_step"],
        target_update_freq=options["freq"],
        is_double=options["is_double"],
        clip_loss_grad=options["clip"],
    )
    for step, indices in enumerate(draws):
        batch = buffer[indices]
        if options["prioritized"]:
            assert np.asarray(batch.weight) == pytest.approx(theirs["weight"][step], rel=1e-4)
        batch = policy.process_fn(batch, buffer, indices)
        assert batch.returns.numpy() == pytest.approx(theirs["target"][step], abs=1e-5)
        assert policy.learn(batch).loss == pytest.approx(theirs["loss"][step], abs=1e-5)
        assert batch.td_error.numpy() == pytest.approx(theirs["error"][step], abs=1e-5)
        policy.post_process_fn(batch, buffer, indices)
    for i, parameter in enumerate(model.parameters()):
        assert parameter.detach().numpy() == pytest.approx(theirs[f"parameter_{i}"], abs=1e-5)
