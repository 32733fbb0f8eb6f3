"""The template of soft actor-critic and its variants, with one of them that is minimal."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from continuous import LOG_PROB, GivenNormal, Lines
from rlfast.data import Batch
from rlfast.policy import AutoAlpha
from rlfast.policy.learners.replay_learner import Sample
from rlfast.policy.learners.soft_learner import SoftActorCritic
from rlfast.policy.modelfree.redq import REDQTrainingStats

ACT = math.tanh(0.5)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5)


class Minimal(SoftActorCritic):
    """Two critics, ``2 a + 1`` and ``-a + 2``: targets take the first one, the actor the second."""

    stats_class = REDQTrainingStats

    def __init__(self, delay=1, alpha=0.5):
        super().__init__(
            actor=GivenNormal(0.0, 1.0),
            actor_optim=sgd,
            action_space=Box(-1, 1, (1,)),
            tau=0.25,
            gamma=0.9,
            estimation_step=1,
            exploration_noise=None,
            action_bound_method=None,
        )
        self.add_ensemble(Lines([2.0, -1.0], [1.0, 2.0]), sgd)
        self.set_temperature(alpha)
        self.actor_delay = delay

    def target_value(self, obs_next, act, *draws):
        values = self.ensemble_values(obs_next, act, old=True)
        return values.T if draws else values[0]

    def actor_value(self, obs, act):
        return self.ensemble_values(obs, act)[1]


def step(policy, *, is_due=True):
    obs, noise = torch.zeros(1, 1), (torch.full((1, 1), 0.5),)
    return policy.gradient_step(
        Sample(None, obs, None, torch.full((1, 1), 0.5), None, is_due, noise, torch.tensor([3.0]))
    )


def test_next_values_have_the_entropy_of_the_actor():
    policy, noise = Minimal(), torch.full((1, 1), 0.5)
    value = policy.next_value(torch.zeros(1, 1), None, noise)
    assert value.tolist() == pytest.approx([2 * ACT + 1 - 0.5 * LOG_PROB])
    several = policy.next_value(torch.zeros(1, 1), None, noise, noise)
    assert several.flatten().tolist() == pytest.approx([2 * ACT + 1 - 0.5 * LOG_PROB, 2 - ACT - 0.5 * LOG_PROB])
    assert several.shape == (1, 2)


def test_losses_of_a_step_and_the_temperature_after_it():
    policy = Minimal(alpha=AutoAlpha(-1.0, math.log(0.5), sgd))
    losses, error = step(policy)
    errors = [3 - 2, 3 - 1.5]
    assert error.tolist() == pytest.approx([sum(errors) / 2])
    assert losses["critic_loss"].item() == pytest.approx((1 + 2.25) / 2)
    slope, offset = -1 + 0.5 * 1.5 * 0.5, 2 + 0.5 * 1.5  # the second critic after its step
    assert losses["actor_loss"].item() == pytest.approx(0.5 * LOG_PROB - slope * ACT - offset)
    assert losses["alpha_loss"].item() == pytest.approx(-math.log(0.5) * (LOG_PROB - 1))
    assert losses["alpha"].item() == pytest.approx(0.5 * math.exp(0.5 * (LOG_PROB - 1)))
    assert policy.critic_old.offset.flatten().tolist() == pytest.approx([1 + 0.25 * 0.5, 2 + 0.25 * 0.75])


def test_a_step_that_is_not_due_moves_critics_and_targets_only():
    policy = Minimal(alpha=AutoAlpha(-1.0, 0.0, sgd))
    losses, _ = step(policy, is_due=False)
    assert {*losses} == {"critic_loss", "alpha"}
    assert (policy.actor.mean.item(), policy.actor.std.item(), policy.alpha.item()) == (0.0, 1.0, 1.0)
    assert policy.critic.offset.flatten().tolist() != [1.0, 2.0]
    assert policy.critic_old.offset.flatten().tolist() != [1.0, 2.0]


@pytest.mark.parametrize("delay", [1, 3])
def test_the_last_step_of_each_delay_is_due(delay):
    policy, due = Minimal(delay), []
    policy._last_losses["actor_loss"] = 0.0

    def gradient_step(sample):
        due.append(sample.is_due)
        return {"critic_loss": torch.zeros(())}, None

    policy.gradient_step = gradient_step
    for _ in range(6):
        policy.learn(Batch(obs=np.zeros((1, 1), np.float32), act=np.zeros((1, 1), np.float32), returns=np.zeros(1)))
    assert due == [i % delay == delay - 1 for i in range(6)]
