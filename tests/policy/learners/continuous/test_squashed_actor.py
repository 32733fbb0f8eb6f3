"""The template of squashed normal actors, by SAC."""

import numpy as np
import torch
from gymnasium.spaces import Box

from continuous import GivenNormal, Line
from policy.learners.given import calls_of
from rlfast.data import Batch
from rlfast.policy import SACPolicy

OBS = np.zeros((2, 1), np.float32)


def make():
    nets = {"actor": GivenNormal(0.0, 1.0), "critic": Line(2.0, 1.0), "critic2": Line(-1.0, 2.0)}
    return SACPolicy(**nets, actor_optim=None, critic_optim=None, action_space=Box(-1, 1, (1,)))


def test_the_actor_is_given_hidden_states_and_infos():
    policy = make()
    calls = calls_of(policy.actor)
    policy(Batch(obs=OBS, info=Batch(lives=np.array([3, 2]))), "before")
    assert (calls[0]["state"], calls[0]["info"].lives.tolist()) == ("before", [3, 2])
    policy.random_actions(OBS, "then", None, torch.zeros(2, 1))
    assert calls[1] == {"state": "then", "info": {}}


def test_a_forward_of_ones_own_is_given_them():
    policy, given = make(), []

    def forward(batch, state):
        given.append((batch, state))
        return Batch(act=torch.zeros(2, 1), log_prob=torch.zeros(2, 1))

    policy.forward = forward
    batch = Batch(obs=OBS, info={})
    act, log_prob = policy.random_actions(OBS, "before", batch)
    assert (act.shape, log_prob.shape) == ((2, 1), (2,))
    assert given == [(batch, "before")]


def test_noise_is_drawn_where_the_actor_is_and_as_exactly():
    policy = make().to("meta", torch.float64)
    for noise in (*policy.draw_next(3), *policy.draw_step(3)):
        assert (noise.shape, noise.device.type, noise.dtype) == ((3, 1), "meta", torch.float64)
    asked, draw = [], policy.draw_normal
    policy.draw_normal = lambda *wanted: asked.append(wanted) or draw(*wanted)
    policy(Batch(obs=OBS, info={}))
    assert asked == [((2, 1), torch.float64, torch.device("meta"))]
