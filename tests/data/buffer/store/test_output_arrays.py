import numpy as np
import pytest

from data.buffer.rows import fill, row
from rlfast.data import Batch, HERReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import NStep, Sequence


def arrays(batch):
    return {key: np.zeros_like(value) for key, value in batch.items() if isinstance(value, np.ndarray)}


def goal_rows(number):
    for i in range(number):
        obs, obs_next = ({"observation": [j], "achieved_goal": [j], "desired_goal": [9]} for j in (i, i + 1))
        yield row(i, obs=obs, obs_next=obs_next)


MAKERS = {
    "single": lambda: fill(ReplayBuffer(9, seed=3), "...T.."),
    "stacked": lambda: fill(ReplayBuffer(9, stack_num=3, seed=3), "...T.."),
    "without obs_next": lambda: fill(ReplayBuffer(9, ignore_obs_next=True, seed=3), "...T.."),
    "part of a manager": lambda: fill(VectorReplayBuffer(18, 2, seed=3).buffers[1], "...T.."),
    "prioritized": lambda: fill(PrioritizedReplayBuffer(9, 0.6, 0.4, seed=3), "...T.."),
}


@pytest.mark.parametrize("size", [32, 0])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_given_arrays_are_filled_and_come_back(make, size):
    wanted, wanted_index = make().sample(size)
    out = arrays(wanted)
    assert {"obs", "obs_next", "rew", "done"} <= out.keys()
    batch, index = make().sample(size, out=out)
    assert index.tolist() == wanted_index.tolist()
    assert list(batch.keys()) == list(wanted.keys())
    for key, array in out.items():
        assert batch[key] is array
        np.testing.assert_array_equal(array, wanted[key], err_msg=key)


def test_what_is_not_given_is_fresh():
    buffer = fill(ReplayBuffer(9), "....")
    obs = np.zeros(5)
    batch, index = buffer.sample(5, out={"obs": obs})
    assert obs.tolist() == index.tolist()
    assert batch.act.tolist() == index.tolist()


def test_an_earlier_batch_may_be_given():
    buffer = fill(PrioritizedReplayBuffer(9, 0.6, 0.4), "....")
    earlier, _ = buffer.sample(5)
    batch, index = buffer.sample(5, out=earlier)
    assert batch.obs is earlier.obs
    assert earlier.obs.tolist() == index.tolist()


def test_relabelled_rewards_go_into_the_given_array():
    buffer = HERReplayBuffer(9, lambda achieved, desired: 100.0 + desired[:, 0], horizon=9, future_k=2.0, seed=0)
    for fields in goal_rows(4):
        buffer.add(fields)
    rew = np.zeros(50)
    batch, _ = buffer.sample(50, out={"rew": rew})
    assert batch.rew is rew
    assert (rew > 99).any()
    with pytest.raises(ValueError, match="obs"):
        buffer.sample(50, out={"obs": np.zeros((50, 1))})


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    "out",
    [
        {"act": np.zeros(4, np.int64)},
        {"act": np.zeros((5, 1), np.int64)},
        {"act": np.zeros(5, np.int32)},
        {"act": np.zeros(10, np.int64)[::2]},
        {"act": np.broadcast_to(np.int64(0), 5)},
        {"act": [0, 0, 0, 0, 0]},
        {"weight": np.zeros(4)},
        {"weight": np.zeros(5, np.float32)},
        {"weight": [0.0] * 5},
        {"actions": np.zeros(5)},
        {"info": Batch(late=np.zeros(5))},
    ],
    ids=["short", "axes", "dtype", "gaps", "read-only", "list", "short weight", "float32", "weights", "name", "nested"],
)
def test_arrays_that_cannot_be_filled_are_refused(make, out):
    with pytest.raises(ValueError, match="out "):
        make().sample(5, out=out)


def test_overlapping_arrays_are_refused():
    both = np.zeros(5)
    with pytest.raises(ValueError, match=r"obs.*rew"):
        fill(ReplayBuffer(9), "...").sample(5, out={"obs": both, "rew": both})


def test_columns_of_objects_are_refused():
    buffer = ReplayBuffer(9)
    buffer.add(row(0, info={}, act="left"))
    with pytest.raises(ValueError, match="act"):
        buffer.sample(2, out={"act": np.empty(2, object)})
    rew = np.zeros(2)
    assert buffer.sample(2, out={"rew": rew})[0].act.tolist() == ["left", "left"]


@pytest.mark.parametrize("unit", [NStep(2, 0.9), Sequence(2)])
def test_units_refuse_given_arrays(unit):
    buffer = fill(ReplayBuffer(9, unit=unit), "...")
    with pytest.raises(ValueError, match=type(unit).__name__):
        buffer.sample(2, out={"rew": np.zeros(2)})


def test_a_subclass_that_reads_differently_refuses_given_arrays():
    class Negated(ReplayBuffer):
        def __getitem__(self, index):
            batch = super().__getitem__(index)
            batch.rew = -batch.rew
            return batch

    with pytest.raises(ValueError, match=r"Negated\.__getitem__"):
        fill(Negated(9), "...").sample(2, out={"rew": np.zeros(2)})


def test_given_arrays_hold_rows_that_a_subclass_draws():
    class Newest(ReplayBuffer):
        def sample_indices(self, batch_size):
            return np.repeat(self.last_index, batch_size)

    rew = np.zeros(2)
    assert fill(Newest(9), "...").sample(2, out={"rew": rew})[0].rew is rew
    assert rew.tolist() == [2, 2]


def test_nothing_to_draw_is_said_first():
    with pytest.raises(ValueError, match="empty buffer"):
        ReplayBuffer(3).sample(2, out={"obs": np.zeros(2)})
