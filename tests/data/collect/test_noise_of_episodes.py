"""The noise of an environment starts anew with each of its episodes."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.exploration import BaseNoise, OUNoise
from rlfast.policy import DDPGPolicy, ICMPolicy
from rlfast.utils.net.common import MLP, Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.net.discrete import IntrinsicCuriosityModule
from rlfast.utils.optim import adam


def noisy_policy(noise):
    actor = Actor(Net(3), 1)
    for parameter in actor.parameters():
        nn.init.zeros_(parameter)
    return DDPGPolicy(
        actor=actor,
        actor_optim=adam(1e-3),
        critic=Critic(Net(3, 1, concat=True)),
        critic_optim=adam(1e-3),
        action_space=Box(-2.0, 2.0, (1,)),
        exploration_noise=noise,
    )


def collector_of(policy, mode=None, lengths=(3, 4)):
    envs = [lambda steps=steps: gym.make("Pendulum-v1", max_episode_steps=steps) for steps in lengths]
    env = DummyVectorEnv(envs, autoreset_mode=mode)
    return Collector(policy, env, VectorReplayBuffer(100, len(lengths)), exploration_noise=True)


def halving(start=0.8):
    """Noise of 0.4, 0.2, 0.1, ... without anything random."""
    return OUNoise(sigma=0.0, theta=1.0, dt=0.5, x0=start)


@pytest.mark.parametrize("mode", [None, "DISABLED", "SAME_STEP", "NEXT_STEP"])
def test_the_process_starts_anew_in_the_rows_of_new_episodes(mode):
    collector = collector_of(noisy_policy(halving()), mode)
    for _ in range(6):  # an episode may end at the end of a collect, and within one
        collector.collect(n_step=6)
    for ring, steps in zip(collector.buffer.buffers, (3, 4), strict=True):
        wanted = 0.8 * 0.5 ** (1 + np.arange(len(ring)) % steps)
        assert ring[:].act[:, 0] == pytest.approx(wanted)


def test_it_starts_anew_when_all_environments_are_reset():
    collector = collector_of(noisy_policy(halving()), lengths=(50, 50))
    collector.collect(n_step=4)
    collector.reset_env()
    collector.collect(n_step=4)
    assert collector.buffer[:].act[:, 0].tolist() == pytest.approx([0.4, 0.2] * 4)


def test_a_wrapped_policy_is_told_too():
    curiosity = IntrinsicCuriosityModule(MLP(3, 4), 4, 1)
    policy = ICMPolicy(
        policy=noisy_policy(halving()),
        model=curiosity,
        optim=torch.optim.Adam(curiosity.parameters()),
        lr_scale=1.0,
        reward_scale=0.01,
        forward_loss_weight=0.2,
        action_space=Box(-2.0, 2.0, (1,)),
    )
    collector = collector_of(policy, lengths=(2, 2))
    collector.collect(n_step=8)
    assert collector.buffer[:].act[:, 0].tolist() == pytest.approx([0.4, 0.2] * 4)


def test_noise_of_users_need_not_know():
    class Constant(BaseNoise):
        def reset(self):
            raise AssertionError("a collector begins an episode and not the process")

        def __call__(self, size):
            return np.full(size, 0.25)

    collector = collector_of(noisy_policy(Constant()))
    collector.collect(n_step=20)
    assert (collector.buffer[:].act == 0.25).all()
    collector = collector_of(noisy_policy(lambda size: np.full(size, 0.5)))  # nor does a function
    collector.collect(n_step=20)
    assert (collector.buffer[:].act == 0.5).all()


def test_it_goes_on_from_a_checkpoint_to_the_bit():
    def run(collector, steps):
        for _ in range(steps):
            collector.collect(n_step=2)
        return collector.policy.exploration_noise(np.zeros((2, 1), np.float32), None)

    whole, half = (collector_of(noisy_policy(OUNoise(seed=1))) for _ in range(2))
    run(half, 3)  # an episode has just ended
    resumed = collector_of(noisy_policy(OUNoise(seed=2)))
    resumed.policy.load_state_dict(half.policy.state_dict())
    assert resumed.load_state_dict(half.state_dict()) == {}
    run(whole, 3)
    assert np.array_equal(run(resumed, 5), run(whole, 5))


@pytest.mark.parametrize("mode", ["DISABLED", "SAME_STEP"])
def test_noise_is_told_by_flags_where_episodes_begin(mode):
    class Noting(OUNoise):
        told = []

        def start_episodes(self, rows):
            self.told.append(rows)
            super().start_episodes(rows)

    noise = Noting()
    collector_of(noisy_policy(noise), mode).collect(n_step=8)
    assert {rows.dtype for rows in noise.told} == {np.dtype(bool)}
    assert [rows.tolist() for rows in noise.told][:2] == [[True, True], [True, False]]
