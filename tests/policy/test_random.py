import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from oracle.chi_square import is_plausible
from rlfast.data import Batch
from rlfast.policy import RandomPolicy

BOX = Box(np.array([0.0, -1.0], np.float32), np.array([5.0, 1.0], np.float32))


def observations(n, mask=None):
    obs = np.zeros((n, 4), np.float32)
    return Batch(obs=obs if mask is None else Batch(obs=obs, mask=mask), info={})


def test_legal_actions_are_drawn_uniformly():
    mask = np.tile([True, False, True, True, False], (30_000, 1))
    policy = RandomPolicy(action_space=Discrete(5))
    policy.seed(0)
    assert is_plausible(np.bincount(policy(observations(30_000, mask)).act, minlength=5), mask[0].astype(float))


def test_rows_have_masks_of_their_own_and_numbers_will_do():
    mask = np.eye(4, dtype=np.int8)[[2, 0, 3]]
    assert RandomPolicy(action_space=Discrete(4))(observations(3, mask)).act.tolist() == [2, 0, 3]


@pytest.mark.parametrize("space", [MultiDiscrete([2, 3], start=[4, 5]), MultiDiscrete([[2, 3]])], ids=str)
def test_each_choice_of_several_is_legal(space):
    mask = np.array([[True, False, False, True, True], [False, True, True, False, False]])
    policy = RandomPolicy(action_space=space)
    drawn = np.concatenate([policy.map_action(policy(observations(2, mask)).act) for _ in range(50)])
    assert all(space.contains(one) for one in drawn)
    own = (drawn - space.start).reshape(50, 2, 2)
    assert [{*map(tuple, own[:, k].tolist())} for k in range(2)] == [{(0, 1), (0, 2)}, {(1, 0)}]


@pytest.mark.parametrize("space", [Discrete(4), MultiDiscrete([2, 3]), BOX, MultiBinary(3)], ids=str)
def test_what_is_no_mask_of_actions_changes_nothing(space):
    policy = RandomPolicy(action_space=space)
    drawn = policy.map_action(policy(observations(20, np.zeros((20, 7), bool))).act)
    assert all(space.contains(one) for one in drawn)


def test_without_a_mask_all_actions_are_drawn():
    policy = RandomPolicy(action_space=Discrete(3))
    policy.seed(0)
    assert is_plausible(np.bincount(policy(observations(30_000)).act, minlength=3), np.ones(3))


@pytest.mark.parametrize("space", [BOX, Discrete(3, start=2), MultiDiscrete([2, 3]), MultiBinary(4)])
def test_any_space(space):
    scaling = {"action_scaling": True} if isinstance(space, Box) else {}
    policy = RandomPolicy(action_space=space, **scaling)
    result = policy(observations(50), state="kept")
    mapped = policy.map_action(result.act)
    assert all(space.contains(action.astype(space.dtype)) for action in mapped)
    assert len(np.unique(mapped, axis=0)) > 1
    assert result.state == "kept"


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_box_is_drawn_whole(dtype):
    space = Box(5, 9, (2,), dtype)
    policy = RandomPolicy(action_space=space)
    policy.seed(0)
    drawn = policy.map_action(policy(observations(2_000)).act)
    assert drawn.min() == pytest.approx(5, abs=0.01)
    assert drawn.max() == pytest.approx(9, abs=0.01)
    assert drawn.mean() == pytest.approx(7, abs=0.1)


def test_a_seed_from_the_policys_stream_decides_what_the_space_gives():
    policy, space = RandomPolicy(action_space=MultiBinary(8)), MultiBinary(8)
    policy.seed(3)
    space.seed(int(np.random.default_rng(3).integers(2**31)))
    assert policy(observations(4)).act.tolist() == [space.sample().tolist() for _ in range(4)]


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("space", [BOX, Discrete(30)])
def test_seeds_decide_and_the_environment_keeps_its_own_stream(space):
    def draws(seed):
        policy = RandomPolicy(action_space=space)
        policy.seed(seed)
        return policy(observations(20)).act.tolist()

    space.seed(7)
    expected = space.sample()
    space.seed(7)
    assert draws(1) == draws(1) != draws(2)
    assert np.array_equal(space.sample(), expected)


def test_it_learns_nothing(make_buffer):
    assert RandomPolicy(action_space=Discrete(3)).update(8, make_buffer(50)).get_loss_stats_dict() == {}
