"""``preprocess_fn`` of collectors, as in Tianshou 1.0."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rlfast.data import AsyncCollector, Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from scripted import Scripted, ScriptedPolicy


def collector(preprocess_fn, *envs, policy=None, size=100, **kwargs):
    vector = DummyVectorEnv([lambda env=env: env for env in envs], **kwargs)
    return Collector(policy or ScriptedPolicy(), vector, VectorReplayBuffer(size * len(envs), len(envs)), preprocess_fn)


def test_it_is_called_with_what_the_reference_says():
    calls = []

    def note(**kwargs):
        calls.append(kwargs)
        return Batch()

    policy = ScriptedPolicy(act=lambda batch: np.arange(len(batch.obs)), stored=lambda _: {"value": np.ones(2)})
    c = collector(note, Scripted(2, info={"lives": 3}), Scripted(3, info={"lives": 4}), policy=policy)
    assert c.preprocess_fn is note
    c.collect(n_step=4)
    assert [sorted(call) for call in calls] == [
        ["env_id", "info", "obs"],
        *[["act", "done", "env_id", "info", "obs_next", "policy", "rew", "terminated", "truncated"]] * 2,
        ["env_id", "info", "obs"],
    ]
    reset, _, step, again = calls
    assert (reset["obs"].tolist(), reset["env_id"].tolist()) == ([[0, 0], [0, 0]], [0, 1])
    assert isinstance(reset["info"], np.ndarray)
    assert reset["info"].tolist() == [{"lives": 3}, {"lives": 4}]
    assert step["obs_next"].tolist() == [[0, 2], [0, 2]]
    assert (step["rew"].tolist(), step["act"].tolist(), step["policy"].value.tolist()) == ([1, 1], [0, 1], [1, 1])
    assert step["terminated"].tolist() == step["done"].tolist() == [True, False]
    assert step["truncated"].tolist() == [False, False]
    assert (step["info"].lives.tolist(), step["info"].env_id.tolist()) == ([3, 4], [0, 1])
    assert (again["obs"].tolist(), again["env_id"].tolist()) == ([[1, 0]], [0])


def test_what_it_gives_is_seen_and_stored():
    def tenfold(obs=None, obs_next=None, rew=None, info=None, env_id=None):
        if obs is not None:
            return {"obs": obs * 10, "info": [{"lives": 7 + i} for i in env_id]}
        return Batch(obs_next=obs_next * 10, rew=rew - 0.5, info={"lives": info.lives * 2, "env_id": env_id})

    policy = ScriptedPolicy()
    c = collector(tenfold, Scripted(2, info={"lives": 1}), Scripted(3, info={"lives": 2}), policy=policy)
    stats = c.collect(n_step=6)
    assert [batch.obs[:, 1].tolist() for batch in policy.seen] == [[0, 0], [10, 10], [0, 20]]
    assert policy.seen[2].obs[0].tolist() == [10, 0]
    assert [batch.info.lives.tolist() for batch in policy.seen] == [[7, 8], [2, 4], [7, 4]]
    first, second = (buffer[:] for buffer in c.buffer.buffers)
    assert first.obs_next.tolist() == [[0, 10], [0, 20], [10, 10]]
    assert first.obs.tolist() == [[0, 0], [0, 10], [10, 0]]
    assert second.obs_next[:, 1].tolist() == [10, 20, 30]
    assert first.rew.tolist() == [0.5] * 3
    assert first.info.lives.tolist() == [2, 2, 2]
    assert stats.returns.tolist() == [1.0, 1.5]


def test_it_may_change_what_an_action_and_an_episode_are():
    def change(act=None, terminated=None, **_):
        return {} if act is None else {"act": act + 5, "terminated": terminated & False, "truncated": terminated}

    c = collector(change, Scripted(2))
    c.collect(n_step=4)
    rows = c.buffer[:]
    assert rows.act.tolist() == [5] * 4
    assert rows.truncated.tolist() == [False, True] * 2
    assert not rows.terminated.any()
    assert c.env.workers[0].env.actions == [0] * 4


@pytest.mark.parametrize("answer", [None, {}, Batch()])
def test_it_may_give_nothing(answer):
    plain, changed = collector(None, Scripted(2)), collector(lambda **_: answer, Scripted(2))
    for c in (plain, changed):
        c.collect(n_step=5)
    np.testing.assert_array_equal(plain.buffer[:].obs, changed.buffer[:].obs)


def test_rewards_of_agents_may_become_one():
    c = collector(lambda rew=None, **_: {} if rew is None else {"rew": rew[:, 1]},
                  Scripted(2, reward=np.array([1.0, 3.0])))  # fmt: skip
    assert c.collect(n_episode=1).returns.tolist() == [6.0]


def test_it_is_given_to_asynchronous_collectors_too():
    envs = DummyVectorEnv([lambda n=n: Scripted(n) for n in (2, 3, 4)], wait_num=2)
    seen = []

    def note(obs=None, obs_next=None, env_id=None, policy=None):
        seen.append((obs is None, env_id.tolist()))
        return {"obs": obs + 100} if obs is not None else {"obs_next": obs_next + 100}

    with pytest.warns(UserWarning, match="more transitions"):
        c = AsyncCollector(ScriptedPolicy(), envs, VectorReplayBuffer(300, 3), note)
    c.collect(n_step=30)
    assert (c.buffer[:].obs >= 100).all()
    assert (c.buffer[:].obs_next >= 100).all()
    assert {i for stepped, ids in seen for i in ids if stepped} == {0, 1, 2}


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_it_sees_the_resets_that_environments_do_themselves(mode):
    begun = []

    def change(obs=None, obs_next=None, info=None, env_id=None):
        if obs is None:
            return {"obs_next": obs_next + 100}
        begun.append((obs.tolist(), env_id.tolist()))
        return {"obs": obs + 1000, "info": [{"fresh": 1} for _ in info]}

    policy = ScriptedPolicy()
    c = collector(change, Scripted(2), Scripted(3), policy=policy, autoreset_mode=mode)
    c.collect(n_step=12)
    first = c.buffer.buffers[0][:]
    expected = [[1000, 1000], [100, 101], [1001, 1000], [101, 101]]
    assert first.obs[:4].tolist() == expected
    assert first.obs_next[:4].tolist() == [[100, 101], [100, 102], [101, 101], [101, 102]]
    assert begun[0] == ([[0, 0], [0, 0]], [0, 1])
    assert begun[1] == ([[1, 0]], [0])
    assert any(batch.info.get("fresh", np.zeros(2)).tolist() == [1, 0] for batch in policy.seen[1:])


def test_observations_of_dicts_are_batches():
    def change(obs=None, obs_next=None, **_):
        if obs is not None:
            return {"obs": {"pos": obs.pos + 5, "mask": obs.mask}}
        return Batch(obs_next=Batch(pos=obs_next.pos + 5, mask=obs_next.mask))

    policy = ScriptedPolicy(act=lambda batch: batch.obs.pos[:, 0].astype(int) % 4)
    c = collector(change, Scripted(2, dict_obs=True), policy=policy)
    c.collect(n_step=3)
    assert c.buffer[:].obs.pos.tolist() == [[5, 5], [5, 6], [6, 5]]
    assert c.buffer[:].obs_next.pos.tolist() == [[5, 6], [5, 7], [6, 6]]
    assert c.buffer[:].obs_next.mask.tolist() == [[1, 0]] * 3
