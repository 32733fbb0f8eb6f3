"""The same program learns from the same transitions and draws with Tianshou 1.0 and with rlfast."""

import json
import os
import subprocess

import numpy as np
import pytest

from machine import PATIENCE
from parity import algorithm_driver

PYTHON = os.environ.get("RLFAST_TIANSHOU_PYTHON")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0 to compare with"
)
SIZE, STEPS, RINGS = 90, 50, 3


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


def theirs_of(folder, given, case):
    np.savez(folder / "in.npz", case=json.dumps(case), **given)
    command = [PYTHON, "-W", "ignore", algorithm_driver.__file__, folder / "in.npz", folder / "out.npz"]
    subprocess.run(command, check=True, timeout=PATIENCE)
    return dict(np.load(folder / "out.npz"))


def assert_equal_runs(folder, given, **case):
    theirs = theirs_of(folder, given, case)
    # test_policy_parity.test_rounding_of_errors_and_weights says why the priorities are theirs
    ours = algorithm_driver.run("rlfast", {**given, "errors": theirs["errors"]}, **case)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=1e-5), name


def continuous():
    return transitions(np.random.default_rng(3).uniform(-1, 1, (STEPS, RINGS, 2)).astype(np.float32))


def discrete():
    return transitions(np.random.default_rng(3).integers(3, size=(STEPS, RINGS)))


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [({"target_update_freq": 3}, True), ({"discount_factor": 0.9}, False)],
    ids=["prioritized", "no-target"],
)
@pytest.mark.parametrize("name", ["c51", "rainbow"])
def test_categorical(tmp_path, name, options, prioritized):
    assert_equal_runs(tmp_path, discrete(), algorithm=name, options=options, prioritized=prioritized)


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [({"target_update_freq": 3, "estimation_step": 3}, True), ({"discount_factor": 0.9}, False)],
    ids=["nstep-prioritized", "no-target"],
)
@pytest.mark.parametrize("name", ["qrdqn", "iqn", "fqf"])
def test_quantiles(tmp_path, name, options, prioritized):
    assert_equal_runs(tmp_path, discrete(), algorithm=name, options=options, prioritized=prioritized)


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [
        ({}, False),
        ({"estimation_step": 3, "update_actor_freq": 3, "noise_clip": 0.1}, True),
        ({"noise_clip": 0.0, "policy_noise": 0.6, "gamma": 0.9}, False),
    ],
    ids=["defaults", "nstep-prioritized", "no-clip"],
)
def test_td3(tmp_path, options, prioritized):
    assert_equal_runs(tmp_path, continuous(), algorithm="td3", options=options, prioritized=prioritized)


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [
        ({"ensemble_size": 10}, False),
        ({"ensemble_size": 3, "actor_delay": 4, "estimation_step": 3, "target_mode": "mean", "gamma": 0.9}, True),
        ({"ensemble_size": 4, "subset_size": 4, "actor_delay": 1, "alpha": 0.5}, False),
    ],
    ids=["defaults", "nstep-mean-prioritized", "all"],
)
def test_redq(tmp_path, options, prioritized):
    assert_equal_runs(tmp_path, continuous(), algorithm="redq", options=options, prioritized=prioritized)


@pytest.mark.parametrize("actions", ["discrete", "continuous"])
@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("a2c", {}),
        ("a2c", {"reward_normalization": True, "max_grad_norm": 0.1, "gae_lambda": 0.5, "max_batchsize": 7}),
        ("npg", {"actor_step_size": 0.1}),
        ("npg", {"actor_step_size": 0.01, "optim_critic_iters": 2, "advantage_normalization": False}),
        ("trpo", {}),
        ("trpo", {"max_kl": 0.002, "backtrack_coeff": 0.5, "optim_critic_iters": 2, "reward_normalization": True}),
        ("pg", {}),
        ("pg", {"reward_normalization": True, "discount_factor": 0.9}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "defaults",
)
def test_on_policy(tmp_path, algorithm, options, actions):
    given = continuous() if actions == "continuous" else discrete()
    del given["draws"]
    case = {"algorithm": algorithm, "options": {"continuous": actions == "continuous", **options}}
    theirs = theirs_of(tmp_path, given, case)
    ours = algorithm_driver.run_on_policy("rlfast", given, **case)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=1e-5), name


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [({"estimation_step": 3, "alpha": 0.5}, True), ({"gamma": 0.9}, False)],
    ids=["nstep-prioritized", "defaults"],
)
def test_discrete_sac(tmp_path, options, prioritized):
    assert_equal_runs(tmp_path, discrete(), algorithm="discrete_sac", options=options, prioritized=prioritized)


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [({"target_update_freq": 3}, True), ({"is_double": False}, False)],
    ids=["prioritized", "no-target"],
)
def test_bdq(tmp_path, options, prioritized):
    given = discrete()  # with a single branch, and without truncation, which Tianshou takes for a terminal state
    given["act"] = given["act"][..., None]
    given["terminated"] |= given["truncated"]
    given["terminated"][-1] = True
    given["truncated"][:] = False
    assert_equal_runs(tmp_path, given, algorithm="bdq", options=options, prioritized=prioritized)


@pytest.mark.parametrize("options", [{}, {"add_done_loop": True, "discount_factor": 0.8, "epsilon": 0.05}])
def test_psrl(tmp_path, options):
    rng = np.random.default_rng(4)
    given = discrete() | {"obs": rng.integers(6, size=(STEPS, RINGS)), "obs_next": rng.integers(6, size=(STEPS, RINGS))}
    given["terminated"] |= given["truncated"]  # Tianshou takes truncation for a terminal state
    given["truncated"][:] = False
    del given["draws"]
    theirs = theirs_of(tmp_path, given, {"options": options})
    ours = algorithm_driver.run_psrl("rlfast", given, options)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=1e-5), name


def without_truncation(given):
    """Change cut-off episodes, whose ends Tianshou's offline algorithms take for terminal states, into ended ones."""
    given["terminated"] |= given["truncated"]
    given["truncated"][:] = False
    return given


@pytest.mark.parametrize("actions", ["discrete", "continuous"])
def test_imitation(tmp_path, actions):
    given = continuous() if actions == "continuous" else discrete()
    assert_equal_runs(tmp_path, given, algorithm="imitation", options={"continuous": actions == "continuous"})


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [({}, False), ({"estimation_step": 3, "alpha": 0.5, "update_actor_freq": 3, "noise_clip": 0.1}, True)],
    ids=["defaults", "nstep-prioritized"],
)
def test_td3_bc(tmp_path, options, prioritized):
    assert_equal_runs(tmp_path, continuous(), algorithm="td3_bc", options=options, prioritized=prioritized)


@pytest.mark.parametrize(
    "options", [{}, {"lmbda": 0.25, "num_sampled_action": 3, "gamma": 0.9}], ids=["defaults", "other"]
)
def test_bcq(tmp_path, options):
    assert_equal_runs(tmp_path, without_truncation(continuous()), algorithm="bcq", options=options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"with_lagrange": False, "cql_weight": 2.0, "temperature": 0.5},
        {"lagrange_threshold": 0.1, "clip_grad": 0.1},
    ],
    ids=["defaults", "fixed", "clipped"],
)
def test_cql(tmp_path, options):
    assert_equal_runs(tmp_path, without_truncation(continuous()), algorithm="cql", options=options)


@pytest.mark.parametrize(
    "options",
    [{"target_update_freq": 3}, {"target_update_freq": 5, "estimation_step": 3, "unlikely_action_threshold": 0.8}],
    ids=["defaults", "nstep"],
)
def test_discrete_bcq(tmp_path, options):
    assert_equal_runs(tmp_path, discrete(), algorithm="discrete_bcq", options=options)


@pytest.mark.parametrize(
    ("options", "prioritized"),
    [({"target_update_freq": 3, "estimation_step": 3}, True), ({"min_q_weight": 0.5}, False)],
    ids=["nstep-prioritized", "no-target"],
)
def test_discrete_cql(tmp_path, options, prioritized):
    assert_equal_runs(tmp_path, discrete(), algorithm="discrete_cql", options=options, prioritized=prioritized)


@pytest.mark.parametrize(
    "options",
    [{"policy_improvement_mode": "all", "target_update_freq": 5}, {"policy_improvement_mode": "all"}],
    ids=["targets", "no-targets"],
)
def test_discrete_crr(tmp_path, options):
    # The mode, as Tianshou multiplies each row by the weights of all rows in others. The period, as target networks are
    # updated after a step here and before the next one there: the last step must not be one of these.
    assert_equal_runs(tmp_path, without_truncation(discrete()), algorithm="discrete_crr", options=options)


@pytest.mark.parametrize(
    "options", [{}, {"disc_update_num": 2, "reward_normalization": True}], ids=["defaults", "other"]
)
def test_gail(tmp_path, options):
    given = continuous()
    del given["draws"]
    case = {"algorithm": "gail", "options": options}
    theirs = theirs_of(tmp_path, given, case)
    ours = algorithm_driver.run_on_policy("rlfast", given, **case)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=1e-5), name
