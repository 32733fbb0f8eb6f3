"""Stacks of frames that a buffer recognises by number: they change what is read, and never what is stored."""

from contextlib import closing
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from rlfast._core import FrameRing, frame_numbers, with_stacks
from rlfast.data import Batch, Collector, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import NStep
from rlfast.env import DummyVectorEnv
from rlfast.env.atari.stacking import StackingDummyEnv, StackingSubprocEnv
from rlfast.env.atari.wrappers import FrameStack
from rlfast.policy import RandomPolicy

SHAPE = (16, 20)
BUFFERS = {
    "plain": VectorReplayBuffer,
    "ends alone": lambda *size, **more: VectorReplayBuffer(*size, ignore_obs_next=True, **more),
    "prioritized": lambda *size, **more: PrioritizedVectorReplayBuffer(*size, alpha=0.6, beta=0.4, **more),
    "n-step": lambda *size, **more: VectorReplayBuffer(*size, unit=NStep(3, 0.9), **more),
}


class Frames(gym.Env):
    """Shows one random frame at a time, now and then the same one again, and ends at random."""

    observation_space = gym.spaces.Box(0, 255, (1, *SHAPE), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.frame = self.np_random.integers(255, size=(1, *SHAPE), dtype=np.uint8)
        return self.frame, {}

    def step(self, action):
        if self.np_random.random() < 0.9:
            self.frame = self.np_random.integers(255, size=(1, *SHAPE), dtype=np.uint8)
        ended, cut = self.np_random.random(2) < 0.1
        return self.frame, 1.0, bool(ended), bool(cut), {}


class OneFrame(gym.ObservationWrapper):
    """The frame without its first axis, as `FrameStack` takes it."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 255, SHAPE, np.uint8)

    def observation(self, observation):
        return observation[0]


def same(one, other):
    """Whether two batches hold the same values."""
    assert one.keys() == other.keys()
    for key in sorted(one.keys()):
        if isinstance(one[key], Batch):
            same(one[key], other[key])
        else:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)


def same_buffers(ours, theirs):
    assert len(ours) == len(theirs)
    rows = ours.sample_indices(0)
    same(ours[rows], theirs[rows])
    for _ in range(3):
        (one, at), (other, there) = ours.sample(16), theirs.sample(16)
        np.testing.assert_array_equal(at, there)
        same(one, other)


@pytest.mark.parametrize("stack", [2, 4, 5])
@pytest.mark.parametrize("kind", BUFFERS)
def test_a_buffer_stores_the_same_as_by_comparing(kind, stack, tmp_path):
    count = 3
    ours, theirs = (BUFFERS[kind](40 * count, count, seed=5) for _ in range(2))
    random, ring = np.random.default_rng(stack), FrameRing(count, stack, SHAPE, np.dtype(np.uint8))

    def frames(rows):
        new = random.integers(255, size=(rows, *SHAPE), dtype=np.uint8)
        if random.random() < 0.1:
            new[:] = 7  # equal frames with different numbers
        return new

    obs, recognised = ring.push(frames(count), fresh=np.ones(count, bool)), 0
    for step in range(120):
        following = ring.push(frames(count), fresh=np.zeros(count, bool))
        ends, cuts = random.random((2, count)) < 0.08
        some = np.flatnonzero(random.random(count) < 0.9) if random.random() < 0.3 else None
        row = Batch(obs=obs, act=np.arange(count), rew=random.random(count), terminated=ends, truncated=cuts)
        row = Batch(**row, obs_next=following) if some is None else Batch(**row, obs_next=following)[some]
        recognised += frame_numbers(row.obs) is not None
        ids = np.arange(count) if some is None else some
        if len(ids):
            ours.add(row, ids)
            theirs.add(Batch(**{**row, "obs": row.obs.copy(), "obs_next": row.obs_next.copy()}), ids)
        over = np.flatnonzero(ends | cuts)
        obs = following
        if len(over):
            ring.push(frames(len(over)), over, np.ones(len(over), bool))
            obs = ring.stacks()
        if step % 50 == 30:  # what follows a restored buffer is compared
            ours.save(tmp_path / f"{step}.rlb")
            ours = type(ours).load(tmp_path / f"{step}.rlb")
            theirs.save(tmp_path / "other.rlb")
            theirs = type(theirs).load(tmp_path / "other.rlb")
        if step == 90:
            ours.reset()
            theirs.reset()
        elif step % 4 == 0 and len(ours):
            same_buffers(ours, theirs)
        assert ours._store.core.nbytes() == theirs._store.core.nbytes()
    assert recognised > 50


@pytest.mark.parametrize("mode", [None, "next-step", "same-step", "disabled"])
def test_stacks_are_those_of_the_wrapper(mode):
    plain = DummyVectorEnv([lambda: FrameStack(OneFrame(Frames()), 3)] * 4, autoreset_mode=mode)
    stacked = StackingDummyEnv([Frames] * 4, frame_stack=3, autoreset_mode=mode)
    random = np.random.default_rng(1)
    with closing(plain), closing(stacked):
        assert stacked.single_observation_space == plain.single_observation_space
        for envs in (plain, stacked):
            envs.seed(3)
        ours, theirs = stacked.reset_rows()[0], plain.reset_rows()[0]
        np.testing.assert_array_equal(ours, theirs)
        for step in range(120):
            ids = np.arange(4) if step % 3 else np.sort(random.permutation(4)[:2])
            rows = [envs.exchange(np.zeros(len(ids), int), ids) for envs in (stacked, plain)]
            for name in ("obs", "obs_next", "rew", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(rows[0], name), getattr(rows[1], name), err_msg=name)
            assert not rows[0].obs.flags.writeable
            over = ids[rows[0].done]
            if mode in (None, "disabled") and len(over):
                starts = [envs.reset_rows(over)[0] for envs in (stacked, plain)]
                np.testing.assert_array_equal(*starts)


def test_what_users_get_is_theirs():
    with closing(StackingDummyEnv([Frames] * 2, frame_stack=3)) as envs:
        first, _ = envs.reset(seed=0)
        first[:] = 0
        second = envs.step(np.array([0, 0]))[0]
        assert second[:, :2].any()
        second[:] = 0
        assert envs.step(np.array([0, 0]))[0][:, 1].any()
        rows = envs.exchange(np.array([0, 0]))
        with pytest.raises(ValueError, match="read-only"):
            rows.obs[0] = 0


def test_collectors_keep_the_numbers_through_resets(monkeypatch):
    envs = StackingDummyEnv([Frames] * 3, frame_stack=3)
    buffer, added = VectorReplayBuffer(600, 3), []
    add = buffer.add

    def noting(batch, **options):
        added.append((frame_numbers(batch.obs), frame_numbers(batch.obs_next)))
        return add(batch, **options)

    monkeypatch.setattr(type(buffer), "add", lambda _, batch, **options: noting(batch, **options))
    with Collector(RandomPolicy(action_space=envs.single_action_space), envs, buffer) as collector:
        collector.reset()
        collector.collect(n_step=300)
    assert len(added) == 100
    assert all(obs is not None and last is not None for obs, last in added)
    kept = [(obs == last).all(1) for (_, last), (obs, _) in pairwise(added)]
    assert 0.6 < np.mean(kept) < 0.95  # but for new episodes


def test_states_hold_the_stacks():
    with closing(StackingDummyEnv([Frames] * 2, frame_stack=3)) as envs:
        envs.reset(seed=0)
        envs.step(np.array([0, 0]))
        state = envs.get_state()
        wanted = [envs.step(np.array([0, 0]))[0] for _ in range(3)]
        with closing(StackingDummyEnv([Frames] * 2, frame_stack=3)) as others:
            others.set_state(state)
            for one in wanted:
                np.testing.assert_array_equal(others.step(np.array([0, 0]))[0], one)


def test_worker_processes_send_single_frames():
    with (
        closing(StackingSubprocEnv([Frames] * 2, frame_stack=3, num_workers=2)) as envs,
        closing(StackingDummyEnv([Frames] * 2, frame_stack=3)) as others,
    ):
        np.testing.assert_array_equal(envs.reset(seed=1)[0], others.reset(seed=1)[0])
        for _ in range(20):
            rows, wanted = envs.exchange(np.zeros(2, int)), others.exchange(np.zeros(2, int))
            np.testing.assert_array_equal(rows.obs, wanted.obs)
            if len(over := np.flatnonzero(rows.done)):
                envs.reset_rows(over), others.reset_rows(over)


def test_only_the_arrays_themselves_are_recognised():
    ring = FrameRing(2, 3, SHAPE, np.dtype(np.uint8))
    obs = ring.push(np.ones((2, *SHAPE), np.uint8))
    assert frame_numbers(obs).shape == (2, 3)
    for other in (obs.copy(), obs[:], obs[:1], obs[::-1], obs.reshape(2, -1), obs.view(np.int8), np.asarray(1)):
        assert frame_numbers(other) is None
    part = ring.push(np.full((1, *SHAPE), 9, np.uint8), np.array([1]))
    merged = with_stacks(obs, np.array([1]), part)
    np.testing.assert_array_equal(merged, ring.stacks())
    np.testing.assert_array_equal(frame_numbers(merged), frame_numbers(ring.stacks()))
    assert with_stacks(obs.copy(), np.array([1]), part) is with_stacks(obs, np.array([1]), part.copy()) is None
    assert with_stacks(obs, np.array([2]), part) is with_stacks(obs, np.array([-1]), part) is None
    assert with_stacks(obs, np.array([0, 1]), part) is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 3, SHAPE), ValueError, "frames need an environment"),
        ((2, 17, SHAPE), ValueError, "stacks of 1 to 16 frames"),
        ((2, 3, (0, 4)), ValueError, "without zeros"),
        ((2, 3, (1 << 40, 1 << 40)), MemoryError, "bytes"),
    ],
)
def test_wrong_rings(arguments, error, message):
    with pytest.raises(error, match=message):
        FrameRing(*arguments, np.dtype(np.uint8))


@pytest.mark.parametrize(
    ("frames", "options", "error", "message"),
    [
        (np.zeros((3, *SHAPE), np.uint8), {}, ValueError, r"an array of shape \[2, 16, 20\] and dtype uint8"),
        (np.zeros((2, *SHAPE)), {}, ValueError, "dtype uint8 is wanted here, got .* float64"),
        ([1, 2], {}, TypeError, "is wanted here, got <class 'list'>"),
        (np.zeros((2, 20, 16), np.uint8).swapaxes(1, 2), {}, ValueError, "must be contiguous"),
        (np.zeros((1, *SHAPE), np.uint8), {"ids": np.array([2])}, IndexError, "environments 0 to 1, got 2"),
        (
            np.zeros((2, *SHAPE), np.uint8),
            {"fresh": np.array([True])},
            ValueError,
            "2 frames need as many flags, got 1",
        ),
    ],
)
def test_wrong_frames_change_nothing(frames, options, error, message):
    ring = FrameRing(2, 3, SHAPE, np.dtype(np.uint8))
    before = ring.push(np.ones((2, *SHAPE), np.uint8))
    with pytest.raises(error, match=message):
        ring.push(frames, **options)
    np.testing.assert_array_equal(ring.stacks(), before)
