"""The templates of deterministic actors, by TD3."""

import numpy as np
import torch
from gymnasium.spaces import Box

from continuous import Given, Line
from policy.learners.given import calls_of
from rlfast.data import Batch
from rlfast.policy import TD3Policy
from rlfast.policy.learners.replay_learner import Sample

OBS = torch.zeros(2, 1)


def make(**options):
    nets = {"actor": Given(0.5), "critic": Line(2.0, 1.0), "critic2": Line(-1.0, 2.0)}
    return TD3Policy(**nets, actor_optim=None, critic_optim=None, action_space=Box(-1, 1, (1,)), **options)


def test_actors_are_given_hidden_states_and_infos():
    policy = make()
    calls, later = calls_of(policy.actor), calls_of(policy.actor_old)
    policy(Batch(obs=OBS.numpy(), info=Batch(lives=np.array([3, 2]))), "before")
    assert (calls[0]["state"], calls[0]["info"].lives.tolist()) == ("before", [3, 2])
    policy.actor_loss(Sample(None, OBS, "then", OBS, None, is_due=True, draws=()))
    assert calls[1] == {"state": "then", "info": {}}
    policy.next_value(OBS, "after", torch.zeros(2, 1))
    policy.smoothed_actions(OBS, "at last")
    assert later == [{"state": "after", "info": {}}, {"state": "at last", "info": {}}]


def test_a_forward_of_ones_own_is_given_them_and_need_not_know_the_target_network():
    policy, given = make(), []

    def forward(batch, state):
        given.append((batch, state))
        return Batch(act=torch.full((len(batch.obs), 1), 0.25))

    policy.forward = forward
    batch = Batch(obs=OBS.numpy(), info={})
    assert policy.best_actions(OBS, "before", batch).tolist() == [[0.25], [0.25]]
    assert given == [(batch, "before")]


def test_noise_is_drawn_where_the_actor_is_and_as_exactly():
    policy = make().to("meta", torch.float64)
    (noise,) = policy.draw_next(3)
    assert (noise.shape, noise.device.type, noise.dtype) == ((3, 1), "meta", torch.float64)
