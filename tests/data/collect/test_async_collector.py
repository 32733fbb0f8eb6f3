import numpy as np
import pytest

from collecting import count, vector
from rlfast.data import AsyncCollector, Collector, VectorReplayBuffer
from rlfast.env import BaseVectorEnv, DummyEnvWorker
from scripted import Scripted, ScriptedPolicy


class Slow(DummyEnvWorker):
    """Vector environments that answer in a random order, and never more of them than requested."""

    rng = np.random.default_rng(0)

    @staticmethod
    def wait(workers, wait_num, timeout=None):
        return [workers[i] for i in Slow.rng.permutation(len(workers))[:wait_num]]


def collector(*envs, wait_num=2, policy=None, mode=None, **kwargs):
    env = BaseVectorEnv([lambda env=env: env for env in envs], Slow, wait_num=wait_num, autoreset_mode=mode)
    with pytest.warns(UserWarning, match="more transitions"):
        return AsyncCollector(policy or ScriptedPolicy(), env, VectorReplayBuffer(200 * len(envs), len(envs)), **kwargs)


def check_episodes(buffer, length):
    """Asserts that the buffer holds whole episodes in order; observations are ``[episode, step]``."""
    rows = buffer[:]
    expected = [[k // length, k % length] for k in range(len(rows))]
    np.testing.assert_array_equal(rows.obs, expected)
    np.testing.assert_array_equal(rows.obs_next, [[e, s + 1] for e, s in expected])
    assert rows.terminated.tolist() == [s == length - 1 for _, s in expected]


@pytest.mark.pitfall("E13")
@pytest.mark.parametrize("wait_num", [1, 2, 3])
def test_results_belong_to_their_actions(wait_num):
    lengths = [2, 3, 5, 7]
    act, stored = lambda batch: batch.obs[:, 1].astype(int) % 4, lambda batch: {"seen": batch.obs.copy()}
    policy = ScriptedPolicy(act=act, state=count, stored=stored)
    c = collector(*(Scripted(length) for length in lengths), wait_num=wait_num, policy=policy)
    total = sum(c.collect(n_step=40).n_collected_steps for _ in range(5))
    assert total == len(c.buffer) >= 200
    for buffer, length in zip(c.buffer.buffers, lengths, strict=True):
        check_episodes(buffer, length)
        rows = buffer[:]
        np.testing.assert_array_equal(rows.act, rows.obs[:, 1] % 4)
        np.testing.assert_array_equal(rows.policy.seen, rows.obs)
        np.testing.assert_array_equal(rows.policy.hidden_state, rows.obs[:, 1])
        assert len(rows) >= total // (4 * 4)  # nobody starves


def test_collects_of_episodes_leave_new_ones_to_begin():
    envs = [Scripted(3), Scripted(4), Scripted(5)]
    c = collector(*envs)
    assert c.collect(n_episode=7).n_collected_episodes >= 7
    first_steps = [env.episode for env in envs]
    c.collect(n_step=6)
    for buffer, env, before in zip(c.buffer.buffers, envs, first_steps, strict=True):
        assert env.episode > before or len(buffer) == 0
        rows = buffer[:]
        begins = np.flatnonzero(rows.obs[:, 1] == 0)[1:]
        assert (rows.terminated | rows.truncated)[begins - 1].all()  # nothing is joined to what was cut off


class Eager(Slow):
    """Vector environments that answer all at once, in a random order."""

    @staticmethod
    def wait(workers, wait_num, timeout=None):
        return Slow.wait(workers, len(workers))


@pytest.mark.parametrize("mode", [None, "SAME_STEP", "NEXT_STEP"])
def test_results_of_all_at_once_in_another_order(mode):
    infos = [{"place": place} for place in range(4)]
    envs = [lambda info=info: Scripted(3 + info["place"], info=info) for info in infos]
    env = BaseVectorEnv(envs, Eager, wait_num=2, autoreset_mode=mode)
    policy = ScriptedPolicy(state=count, stored=lambda batch: {"of": batch.info.env_id, "seen": batch.obs.copy()})
    with pytest.warns(UserWarning, match="more transitions"):
        c = AsyncCollector(policy, env, VectorReplayBuffer(400, 4))
    c.collect(n_step=80)
    for place, buffer in enumerate(c.buffer.buffers):
        check_episodes(buffer, 3 + place)
        rows = buffer[:]
        assert set(rows.policy.of) == set(rows.info.place) == {place}
        np.testing.assert_array_equal(rows.policy.seen, rows.obs)
        np.testing.assert_array_equal(rows.policy.hidden_state, rows.obs[:, 1])


@pytest.mark.parametrize("mode", ["SAME_STEP", "NEXT_STEP"])
def test_with_environments_that_reset_themselves(mode):
    c = collector(Scripted(2), Scripted(3), Scripted(4), mode=mode)
    c.collect(n_step=60)
    for buffer, length in zip(c.buffer.buffers, [2, 3, 4], strict=True):
        check_episodes(buffer, length)


def test_reset_env_discards_pending_steps():
    c = collector(Scripted(3), Scripted(9), Scripted(9))
    c.collect(n_step=4)
    c.reset_env()
    assert c.env.waiting_id == []
    c.collect(n_step=3, random=True)
    for buffer in c.buffer.buffers:
        rows = buffer[:]
        begins = np.flatnonzero(rows.obs[:, 1] == 0)[1:]
        assert (rows.terminated | rows.truncated)[begins - 1].all()


def test_a_pending_step_may_fail_while_it_is_discarded():
    c = collector(Scripted(3), Scripted(9), Scripted(9))
    c.collect(n_step=4)
    recv = c.env.recv

    def failing(*args):
        recv(*args)
        raise RuntimeError("it broke")

    c.env.recv = failing
    c.reset_env()
    assert c.env.waiting_id == []


def test_an_environment_that_was_stepping_begins_anew_from_a_state():
    first, second = (collector(Scripted(9), Scripted(9), Scripted(9), wait_num=1) for _ in range(2))
    first.collect(n_step=4)
    stepping = first.env.waiting_id
    assert stepping
    assert second.load_state_dict(first.state_dict()) == dict.fromkeys(stepping, "it was stepping")


def test_a_collector_refuses_asynchronous_environments():
    with pytest.raises(ValueError, match="AsyncCollector"):
        Collector(ScriptedPolicy(), BaseVectorEnv([lambda: Scripted()] * 2, Slow, wait_num=1))


def test_synchronous_environments_are_stepped_as_by_a_collector():
    """There is no warning, and no more transitions are collected than requested."""
    results = []
    for kind in (Collector, AsyncCollector):
        buffer = VectorReplayBuffer(60, 3)
        c = kind(ScriptedPolicy(), vector(*(Scripted(length) for length in (2, 3, 4))), buffer)
        stats = c.collect(n_step=15), c.collect(n_episode=7)
        results.append(([(s.n_collected_steps, s.lens.tolist(), s.returns.tolist()) for s in stats], buffer[:].obs))
    assert results[0][0] == results[1][0]
    assert results[0][0][0][0] == 15
    np.testing.assert_array_equal(results[0][1], results[1][1])
