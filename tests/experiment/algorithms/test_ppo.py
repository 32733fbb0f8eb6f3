from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from rlfast.data import Batch
from rlfast.experiment.algorithms import ALGORITHMS, algorithm_of, ppo
from rlfast.experiment.algorithms.ppo import Config as PPOConfig
from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import load_policy
from rlfast.experiment.networks import Networks
from rlfast.experiment.run import train
from rlfast.functional import Categorical, DiagonalNormal, MultiCategorical


@pytest.fixture
def tiny(run_dir):
    def make(**changes):
        config = PPOConfig(
            run_dir=run_dir,
            max_steps=128,
            num_envs=2,
            eval_episodes=2,
            eval_envs=2,
            eval_interval=64,
            hidden_sizes=(8,),
            collect_steps=32,
            batch_size=8,
            repeat=2,
            progress=False,
        )
        return replace(config, **changes)

    return make


def policy_for(config, act_space):
    return ppo.build(Networks(config, "PPO", Box(-1, 1, (4,)), act_space))


def test_the_registry_knows_it():
    assert algorithm_of(PPOConfig()).name == "ppo"
    box2d, mujoco = {"LunarLander-v3", "BipedalWalker-v3"}, {"InvertedPendulum-v5", "Hopper-v5", "HalfCheetah-v5"}
    known = {"CartPole-v1", "Acrobot-v1", "Pendulum-v1", "Catch-v0", "ALE/", *box2d, *mujoco}
    assert {*ALGORITHMS["ppo"].presets} == known
    assert ALGORITHMS["ppo"].preset("Pendulum-v1").gamma == 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"collect_steps": 33}, "--collect-steps 33 must be a multiple of --num-envs 2"),
        ({"repeat": 0}, "--repeat must be at least 1"),
        ({"gae_lambda": 2.0}, "--gae-lambda must be within 0 and 1"),
        ({"hidden_sizes": (0,)}, "--hidden-sizes must be at least 1, got 0"),
    ],
)
def test_values_out_of_range(tiny, changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


def test_settings_reach_their_parts(tiny):
    parts = build(
        tiny(
            learning_rate=0.25,
            gamma=0.5,
            gae_lambda=0.25,
            eps_clip=0.3,
            dual_clip=4.0,
            value_clip=True,
            normalize_advantage=False,
            recompute_advantage=True,
            scale_returns=True,
            vf_coef=0.75,
            ent_coef=0.125,
            max_grad_norm=2.0,
        )
    )
    policy = parts.policy
    assert (policy.optim.defaults["lr"], policy.gamma, policy.gae_lambda) == (0.25, 0.5, 0.25)
    assert (policy.eps_clip, policy.dual_clip, policy.value_clip) == (0.3, 4.0, True)
    assert (policy.norm_adv, policy.recompute_adv, policy.rew_norm) == (False, True, True)
    assert (policy.vf_coef, policy.ent_coef, policy.max_grad_norm) == (0.75, 0.125, 2.0)
    assert policy.deterministic_eval
    assert parts.train_collector.buffer.maxsize == 32
    parts.close()


@pytest.mark.parametrize(
    ("space", "dist"),
    [
        (Discrete(3), Categorical),
        (MultiDiscrete([2, 3]), MultiCategorical),
        (Box(-2, 2, (2,), np.float64), DiagonalNormal),
    ],
)
def test_heads(tiny, space, dist):
    policy = policy_for(tiny(log_std=-1.0), space)
    result = policy(Batch(obs=np.ones((5, 4), np.float32), info={}))
    assert isinstance(result.dist, dist)
    assert result.act.shape == (5, *space.shape)
    assert all(space.contains(act) for act in policy.map_action(result.act))
    if isinstance(result.dist, DiagonalNormal):
        assert torch.allclose(result.dist.stddev.log(), torch.full((5, 2), -1.0))
    assert result.dist.entropy().std() < 1e-3  # the policy starts nearly the same everywhere


def test_spaces_it_does_not_know(tiny):
    for space in (MultiDiscrete(np.ones((2, 2))), Box(-1, 1, (2, 2))):
        with pytest.raises(ValueError, match="PPO needs discrete, multi-discrete or continuous actions"):
            policy_for(tiny(), space)


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_a_run_and_its_repetition(tiny, tmp_path, env):
    weights = []
    for number in range(2):
        torch.manual_seed(number)  # what else a process did must not matter
        result = train(tiny(env=env, run_dir=tmp_path / str(number), scale_returns=True))
        assert (result.env_step, result.info.gradient_step) == (128, 4 * 2 * 4)
        parts = build(result.config)
        load_policy(tmp_path / str(number) / "checkpoint", parts.policy)
        weights.append(torch.cat([p.detach().flatten() for p in parts.policy.parameters()]))
        assert parts.policy.ret_rms.count == 128
        parts.close()
    assert torch.equal(*weights)
    assert f"PPO on {env}, seed 0" in result.summary()
