"""The commands of on-policy algorithms."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from experiment.small import ROLLOUTS
from rlfast.data import Batch
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.networks import Networks
from rlfast.experiment.run import train
from rlfast.functional import Categorical, DiagonalNormal, MultiCategorical

NAMES = ["a2c", "npg", "pg", "ppo", "trpo"]


@pytest.fixture
def tiny(run_dir):
    return lambda name, **changes: replace(ALGORITHMS[name].config(run_dir=run_dir, **ROLLOUTS), **changes)


@pytest.mark.parametrize("name", NAMES)
def test_networks_and_buffer(tiny, name):
    parts = build(tiny(name, env="Pendulum-v1", log_std=-1.0))
    assert parts.policy.action_scaling
    assert parts.policy.actor.sigma_param.flatten().tolist() == [-1.0]
    assert parts.train_collector.buffer.maxsize == 32
    parts.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"collect_steps": 33}, "--collect-steps 33 must be a multiple of --num-envs 2"),
        ({"repeat": 0}, "--repeat must be at least 1"),
        ({"gae_lambda": 2.0}, "--gae-lambda must be within 0 and 1"),
    ],
)
def test_values_out_of_range(tiny, changes, message):
    with pytest.raises(ValueError, match=message):
        tiny("ppo", **changes)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_no_setting_that_means_nothing(name):
    """What PPO has, and another has no use for, is not among its settings."""
    assert hasattr(ALGORITHMS[name].config(), "gae_lambda") == (name != "pg")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("space", "dist"),
    [
        (Discrete(3), Categorical),
        (MultiDiscrete([2, 3]), MultiCategorical),
        (Box(-2, 2, (2,), np.float64), DiagonalNormal),
    ],
)
def test_heads(tiny, name, space, dist):
    policy = tiny(name).build(Networks(tiny(name), name, Box(-1, 1, (4,)), space))
    result = policy(Batch(obs=np.ones((5, 4), np.float32), info={}))
    assert isinstance(result.dist, dist)
    assert all(space.contains(act) for act in policy.map_action(result.act))
    assert result.dist.entropy().std() < 1e-3  # the policy starts nearly the same everywhere


@pytest.mark.parametrize("name", NAMES)
def test_spaces_it_does_not_know(tiny, name):
    title = ALGORITHMS[name].title
    for space in (MultiDiscrete(np.ones((2, 2))), Box(-1, 1, (2, 2))):
        with pytest.raises(ValueError, match=f"{title} needs discrete, multi-discrete or continuous actions"):
            tiny(name).build(Networks(tiny(name), title, Box(-1, 1, (4,)), space))


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_a_run_and_its_repetition(tiny, tmp_path, name, env):
    weights = []
    for number in range(2):
        torch.manual_seed(number)  # what else a process did must not matter
        result = train(tiny(name, env=env, run_dir=tmp_path / str(number)))
        assert (result.env_step, result.info.gradient_step) == (128, 4 * 2 * 4)
        checkpoint = (tmp_path / str(number) / "checkpoint" / "policy.safetensors").read_bytes()
        weights.append(checkpoint)
    assert weights[0] == weights[1]
    assert f"{ALGORITHMS[name].title} on {env}, seed 0" in result.summary()


@pytest.mark.parametrize("name", NAMES)
def test_the_learning_rate_falls_to_zero(tiny, name):
    config = tiny(name, learning_rate=0.5, lr_schedule="linear")
    parts = build(config)
    rates = []
    for step in (0, 32, 96, 128):
        parts.before_collect(0, step)
        rates += [group["lr"] for group in parts.policy.optim.param_groups]
    assert rates == [0.5, 0.375, 0.125, 0.0]
    parts.close()
    parts = build(replace(config, lr_schedule="constant"))
    parts.before_collect(0, 96)
    assert parts.policy.optim.param_groups[0]["lr"] == 0.5
    parts.close()


def test_the_clip_range_of_ppo_has_a_schedule_of_its_own(tiny):
    parts = build(tiny("ppo", eps_clip=0.4, clip_schedule="exponential", schedule_factor=0.25))
    clips = []
    for step in (0, 64, 128):
        parts.before_collect(0, step)
        clips.append(parts.policy.eps_clip)
    assert clips == pytest.approx([0.4, 0.2, 0.1])
    assert {group["lr"] for group in parts.policy.optim.param_groups} == {parts.policy.optim.defaults["lr"]}
    parts.close()


def test_a_clip_range_that_changes_is_not_compiled(tiny):
    with pytest.raises(ValueError, match="--clip-schedule linear excludes --compile"):
        tiny("ppo", clip_schedule="linear", compile=True)


@pytest.mark.parametrize("name", ["npg", "trpo", "drqn", "r2d2"])
def test_what_cannot_be_compiled_has_no_option_for_it(name):
    config = ALGORITHMS[name].config
    with pytest.raises(TypeError, match="compile"):
        config(compile=False)
    assert config.from_json(config(seed=3).to_json()) == config(seed=3)
