from dataclasses import replace

import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError, train
from rlfast.exploration import GaussianNoise, OUNoise


@pytest.fixture
def tiny(run_dir):
    def make(**changes):
        config = ALGORITHMS["td3"].config(
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
    parts = build(tiny(policy_noise=0.25, noise_clip=0.125, update_actor_freq=4))
    policy = parts.policy
    assert (policy.policy_noise, policy.noise_clip, policy.update_actor_freq) == (0.25, 0.125, 4)
    assert policy.critic2 is not policy.critic
    parts.close()


def test_discrete_actions_are_refused(tiny):
    with pytest.raises(ConfigError, match="TD3 needs continuous actions, and those of CartPole-v1 are Discrete"):
        train(tiny(env="CartPole-v1"))
