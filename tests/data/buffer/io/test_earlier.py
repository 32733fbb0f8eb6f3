"""Files in `earlier/` were written by versions in which classes were in other modules."""

import operator
import pickle
from pathlib import Path

import numpy as np
import pytest

from rlfast.data import HERReplayBuffer, NStep, PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer

EARLIER = Path(__file__).parent / "earlier"


def prioritized(form):
    if form == "snapshot":
        return PrioritizedVectorReplayBuffer.load(EARLIER / "prioritized.buffer")
    return pickle.loads((EARLIER / "buffers.pickle").read_bytes())["prioritized"]


@pytest.mark.parametrize("form", ["pickle", "snapshot"])
def test_prioritized_buffers_open(form):
    buffer = prioritized(form)
    assert type(buffer) is PrioritizedVectorReplayBuffer
    assert [type(child) for child in buffer.buffers] == [PrioritizedReplayBuffer] * 2
    assert (len(buffer), buffer.stack_num, buffer.options["alpha"]) == (6, 3, 0.5)
    assert buffer.obs.tolist() == [3, 4, 2, 30, 40, 20]
    assert buffer.terminated.tolist() == [False, False, True, False, False, False]
    assert buffer.weight[[0, 4]] == pytest.approx(np.sqrt([3.0, 5.0]))
    assert buffer.buffers[1][1].obs.tolist() == [30, 40]  # its own number of frames
    buffer.buffers[0].append(obs=5, act=0, rew=0.0, terminated=False, truncated=False, obs_next=6)
    assert buffer.obs.tolist() == [3, 4, 5, 30, 40, 20]  # one storage
    assert (buffer._index, buffer.buffers[1]._index, buffer.buffers[1]._ep_len) == (0, 2, 5)


def test_pickle_and_snapshot_go_on_alike():
    (one, where), (other, there) = (prioritized(form).sample(32) for form in ("pickle", "snapshot"))
    assert where.tolist() == there.tolist()
    assert np.array_equal(one.obs, other.obs)
    assert np.array_equal(one.weight, other.weight)


def test_hindsight_buffers_open():
    buffer = pickle.loads((EARLIER / "buffers.pickle").read_bytes())["hindsight"]
    assert type(buffer) is HERReplayBuffer
    assert (buffer.compute_reward_fn, buffer.horizon, len(buffer)) == (operator.eq, 7, 3)
    assert buffer._config.unit == NStep(2, 0.9)
    last = buffer[2].obs_next
    assert last.observation.tolist() == [3]
    assert buffer.append(obs=last, act=0, rew=-1.0, terminated=True, truncated=False, obs_next=last) == 3
