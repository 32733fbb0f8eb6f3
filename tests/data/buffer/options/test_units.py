from functools import partial

import numpy as np
import pytest

import rlfast.data
from data.buffer.rows import fill, row, rows
from rlfast.data import Batch, Hindsight, Prioritized, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import FrameStack, NStep, Sequence, Transition


def test_a_transition_is_what_a_buffer_gives_anyway():
    one, other = (fill(ReplayBuffer(9, seed=1, **options), "..T..") for options in ({}, {"unit": Transition()}))
    assert one.sample(20)[0].obs.tolist() == other.sample(20)[0].obs.tolist()


def test_a_frame_stack_is_stack_num():
    buffer = ReplayBuffer(9, unit=FrameStack(3))
    assert (buffer.stack_num, buffer.options["stack_num"]) == (3, 3)
    with pytest.raises(ValueError, match="contradicts"):
        ReplayBuffer(9, stack_num=2, unit=FrameStack(3))


def test_n_step_transitions():
    buffer = fill(ReplayBuffer(6, unit=NStep(3, 0.5), seed=0), "..T.t...")  # slots hold 6 7 2 3 4 5
    batch, indices = buffer.sample(200)
    expected = {2: (2, 0.0, 2), 3: (3 + 2, 0.25, 4), 4: (4, 0.5, 4), 5: (5 + 3 + 7 / 4, 0.125, 1)}
    expected |= {0: (6 + 3.5, 0.25, 1), 1: (7, 0.5, 1)}
    assert set(indices.tolist()) == set(expected)
    for place, index in enumerate(indices.tolist()):
        assert (batch.rew[place], batch.discount[place], batch.last_index[place]) == expected[index]
    assert np.array_equal(batch.obs_next, buffer[batch.last_index].obs_next)
    assert np.array_equal(batch.done, buffer.done[batch.last_index])
    assert np.array_equal(batch.obs, buffer.obs[indices])


def test_sequences_stay_inside_their_episode():
    buffer = fill(ReplayBuffer(10, unit=Sequence(3, burn_in=2), seed=0), "...T...")
    batch, indices = buffer.sample(300)
    assert batch.obs.shape == (300, 5)
    begin, end = np.where(indices < 4, 0, 4), np.where(indices < 4, 3, 6)
    wanted = indices[:, None] + np.arange(-2, 3)
    inside = (wanted >= begin[:, None]) & (wanted <= end[:, None])
    assert np.array_equal(batch.mask, inside)
    assert np.array_equal(batch.loss_mask, inside & (np.arange(5) >= 2))
    assert np.array_equal(batch.obs, np.clip(wanted, begin[:, None], end[:, None]))


@pytest.mark.pitfall("D4")
def test_a_sequence_begins_with_the_state_before_its_first_row():
    buffer = ReplayBuffer(10, unit=Sequence(2), seed=0)
    for i in range(6):
        buffer.add(row(i, policy={"hidden": np.full(2, i - 1.0)}))  # the state that row i was computed from
    batch, indices = buffer.sample(50)
    assert np.array_equal(batch.policy.hidden[:, 0, 0], indices - 1.0)


def test_sequences_of_frame_stacks():
    buffer = fill(ReplayBuffer(10, stack_num=2, unit=Sequence(3), seed=0), ".....")
    batch, indices = buffer.sample(50)
    assert batch.obs.shape == (50, 3, 2)
    assert np.array_equal(batch.obs[:, 0, 1], indices)
    assert np.array_equal(batch.obs[:, 1, 0], np.where(indices == 4, 3, indices))


@pytest.mark.parametrize("unit", [NStep(2, 0.9), Sequence(2, burn_in=1)])
def test_weights_belong_to_the_rows_that_were_drawn(unit):
    buffer = fill(PrioritizedReplayBuffer(10, 1.0, 1.0, unit=unit, seed=0), "......")
    buffer.update_weight(np.arange(6), np.arange(1.0, 7.0))
    batch, indices = buffer.sample(50)
    assert np.allclose(batch.weight, (1 / (indices + 1)) / (1 / (indices + 1)).max(), atol=1e-5)


@pytest.mark.parametrize("unit", [NStep(2, 0.9), Sequence(2)])
def test_an_empty_buffer_has_no_units(unit):
    with pytest.raises(ValueError, match="empty"):
        VectorReplayBuffer(10, 2, unit=unit).sample(3)


def test_units_in_a_vector_buffer():
    buffer = VectorReplayBuffer(20, 2, unit=NStep(2, 1.0), seed=0)
    for i in range(3):
        buffer.add(rows(i, 2))
    batch, _ = buffer.sample(50)
    assert set(batch.rew.tolist()) == {1, 3, 2, 201, 203, 102}


@pytest.mark.parametrize(
    "make",
    [lambda: NStep(0, 0.9), lambda: NStep(1, 1.1), lambda: Sequence(0), lambda: Sequence(1, -1), lambda: FrameStack(0)],
)
def test_numbers_that_make_no_sense(make):
    with pytest.raises(ValueError, match="must "):
        make()


def test_n_step_of_no_steps():
    with pytest.raises(ValueError, match="n_step"):
        fill(ReplayBuffer(3), ".").nstep(np.array([0]), 0, 0.9)


@pytest.mark.parametrize(
    "name", ["FrameStack", "Hindsight", "NStep", "Prioritized", "Sequence", "Transition", "Uniform"]
)
def test_the_parts_are_public(name):
    assert getattr(rlfast.data, name) is getattr(rlfast.data.buffer, name)
    assert name in rlfast.data.__all__


def by_whole_batches(buffer, indices, unit):
    """Returns n-step transitions made of two batches of whole rows."""
    batch = buffer[indices]
    batch.rew, batch.discount, batch.last_index = buffer.nstep(indices, unit.n_step, unit.gamma)
    last = buffer[batch.last_index]
    for key in ("obs_next", "terminated", "truncated", "done"):
        batch[key] = last[key]
    return batch


def listed(value):
    if isinstance(value, Batch):
        return [(key, listed(inner)) for key, inner in value.items()]
    return value.dtype, value.shape, value.tolist()


def goal_row(i, end):
    obs = {"observation": [i], "achieved_goal": [i], "desired_goal": [9]}
    obs_next = {"observation": [i + 1], "achieved_goal": [i + 1], "desired_goal": [9]}
    return Batch(obs=obs, act=i, rew=-1.0, terminated=end == "T", truncated=end == "t", obs_next=obs_next)


def reward(achieved, desired):
    return -(achieved != desired).any(-1).astype(float)


class Doubled(ReplayBuffer):
    def __getitem__(self, index):
        batch = super().__getitem__(index)
        batch.obs_next = batch.obs_next * 2
        return batch


@pytest.mark.parametrize(
    ("make", "make_row"),
    [
        (ReplayBuffer, row),
        (Doubled, row),
        (partial(ReplayBuffer, stack_num=2), row),
        (partial(ReplayBuffer, ignore_obs_next=True), row),
        (partial(ReplayBuffer, sampler=Prioritized(0.6, 0.4)), row),
        (partial(ReplayBuffer, relabel=Hindsight(reward, 5)), goal_row),
        (ReplayBuffer, lambda i, end: row(i, end, info={"name": str(i), "number": i}, extra=[i, i])),
        (ReplayBuffer, lambda i, end: row(i, end, obs=np.array(str(i), object), obs_next=np.array(str(i + 1), object))),
        (lambda _, **options: VectorReplayBuffer(32, 2, **options).buffers[1], row),
    ],
)
def test_n_step_transitions_are_those_of_whole_batches(make, make_row):
    unit = NStep(3, 0.9)
    buffer = make(16, unit=unit, seed=0)
    for i, end in enumerate("..T.t....T.......t.."):
        buffer.add(make_row(i, end.strip(".")))
    for count in (0, 1, 40):
        indices = buffer.sample_indices(count)
        assert listed(unit.expand(buffer, indices)) == listed(by_whole_batches(buffer, indices, unit))


def test_n_step_transitions_see_columns_that_come_later():
    buffer = fill(ReplayBuffer(6, unit=NStep(2, 0.9), seed=0), "..")
    assert "later" not in buffer.sample(3)[0]
    buffer.add(row(2, later=7.0))
    assert set(buffer.sample(9)[0].later.tolist()) <= {0.0, 7.0}
    buffer._meta.policy = Batch(hidden=np.arange(6))
    batch, indices = buffer.sample(9)
    assert batch.policy.hidden.tolist() == indices.tolist()
