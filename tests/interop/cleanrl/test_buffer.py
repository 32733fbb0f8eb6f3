"""CleanRL's call signature, on spaces of all kinds."""

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces

from interop.streams import ACTIONS, OBSERVATIONS, steps
from rlfast.interop.cleanrl import ReplayBuffer

BOX, DISCRETE = OBSERVATIONS["box"], ACTIONS["discrete"]
PAIRS = [(obs, "discrete") for obs in OBSERVATIONS if obs != "dict"] + [("box", act) for act in ACTIONS]


def vector_infos(step):
    """Infos as a Gymnasium vector environment gives them."""
    return {"TimeLimit.truncated": np.array([info.get("TimeLimit.truncated", False) for info in step.infos])}


def assert_same_samples(one, other, rows):
    drawn = []
    for buffer in (one, other):
        np.random.seed(0)
        drawn.append(buffer.sample(rows))
    for part, same in zip(*drawn, strict=True):
        assert torch.equal(part, same)


@pytest.mark.parametrize("timeouts", [True, False])
@pytest.mark.parametrize("saving", [True, False])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize(("obs", "act"), PAIRS)
def test_samples_are_what_was_added(obs, act, envs, saving, timeouts):
    obs_space, act_space = OBSERVATIONS[obs], ACTIONS[act]
    rb = ReplayBuffer(12 * envs, obs_space, act_space, "cpu", envs, saving, timeouts)
    stream = list(steps(obs_space, act_space, envs, 20))
    for step in stream:
        rb.add(*step[:5], vector_infos(step) if step.reward[0] > 0 else step.infos)
    assert (rb.size(), rb.full, rb.pos, rb.buffer_size) == (12, True, 8, 12)
    data = rb.sample(100)
    rewards = np.stack([step.reward for step in stream]).astype(np.float32)
    seen = set()
    for i, reward in enumerate(data.rewards[:, 0].tolist()):
        t, env = (int(at[0]) for at in np.nonzero(rewards == np.float32(reward)))
        seen.add(t)
        step = stream[t]
        timeout = timeouts and step.infos[env].get("TimeLimit.truncated", False)
        for part, value, space in (
            (data.observations, step.obs, obs_space),
            (data.next_observations, step.next_obs, obs_space),
            (data.actions, step.action, act_space),
        ):
            row = np.asarray(value[env]).reshape(part.shape[1:])
            wide = space.dtype == np.float64 and part is data.actions
            assert part.dtype == torch.from_numpy(np.zeros(1, np.float32 if wide else space.dtype)).dtype
            np.testing.assert_array_equal(part[i].numpy(), row.astype(np.float32) if wide else row)
        assert data.dones[i].tolist() == [float(step.done[env] and not timeout)]
    assert seen == set(range(9 if saving else 8, 20))


def test_several_steps_at_once():
    stream = list(steps(BOX, DISCRETE, 2, 5))
    one, other = (ReplayBuffer(20, BOX, DISCRETE, "cpu", 2) for _ in range(2))
    for step in stream:
        one.add(*step)
    other.extend(*(list(column) for column in zip(*stream, strict=True)))
    assert (other.obs_shape, other.action_dim, other.pos) == (BOX.shape, 1, 5)
    assert_same_samples(one, other, 30)


def test_it_goes_on_from_a_pickle():
    rb = ReplayBuffer(12, BOX, DISCRETE, "cpu", handle_timeout_termination=False)
    for step in steps(BOX, DISCRETE, 1, 15):
        rb.add(*step[:5], {})
    for twin in (pickle.loads(pickle.dumps(rb)), copy.deepcopy(rb)):
        assert_same_samples(rb, twin, 5)


def test_reset_forgets():
    rb = ReplayBuffer(4, BOX, DISCRETE, "cpu", handle_timeout_termination=False)
    for step in steps(BOX, DISCRETE, 1, 6):
        rb.add(*step[:5], {})
    rb.reset()
    assert (rb.size(), rb.full, rb.pos) == (0, False, 0)
    with pytest.raises(ValueError, match="nothing to sample"):
        rb.sample(1)


def test_bad_input():
    with pytest.raises(NotImplementedError, match="VectorReplayBuffer"):
        ReplayBuffer(4, spaces.Dict(a=BOX), DISCRETE, "cpu")
    rb = ReplayBuffer(4, BOX, DISCRETE, "cpu", handle_timeout_termination=False)
    (step,) = steps(BOX, DISCRETE, 1, 1)
    with pytest.raises(ValueError, match="shape"):
        rb.add(np.zeros((2, 3)), *step[1:5], {})
    assert rb.size() == 0


def test_the_device():
    rb = ReplayBuffer(4, BOX, DISCRETE, "meta", handle_timeout_termination=False)
    for step in steps(BOX, DISCRETE, 1, 2):
        rb.add(*step[:5], {})
    assert {part.device.type for part in rb.sample(2)} == {"meta"}
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    assert ReplayBuffer(4, BOX, DISCRETE).device.type == automatic
    assert ReplayBuffer(4, BOX, DISCRETE, "cuda").device.type == automatic
