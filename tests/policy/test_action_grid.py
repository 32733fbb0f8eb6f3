import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from rlfast.data import Batch
from rlfast.policy import ActingPolicy
from rlfast.policy.action_grid import ActionGrid


class Grid(ActionGrid, ActingPolicy):
    counts_from_zero = True
    choices = 5

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=batch.obs)


def test_a_box_has_evenly_spaced_values():
    policy = Grid(action_space=Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 8.0], np.float32)))
    values = policy.map_action(np.array([[0, 1], [4, 2]]))
    assert (values.tolist(), values.dtype) == ([[-1.0, 2.0], [1.0, 4.0]], np.float32)
    indices = policy.map_action_inverse(np.array([[-0.8, 2.9], [1.0, 3.1]]))
    assert (indices.tolist(), indices.dtype) == ([[0, 1], [4, 2]], np.int64)


def test_other_actions_begin_at_the_start_of_their_space():
    policy = Grid(action_space=MultiDiscrete([2, 3], start=[5, 6]))
    assert policy.map_action(np.array([[0, 2]])).tolist() == [[5, 8]]
    assert policy.map_action_inverse(np.array([[5, 8]])).tolist() == [[0, 2]]
