"""D4: sequences of episodes for recurrent learners."""

import numpy as np
import pytest

from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import Sequence


def sequence_row(episode, time, last):
    """An observation names its episode and time; the state stored with it is the one before the step."""
    return Batch(
        obs=np.array([episode, time]),
        obs_next=np.array([episode, time + 1]),
        act=0,
        rew=float(time),
        terminated=False,
        truncated=time == last,
        info={},
        policy={"hidden_state": 1000.0 * episode + time},
    )


def episodes(buffer, lengths):
    for episode, length in enumerate(lengths):
        for time in range(length):
            buffer.add(sequence_row(episode, time, length - 1))
    return buffer


def check(buffer, batch, index, length, burn_in):
    """Every row of every sequence, against what the anchor's episode holds."""
    stored = buffer[:]
    alive = {tuple(name) for name in stored.obs.tolist()}
    anchors = buffer[index].obs.tolist()
    assert batch.obs.shape == (len(index), burn_in + length, 2)
    for number, (episode, time) in enumerate(anchors):
        wanted = [(episode, time + step) for step in range(-burn_in, length)]
        exists = [name in alive for name in wanted]
        assert batch.mask[number].tolist() == exists
        assert batch.loss_mask[number].tolist() == [real and place >= burn_in for place, real in enumerate(exists)]
        for place, name in enumerate(wanted):
            shown = tuple(batch.obs[number, place].tolist())
            assert shown[0] == episode, "a row of another episode"
            assert shown == name or not exists[place]
            assert batch.rew[number, place] == shown[1]
            assert batch.policy.hidden_state[number, place] == 1000 * shown[0] + shown[1]
    return anchors


@pytest.mark.pitfall("D4")
@pytest.mark.parametrize("burn_in", [0, 10])
@pytest.mark.parametrize("capacity", [100, 120, 64])
def test_no_sequence_holds_rows_of_two_episodes(capacity, burn_in):
    buffer = episodes(ReplayBuffer(capacity, unit=Sequence(40, burn_in), seed=0), [20, 30, 50])
    batch, index = buffer.sample(400)
    anchors = check(buffer, batch, index, 40, burn_in)
    assert {episode for episode, _ in anchors} == ({0, 1, 2} if capacity >= 100 else {1, 2})


@pytest.mark.pitfall("D4")
def test_a_sequence_does_not_reach_across_the_write_head():
    buffer = episodes(ReplayBuffer(16, unit=Sequence(6, 3), seed=0), [40])
    check(buffer, *buffer.sample(300), 6, 3)


@pytest.mark.pitfall("D4")
def test_a_sequence_does_not_reach_into_another_environment():
    buffer = VectorReplayBuffer(24, 2, unit=Sequence(8, 2), seed=0)
    for time in range(9):
        rows = [sequence_row(ring, time, 5) for ring in (0, 1)]
        buffer.add(Batch.stack(rows), buffer_ids=[0, 1])
    for number, (ring, time) in enumerate(buffer[(drawn := buffer.sample(200))[1]].obs.tolist()):
        shown = drawn[0].obs[number][drawn[0].mask[number]].tolist()
        first, last = (0, 5) if time <= 5 else (6, 8)
        assert shown == [[ring, at] for at in range(max(first, time - 2), min(last, time + 7) + 1)]


@pytest.mark.pitfall("D4")
def test_a_sequence_has_the_weight_of_the_row_that_was_drawn():
    buffer = episodes(PrioritizedReplayBuffer(50, 1.0, 1.0, unit=Sequence(5, 2), seed=0), [20, 30])
    buffer.update_weight(np.arange(50), np.arange(50) + 1.0)
    batch, index = buffer.sample(100)
    assert batch.weight.shape == (100,)
    np.testing.assert_allclose(batch.weight, (index.min() + 1.0) / (index + 1.0), rtol=1e-6)


@pytest.mark.pitfall("D4")
def test_without_a_legal_start_there_is_an_error():
    with pytest.raises(ValueError, match=r"empty|no rows|0 rows"):
        ReplayBuffer(10, unit=Sequence(4)).sample(2)
    with pytest.raises(ValueError, match="length"):
        Sequence(0)
    with pytest.raises(ValueError, match="burn_in"):
        Sequence(3, -1)
