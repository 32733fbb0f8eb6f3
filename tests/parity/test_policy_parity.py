"""The same transitions, parameters and draws through Tianshou 1.0 and through rlfast."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Independent, Normal

from machine import PATIENCE
from rlfast.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.policy import BasePolicy, DDPGPolicy, DQNPolicy, PPOPolicy, SACPolicy
from rlfast.utils.net.common import ActorCritic, Net
from rlfast.utils.net.continuous import Actor as DeterministicActor
from rlfast.utils.net.continuous import ActorProb, Critic
from rlfast.utils.net.discrete import Actor
from rlfast.utils.net.discrete import Critic as StateCritic

PYTHON = os.environ.get("RLFAST_TIANSHOU_PYTHON")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0 to compare with"
)
SCRIPT = Path(__file__).with_name("policy_driver.py")
SIZE, STEPS, RINGS = 90, 50, 3  # 30 rows a ring: each wraps


def tianshou(folder, given, options):
    np.savez(folder / "in.npz", options=json.dumps(options | {"size": SIZE}), **given)
    subprocess.run(
        [PYTHON, "-W", "ignore", SCRIPT, folder / "in.npz", folder / "out.npz"], check=True, timeout=PATIENCE
    )
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
            assert np.asarray(batch.weight) == pytest.approx(theirs["weight"][step], rel=1e-6)
        batch = policy.process_fn(batch, buffer, indices)
        assert batch.returns.numpy() == pytest.approx(theirs["target"][step], abs=1e-5)
        assert policy.learn(batch).loss == pytest.approx(theirs["loss"][step], abs=1e-5)
        assert batch.td_error.numpy() == pytest.approx(theirs["error"][step], abs=1e-5)
        batch.td_error = theirs["error"][step]  # test_rounding_of_errors_and_weights says why
        policy.post_process_fn(batch, buffer, indices)
    for i, parameter in enumerate(model.parameters()):
        assert parameter.detach().numpy() == pytest.approx(theirs[f"parameter_{i}"], abs=1e-5)


def parameters(prefix, module):
    return {f"{prefix}_{i}": p.detach().numpy().copy() for i, p in enumerate(module.parameters())}


def assert_equal_networks(theirs, **modules):
    for prefix, module in modules.items():
        for name, value in parameters(prefix, module).items():
            assert value == pytest.approx(theirs[name], abs=1e-5), name


@pytest.mark.parametrize(
    ("continuous", "given"),
    [
        (False, {}),
        (False, {"dual_clip": 2.0, "value_clip": True, "advantage_normalization": False, "eps_clip": 0.05}),
        (True, {"reward_normalization": True, "recompute_advantage": True, "max_grad_norm": 0.3, "ent_coef": 0.1}),
        (True, {"max_batchsize": 16, "gae_lambda": 0.8, "discount_factor": 0.9, "value_clip": True}),
    ],
    ids=["defaults", "clips", "scaled-recomputed", "small-batches"],
)
def test_ppo(rows, tmp_path, continuous, given):
    torch.manual_seed(0)
    critic = StateCritic(Net((4,), hidden_sizes=[16]))
    if continuous:
        rows["act"] = np.random.default_rng(3).normal(size=(STEPS, RINGS, 2)).astype(np.float32)
        actor = ActorProb(Net((4,), hidden_sizes=[16]), 2, unbounded=True)
        dist_fn, space = (lambda loc, scale: Independent(Normal(loc, scale), 1)), Box(-1, 1, (2,))
    else:
        actor, dist_fn, space = Actor(Net((4,), hidden_sizes=[16]), 3), Categorical, Discrete(3)
    networks = parameters("actor", actor) | parameters("critic", critic)
    options = {"work": "ppo", "prioritized": False, "continuous": continuous, "policy": given}
    theirs = tianshou(tmp_path, rows | networks, options)

    buffer = fill(VectorReplayBuffer(SIZE, RINGS), rows)
    optim = torch.optim.SGD(ActorCritic(actor, critic).parameters(), lr=0.05)
    space_options = {"action_space": space, "action_scaling": continuous}
    policy = PPOPolicy(actor=actor, critic=critic, optim=optim, dist_fn=dist_fn, **space_options, **given)
    for update in range(3):
        batch, indices = buffer.sample(0)
        batch = policy.process_fn(batch, buffer, indices)
        for name in ("adv", "returns", "logp_old"):
            assert batch[name].numpy() == pytest.approx(theirs[name][update], abs=1e-5), name
        stats = policy.learn(batch, batch_size=None, repeat=3)
        losses = [stats.loss.mean, stats.clip_loss.mean, stats.vf_loss.mean, stats.ent_loss.mean]
        assert losses == pytest.approx(theirs["losses"][update], abs=1e-5)
    assert_equal_networks(theirs, actor=actor, critic=critic)


def sac_case(rows, tmp_path, options):
    """Give rlfast's policy and filled buffer, the rows of each update, and what Tianshou makes of the same."""
    torch.manual_seed(0)
    actor = ActorProb(Net((4,), hidden_sizes=[16]), 2, unbounded=True, conditioned_sigma=True)
    with torch.no_grad():  # far out their log-probability is not exact
        actor.sigma.model[-1].bias.fill_(-2.0)
        actor.mu.model[-1].weight.mul_(0.1)
    critics = [Critic(Net((4,), 2, hidden_sizes=[16], concat=True)) for _ in range(2)]
    networks = parameters("actor", actor) | parameters("critic0", critics[0]) | parameters("critic1", critics[1])
    rows["act"] = np.random.default_rng(3).uniform(-1, 1, (STEPS, RINGS, 2)).astype(np.float32)
    draws = np.random.default_rng(2).integers(SIZE, size=(20, 32))
    options = options | {"work": "sac", "gamma": 0.9}
    theirs = tianshou(tmp_path, rows | networks | {"draws": draws}, options)

    kind = PrioritizedVectorReplayBuffer if options["prioritized"] else VectorReplayBuffer
    buffer = fill(kind(SIZE, RINGS, **({"alpha": 0.6, "beta": 0.4} if options["prioritized"] else {})), rows)
    log_alpha = torch.zeros(1, requires_grad=True)

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.05)

    policy = SACPolicy(
        actor=actor,
        actor_optim=torch.optim.SGD(actor.parameters(), lr=0.001),
        critic=critics[0],
        critic_optim=sgd,
        critic2=critics[1],
        critic2_optim=sgd,
        action_space=Box(-1, 1, (2,)),
        alpha=(-2.0, log_alpha, sgd([log_alpha])) if options["auto"] else 0.3,
        tau=0.1,
        gamma=options["gamma"],
        estimation_step=options["n_step"],
    )
    return policy, buffer, draws, theirs


@pytest.mark.parametrize(
    "options",
    [
        {"n_step": 1, "auto": False, "prioritized": False},
        {"n_step": 3, "auto": True, "prioritized": False},
        {"n_step": 3, "auto": True, "prioritized": True},
    ],
    ids=["fixed", "learned-nstep", "prioritized"],
)
def test_sac(rows, tmp_path, options):
    policy, buffer, draws, theirs = sac_case(rows, tmp_path, options)
    for step, indices in enumerate(draws):
        torch.manual_seed(step)
        batch = buffer[indices]
        if options["prioritized"]:
            assert np.asarray(batch.weight) == pytest.approx(theirs["weight"][step], rel=1e-6)
        batch = policy.process_fn(batch, buffer, indices)
        assert batch.returns.numpy() == pytest.approx(theirs["target"][step], abs=1e-5)
        stats = policy.learn(batch)
        losses = [stats.actor_loss, stats.critic1_loss, stats.critic2_loss, stats.alpha_loss or 0.0]
        assert losses == pytest.approx(theirs["losses"][step].tolist(), rel=1e-5, abs=1e-5)
        assert stats.alpha == pytest.approx(theirs["alpha"][step], abs=1e-5)
        assert batch.td_error.numpy() == pytest.approx(-theirs["error"][step], abs=1e-5)
        batch.td_error = theirs["error"][step]  # the test below says why
        policy.post_process_fn(batch, buffer, indices)
    assert_equal_networks(theirs, actor=policy.actor, critic0=policy.critic, old=policy.critic_old)


def test_rounding_of_errors_and_weights(rows, tmp_path):
    """With priorities of its own, each library rounds the smallest error of a batch in its own way; the weights, which
    are divided by that row's, differ by that much and no more: ``w = (|error| + eps) ** (-alpha * beta)``."""
    policy, buffer, draws, theirs = sac_case(rows, tmp_path, {"n_step": 3, "auto": True, "prioritized": True})
    error, their_error = np.ones((2, SIZE))  # the newest of each row; new rows have priority 1
    eps = np.finfo(np.float32).eps
    largest = 0.0
    for step, indices in enumerate(draws):
        torch.manual_seed(step)
        batch = buffer[indices]
        weight, their_weight = np.asarray(batch.weight), theirs["weight"][step]
        due = np.array([(np.abs(one[indices]) + eps) ** (-0.6 * 0.4) for one in (error, their_error)])
        due /= due.max(axis=1, keepdims=True)
        assert weight / their_weight == pytest.approx(due[0] / due[1], abs=1e-6)
        difference = np.abs(weight / their_weight - 1).max()
        largest = max(largest, difference)

        batch = policy.process_fn(batch, buffer, indices)
        stats = policy.learn(batch)
        losses = [stats.critic1_loss, stats.critic2_loss]
        assert losses == pytest.approx(theirs["losses"][step, 1:3].tolist(), rel=difference + 1e-5)
        assert batch.td_error.numpy() == pytest.approx(-theirs["error"][step], abs=1e-5)
        policy.post_process_fn(batch, buffer, indices)
        error[indices], their_error[indices] = batch.td_error.numpy(), theirs["error"][step]
    assert 1e-5 < largest < 1e-3  # seen: 1.6e-4, of an error of 1.8e-4 that differs by 1.2e-7


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("prioritized", [False, True])
def test_ddpg(rows, tmp_path, n_step, prioritized):
    torch.manual_seed(0)
    actor = DeterministicActor(Net((4,), hidden_sizes=[16]), 2)
    critic = Critic(Net((4,), 2, hidden_sizes=[16], concat=True))
    networks = parameters("actor", actor) | parameters("critic", critic)
    rows["act"] = np.random.default_rng(3).uniform(-1, 1, (STEPS, RINGS, 2)).astype(np.float32)
    draws = np.random.default_rng(2).integers(SIZE, size=(20, 32))
    options = {"work": "ddpg", "gamma": 0.9, "n_step": n_step, "prioritized": prioritized}
    theirs = tianshou(tmp_path, rows | networks | {"draws": draws}, options)

    kind, given = (
        (PrioritizedVectorReplayBuffer, {"alpha": 0.6, "beta": 0.4}) if prioritized else (VectorReplayBuffer, {})
    )
    buffer = fill(kind(SIZE, RINGS, **given), rows)
    policy = DDPGPolicy(
        actor=actor,
        actor_optim=torch.optim.SGD(actor.parameters(), lr=0.05),
        critic=critic,
        critic_optim=torch.optim.SGD(critic.parameters(), lr=0.05),
        action_space=Box(-1, 1, (2,)),
        tau=0.1,
        gamma=options["gamma"],
        estimation_step=n_step,
    )
    for step, indices in enumerate(draws):
        batch = buffer[indices]
        if prioritized:
            assert np.asarray(batch.weight) == pytest.approx(theirs["weight"][step], rel=1e-6)
        batch = policy.process_fn(batch, buffer, indices)
        assert batch.returns.numpy() == pytest.approx(theirs["target"][step], abs=1e-5)
        stats = policy.learn(batch)
        assert [stats.actor_loss, stats.critic_loss] == pytest.approx(theirs["losses"][step].tolist(), abs=1e-5)
        assert batch.weight.numpy() == pytest.approx(theirs["error"][step], abs=1e-5)
        batch.td_error = theirs["error"][step]  # test_rounding_of_errors_and_weights says why
        policy.post_process_fn(batch, buffer, indices)
    assert_equal_networks(theirs, actor=actor, critic=critic, actor_old=policy.actor_old, critic_old=policy.critic_old)
