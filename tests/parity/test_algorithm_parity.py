"""The same program learns from the same transitions and draws with Tianshou 1.0 and with rlfast."""

import json
import subprocess

import numpy as np
import pytest

from machine import PATIENCE
from parity import algorithm_driver
from parity.peer import TIANSHOU, needs_tianshou

pytestmark = needs_tianshou
SIZE, STEPS, RINGS = 90, 50, 3  # 30 rows a ring: each wraps


def transitions(act):
    """Give transitions ``[steps, rings, ...]``; a fifth of them ends an episode, half of these by time."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(STEPS + 1, RINGS, 4)).astype(np.float32)
    end = rng.random((STEPS, RINGS)) < 0.2
    terminated = end & (rng.random((STEPS, RINGS)) < 0.5)
    return {
        "obs": obs[:-1],
        "act": act,
        "rew": rng.normal(size=(STEPS, RINGS)),
        "terminated": terminated,
        "truncated": end & ~terminated,
        "obs_next": obs[1:] + end[..., None].astype(np.float32),
        "draws": rng.integers(SIZE, size=(12, 32)),
    }


def continuous():
    return transitions(np.random.default_rng(3).uniform(-1, 1, (STEPS, RINGS, 2)).astype(np.float32))


def discrete():
    return transitions(np.random.default_rng(3).integers(3, size=(STEPS, RINGS)))


def without_truncation(given):
    """Change cut-off episodes, whose ends these algorithms of Tianshou take for terminal states, into ended ones."""
    given["terminated"] |= given["truncated"]
    given["truncated"][:] = False
    return given


NSTEP, GAMMA, TARGET = {"estimation_step": 3}, {"gamma": 0.9}, {"target_update_freq": 3}
BY_DRAWS = {
    "dqn": [
        ({"target_update_freq": 4, "clip_loss_grad": False}, False),
        ({"target_update_freq": 4, "is_double": False, "clip_loss_grad": True, **NSTEP}, False),
        (NSTEP, False),
        ({"target_update_freq": 4, **NSTEP}, True),
    ],
    **{name: [(TARGET, True), ({"discount_factor": 0.9}, False)] for name in ("c51", "rainbow")},
    **{name: [(TARGET | NSTEP, True), ({"discount_factor": 0.9}, False)] for name in ("qrdqn", "iqn", "fqf")},
    "ddpg": [(GAMMA, False), (NSTEP, False), (GAMMA, True), (NSTEP, True)],
    "td3": [
        ({}, False),
        ({"estimation_step": 3, "update_actor_freq": 3, "noise_clip": 0.1}, True),
        ({"noise_clip": 0.0, "policy_noise": 0.6, "gamma": 0.9}, False),
    ],
    "sac": [
        ({"auto": False, "alpha": 0.3, **GAMMA}, False),
        ({"auto": True, **NSTEP, **GAMMA}, False),
        ({"auto": True, **NSTEP}, True),
    ],
    "redq": [
        ({"ensemble_size": 10}, False),
        ({"ensemble_size": 3, "actor_delay": 4, "target_mode": "mean", **NSTEP, **GAMMA}, True),
        ({"ensemble_size": 4, "subset_size": 4, "actor_delay": 1, "alpha": 0.5}, False),
    ],
    "discrete_sac": [({"alpha": 0.5, **NSTEP}, True), (GAMMA, False)],
    "bdq": [(TARGET, True), ({"is_double": False}, False)],
    "imitation": [({"continuous": False}, False), ({"continuous": True}, False)],
    "td3_bc": [({}, False), ({"alpha": 0.5, "update_actor_freq": 3, "noise_clip": 0.1, **NSTEP}, True)],
    "bcq": [({}, False), ({"lmbda": 0.25, "num_sampled_action": 3, "gamma": 0.9}, False)],
    "cql": [
        ({}, False),
        ({"with_lagrange": False, "cql_weight": 2.0, "temperature": 0.5}, False),
        ({"lagrange_threshold": 0.1, "clip_grad": 0.1}, False),
    ],
    "discrete_bcq": [
        (TARGET, False),
        ({"target_update_freq": 5, "estimation_step": 3, "unlikely_action_threshold": 0.8}, False),
    ],
    "discrete_cql": [(TARGET | NSTEP, True), ({"min_q_weight": 0.5}, False)],
    # The mode, as Tianshou multiplies each row by the weights of all rows in others. The period, as target networks are
    # updated after a step here and before the next one there: the last step must not be one of these.
    "discrete_crr": [
        ({"policy_improvement_mode": "all", "target_update_freq": 5}, False),
        ({"policy_improvement_mode": "all"}, False),
    ],
}
OF_BOXES = {"ddpg", "td3", "sac", "redq", "td3_bc", "bcq", "cql"}
ON_POLICY = [
    ("ppo", {}),
    ("ppo", {"dual_clip": 2.0, "value_clip": True, "advantage_normalization": False, "eps_clip": 0.05}),
    ("ppo", {"reward_normalization": True, "recompute_advantage": True, "max_grad_norm": 0.3, "ent_coef": 0.1}),
    ("ppo", {"max_batchsize": 16, "gae_lambda": 0.8, "discount_factor": 0.9, "value_clip": True}),
    ("a2c", {}),
    ("a2c", {"reward_normalization": True, "max_grad_norm": 0.1, "gae_lambda": 0.5, "max_batchsize": 7}),
    ("npg", {"actor_step_size": 0.1}),
    ("npg", {"actor_step_size": 0.01, "optim_critic_iters": 2, "advantage_normalization": False}),
    ("trpo", {}),
    ("trpo", {"max_kl": 0.002, "backtrack_coeff": 0.5, "optim_critic_iters": 2, "reward_normalization": True}),
    ("pg", {}),
    ("pg", {"reward_normalization": True, "discount_factor": 0.9}),
]


def drawing(algorithm, options, prioritized):
    """A job that learns from given draws."""
    given = continuous() if algorithm in OF_BOXES or options.get("continuous") else discrete()
    if algorithm in ("bcq", "cql", "bdq", "discrete_crr"):
        given = without_truncation(given)
    if algorithm == "bdq":  # with a single branch
        given["act"] = given["act"][..., None]
        given["terminated"][-1] = True
    return "run", given, {"algorithm": algorithm, "options": options, "prioritized": prioritized}


def rolling_out(algorithm, options):
    """A job that learns from roll-outs."""
    given = continuous() if options.get("continuous", True) else discrete()
    del given["draws"]
    return "run_on_policy", given, {"algorithm": algorithm, "options": options}


def returns(gamma, gae_lambda):
    """A job that computes returns of given state values."""
    v_s, v_s_ = np.random.default_rng(1).normal(size=(2, SIZE))
    return "run_returns", discrete() | {"v_s": v_s, "v_s_": v_s_}, {"gamma": gamma, "gae_lambda": gae_lambda}


def psrl(**options):
    """A job of PSRL."""
    rng = np.random.default_rng(4)
    states = {"obs": rng.integers(6, size=(STEPS, RINGS)), "obs_next": rng.integers(6, size=(STEPS, RINGS))}
    return "run_psrl", without_truncation(discrete() | states), {"options": options}


ROUNDING = "sac, priorities of its own"
JOBS = {f"{name} {k}": drawing(name, *case) for name, cases in BY_DRAWS.items() for k, case in enumerate(cases)}
JOBS |= {
    f"{name} {k} {kind}": rolling_out(name, {"continuous": kind == "continuous", **options})
    for k, (name, options) in enumerate(ON_POLICY)
    for kind in ("discrete", "continuous")
}
JOBS |= {
    "gail": rolling_out("gail", {}),
    "gail, other options": rolling_out("gail", {"disc_update_num": 2, "reward_normalization": True}),
    "psrl": psrl(),
    "psrl, other options": psrl(add_done_loop=True, discount_factor=0.8, epsilon=0.05),
    "returns": returns(0.99, 0.95),
    "returns of 1": returns(0.9, 1.0),
    ROUNDING: drawing("sac", {"auto": True, **NSTEP, **GAMMA}, True),
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What Tianshou makes of all jobs, in one process, as it takes seconds to start."""
    folder = tmp_path_factory.mktemp("jobs")
    for k, (start, given, case) in enumerate(JOBS.values()):
        np.savez(folder / f"{k}.npz", case=json.dumps({"start": start, **case}), **given)
    command = [TIANSHOU, "-W", "ignore", algorithm_driver.__file__, folder, str(len(JOBS))]
    subprocess.run(command, check=True, timeout=PATIENCE)
    return {name: dict(np.load(folder / f"{k}-out.npz")) for k, name in enumerate(JOBS)}


def ours_of(start, given, case):
    return getattr(algorithm_driver, start)("rlfast", given, **json.loads(json.dumps(case)))


@pytest.mark.parametrize("name", [name for name in JOBS if name != ROUNDING])
def test_both_learn_the_same(theirs, name):
    start, given, case = JOBS[name]
    if start == "run":  # `test_rounding_of_errors_and_weights` says why the priorities are theirs
        given = {**given, "errors": theirs[name]["errors"]}
    ours = ours_of(start, given, case)
    assert ours.keys() == theirs[name].keys()
    for key, value in theirs[name].items():
        assert ours[key] == pytest.approx(value, rel=1e-4, abs=1e-5), key


def test_rounding_of_errors_and_weights(theirs):
    """With priorities of its own, each library rounds the smallest error of a batch in its own way; the weights, which
    are divided by that row's, differ by that much and no more: ``w = (|error| + eps) ** (-alpha * beta)``."""
    start, given, case = JOBS[ROUNDING]
    theirs, ours = theirs[ROUNDING], ours_of(start, given, case)
    newest = np.ones((2, SIZE))  # errors of each row; new rows have priority 1
    eps, largest = np.finfo(np.float32).eps, 0.0
    for step, indices in enumerate(given["draws"]):
        due = (np.abs(newest[:, indices]) + eps) ** (-0.6 * 0.4)
        due /= due.max(axis=1, keepdims=True)
        ratio = ours["weight"][step] / theirs["weight"][step]
        assert ratio == pytest.approx(due[0] / due[1], abs=1e-6)
        difference = np.abs(ratio - 1).max()
        largest = max(largest, difference)
        assert ours["losses"][step, 1:3] == pytest.approx(theirs["losses"][step, 1:3], rel=difference + 1e-5)
        assert ours["errors"][step] == pytest.approx(theirs["errors"][step], abs=1e-5)
        newest[:, indices] = ours["errors"][step], theirs["errors"][step]
    assert 1e-6 < largest < 1e-3
