"""Hindsight with rings, stacks, priorities and n-step, against the rows that goals may come from."""

import numpy as np
import pytest

from oracle.replay import Replay
from rlfast.data import Batch, ReplayBuffer, ReplayBufferManager
from rlfast.data.buffer import Hindsight, NStep, Prioritized, Transition, Uniform

UNWANTED = (-1.0, -1.0)  # the desired goal of the environment, which is never achieved


def compute_reward(achieved_goal, desired_goal):
    """Not sparse, so that a wrong goal is a wrong reward."""
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


class Pair:
    """A hindsight buffer and the model of its rows."""

    def __init__(self, random):
        self.random = random
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
        self.buffer = ReplayBufferManager(rings, seed=1) if len(rings) > 1 else rings[0]
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
def test_goals_are_ahead_alive_and_consistent(seed):
    pair, relabelled = Pair(np.random.default_rng(seed)), 0
    for _ in range(60):
        pair.add()
        relabelled += pair.check()
    assert relabelled > 0
