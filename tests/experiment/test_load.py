"""`rlfast.load`: the policy of a run folder acts."""

import copy
import random

import gymnasium as gym
import numpy as np
import pytest
import torch

import rlfast
from rlfast.data import Batch, Collector
from rlfast.env import DummyVectorEnv, VectorEnvNormObs
from rlfast.experiment import ALGORITHMS, evaluate
from rlfast.experiment.checkpoint import load_checkpoint, load_normalization, load_policy
from rlfast.experiment.config import stream_seed
from rlfast.experiment.run import train
from rlfast.policy import DQNPolicy
from rlfast.utils.net.common import Net

SIZE = {"num_envs": 2, "eval_episodes": 2, "eval_envs": 2, "eval_interval": 64, "hidden_sizes": (8,), "batch_size": 8,
        "progress": False}  # fmt: skip
ON, OFF = {"collect_steps": 32}, {"collect_steps": 8, "start_steps": 24, "updates_per_step": 0.25}


def run_of(name, folder, **options):
    return train(ALGORITHMS[name].config(run_dir=folder, max_steps=64, **SIZE, **options)).run_dir


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dqn", OFF),
        ("ppo", ON),
        ("ppo", ON | {"env": "Pendulum-v1"}),
        ("sac", OFF),
        ("td3", OFF | {"env": "Pendulum-v1"}),
        ("discrete-sac", OFF),
    ],
)
def test_a_loaded_policy_acts(name, options, run_dir):
    config = ALGORITHMS[name].config(**options)
    run_of(name, run_dir, **options)
    policy = rlfast.load(str(run_dir))
    env = gym.make(config.env)
    obs, _ = env.reset(seed=0)
    actions = [policy.compute_action(obs) for _ in range(3)]
    assert env.action_space.contains(actions[0])
    assert all(np.array_equal(one, actions[0]) for one in actions)  # without exploration
    assert not policy.training
    env.close()


@pytest.mark.parametrize("best", [False, True])
def test_a_loaded_policy_has_the_weights_that_were_saved(run_dir, best):
    run_of("dqn", run_dir, **OFF)
    policy = rlfast.load(run_dir, best=best)
    other = rlfast.load(run_dir, best=not best)
    load_policy(run_dir / ("best" if best else "checkpoint"), other)
    assert all(one.equal(other.state_dict()[name]) for name, one in policy.model.state_dict(prefix="model.").items())


@pytest.mark.parametrize("best", [False, True])
def test_observations_are_normalized_as_in_the_run(run_dir, best):
    run_of("ppo", run_dir, normalize_obs=True, **ON)
    policy = rlfast.load(run_dir, best=best)
    statistics = load_normalization(run_dir / ("best" if best else "checkpoint"))
    assert statistics["count"] > 0 or best
    plain = DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    normalized = VectorEnvNormObs(DummyVectorEnv([lambda: gym.make("CartPole-v1")]), update_obs_rms=False)
    normalized.load_state_dict(statistics)
    (raw, _), (scaled, _) = plain.reset(seed=3), normalized.reset(seed=3)
    assert not np.array_equal(raw, scaled) or not statistics["count"]
    inner = policy.policy
    torch.testing.assert_close(policy(Batch(obs=raw, info={})).logits, inner(Batch(obs=scaled, info={})).logits)
    assert policy.compute_action(raw[0]) == inner.compute_action(scaled[0])


def test_a_loaded_policy_collects_in_plain_environments_as_in_tests(run_dir):
    run_of("ppo", run_dir, normalize_obs=True, env="Pendulum-v1", **ON)
    expected = evaluate(run_dir, 2).returns
    policy = rlfast.load(run_dir)
    envs = DummyVectorEnv([lambda: gym.make("Pendulum-v1")] * 2)
    with Collector(policy, envs) as collector:
        collector.reset_env({"seed": [stream_seed(0, f"env/eval/{i}") for i in range(2)]})
        np.testing.assert_allclose(collector.evaluate(2).returns, expected, rtol=1e-5)  # of torch, and of Rust


def test_places_that_the_run_observes_are_chosen(run_dir):
    run_of("r2d2", run_dir, sequence_length=4, burn_in=2, observe=(0, 2), **OFF)
    policy = rlfast.load(run_dir)
    obs = np.array([0.1, 9.0, 0.05, -9.0], np.float32)
    assert policy.compute_action(obs) == policy.policy.compute_action(obs[[0, 2]])


def test_loading_moves_no_random_stream(run_dir):
    run_of("dqn", run_dir, **OFF)
    drawn = []
    for load in (lambda _: None, rlfast.load):
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        load(run_dir)
        drawn.append((random.random(), np.random.random(), float(torch.rand(()))))
    assert drawn[0] == drawn[1]


def test_what_cannot_be_loaded_is_said(run_dir, tmp_path):
    with pytest.raises(FileNotFoundError, match="is no run folder"):
        rlfast.load(tmp_path / "nowhere")
    run_of("dqn", run_dir, **OFF)
    with pytest.raises(ValueError, match="--device cuda:9 cannot be used here"):
        rlfast.load(run_dir, device="cuda:9")
    for path in (run_dir / "best").iterdir():
        path.unlink()
    (run_dir / "best").rmdir()
    with pytest.raises(FileNotFoundError, match=r"has no best policy: .*; its newest policy is in .*checkpoint"):
        rlfast.load(run_dir, best=True)
    (run_dir / "checkpoint" / "policy.safetensors").unlink()
    with pytest.raises(ValueError, match=r"checkpoint.policy\.safetensors is missing: the checkpoint is incomplete"):
        rlfast.load(run_dir)


def test_the_best_policy_is_no_checkpoint_to_resume_from(run_dir):
    run_of("dqn", run_dir, **OFF)
    with pytest.raises(ValueError, match="holds a policy alone, as of a shared or imported run"):
        load_checkpoint(run_dir / "best", None)


# -- policies that only act --------------------------------------------------------------------------------------------
def blank(module):
    """A copy of a network with other weights."""
    fresh = copy.deepcopy(module)
    for parameter in fresh.parameters():
        parameter.data.fill_(0.5)
    return fresh


def acting(whole):
    """A policy like another one, with other weights and without optimizers."""
    space = whole.action_space
    if isinstance(whole, DQNPolicy):
        return DQNPolicy(model=blank(whole.model), optim=None, action_space=space)
    networks = {"actor": blank(whole.actor), "critic": blank(whole.critic)}
    return type(whole)(**networks, actor_optim=None, critic_optim=None, action_space=space)


@pytest.mark.parametrize(
    ("name", "options"),
    [("dqn", {"target_update_freq": 5}), ("dqn", {"target_update_freq": 0}), ("sac", {}), ("td3", {})],
)
def test_a_policy_without_optimizers_takes_what_it_has(run_dir, name, options):
    run_of(name, run_dir, **OFF, **options)
    whole = rlfast.load(run_dir)
    obs = np.full(4 if name == "dqn" else 3, 0.1, np.float32)
    policy = acting(whole).eval()
    assert load_policy(run_dir / "checkpoint", policy)["env_step"] == 64
    np.testing.assert_array_equal(policy.compute_action(obs), whole.compute_action(obs))
    network, trained = (getattr(one, "model", getattr(one, "actor", None)) for one in (policy, whole))
    assert all(one.equal(other) for one, other in zip(network.parameters(), trained.parameters(), strict=True))


def test_the_state_of_a_whole_policy_fits_one_that_acts(run_dir):
    run_of("dqn", run_dir, **OFF, target_update_freq=0)
    whole = rlfast.load(run_dir)
    policy = acting(whole)
    policy.load_state_dict(whole.state_dict())
    assert next(policy.parameters()).equal(next(whole.parameters()))


def test_networks_of_another_shape_are_refused_for_it_too(run_dir):
    run_of("dqn", run_dir, **OFF)
    policy = DQNPolicy(model=Net(4, 2, hidden_sizes=[9]), optim=None, action_space=gym.spaces.Discrete(2))
    with pytest.raises(ValueError, match="of another network"):
        load_policy(run_dir / "checkpoint", policy)
