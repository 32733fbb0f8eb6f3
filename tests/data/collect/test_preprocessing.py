"""``preprocess_fn`` of collectors, as in Tianshou 1.0."""

import numpy as np
import pytest

from collecting import collector, rings, vector
from rlfast.data import AsyncCollector, Batch, VectorReplayBuffer
from rlfast.data.collect.preprocessing import Preprocessing, as_arrays, as_info
from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info
from scripted import Scripted, ScriptedPolicy


def test_it_is_called_with_the_fields_of_tianshou():
    calls = []

    def note(**kwargs):
        calls.append(kwargs)
        return Batch()

    policy = ScriptedPolicy(act=lambda batch: np.arange(len(batch.obs)), stored=lambda _: {"value": np.ones(2)})
    envs = Scripted(2, info={"lives": 3}), Scripted(3, info={"lives": 4})
    c = collector(*envs, policy=policy, preprocess_fn=note)
    assert c.preprocess_fn is note
    c.collect(n_step=4)
    of_reset = ["env_id", "info", "obs"]
    of_step = ["act", "done", "env_id", "info", "obs_next", "policy", "rew", "terminated", "truncated"]
    assert [sorted(call) for call in calls] == [of_reset, of_step, of_step, of_reset]
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


def test_its_results_are_seen_and_stored():
    def tenfold(obs=None, obs_next=None, rew=None, info=None, env_id=None):
        if obs is not None:
            return {"obs": obs * 10, "info": [{"lives": 7 + i} for i in env_id]}
        return Batch(obs_next=obs_next * 10, rew=rew - 0.5, info={"lives": info.lives * 2, "env_id": env_id})

    c = collector(Scripted(2, info={"lives": 1}), Scripted(3, info={"lives": 2}), preprocess_fn=tenfold)
    assert c.collect(n_step=6).returns.tolist() == [1.0, 1.5]
    assert [batch.obs[:, 1].tolist() for batch in c.policy.seen] == [[0, 0], [10, 10], [0, 20]]
    assert c.policy.seen[2].obs[0].tolist() == [10, 0]
    assert [batch.info.lives.tolist() for batch in c.policy.seen] == [[7, 8], [2, 4], [7, 4]]
    first, second = rings(c)
    assert first.obs_next.tolist() == [[0, 10], [0, 20], [10, 10]]
    assert first.obs.tolist() == [[0, 0], [0, 10], [10, 0]]
    assert second.obs_next[:, 1].tolist() == [10, 20, 30]
    assert (first.rew.tolist(), first.info.lives.tolist()) == ([0.5] * 3, [2, 2, 2])


def test_its_arguments_may_be_written_to():
    def shift(obs_next=None, **_):
        if obs_next is None:
            return {}
        obs_next += 100
        return {"obs_next": obs_next}

    frozen, env = np.float32([3, 4]), Scripted(2)
    frozen.flags.writeable = False
    env._obs = lambda: frozen
    c, plain = collector(env, preprocess_fn=shift), collector(Scripted(2))
    for one in (c, plain):
        one.collect(n_step=2)
    assert c.buffer[:].obs_next.tolist() == [[103, 104]] * 2
    assert set(c.buffer[:].get_keys()) == set(plain.buffer[:].get_keys())


def test_it_may_change_actions_and_episodes():
    def change(act=None, terminated=None, **_):
        return {} if act is None else {"act": act + 5, "terminated": terminated & False, "truncated": terminated}

    env = Scripted(2)
    c = collector(env, preprocess_fn=change)
    c.collect(n_step=4)
    rows = c.buffer[:]
    assert (rows.act.tolist(), rows.truncated.tolist(), env.actions) == ([5] * 4, [False, True] * 2, [0] * 4)
    assert not rows.terminated.any()


@pytest.mark.parametrize("answer", [None, {}, Batch()])
def test_it_may_return_nothing(answer):
    plain, changed = collector(Scripted(2)), collector(Scripted(2), preprocess_fn=lambda **_: answer)
    for c in (plain, changed):
        c.collect(n_step=5)
    np.testing.assert_array_equal(plain.buffer[:].obs, changed.buffer[:].obs)


def test_rewards_of_agents_may_become_one():
    def second(rew=None, **_):
        return {} if rew is None else {"rew": rew[:, 1]}

    c = collector(Scripted(2, reward=np.array([1.0, 3.0])), preprocess_fn=second)
    assert c.collect(n_episode=1).returns.tolist() == [6.0]


def test_asynchronous_collectors_call_it_too():
    seen = []

    def note(obs=None, obs_next=None, env_id=None, policy=None):
        seen.append((obs is None, env_id.tolist()))
        return {"obs": obs + 100} if obs is not None else {"obs_next": obs_next + 100}

    envs = vector(*(Scripted(length) for length in (2, 3, 4)), wait_num=2)
    with pytest.warns(UserWarning, match="more transitions"):
        c = AsyncCollector(ScriptedPolicy(), envs, VectorReplayBuffer(300, 3), note)
    c.collect(n_step=30)
    assert min(c.buffer[:].obs.min(), c.buffer[:].obs_next.min()) >= 100
    assert {i for stepped, ids in seen for i in ids if stepped} == {0, 1, 2}


@pytest.mark.parametrize("mode", ["SAME_STEP", "NEXT_STEP"])
def test_resets_of_environments_themselves_are_preprocessed(mode):
    begun = []

    def change(obs=None, obs_next=None, info=None, env_id=None):
        if obs is None:
            return {"obs_next": obs_next + 100}
        begun.append((obs.tolist(), env_id.tolist()))
        return {"obs": obs + 1000, "info": [{"fresh": 1} for _ in info]}

    c = collector(Scripted(2), Scripted(3), mode=mode, preprocess_fn=change)
    c.collect(n_step=12)
    first = rings(c)[0]
    assert first.obs[:4].tolist() == [[1000, 1000], [100, 101], [1001, 1000], [101, 101]]
    assert first.obs_next[:4].tolist() == [[100, 101], [100, 102], [101, 101], [101, 102]]
    assert begun[:2] == [([[0, 0], [0, 0]], [0, 1]), ([[1, 0]], [0])]
    assert any(batch.info.get("fresh", np.zeros(2)).tolist() == [1, 0] for batch in c.policy.seen[1:])


def test_dict_observations_are_batches():
    def change(obs=None, obs_next=None, **_):
        if obs is not None:
            return {"obs": {"pos": obs.pos + 5, "mask": obs.mask}}
        return Batch(obs_next=Batch(pos=obs_next.pos + 5, mask=obs_next.mask))

    policy = ScriptedPolicy(act=lambda batch: batch.obs.pos[:, 0].astype(int) % 4)
    c = collector(Scripted(2, dict_obs=True), policy=policy, preprocess_fn=change)
    c.collect(n_step=3)
    assert c.buffer[:].obs.pos.tolist() == [[5, 5], [5, 6], [6, 5]]
    assert c.buffer[:].obs_next.pos.tolist() == [[5, 6], [5, 7], [6, 6]]
    assert c.buffer[:].obs_next.mask.tolist() == [[1, 0]] * 3


# -- one call ----------------------------------------------------------------------------------------------------------


def step(function, done=(False, False), obs=None, **own):
    """Preprocess a step of two environments, and return the transition, the results and the rows."""
    obs_next, flags = np.array([[1.0], [2.0]]), {"terminated": np.array(done), "truncated": np.zeros(2, bool)}
    rows = Rows(env_id=np.array([4, 7]), obs=obs_next if obs is None else obs, obs_next=obs_next, rew=np.zeros(2),
                info=Info.of([{"n": 1}, {}]), **flags, **own)  # fmt: skip
    transition = {"obs_next": obs_next, "rew": rows.rew, **flags, "act": np.zeros(2, int), "info": Batch()}
    return transition, *Preprocessing(function).of_rows(transition, rows), rows


def test_a_policy_that_stores_nothing_gives_an_empty_batch():
    seen = []
    _, obs, info, rows = step(lambda policy=None, **_: seen.append(policy))
    assert [(type(policy), [*policy.keys()]) for policy in seen] == [(Batch, [])]
    assert obs is rows.obs_next
    assert info is rows.info  # with keys that one environment lacks


def test_done_follows_from_the_two_flags():
    transition = step(lambda done, **_: {"done": ~done, "rew": np.ones(2)})[0]
    assert "done" not in transition
    assert transition["rew"].tolist() == [1.0, 1.0]


def test_both_kinds_of_resets_in_one_step_are_preprocessed():
    """The first environment's episode ended, and the second failed and was rebuilt."""
    begun = []

    def change(obs=None, env_id=None, **_):
        if obs is not None:
            begun.append((obs.tolist(), env_id.tolist()))
            return {"obs": obs + 100}
        return None

    obs = step(change, (True, False), np.array([[10.0], [20.0]]), valid=np.array([True, False]))[1]
    assert begun == [([[10.0], [20.0]], [4, 7])]
    assert obs.tolist() == [[110.0], [120.0]]


def test_infos_may_be_columns_or_dicts():
    ids = np.array([4, 7])
    _, info = Preprocessing(lambda env_id, **_: {"info": {"n": env_id}}).of_reset(np.zeros((2, 1)), Info(2), ids)
    assert info.dicts() == [{"n": 4}, {"n": 7}]
    assert as_info({"n": np.array([1, 2]), "env_id": ids}, 2).dicts() == [{"n": 1}, {"n": 2}]
    assert as_info([{"n": 1}, {}], 2).dicts() == [{"n": 1}, {}]
    assert as_info({"env_id": ids}, 2).dicts() == [{}, {}]


def test_observations_of_several_parts_become_dicts():
    parts = as_arrays((np.zeros(2), {"a": np.ones(2)}))
    assert (parts["0"].tolist(), parts["1"]["a"].tolist()) == ([0.0, 0.0], [1.0, 1.0])
