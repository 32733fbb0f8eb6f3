"""B: stored observations, stacks and next observations."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest
import torch

from pitfalls.rows import fill, transition, vector_step
from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.policy import BasePolicy

SLOTS = list(range(10))


def digest(batch):
    """A hash of every array of a batch, nested ones too."""
    total = hashlib.sha256()
    for key in sorted(batch.__dict__):
        value = batch.__dict__[key]
        total.update(digest(value).encode() if isinstance(value, Batch) else np.ascontiguousarray(value).tobytes())
    return total.hexdigest()


# -- B1, B2, B3: stacks ---------------------------------------------------------------------------------------------


@pytest.mark.pitfall("B1")
def test_a_stack_begins_with_the_first_frame_of_its_episode():
    buffer = fill(ReplayBuffer(10, stack_num=3), "..T.T...T.")
    want = "000 001 012 333 334 555 556 567 678 999"
    for stacks in (buffer[SLOTS].obs, buffer.get(SLOTS, "obs")):
        assert " ".join("".join(str(frame) for frame in stack) for stack in stacks) == want


@pytest.mark.pitfall("B1")
def test_the_next_stack_is_the_one_that_acting_sees():
    """Tianshou pads it with the next observation itself: 1111 after 0000, a stack that acting never meets."""
    buffer = fill(ReplayBuffer(10, stack_num=4), "...T")
    assert buffer[[0, 1, 2, 3]].obs_next.tolist() == [[0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4]]
    assert buffer[[1, 2, 3]].obs.tolist() == buffer[[0, 1, 2]].obs_next.tolist()


@pytest.mark.pitfall("B2")
def test_a_stack_does_not_reach_across_a_truncation():
    buffer = fill(ReplayBuffer(10, stack_num=2), "t.", first=1)
    assert buffer[[1]].obs.tolist() == [[2, 2]]
    assert buffer[[1]].obs_next.tolist() == [[2, 3]]


@pytest.mark.pitfall("B2")
@pytest.mark.parametrize(
    "make", [ReplayBuffer, lambda size, **options: PrioritizedReplayBuffer(size, 0.6, 0.4, **options)]
)
def test_sampling_raises_when_no_row_has_a_full_stack(make):
    buffer = fill(make(10, stack_num=2, sample_avail=True), "t.", first=1)
    assert buffer.sample_indices(0).tolist() == []
    with pytest.raises(ValueError, match="stack"):
        buffer.sample(4)


@pytest.mark.pitfall("B3")
def test_a_stack_does_not_reach_across_the_write_head():
    buffer = fill(ReplayBuffer(5, stack_num=3), "." * 7)
    assert buffer[[2]].obs.tolist() == [[2, 2, 2]]  # the oldest row; slots 1 and 0 hold the newest two
    assert buffer[[3, 4, 0, 1]].obs.tolist() == [[2, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]


# -- B4, B5: nothing stored twice, and yet the true next observation ------------------------------------------------


def episodes(buffer, make, lengths):
    """Runs whole episodes, each truncated with a final observation of its own; gives what every row should show."""
    frame, wanted = 0, []
    for length in lengths:
        for step in range(length):
            final = step == length - 1
            wanted.append((frame, frame + 1))
            buffer.add(transition(make(frame), "t" if final else "", obs_next=make(frame + 1)))
            frame += 100 if final else 1
    return wanted


@pytest.mark.pitfall("B4")
@pytest.mark.parametrize("capacity", [50, 9])
def test_a_truncated_row_keeps_its_final_observation(capacity):
    buffer = ReplayBuffer(capacity)
    wanted = episodes(buffer, lambda frame: np.full(6, frame), [3, 1, 5, 4])[-capacity:]
    batch, _ = buffer.sample(0)
    assert list(zip(batch.obs[:, 5].tolist(), batch.obs_next[:, 5].tolist(), strict=True)) == wanted


@pytest.mark.pitfall("B4")
def test_a_truncated_row_keeps_its_final_dict_observation():
    def goal_observation(frame):
        return {"observation": np.full(3, frame, np.float32), "achieved": {"goal": np.float64(frame)}}

    buffer = ReplayBuffer(8)
    for number, end in enumerate("..t.t."):
        row = transition(0, end)
        final = 1000 if end == "t" else 0
        row.obs, row.obs_next = goal_observation(number), goal_observation(number + 1 + final)
        buffer.add(row)
    batch, _ = buffer.sample(0)
    assert batch.obs_next.observation[:, 0].tolist() == [1, 2, 1003, 4, 1005, 6]
    assert batch.obs_next.achieved.goal.tolist() == [1, 2, 1003, 4, 1005, 6]


@pytest.mark.pitfall("B4")
def test_nstep_bootstraps_from_the_final_observation():
    buffer = ReplayBuffer(8)
    episodes(buffer, lambda frame: np.asarray(float(frame)), [3, 3])
    index = buffer.sample_indices(0)
    batch = BasePolicy.compute_nstep_return(
        buffer[index], buffer, index, lambda rows, last: torch.as_tensor(rows[last].obs_next), gamma=1.0, n_step=2
    )
    assert batch.returns.flatten().tolist() == [2, 3, 3, 104, 105, 105]


@pytest.mark.pitfall("B4")
def test_following_observations_are_stored_once():
    def stored(follow):
        buffer = ReplayBuffer(256)
        for number in range(256):
            after = number + 1 if follow else -number - 1
            buffer.add(transition(np.full(512, number), obs_next=np.full(512, after)))
        return buffer.nbytes

    assert stored(follow=True) < 0.6 * stored(follow=False)


@pytest.mark.pitfall("B5")
@pytest.mark.parametrize("rows", [1, 3, 8, 9, 13])
def test_the_newest_row_has_its_true_next_observation(rows):
    buffer = fill(ReplayBuffer(8), "." * rows)
    newest = buffer.unfinished_index()
    assert newest.tolist() == [(rows - 1) % 8]
    assert buffer[newest].obs.tolist() == [rows - 1]
    assert buffer[newest].obs_next.tolist() == [rows]


@pytest.mark.pitfall("B5")
def test_the_newest_row_of_every_environment_has_its_true_next_observation():
    buffer = VectorReplayBuffer(12, 3)
    for step in range(6):
        buffer.add(vector_step([step, 10 * step, 100 * step], "..."), buffer_ids=[0, 1, 2])
    assert buffer[buffer.unfinished_index()].obs_next.tolist() == [6, 51, 501]


# -- B6: samples and inputs are nobody else's memory ----------------------------------------------------------------


@pytest.mark.pitfall("B6")
@pytest.mark.parametrize("stack_num", [1, 3])
def test_a_sample_does_not_change_when_the_ring_is_overwritten(stack_num):
    buffer = ReplayBuffer(32, stack_num=stack_num)
    for number in range(32):
        buffer.add(transition(np.full((4, 8, 8), number, np.uint8)))
    samples = [buffer.sample(16)[0], buffer[[3, 1, 2]], buffer[:]]
    before = [digest(batch) for batch in samples]
    for number in range(100, 164):
        buffer.add(transition(np.full((4, 8, 8), number, np.uint8)))
    assert [digest(batch) for batch in samples] == before


@pytest.mark.pitfall("B6")
def test_writing_to_a_sample_does_not_change_the_buffer():
    buffer = fill(ReplayBuffer(4), "....")
    batch = buffer[[0, 1]]
    batch.obs[:] = -1
    batch.rew[:] = -1
    assert buffer[[0, 1]].obs.tolist() == [0, 1]
    assert buffer[[0, 1]].rew.tolist() == [0, 0]


@pytest.mark.pitfall("B6")
def test_the_environment_may_reuse_its_arrays():
    buffer, obs, obs_next = ReplayBuffer(4), np.zeros(3), np.zeros(3)
    for number in range(4):
        obs[:], obs_next[:] = number, number + 1
        buffer.add(transition(obs, obs_next=obs_next))
    obs[:], obs_next[:] = -1, -1
    assert buffer[:].obs[:, 0].tolist() == [0, 1, 2, 3]
    assert buffer[:].obs_next[:, 0].tolist() == [1, 2, 3, 4]


# -- B7, B8: bits ---------------------------------------------------------------------------------------------------

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16", "?"]


@pytest.mark.pitfall("B7")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stack_num", [1, 2])
def test_the_dtype_that_goes_in_comes_out(dtype, stack_num):
    buffer = ReplayBuffer(4, stack_num=stack_num)
    values = np.array([0, 1, 1], dtype)
    for _ in range(6):
        buffer.add(transition(values, obs_next=values, act=values))
    batch, _ = buffer.sample(8)
    assert (batch.obs.dtype, batch.obs_next.dtype, batch.act.dtype) == (values.dtype,) * 3
    assert batch.obs.reshape(-1, 3)[0].tolist() == values.tolist()


@pytest.mark.pitfall("B7")
def test_actions_rewards_and_flags_have_their_dtypes():
    batch, _ = fill(ReplayBuffer(4), "..T").sample(3)
    assert [batch[key].dtype for key in ("act", "rew", "terminated", "truncated", "done")] == [
        np.dtype(kind) for kind in ("i8", "f8", "?", "?", "?")
    ]


@pytest.mark.pitfall("B7")
@pytest.mark.parametrize(
    ("dtype", "bits"), [("u4", "f4"), ("u8", "f8"), ("u2", "f2")], ids=["float32", "float64", "float16"]
)
def test_every_float_is_stored_bit_for_bit(dtype, bits):
    """NaNs with a payload, infinities, negative zeros and subnormals, following each other or not."""
    random = np.random.default_rng(0)
    top = np.iinfo(dtype).max
    special = np.array([0, 1, top, top >> 1, top - (top >> 2), top ^ (top >> 1)], dtype)
    rows = np.where(random.random((40, 6)) < 0.5, special, random.integers(0, top, (40, 6), dtype, endpoint=True))
    buffer = ReplayBuffer(30)
    for now, after in pairwise(rows):
        buffer.add(transition(now.view(bits), obs_next=after.view(bits)))
    batch = buffer[:]
    assert batch.obs.view(dtype).tolist() == rows[9:39].tolist()
    assert batch.obs_next.view(dtype).tolist() == rows[10:40].tolist()


@pytest.mark.pitfall("B7")
def test_equal_is_bitwise_and_not_by_value():
    """Comparing by value takes -0.0 for 0.0, and no NaN for itself."""
    buffer = ReplayBuffer(4)
    buffer.add(transition(np.array([np.nan]), obs_next=np.array([0.0])))
    buffer.add(transition(np.array([-0.0]), obs_next=np.array([np.nan])))
    batch = buffer[:]
    assert np.signbit(batch.obs_next[0]).tolist() == [False]
    assert np.signbit(batch.obs[1]).tolist() == [True]


def frames_of(kind, number):
    random = np.random.default_rng(number)
    return random.integers(0, 256, (16, 16), np.uint8) if kind == "noise" else np.zeros((16, 16), np.uint8)


@pytest.mark.pitfall("B8")
@pytest.mark.parametrize("kind", ["noise", "zeros"])
@pytest.mark.parametrize("stacked", [False, True])
def test_frames_of_any_content_come_back_across_the_seam(kind, stacked):
    frames = [frames_of(kind, number) for number in range(64)]

    def observation(number):
        return np.stack(frames[number : number + 4]) if stacked else frames[number]

    buffer = ReplayBuffer(37)
    for number in range(59):
        buffer.add(transition(observation(number), obs_next=observation(number + 1)))
    batch = buffer[:]
    for place, number in enumerate(range(59 - 37, 59)):
        assert np.array_equal(batch.obs[place], observation(number))
        assert np.array_equal(batch.obs_next[place], observation(number + 1))


@pytest.mark.pitfall("B8")
def test_frames_that_nothing_can_be_saved_on_cost_what_they_are():
    """Neither following nor shifted: at most the plain layout and one percent."""
    random, buffer = np.random.default_rng(0), ReplayBuffer(512)
    for _ in range(512):
        obs, obs_next = random.integers(0, 256, (2, 64, 64), np.uint8)
        buffer.add(transition(obs, obs_next=obs_next))
    assert buffer.nbytes <= 1.01 * 512 * (2 * 64 * 64 + 8 + 8 + 2 + 64)
