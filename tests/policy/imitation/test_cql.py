"""Parts of the losses of CQL, and calibration; a step is tested with other offline policies."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from continuous import LOG_PROB, GivenNormal, Line
from policy.given import overriding
from rlfast.data import Batch, ReplayBuffer
from rlfast.functional.distributions import SquashedNormal
from rlfast.policy import CQLPolicy
from rlfast.policy.replay import Sample

ACT = math.tanh(0.5)
NOISE = torch.tensor([[0.5]])
OBS = torch.zeros(1, 1)


def make(**options):
    nets = {"actor": GivenNormal(0.0, 1.0), "critic": Line(2.0, 1.0), "critic2": Line(-1.0, 2.0)}
    given = {"action_space": Box(-1, 1, (1,)), "num_repeat_actions": 2, "calibrated": False, "alpha": 0.5}
    return CQLPolicy(**nets, actor_optim=None, critic_optim=None, **given | options)


def test_actions_of_policy_are_drawn_by_noise():
    policy, noise = make(), torch.tensor([[0.5], [-1.0], [0.0]])
    act, log_prob = policy.actor_pred(torch.zeros(3, 1), noise)
    expected = SquashedNormal(torch.zeros(3, 1), torch.ones(3, 1)).log_prob(act)
    assert act.tolist() == noise.tanh().tolist()
    assert log_prob.flatten().tolist() == pytest.approx(expected.tolist(), abs=1e-4)


def test_overridden_forward_draws_itself():
    policy = overriding(make(), forward=lambda *_: Batch(act=torch.zeros(3, 1), log_prob=torch.ones(3, 1)))
    assert policy.actor_pred(torch.zeros(3, 1), NOISE)[1].tolist() == [[1.0]] * 3


def test_values_of_both_critics_less_the_entropy():
    policy = make()
    loss, log_prob = policy.calc_actor_loss(OBS, NOISE)
    assert (loss.item(), log_prob.item()) == pytest.approx((0.5 * LOG_PROB - (2 - ACT), LOG_PROB))
    first, second = policy.calc_pi_values(OBS, OBS, NOISE)
    assert (first.item(), second.item()) == pytest.approx((2 * ACT + 1 - LOG_PROB, 2 - ACT - LOG_PROB))
    first, second = policy.calc_random_values(OBS, torch.tensor([[0.25]]))
    assert (first.item(), second.item()) == pytest.approx((1.5 + math.log(2), 1.75 + math.log(2)))


def test_numbers_are_drawn_and_rated_where_the_actor_is_and_as_exactly():
    policy = make(calibrated=True).to(torch.bfloat16)
    draws = (torch.zeros(2, 1, dtype=torch.bfloat16),) * 3
    given = {"obs_next": OBS, "extras": (torch.tensor([7.0]),)}
    values = policy.sampled_values(Sample(None, OBS, None, OBS, 1.0, is_due=True, **given), *draws)
    assert [one.dtype for one in values] == [torch.bfloat16] * 2
    policy = policy.to("meta", torch.float64)
    draws = policy.draw_step(3)
    assert [one.shape for one in draws] == [(3, 1)] * 2 + [(6, 1)] * 3
    assert {(one.device.type, one.dtype) for one in draws} == {("meta", torch.float64)}
    assert policy.inputs(np.zeros((3, 1), np.float32)).device.type == "meta"


def test_only_rows_that_are_there_have_returns():
    buffer, policy = ReplayBuffer(6), make(calibrated=True, gamma=0.5)

    def add(rew):
        obs = np.zeros(1, np.float32)
        flags = {"terminated": rew == 2.0, "truncated": False}
        buffer.add(Batch(obs=obs, act=np.zeros(1), rew=rew, obs_next=obs, info={}, **flags))

    for rew in (1.0, 2.0, 3.0, 4.0):
        add(rew)
    policy.process_buffer(buffer)
    assert buffer.has_calibration_return.tolist() == [True] * 4 + [False] * 2
    assert buffer.has_calibration_return.dtype == bool
    first = policy.process_fn(buffer[[0, 1]], buffer, np.array([0, 1]))
    assert first.calibration_returns.tolist() == [2.0, 2.0]
    assert first.calibration_returns.dtype == np.float32
    add(5.0)
    later = policy.process_fn(buffer[[0, 4]], buffer, np.array([0, 4]))
    assert later.calibration_returns.tolist() == [2.0, -np.inf]  # of a running episode
    add(2.0)
    later = policy.process_fn(buffer[[4, 0, 5]], buffer, np.array([4, 0, 5]))
    assert later.calibration_returns.tolist() == [5.0 + 0.5 * 2.0, 2.0, 2.0]
    policy.process_buffer(buffer)
    rows = policy.process_fn(buffer[[2, 3, 4]], buffer, np.array([2, 3, 4]))
    assert rows.calibration_returns.tolist() == [3 + 0.5 * (4 + 0.5 * 6), 4 + 0.5 * 6, 6.0]


def test_values_in_a_running_episode_have_no_bound():
    policy = make(calibrated=True)
    act = torch.zeros(2, 1)
    bounded = policy.calc_pi_values(act, act, torch.zeros(2, 1), lowest_N=torch.tensor([100.0, -math.inf]))[0]
    free = policy.calc_pi_values(act, act, torch.zeros(2, 1))[0]
    assert bounded[1] == free[1]
    assert bounded[0] > free[0] + 50


def test_returns_of_ones_own_are_taken():
    buffer, policy = ReplayBuffer(2), make(calibrated=True)
    obs = np.zeros(1, np.float32)
    flags = {"terminated": False, "truncated": False, "calibration_returns": 7.0}
    buffer.add(Batch(obs=obs, act=np.zeros(1), rew=1.0, obs_next=obs, info={}, **flags))
    assert policy.process_fn(buffer[[0]], buffer, np.array([0])).calibration_returns.tolist() == [7.0]
