"""Hindsight with rings, stacks, priorities and n-step, saved and loaded, against the rows that goals may come from."""

import copy
import pickle

import numpy as np
import pytest

from oracle.replay import Replay
from rlfast.data import Batch, ReplayBuffer, ReplayBufferManager
from rlfast.data.buffer import Hindsight, NStep, Prioritized, Transition, Uniform

UNWANTED = (-1.0, -1.0)  # the desired goal of the environment, which is never achieved


def compute_reward(achieved_goal, desired_goal):
    """Returns a dense reward, so that a wrong goal changes it."""
    return -np.abs(achieved_goal - desired_goal).sum(axis=-1)


def observation(episode, time):
    achieved = np.array([1000.0 * episode, time])
    return {"observation": achieved * 2, "achieved_goal": achieved, "desired_goal": np.array(UNWANTED)}


def row(episode, time, end):
    obs, obs_next = observation(episode, time), observation(episode, time + 1)
    reward = float(compute_reward(obs_next["achieved_goal"], obs_next["desired_goal"]))
    flags = {"terminated": end == "T", "truncated": end == "t"}
    return Batch(obs=obs, obs_next=obs_next, act=0, rew=reward, info={}, **flags)


def fields(batch):
    flat = {("obs", key): value for key, value in batch.obs.items()}
    flat |= {("obs_next", key): value for key, value in batch.obs_next.items()}
    return flat | {(key,): np.asarray(batch[key]) for key in ("act", "rew", "terminated", "truncated")}


HOW = ("pickle", "copy", "snapshot", "snapshot without functions", "hdf5")


class Pair:
    """A hindsight buffer and the model of its rows."""

    def __init__(self, random, folder):
        self.random, self.folder = random, folder
        self.storage = str(random.choice(["ram", str(folder), "lz4", "zstd"]))
        self.capacities = random.integers(1, 14, random.integers(1, 4)).tolist()
        self.stack_num, self.horizon = int(random.integers(1, 4)), int(random.choice([1, 3, 50]))
        self.unit = Transition() if random.random() < 0.5 else NStep(int(random.integers(1, 5)), 0.5)
        options = {
            "stack_num": self.stack_num,
            "relabel": Hindsight(compute_reward, self.horizon, 4),
            "sampler": Uniform() if random.random() < 0.5 else Prioritized(0.6, 0.4),
            "unit": self.unit,
        }
        rings = [ReplayBuffer(capacity, **options) for capacity in self.capacities]
        if len(rings) > 1:
            self.buffer = ReplayBufferManager(rings, seed=1, storage=self.storage)
        else:
            self.buffer = ReplayBuffer(self.capacities[0], storage=self.storage, **options)
        self.model = Replay(self.capacities, stack_num=self.stack_num)
        self.episode, self.time = list(range(len(rings))), [0] * len(rings)

    def add(self):
        ring = int(self.random.integers(len(self.capacities)))
        end = str(self.random.choice(["", "", "", "", "T", "t"]))
        batch = row(self.episode[ring], self.time[ring], end)
        self.model.add(ring, fields(batch))
        self.buffer.add(Batch.stack([batch]), buffer_ids=[ring])
        self.time[ring] += 1
        if end:
            self.episode[ring], self.time[ring] = max(self.episode) + 1, 0

    def close(self):
        """The episode of a ring is cut off; the next row begins another."""
        ring = int(self.random.integers(len(self.capacities)))
        self.model.close_episode(ring)
        self.buffer.close_episodes([ring])
        self.episode[ring], self.time[ring] = max(self.episode) + 1, 0

    def persist(self, how):
        """Goes on with what was saved; indices drawn before keep their goals."""
        if how == "hdf5" and isinstance(self.unit, NStep):  # of which Tianshou's layout knows nothing
            how = "snapshot"
        index = self.buffer.sample_indices(7)
        before = self.buffer[index]
        self.buffer = self.saved(how)
        if how == "hdf5":  # Tianshou's layout has no place for what index arrays remember
            index = np.array(index.tolist())
            assert (self.buffer[index].obs.desired_goal == -1).all()
            return
        after = self.buffer[index]
        for key in ("obs", "obs_next"):
            assert np.array_equal(after[key].desired_goal, before[key].desired_goal)
        assert np.array_equal(after.rew, before.rew)

    def saved(self, how):
        kind, file = type(self.buffer), self.folder / "buffer"
        match how:
            case "pickle":
                return pickle.loads(pickle.dumps(self.buffer))
            case "copy":
                return copy.deepcopy(self.buffer)
            case "snapshot":
                self.buffer.save(file, allow_pickle=True)
                return kind.load(file, allow_pickle=True, storage=self.storage)
            case "hdf5":
                self.buffer.save_hdf5(file)
                return kind.load_hdf5(file, allow_pickle=True, storage=self.storage)
        self.buffer.save(file)
        with pytest.raises(TypeError, match="compute_reward_fn"):
            kind.load(file)
        return kind.load(file, compute_reward_fn=compute_reward, storage=self.storage)

    def check(self):
        batch, index = self.buffer.sample(20)
        relabelled = 0
        for number, place in enumerate(index):
            anchor = self.model.at(int(place))
            goal = batch.obs.desired_goal[number].reshape(-1, 2)
            assert (goal == goal[0]).all(), "frames of one stack have different goals"
            relabelled += self.check_row(batch, number, anchor, tuple(goal[0]))
        bare = np.array(index.tolist())
        assert (self.buffer[bare].obs.desired_goal == -1).all(), "the store was written to"
        return relabelled

    def check_row(self, batch, number, anchor, goal):
        legal = {tuple(other.fields["obs_next", "achieved_goal"]) for other in self.model.goals(anchor, self.horizon)}
        assert goal == UNWANTED or goal in legal, f"{goal} is none of {legal}"
        n_step, gamma = (self.unit.n_step, self.unit.gamma) if isinstance(self.unit, NStep) else (1, 1.0)
        rows = self.model.future(anchor)[:n_step]
        rewards = [compute_reward(other.fields["obs_next", "achieved_goal"], np.array(goal)) for other in rows]
        assert batch.rew[number] == pytest.approx(sum(gamma**k * reward for k, reward in enumerate(rewards)))
        want = self.model.take([rows[-1]])["obs_next", "achieved_goal"][0]
        assert np.array_equal(batch.obs_next.achieved_goal[number], want)
        assert (batch.obs_next.desired_goal[number].reshape(-1, 2) == goal).all()
        return goal != UNWANTED


@pytest.mark.parametrize("seed", range(40))
def test_goals_are_ahead_alive_and_consistent(seed, tmp_path):
    pair, relabelled = Pair(np.random.default_rng(seed), tmp_path), 0
    for step in range(60):
        pair.add()
        if step % 10 == 7:
            pair.close()
        if step % 6 == 5:
            pair.persist(HOW[step // 6 % len(HOW)])
        relabelled += pair.check()
    assert relabelled > 0
