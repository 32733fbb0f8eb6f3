import gymnasium as gym
import numpy as np
import pytest

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, SubprocVectorEnv, VectorEnvNormReward
from scripted import Scripted, ScriptedPolicy

GAMMA = 0.5
EPSILON = 1e-8


def make(mode=None, **kwargs):
    """Episodes of 3 and of 2 steps, with the rewards 1, 2, 3, the second truncated."""
    envs = [lambda: Scripted(3, reward=float), lambda: Scripted(2, reward=float, truncate=True)]
    return VectorEnvNormReward(DummyVectorEnv(envs, autoreset_mode=mode), GAMMA, **kwargs)


def scale(returns):
    return np.sqrt(np.var(returns) + EPSILON)


def test_rewards_scaled_by_deviation_of_returns():
    """The returns of the episodes are 1, 2.5, 4.25 and 1, 2.5, and begin anew after a truncation as well."""
    envs = make(clip_max=None)
    envs.reset()
    returns = []
    for ours, rewards in (((1, 1), (1, 1)), ((2.5, 2.5), (2, 2))):
        _, rew, *_ = envs.step([0, 0])
        returns += ours
        np.testing.assert_allclose(rew, np.array(rewards) / scale(returns), rtol=1e-12)
    envs.reset([1])
    _, rew, *_ = envs.step([0, 0])
    returns += [4.25, 1]
    np.testing.assert_allclose(rew, np.array([3, 1]) / scale(returns), rtol=1e-12)
    envs.reset([0])
    _, rew, *_ = envs.step([0], id=[0])
    returns += [1]
    np.testing.assert_allclose(rew, [1 / scale(returns)], rtol=1e-12)
    assert envs.return_rms.count == len(returns)
    np.testing.assert_allclose([envs.return_rms.mean, envs.return_rms.var], [np.mean(returns), np.var(returns)])


@pytest.mark.parametrize("mode", ["same-step", "next-step"])
def test_autoreset_step_counts_no_reward(mode):
    envs = make(mode)
    envs.reset()
    for _ in range(8):
        envs.step(np.zeros(2, int))
    lengths = (3, 2) if mode == "same-step" else (4, 3)  # with the step that resets
    returns = [
        (1, 2.5, 4.25)[step % length]
        for length, steps in zip(lengths, (3, 2), strict=True)
        for step in range(8)
        if step % length < steps
    ]
    assert envs.return_rms.count == len(returns)
    np.testing.assert_allclose(envs.return_rms.mean, np.mean(returns))


def test_reset_step_rewards_do_not_count():
    """Vector environments of others may report a reward there; the next episode begins with a return of 0."""
    envs = make("next-step", clip_max=None)
    inner, received = envs.venv, []
    receive = inner.recv

    def recv(*args, **kwargs):
        rows = receive(*args, **kwargs)
        if rows.valid is not None:
            rows.rew[~rows.valid] = 100.0
        received.append(rows)
        return rows

    inner.recv = recv
    envs.reset()
    returns = []
    for _ in range(5):
        envs.send(np.zeros(2, int))
        returns.append(envs.recv().returns[1])
    assert [rows.valid is not None and not rows.valid[1] for rows in received] == [False, False, True, False, False]
    assert [returns[step] for step in (0, 1, 3, 4)] == [1, 3, 1, 3]
    assert envs.return_rms.mean < 5


def test_a_reset_within_an_episode_begins_anew():
    envs = make()
    envs.reset()
    envs.step([0, 0])
    envs.reset([1])
    envs.step([0, 0])
    np.testing.assert_allclose(envs.return_rms.mean, np.mean([1, 1, 2.5, 1]))


def test_scaled_rewards_are_bounded():
    envs = make(clip_max=1.5)
    envs.reset()
    _, rew, *_ = envs.step([0, 0])  # equal returns have no deviation
    assert rew.tolist() == [1.5, 1.5]
    assert np.isfinite(make(clip_max=None).return_rms.var)


def test_statistics_stay_as_they_are_without_updates():
    envs = make(update_return_rms=False)
    envs.reset()
    _, rew, *_ = envs.step([0, 0])
    np.testing.assert_allclose(rew, [1, 1])  # the deviation before the first update is 1
    assert envs.return_rms.count == 0


def test_a_saved_state_goes_on_within_episodes():
    first, second = make(), make()
    for envs in (first, second):
        envs.reset()
    first.step([0, 0])
    second.venv.step([0, 0])
    saved = first.state_dict()
    _, wanted, *_ = first.step([0, 0])
    second.load_state_dict(saved)
    saved["discounted"][:] = 9  # a copy
    _, rew, *_ = second.step([0, 0])
    assert rew.tolist() == wanted.tolist()
    assert second.state_dict()["count"] == 4
    second.send(np.zeros(1, int), [0])
    assert second.recv().returns.tolist() == [6]
    with pytest.raises(ValueError, match="got the returns of 2 environments for 1"):
        VectorEnvNormReward(DummyVectorEnv([Scripted])).load_state_dict(saved)


@pytest.mark.parametrize("gamma", [-0.1, 1.1])
def test_gamma_is_a_discount_factor(gamma):
    with pytest.raises(ValueError, match="gamma must be within 0 and 1"):
        VectorEnvNormReward(DummyVectorEnv([Scripted]), gamma)


class Agents(Scripted):
    def step(self, action):
        obs, _, *more = super().step(action)
        return obs, np.array([1.0, 3.0]), *more


def test_agent_rewards_scaled_separately():
    envs = VectorEnvNormReward(DummyVectorEnv([lambda: Agents(4)] * 2), GAMMA, clip_max=None)
    envs.reset()
    envs.step([0, 0])
    _, rew, *_ = envs.step([0, 0])
    scales = [scale([1, 1.5]), scale([3, 4.5])]
    np.testing.assert_allclose(rew, np.array([[1, 3], [1, 3]]) / scales, rtol=1e-12)


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
@pytest.mark.parametrize("mode", [None, "same-step", "next-step"])
def test_collector_stores_scaled_reports_raw_rewards(kind, mode):
    makers = [lambda: Scripted(3, reward=float), lambda: Scripted(2, reward=float, truncate=True)]
    envs = VectorEnvNormReward(kind(makers, autoreset_mode=mode), GAMMA, clip_max=None)
    with Collector(ScriptedPolicy(), envs, VectorReplayBuffer(100, 2)) as collector:
        first = collector.collect(n_step=2)  # an episode goes on in the next collect
        second = collector.collect(n_step=12)
        assert {*first.returns.tolist(), *second.returns.tolist()} == {6.0, 3.0}
        seen = [1, 1, 2.5, 2.5, 4.25] + [1] * (mode != "next-step")  # which only resets environment 1 in the third step
        assert collector.buffer.rew[2] == pytest.approx(3 / scale(seen))


def test_innermost_wrapper_has_raw_rewards():
    envs = VectorEnvNormReward(make())
    envs.reset()
    for _ in range(2):
        envs.send(np.zeros(2, int))
        rows = envs.recv()
    assert rows.returns.tolist() == [3, 3]
    plain = DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    plain.reset()
    plain.send([0])
    assert plain.recv().returns is None
