"""The template of actors and critics, by algorithms that leave its methods as they are."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from continuous import normal_actor
from rlfast.exploration import GaussianNoise, OUNoise
from rlfast.policy import DDPGPolicy, SACPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.runtime.native import NotNativeError


def critic():
    return Critic(Net(4, 2, hidden_sizes=[8], concat=True))


def ddpg(kind=DDPGPolicy, **options):
    given = {"actor": Actor(Net(4, hidden_sizes=[8]), 2), "critic": critic(), "action_space": Box(-2.0, 2.0, (2,))}
    return kind(**given | options, actor_optim=None, critic_optim=None)


class TestNoise:
    def test_actions_that_are_no_arrays_are_left_as_they_are(self):
        act = torch.zeros(2, 2)
        with pytest.warns(UserWarning, match="noise is added to arrays, not to a Tensor: it is left out") as warned:
            assert ddpg().exploration_noise(act, None) is act
        assert warned[0].filename == __file__

    def test_without_noise_nothing_is_said_of_tensors(self):
        act = torch.zeros(2, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ddpg(exploration_noise=None).exploration_noise(act, None) is act

    def test_only_policies_without_noise_explore_in_rust(self):
        class Own(DDPGPolicy):
            def exploration_noise(self, act, batch):
                return -act

        assert ddpg(exploration_noise=None).native_exploration() is None
        with pytest.raises(NotNativeError, match="noise is added to actions in Python"):
            ddpg().native_exploration()
        with pytest.raises(NotNativeError, match="Own has exploration noise of its own"):
            ddpg(Own, exploration_noise=None).native_exploration()

    def test_it_is_told_which_episodes_start(self):
        noise = OUNoise(sigma=1.0, seed=0)
        policy, act = ddpg(exploration_noise=noise), np.zeros((2, 2), np.float32)
        told = []
        noise.start_episodes = told.append
        policy.exploration_noise(act, None)
        rows = np.array([True, False])
        policy.start_episodes(rows)
        assert told == [rows]
        policy.set_exp_noise(np.ones)
        policy.start_episodes(rows)  # a function cannot start anew
        assert len(told) == 1

    def test_default(self):
        (noise,) = (ddpg(exploration_noise="default")._exploration_noise,)
        assert isinstance(noise, GaussianNoise)
        assert noise(np.zeros(20_000).shape).std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(("method", "mapped"), [("clip", 2.0), (None, 3.0)])
def test_how_actions_are_bounded(method, mapped):
    policy = ddpg(action_bound_method=method)
    assert policy.action_bound_method == method
    if method is None:
        policy.action_scaling = False
    assert policy.map_action(np.full((1, 2), 3.0, np.float32)).tolist() == [[mapped] * 2]


def test_samples_are_moved_to_the_actor():
    policy = ddpg().to("meta", torch.float64)
    act = policy.actions(np.zeros((3, 2), np.float32), torch.device("meta"))
    assert (act.device.type, act.dtype) == ("meta", torch.float64)


def test_the_second_critic_must_be_a_network():
    with pytest.raises(TypeError, match="critic2 must be a Module"):
        SACPolicy(
            actor=normal_actor(),
            actor_optim=None,
            critic=critic(),
            critic_optim=None,
            critic2=lambda obs, act: nn.Identity(),
            critic2_optim=None,
            action_space=Box(-2.0, 2.0, (2,)),
        )
