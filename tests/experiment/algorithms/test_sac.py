from dataclasses import replace

import pytest
import torch

from rlfast.experiment.algorithms import ALGORITHMS, algorithm_of
from rlfast.experiment.algorithms.sac import Config as SACConfig
from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import load_policy
from rlfast.experiment.run import ConfigError, train


@pytest.fixture
def tiny(run_dir):
    def make(**changes):
        config = SACConfig(
            run_dir=run_dir,
            max_steps=80,
            num_envs=2,
            eval_episodes=2,
            eval_envs=2,
            eval_interval=40,
            hidden_sizes=(8,),
            collect_steps=4,
            updates_per_step=0.5,
            batch_size=8,
            buffer_size=100,
            start_steps=20,
            progress=False,
        )
        return replace(config, **changes)

    return make


def test_the_registry_knows_it():
    assert algorithm_of(SACConfig()).name == "sac"
    assert ALGORITHMS["sac"].preset("Pendulum-v1").stop_return == -200


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tau": 1.5}, "--tau must be within 0 and 1"),
        ({"alpha": 0.0}, "--alpha must be above 0"),
        ({"updates_per_step": 0.0}, "--updates-per-step must be above 0, got 0.0"),
        ({"collect_steps": 3}, "--collect-steps 3 must be a multiple of --num-envs 2"),
    ],
)
def test_values_out_of_range(tiny, changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


def test_settings_reach_their_parts(tiny):
    parts = build(tiny(learning_rate=0.25, gamma=0.5, n_step=3, tau=0.125, alpha=0.5, alpha_learning_rate=0.75))
    policy = parts.policy
    assert {policy.actor_optim.defaults["lr"], policy.critic2_optim.defaults["lr"]} == {0.25}
    assert (policy.gamma, policy.estimation_step, policy.tau) == (0.5, 3, 0.125)
    assert policy.alpha == pytest.approx(0.5)
    assert (policy.temperature.target_entropy, policy.alpha_optim.defaults["lr"]) == (-1.0, 0.75)
    parts.close()
    fixed = build(tiny(auto_alpha=False, alpha=0.25, target_entropy=-3.0))
    assert (fixed.policy.alpha, fixed.policy.is_auto_alpha) == (0.25, False)
    fixed.close()
    other = build(tiny(target_entropy=-3.0))
    assert other.policy.temperature.target_entropy == -3.0
    other.close()


def test_discrete_actions_are_refused(tiny):
    with pytest.raises(ConfigError, match="SAC needs continuous actions, and those of CartPole-v1 are Discrete"):
        train(tiny(env="CartPole-v1"))


@pytest.mark.pitfall("E9")
def test_a_run_and_its_repetition(tiny, tmp_path):
    weights = []
    for number in range(2):
        torch.manual_seed(number)  # what else a process did must not matter
        result = train(tiny(run_dir=tmp_path / str(number)))
        assert (result.env_step, result.info.gradient_step) == (80, 30)
        parts = build(result.config)
        load_policy(tmp_path / str(number) / "checkpoint", parts.policy)
        weights.append(torch.cat([p.detach().flatten() for p in parts.policy.parameters()]))
        assert parts.policy.alpha != pytest.approx(0.2, abs=1e-6)
        parts.close()
    assert torch.equal(*weights)


def test_each_learning_rate_follows_the_schedule_from_its_own_start(tiny):
    parts = build(tiny(learning_rate=0.4, alpha_learning_rate=0.2, lr_schedule="exponential", schedule_factor=0.25))
    policy = parts.policy
    optims = [policy.actor_optim, policy.critic_optim, policy.critic2_optim, policy.alpha_optim]
    for step, factor in ((0, 1.0), (40, 0.5), (80, 0.25), (20, 0.25**0.25)):
        parts.before_collect(0, step)
        rates = [group["lr"] for optim in optims for group in optim.param_groups]
        assert rates == pytest.approx([0.4 * factor] * 3 + [0.2 * factor])
    parts.close()
