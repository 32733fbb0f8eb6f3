from warnings import catch_warnings, simplefilter

import gymnasium as gym
import numpy as np
import pytest
import torch

import rlfast
from rlfast.data import Collector
from rlfast.data.collect import limits
from rlfast.data.collect.limits import EpisodeLimit, EpisodeQuotas, StepLimit
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy
from rlfast.utils.net.common import Net


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("n_step", "exact", "steps"),
    [(9, False, 2), (8, False, 1), (5, False, 1), (4, False, None), (9, True, 1), (8, True, 1), (5, True, None)],
)
def test_the_last_step_of_all_environments_is_left_to_python(n_step, exact, steps):
    """Environments that are not in a last step of fewer are reset by the next collect, so maybe with its seed."""
    assert StepLimit(n_step, np.arange(4), exact=exact).whole_steps == (None if steps is None else ("steps", steps))


@pytest.mark.parametrize(("n_episode", "env_num"), [(1, 1), (7, 3), (3, 7), (10, 4), (8, 4)])
def test_counts_are_exact_whatever_ends_when(n_episode, env_num):
    rng = np.random.default_rng(n_episode)
    for kind in (EpisodeLimit, EpisodeQuotas):
        goal, played = kind(n_episode, env_num), np.zeros(env_num, int)
        while not goal.reached:
            ended = goal.ready[rng.random(len(goal.ready)) < 0.3]
            played[ended] += 1
            goal.advance(len(goal.ready), ended)
        assert played.sum() == n_episode
        assert (played[: min(n_episode, env_num)] >= 1).all()
        if kind is EpisodeQuotas:
            assert played.max() - played.min() <= 1


def test_a_limit_goes_on_from_what_a_collect_in_rust_has_left():
    steps = StepLimit(9, np.arange(4))
    steps.resume(np.arange(4), 0, 8)
    assert (steps.reached, steps.whole_steps, steps.ready.tolist()) == (False, None, [0, 1, 2, 3])
    steps.advance(4, ids())
    assert steps.reached
    episodes = EpisodeLimit(7, 3)
    assert episodes.whole_steps == ("episodes", 7)
    episodes.resume(ids(0, 2), 2, 40)
    assert (episodes.ready.tolist(), episodes.whole_steps, episodes.reached) == ([0, 2], ("episodes", 2), False)
    episodes.resume(ids(), 0, 6)
    assert episodes.reached
    quotas = EpisodeQuotas(7, 3)
    assert (quotas.whole_steps[0], quotas.whole_steps[1].tolist()) == ("quotas", [3, 2, 2])
    quotas.resume(ids(1), np.array([0, 2, 0]), 40)
    assert (quotas.ready.tolist(), quotas.whole_steps[1].tolist(), quotas.reached) == ([1], [0, 2, 0], False)
    quotas.advance(1, ids(1))
    quotas.advance(1, ids(1))
    assert quotas.reached


def endless(kind, last):
    """A collector whose policy pushes the car to the left, which ends an episode after ``last`` steps only."""
    if kind == "native":
        envs = rlfast.make_vec("MountainCar-v0", 2, max_episode_steps=last)
    else:
        envs = DummyVectorEnv([lambda: gym.make("MountainCar-v0", max_episode_steps=last) for _ in range(2)])
    net = Net(2, 3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        [*net.parameters()][-1][0] = 1.0
    policy = DQNPolicy(model=net, optim=torch.optim.Adam(net.parameters()), action_space=gym.spaces.Discrete(3))
    return Collector(policy, envs)


@pytest.mark.parametrize("call", ["evaluate", "collect"])
def test_a_wait_for_the_end_of_an_episode_warns_once(call, monkeypatch):
    monkeypatch.setattr(limits, "PATIENCE", 300)
    for last, warnings in ((300, 0), (700, 1)):
        collector = endless("python", last)
        with catch_warnings(record=True) as caught:
            simplefilter("always")
            stats = collector.evaluate(4) if call == "evaluate" else collector.collect(n_episode=4)
        assert [*stats.lens] == [last] * 4
        assert len(caught) == warnings
    assert "--env-kwargs max_episode_steps=N" in str(caught[0].message)


def test_a_wait_in_rust_warns():
    with pytest.raises(UserWarning, match="no episode has ended in 50,000 steps of each environment"):
        endless("native", 100_000_000).evaluate(2)
