"""Step and episode hooks, statistics of the user's own, and missing values, as in Tianshou 1.2."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from collecting import collector, vector
from rlfast.data import Batch, CachedReplayBuffer, Collector, CollectStats, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer.base import MalformedBufferError
from rlfast.data.collector import (
    EpisodeRolloutHookMCReturn,
    EpisodeRolloutHookMerged,
    StepHook,
    StepHookAddActionDistribution,
)
from rlfast.env import DummyVectorEnv
from scripted import Scripted, ScriptedPolicy


class Coin(ScriptedPolicy):
    """A policy that returns a distribution with its actions."""

    def __call__(self, batch, state=None):
        result = super().__call__(batch, state)
        dist = torch.distributions.Bernoulli(probs=torch.as_tensor(batch.obs[:, 1]) / 10)
        return Batch(result, dist=dist, policy=Batch(value=batch.obs[:, 1]))


def test_the_step_hook_sees_actions_and_transitions():
    seen = []
    policy = Coin(act=lambda batch: np.full(len(batch.obs), 1), scale=2, state=lambda batch, _: batch.obs[:, :1])
    c = collector(Scripted(2), Scripted(3), policy=policy, on_step_hook=lambda *batches: seen.append(batches))
    c.collect(n_step=6)
    assert len(seen) == 3
    for step, (actions, transitions) in enumerate(seen):
        assert actions.act.tolist() == [1, 1]
        assert actions.act_normalized.tolist() == [2, 2]
        np.testing.assert_array_equal(actions.policy_entry.value, transitions.obs[:, 1])
        np.testing.assert_array_equal(actions.hidden_state, transitions.policy.hidden_state)
        np.testing.assert_allclose(actions.dist.probs, transitions.obs[:, 1] / 10)
        assert actions.dist is transitions.dist
        assert len(actions) == len(transitions) == 2
        assert transitions.terminated.tolist() == transitions.done.tolist() == [step == 1, step == 2]
    assert set(c.buffer[:].keys()) == {
        "obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy",
    }  # fmt: skip


def test_without_a_distribution_there_is_none():
    seen = []
    c = collector(Scripted(2), on_step_hook=lambda actions, step: seen.append((actions.dist, step.dist)))
    c.collect(n_step=2)
    c.collect(n_step=2, random=True)
    assert seen == [(None, None)] * 4
    seen.clear()
    mixed = collector(Scripted(2), policy=Coin(), on_step_hook=lambda actions, _: seen.append(actions.dist))
    mixed.collect(n_step=1)
    mixed.collect(n_step=1, random=True)
    assert seen[0] is not None
    assert seen[1] is None


def test_where_the_policy_gives_nothing_to_store_there_is_nothing():
    seen = []
    c = collector(Scripted(2), on_step_hook=lambda _, step: seen.append("policy" in step))
    c.collect(n_step=1)
    assert seen == [False]


def test_without_a_row_for_each_action_there_is_no_distribution():
    seen = []
    envs = DummyVectorEnv([lambda: Scripted(2), lambda: Scripted(3)], autoreset_mode="NEXT_STEP")
    c = Collector(Coin(), envs, VectorReplayBuffer(20, 2), on_step_hook=lambda actions, _: seen.append(actions))
    c.collect(n_step=6)
    assert [(len(actions.act), actions.dist is None) for actions in seen] == [
        (2, False),
        (2, False),
        (1, True),
        (1, True),
    ]


def test_the_step_hook_changes_what_is_stored():
    class Shaped(StepHook):
        def __call__(self, action_batch, rollout_batch):
            rollout_batch.rew = rollout_batch.rew * 10 + action_batch.act
            rollout_batch["half"] = rollout_batch.obs[:, 1] / 2
            rollout_batch.done = np.ones(len(rollout_batch), bool)  # the two flags tell it

    c = collector(Scripted(2), policy=ScriptedPolicy(act=lambda batch: np.ones(len(batch.obs), int)))
    assert c.get_on_step_hook() is None
    c.set_on_step_hook(hook := Shaped())
    assert c.get_on_step_hook() is hook
    stats = c.collect(n_episode=1)
    assert c.buffer[:].rew.tolist() == [11.0, 11.0]
    assert c.buffer[:].half.tolist() == [0.0, 0.5]
    assert c.buffer[:].done.tolist() == [False, True]
    assert stats.returns.tolist() == [22.0]
    c.set_on_step_hook(None)
    assert c.collect(n_episode=1).returns.tolist() == [2.0]


def test_distributions_are_not_stored():
    c = collector(Scripted(2), policy=Coin(), on_step_hook=StepHookAddActionDistribution())
    c.collect(n_step=2)
    assert StepHookAddActionDistribution.ACTION_DIST_KEY == "action_dist"
    assert "action_dist" not in c.buffer[:]
    assert len(c.buffer) == 2


def test_the_episode_hook_sees_whole_episodes_also_over_the_seam_of_the_ring():
    episodes = []
    envs = vector(Scripted(3), Scripted(4))
    c = Collector(ScriptedPolicy(), envs, VectorReplayBuffer(10, 2), on_episode_done_hook=episodes.append)
    c.collect(n_step=24)
    assert [len(episode) for episode in episodes] == [3, 4, 3, 4, 3, 3, 4]
    for episode in episodes:
        np.testing.assert_array_equal(episode.obs[:, 1], np.arange(len(episode)))
        assert episode.terminated.tolist() == [False] * (len(episode) - 1) + [True]
    longer = []
    c = Collector(ScriptedPolicy(), vector(Scripted(8)), ReplayBuffer(5), on_episode_done_hook=longer.append)
    c.collect(n_step=16)
    assert [episode.obs[:, 1].tolist() for episode in longer] == [[3, 4, 5, 6, 7]] * 2  # what the buffer still has


def test_the_episode_hook_adds_to_its_rows():
    c = collector(Scripted(2), Scripted(3, reward=2.0), on_episode_done_hook=EpisodeRolloutHookMCReturn(gamma=0.5))
    assert c.get_on_episode_done_hook().gamma == 0.5
    c.collect(n_episode=3)
    c.collect(n_episode=2)  # over rows that were cut off
    first, second = c.buffer.buffers
    assert first[:].mc_return_to_go[first[:].done].tolist() == [1.0] * first[:].done.sum()
    assert first[:].mc_return_to_go.tolist() == [1.5, 1.0] * 3
    assert first[:].full_episode_mc_return.tolist() == [1.5, 1.5] * 3
    assert second[:].mc_return_to_go.tolist() == [3.5, 3.0, 2.0] * 2
    c.set_on_episode_done_hook(None)
    assert c.get_on_episode_done_hook() is None


def test_what_an_episode_hook_adds_needs_whole_episodes():
    c = collector(Scripted(2), on_episode_done_hook=EpisodeRolloutHookMCReturn())
    with pytest.raises(ValueError, match=r"mc_return_to_go, full_episode_mc_return .* collect by n_episode"):
        c.collect(n_step=4)
    wrong = collector(Scripted(3), on_episode_done_hook=lambda _: {"x": np.zeros(2)})
    with pytest.raises(ValueError, match="gave 2 values of x for an episode of 3 rows"):
        wrong.collect(n_episode=1)


def test_integers_and_objects_can_be_added():
    def add(episode):
        return {"left": np.arange(len(episode))[::-1], "name": np.array(["row"] * len(episode), dtype=object)}

    c = collector(Scripted(2), Scripted(9), on_episode_done_hook=add)
    c.collect(n_episode=2)
    assert c.buffer.buffers[0][:].left.tolist() == [1, 0]
    assert c.buffer.buffers[1][:].left.tolist() == [*range(8, -1, -1)]
    assert set(c.buffer[:].name) == {"row"}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], np.float64),
        (np.array([1.5, 2.5], np.float32), np.float32),
        ([True, False], np.float32),
        ([[1.0, 2.0], [3.0, 4.0]], np.float64),
        (["a", "b"], object),
        ([None, 3], object),
    ],
)
def test_rows_of_other_episodes_have_no_value_of_a_new_field(values, dtype):
    c = collector(Scripted(2))
    c.collect(n_episode=1)
    c.set_on_episode_done_hook(lambda _: {"x": values})
    c.collect(n_episode=1)
    rows = c.buffer[:].x
    assert rows.dtype == dtype
    assert rows[2:].tolist() == np.asarray(values).tolist()
    before = rows[:2]
    assert (before == None).all() if dtype is object else np.isnan(before).all()  # noqa: E711 (of each element)
    assert rows.shape == (4, *np.shape(values)[1:])


def test_several_episode_hooks_as_one():
    def length(episode):
        return {"length": np.full(len(episode), float(len(episode)))}

    merged = EpisodeRolloutHookMerged(EpisodeRolloutHookMCReturn(), lambda _: None, length)
    c = collector(Scripted(2), on_episode_done_hook=merged)
    c.collect(n_episode=1)
    assert c.buffer[:].length.tolist() == [2.0, 2.0]
    assert c.buffer[:].mc_return_to_go.tolist() == [1.99, 1.0]
    assert EpisodeRolloutHookMerged(lambda _: None)(Batch(rew=[0.0])) is None
    with pytest.raises(KeyError, match="adds length, as a hook before it does"):
        EpisodeRolloutHookMerged(length, length)(Batch(rew=[0.0]))
    twice = EpisodeRolloutHookMerged(
        length, lambda _: {"length": np.array([9.0])}, check_overlapping_keys=False
    )(Batch(rew=[0.0]))  # fmt: skip
    assert twice["length"].tolist() == [9.0]


def test_discounted_returns_of_several_agents():
    added = EpisodeRolloutHookMCReturn(0.5)(Batch(rew=np.array([[1.0, 0.0], [2.0, 4.0]])))
    assert added["mc_return_to_go"].tolist() == [[2.0, 2.0], [2.0, 4.0]]
    assert added["full_episode_mc_return"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\], got 1.5"):
        EpisodeRolloutHookMCReturn(1.5)


def test_a_subclass_may_do_what_hooks_do():
    class Own(Collector):
        def run_on_step_hook(self, action_batch, rollout_batch):
            rollout_batch.rew = rollout_batch.rew + 1

        def run_on_episode_done(self, episode_batch):
            self.episodes = [*getattr(self, "episodes", []), episode_batch.rew.tolist()]

    c = collector(Scripted(2), kind=Own)
    c.collect(n_step=4)
    assert c.episodes == [[2.0, 2.0], [2.0, 2.0]]


# -- statistics --------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Noting(CollectStats):
    steps: list = field(default_factory=list)
    firsts: list = field(default_factory=list)

    def update_at_step_batch(self, step_batch, refresh_sequence_stats=False):
        super().update_at_step_batch(step_batch, refresh_sequence_stats)
        self.steps.append((len(step_batch), step_batch.rew.sum(), step_batch.dist is not None))

    def update_at_episode_done(self, episode_batch, episode_return, refresh_sequence_stats=False):
        super().update_at_episode_done(episode_batch, episode_return, refresh_sequence_stats)
        self.firsts.append(episode_batch.obs[0, 1] + episode_batch.get("bonus", [0.0])[0])


def test_statistics_of_the_users_own_are_told_of_all():
    c = collector(Scripted(2), Scripted(3), policy=Coin(), collect_stats_class=Noting)
    stats = c.collect(n_step=6)
    assert type(stats) is Noting
    assert stats.steps == [(2, 2.0, True)] * 3
    assert stats.firsts == [0.0, 0.0]
    assert (stats.n_collected_steps, stats.n_collected_episodes) == (6, 2)
    assert (stats.returns.tolist(), stats.lens.tolist()) == ([2.0, 3.0], [2, 3])
    assert (stats.returns_stat.mean, stats.lens_stat.max) == (2.5, 3.0)
    assert stats.collect_speed == pytest.approx(6 / stats.collect_time)
    again = c.evaluate(2)
    assert type(again) is Noting
    assert again.n_collected_episodes == 2
    assert c.collect_step == 6 + again.n_collected_steps
    c.set_on_episode_done_hook(lambda episode: {"bonus": np.full(len(episode), 7.0)})
    assert c.evaluate(2).firsts == [7.0, 7.0]


def test_statistics_of_the_users_own_count_what_the_buffer_has_forgotten():
    c = Collector(ScriptedPolicy(), vector(Scripted(5)), collect_stats_class=Noting)
    stats = c.collect(n_episode=2)
    assert len(c.buffer) == 1
    assert stats.lens.tolist() == [5, 5]
    assert stats.lens_stat.mean == 5.0


# -- missing values ----------------------------------------------------------------------------------------------------


def test_missing_values_are_an_error_where_that_is_asked_for():
    def reward(step):
        return np.nan if step == 3 else 1.0

    quiet = collector(Scripted(4, reward=reward))
    quiet.collect(n_step=4)
    c = collector(Scripted(4, reward=reward), raise_on_nan_in_buffer=True)
    c.collect(n_step=2)
    with pytest.raises(MalformedBufferError, match=r"missing \(NaN or None\) in the buffer's rew:") as raised:
        c.collect(n_step=1)
    assert isinstance(raised.value, RuntimeError)
    with pytest.raises(MalformedBufferError, match=r"info\.what"):
        collector(Scripted(2, info={"what": None}), raise_on_nan_in_buffer=True).collect(n_step=1)


def test_hooks_with_a_cached_buffer():
    seen = []
    buffer = CachedReplayBuffer(ReplayBuffer(40), 2, 10)
    c = Collector(ScriptedPolicy(), vector(Scripted(2), Scripted(3)), buffer, on_episode_done_hook=seen.append)
    c.collect(n_episode=4)
    assert sorted(len(episode) for episode in seen) == [2, 2, 3, 3]
