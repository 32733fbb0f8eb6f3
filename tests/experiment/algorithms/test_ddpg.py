from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.exploration import GaussianNoise, OUNoise


@pytest.fixture
def tiny(run_dir):
    def make(**changes):
        config = ALGORITHMS["ddpg"].config(
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


def test_settings_reach_their_parts(tiny):
    parts = build(tiny(learning_rate=0.25, actor_learning_rate=0.5, gamma=0.5, n_step=3, tau=0.125, noise=0.75))
    policy = parts.policy
    assert (policy.critic_optim.defaults["lr"], policy.actor_optim.defaults["lr"]) == (0.25, 0.5)
    assert (policy.gamma, policy.estimation_step, policy.tau) == (0.5, 3, 0.125)
    assert policy._exploration_noise._sigma == 0.75
    assert isinstance(policy._exploration_noise, GaussianNoise)
    assert parts.train_collector.exploration_noise
    parts.close()
    parts = build(tiny(noise_process="ornstein-uhlenbeck", noise=0.5))
    noise = parts.policy._exploration_noise
    assert isinstance(noise, OUNoise)
    assert (noise._spread, noise._pull) == (0.5, 0.15)
    parts.close()


def test_discrete_actions_are_refused(tiny):
    with pytest.raises(ConfigError, match="DDPG needs continuous actions, and those of CartPole-v1 are Discrete"):
        train(tiny(env="CartPole-v1"))


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("noise_process", ["normal", "ornstein-uhlenbeck"])
def test_a_run_its_repetition_and_its_second_half(tiny, tmp_path, noise_process):
    def weights(name):
        return load_file(tmp_path / name / "checkpoint" / "policy.safetensors")

    for number, steps in enumerate((80, 80, 40)):
        torch.manual_seed(number)  # what else a process did must not matter
        result = train(tiny(run_dir=tmp_path / str(number), max_steps=steps, noise_process=noise_process))
        assert result.info.gradient_step == (steps - 20) // 2
    assert resume(tmp_path / "2", max_steps=80).env_step == 80
    for other in ("1", "2"):
        assert all(torch.equal(value, weights(other)[name]) for name, value in weights("0").items())
