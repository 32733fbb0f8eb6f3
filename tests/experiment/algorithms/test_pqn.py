from dataclasses import replace

import pytest
import torch
from torch import nn

from experiment.small import ROLLOUTS
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError, train


@pytest.fixture
def tiny(run_dir):
    return lambda **changes: replace(ALGORITHMS["pqn"].config(run_dir=run_dir, **ROLLOUTS), **changes)


def test_settings_reach_their_parts(tiny):
    parts = build(tiny(learning_rate=0.25, gamma=0.5, q_lambda=0.125, max_grad_norm=3.0, adam_eps=0.5))
    policy = parts.policy
    assert (policy.optim.defaults["lr"], policy.gamma, policy.q_lambda, policy.max_grad_norm) == (0.25, 0.5, 0.125, 3.0)
    assert policy.optim.defaults["eps"] == 0.5
    assert any(isinstance(module, nn.LayerNorm) for module in policy.model.modules())
    assert parts.train_collector.exploration_noise
    assert parts.train_collector.buffer.maxsize == 32
    parts.close()
    parts = build(tiny(layer_norm=False))
    assert not any(isinstance(module, nn.LayerNorm) for module in parts.policy.model.modules())
    parts.close()


def test_the_optimizer_of_the_settings(tiny):
    parts = build(tiny(optimizer="radam", learning_rate=0.25, adam_eps=0.5))
    optim = parts.policy.optim
    assert (type(optim), optim.defaults["lr"], optim.defaults["eps"]) == (torch.optim.RAdam, 0.25, 0.5)
    parts.close()
    with pytest.raises(ValueError, match="--optimizer radam excludes --compile"):
        tiny(optimizer="radam", compile=True)


def test_atari_games_have_the_settings_of_the_paper_and_pong_lighter_ones():
    paper, pong = (ALGORITHMS["pqn"].preset(env) for env in ("ALE/Breakout-v5", "ALE/Pong-v5"))
    assert (paper.num_envs, paper.collect_steps, paper.batch_size, paper.repeat) == (128, 128 * 32, 128, 2)
    assert (paper.optimizer, paper.learning_rate, paper.q_lambda, paper.eps_end) == ("radam", 2.5e-4, 0.65, 0.001)
    assert paper.eps_steps == 0.1 * paper.max_steps
    assert (paper.dtype, pong.dtype, pong.channels) == ("float32", "bfloat16", (16, 32, 32))


def test_exploration_and_learning_rate_fall(tiny):
    parts = build(tiny(eps_start=1.0, eps_end=0.0, eps_steps=64, learning_rate=0.5, lr_schedule="linear"))
    seen = []
    for step in (0, 32, 64, 128):
        parts.before_collect(0, step)
        seen.append((parts.policy.eps, parts.policy.optim.param_groups[0]["lr"]))
    assert seen == [(1.0, 0.5), (0.5, 0.375), (0.0, 0.25), (0.0, 0.0)]
    parts.close()


def test_continuous_actions_are_refused(tiny):
    with pytest.raises(ConfigError, match="PQN needs discrete actions, and those of Pendulum-v1 are Box"):
        train(tiny(env="Pendulum-v1"))


@pytest.mark.pitfall("E9")
def test_a_run_and_its_repetition(tiny, tmp_path):
    checkpoints = []
    for number in range(2):
        torch.manual_seed(number)  # what else a process did must not matter
        result = train(tiny(run_dir=tmp_path / str(number)))
        assert (result.env_step, result.info.gradient_step) == (128, 4 * 2 * 4)
        checkpoints.append((tmp_path / str(number) / "checkpoint" / "policy.safetensors").read_bytes())
    assert checkpoints[0] == checkpoints[1]
