import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from policy.given import overriding
from rlfast.data import Batch
from rlfast.env.spaces.actions import at_shares
from rlfast.policy import ActingPolicy
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.runtime.native import NotNativeError

BOX = Box(np.array([0.0, 0.0], np.float32), np.array([5.0, 1.0], np.float32))


BOX_DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]
COUNTED = [
    Discrete(3, dtype=np.int32),
    Discrete(3, start=-4, dtype=np.int8),
    MultiDiscrete([3, 2], dtype=np.int16, start=[5, -1]),
    MultiDiscrete([[3, 2], [4, 5]], start=[[1, 0], [2, 3]]),
    MultiBinary(4),
    MultiBinary((2, 3)),
]
ONES = np.ones(3)


def odd_boxes(dtype):
    """Boxes whose sums and differences are rounded, and the widest that there are."""
    rng = np.random.default_rng(np.dtype(dtype).num)
    if np.dtype(dtype).kind == "f":
        most = min(float(np.finfo(dtype).max), 1.5e38)
        bounds = [
            ([-most, -most, 0.0], [most / 2, most, most]),
            ([-0.0, 2.0, -1e-3], [0.0, 7.0, 1e-3]),
            ([-1.3812797, 0.1, -10.3], [0.82177013, 0.3, 1000.7]),
            *(np.sort(rng.normal(scale=[1.0, 10.0, 0.1], size=(2, 3)), axis=0) for _ in range(40)),
        ]
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        bounds = [
            ([least, 3, most], [least + 1, 3, most]),
            ([least // 2 + 1, 0, 7], [most // 3, 1, 100]),
            ([least] * 3, [most] * 3),
        ]
    return [Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype, seed=0) for low, high in bounds]


class Mirror(ActingPolicy):
    """A policy whose actions are the observations."""

    def forward(self, batch, state=None, **kwargs):
        self.seen = batch
        return Batch(act=batch.obs, state=state)


class CountsFromZero(Mirror):
    counts_from_zero = True


def box(*bounds, shape=(2,)):
    return Box(*bounds, shape=shape, dtype=np.float32)


def test_numbers_replace_numbers_as_attributes_of_any_module_do():
    policy = Mirror(action_space=BOX)
    policy.layer = layer = torch.nn.Linear(1, 1)
    policy.scale, policy.register = 1, torch.nn.Parameter(torch.ones(1))
    for value in (2, 0.5, True):
        policy.scale = value
        assert policy.scale is value
    with pytest.raises(TypeError, match="cannot assign"):
        policy.layer = 3
    with pytest.raises(TypeError, match="cannot assign"):
        policy.register = 3.0
    assert policy.layer is layer
    policy.scale = torch.nn.Parameter(torch.zeros(1))  # takes the number's place
    assert dict(policy.named_parameters()).keys() == {"layer.weight", "layer.bias", "register", "scale"}


class TestConstruction:
    @pytest.mark.parametrize(
        ("space", "kind"),
        [
            (BOX, "continuous"),
            (Discrete(2), "discrete"),
            (MultiDiscrete([2, 3]), "discrete"),
            (MultiBinary(2), "discrete"),
        ],
    )
    def test_the_kind_of_action_follows_from_the_space(self, space, kind):
        policy = Mirror(action_space=space, observation_space=BOX)
        assert policy.action_type == kind
        assert policy.observation_space is BOX
        spaces = [BOX, BOX]  # as vector environments give them
        assert Mirror(action_space=space, observation_space=spaces).observation_space is spaces

    @pytest.mark.parametrize("method", ["", "none", "Clip", 1])
    def test_another_bound_method_is_refused(self, method):
        with pytest.raises(ValueError, match="action_bound_method must be one of"):
            Mirror(action_space=BOX, action_bound_method=method)

    @pytest.mark.parametrize("space", [Discrete(2), MultiDiscrete([2]), MultiBinary(2)])
    def test_only_a_box_can_be_scaled_to(self, space):
        with pytest.raises(ValueError, match="action_scaling needs a Box with finite bounds"):
            Mirror(action_space=space, action_scaling=True)

    @pytest.mark.pitfall("F3")
    @pytest.mark.parametrize("space", [box(-np.inf, np.inf), box(0.0, np.inf), box(-3e38, 3e38)])
    def test_scaling_to_a_box_without_bounds_is_refused(self, space):
        with pytest.raises(ValueError, match="finite bounds"):
            Mirror(action_space=space, action_scaling=True)
        Mirror(action_space=space)

    def test_other_spaces_are_refused(self):
        with pytest.raises(ValueError, match="must be a Box"):
            Mirror(action_space=Dict({"a": BOX}))


@pytest.mark.pitfall("F3")
class TestMapAction:
    def test_bounds_are_hit(self):
        policy = Mirror(action_space=BOX, action_scaling=True)
        assert policy.map_action(np.array([-1.0, -1.0])).tolist() == [0.0, 0.0]
        assert policy.map_action(np.array([1.0, 1.0])).tolist() == [5.0, 1.0]
        assert policy.map_action(np.array([[0.0, 0.5]])).tolist() == [[2.5, 0.75]]

    def test_noise_beyond_the_bounds_is_clipped_first(self):
        policy = Mirror(action_space=BOX, action_scaling=True)
        assert policy.map_action(np.array([-1.7, 3.0])).tolist() == [0.0, 1.0]

    def test_tanh_bounds(self):
        policy = Mirror(action_space=BOX, action_scaling=True, action_bound_method="tanh")
        assert policy.map_action(np.array([0.0, 100.0])).tolist() == [2.5, 1.0]

    def test_without_a_bound_actions_outside_are_refused(self):
        policy = Mirror(action_space=BOX, action_scaling=True, action_bound_method=None)
        assert policy.map_action(np.array([1.0, 0.0])).tolist() == [5.0, 0.5]
        for bad in ([1.1, 0.0], [np.nan, 0.0]):
            with pytest.raises(ValueError, match="can only scale actions in"):
                policy.map_action(np.array(bad))

    @pytest.mark.parametrize("method", ["clip", "tanh", None])
    @pytest.mark.parametrize("space", [BOX, box(-0.4, 0.4), box(-3.0, 3.0), box(-1.0, 1.0)])
    def test_map_undoes_its_inverse(self, space, method):
        policy = Mirror(action_space=space, action_scaling=True, action_bound_method=method)
        space.seed(0)
        act = np.stack([space.low, space.high, *(space.sample() for _ in range(50))])
        inner = policy.map_action_inverse(act)
        assert np.isfinite(inner).all()
        assert policy.map_action(inner) == pytest.approx(act, abs=1e-5)

    def test_inverse_undoes_map(self):
        act = np.random.default_rng(0).uniform(-1, 1, (50, 2))
        policy = Mirror(action_space=BOX, action_scaling=True)
        assert policy.map_action_inverse(policy.map_action(act)) == pytest.approx(act, abs=1e-6)
        policy = Mirror(action_space=BOX, action_scaling=True, action_bound_method="tanh")
        assert policy.map_action_inverse(policy.map_action(3 * act)) == pytest.approx(3 * act, abs=1e-3)

    def test_an_axis_of_one_point(self):
        space = Box(np.array([0.0, 2.0], np.float32), np.array([1.0, 2.0], np.float32))
        policy = Mirror(action_space=space, action_scaling=True)
        inner = policy.map_action_inverse(np.array([0.5, 2.0]))
        assert np.isfinite(inner).all()
        assert policy.map_action(inner).tolist() == [0.5, 2.0]

    def test_what_is_given_stays_as_it_is(self):
        policy = Mirror(action_space=BOX, action_scaling=True)
        act = np.array([5.0, -5.0])
        policy.map_action(act)
        policy.map_action_inverse(act)
        assert act.tolist() == [5.0, -5.0]

    @pytest.mark.parametrize("dtype", BOX_DTYPES, ids=lambda dtype: np.dtype(dtype).name)
    @pytest.mark.parametrize("method", ["clip", "tanh", None])
    def test_actions_are_elements_of_the_box(self, dtype, method):
        rng = np.random.default_rng(0)
        for space in odd_boxes(dtype):
            inner = np.stack([-ONES, ONES, -0.0 * ONES, rng.uniform(-1, 1, ONES.shape)])
            for act in (inner, inner.astype(np.float32), inner.astype(np.float16), np.rint(inner).astype(np.int64)):
                policy = Mirror(action_space=space, action_scaling=True, action_bound_method=method)
                mapped = policy.map_action(act)
                assert mapped.dtype == space.dtype
                assert all(space.contains(one) for one in mapped), (space, act)
                if method != "tanh":
                    assert mapped[0] == pytest.approx(space.low, rel=1e-6, abs=1e-6)
                    assert mapped[1] == pytest.approx(space.high, rel=1e-6, abs=1e-6)
                if method is not None:  # beyond 1, and without scaling
                    unscaled = Mirror(action_space=space, action_bound_method=method)
                    mapped = [*policy.map_action(5 * act), *unscaled.map_action(5 * act)]
                    assert all(space.contains(one) for one in mapped), (space, act)
                assert space.contains(policy.compute_action(act[3]))

    @pytest.mark.parametrize("dtype", BOX_DTYPES, ids=lambda dtype: np.dtype(dtype).name)
    def test_samples_of_the_box_come_back(self, dtype):
        rng = np.random.default_rng(0)
        for space in odd_boxes(dtype):
            policy = Mirror(action_space=space, action_scaling=True)
            samples = at_shares(space, rng.uniform(size=(20, 3)))  # Gymnasium cannot sample the widest ones
            act = np.stack([space.low, space.high, *samples])
            back = policy.map_action(policy.map_action_inverse(act))
            width = space.high.astype(float) - space.low.astype(float)
            assert (np.abs(back.astype(float) - act.astype(float)) <= 1e-6 * width + 1e-3 * (dtype == np.float16)).all()

    def test_a_range_near_the_greatest_float_is_not_folded(self):
        policy = Mirror(action_space=box(-1.5e38, 1.5e38), action_scaling=True)
        inner = np.array([[-0.5, 0.9]], np.float32)
        assert policy.map_action(inner) == pytest.approx(1.5e38 * inner)
        assert policy.map_action_inverse(policy.map_action(inner)) == pytest.approx(inner, abs=1e-6)

    def test_a_narrow_range_is_used_whole(self):
        policy = Mirror(action_space=Box(0.0, 1e-9, (1,), np.float64), action_scaling=True)
        assert policy.map_action_inverse(np.array([0.0, 0.5e-9, 1e-9])) == pytest.approx([-1, 0, 1])

    @pytest.mark.parametrize("method", ["clip", None])
    def test_integers_are_rounded(self, method):
        policy = Mirror(action_space=Box(-7, 15, (1,), np.int8), action_bound_method=method)
        assert policy.map_action(np.array([[0.9999999], [-0.51], [0.4]])).tolist() == [[1], [-1], [0]]
        with pytest.raises(ArgumentError, match="no numbers of dtype int8"):
            policy.map_action(np.array([[np.nan]]))

    def test_actions_without_bounds_are_only_converted(self):
        policy = Mirror(action_space=BOX, action_bound_method=None)
        mapped = policy.map_action(np.array([7.0, -3.0]))
        assert (mapped.tolist(), mapped.dtype) == ([7.0, -3.0], np.float32)
        assert np.isnan(Mirror(action_space=BOX).map_action(np.array([np.nan, 0.0]))).tolist() == [True, False]

    @pytest.mark.parametrize("space", COUNTED, ids=str)
    def test_discrete_actions_have_the_dtype_of_the_space(self, space):
        policy = CountsFromZero(action_space=space)
        for dtype in (np.int64, np.uint8, np.float32, bool):
            mapped = policy.map_action(np.ones((3, *space.shape), dtype))
            assert mapped.dtype == space.dtype
            assert all(space.contains(one) for one in mapped)
        with pytest.raises(ArgumentError, match="no numbers of dtype"):
            policy.map_action(np.full((3, *space.shape), 0.5))

    def test_tensors_are_brought_over(self):
        policy = Mirror(action_space=BOX, action_scaling=True)
        act = policy.map_action(torch.tensor([[1.0, -1.0]], requires_grad=True))
        assert isinstance(act, np.ndarray)
        assert act.tolist() == [[5.0, 0.0]]

    @pytest.mark.parametrize(
        ("space", "start"), [(Discrete(3, start=2), 2), (MultiDiscrete([3, 4], start=[1, -1]), [1, -1])]
    )
    def test_discrete_spaces_that_do_not_start_at_zero(self, space, start):
        policy = CountsFromZero(action_space=space)
        act = np.zeros((5, *np.shape(start)), np.int64)
        mapped = policy.map_action(act)
        assert (mapped == start).all()
        assert (policy.map_action_inverse(mapped) == 0).all()
        assert space.contains(mapped[0])

    def test_who_counts_or_maps_otherwise_is_left_to_it(self):
        class Maps(CountsFromZero):
            def map_action(self, act):
                return super().map_action(act) + 2

        space = Discrete(3, start=2)
        assert Mirror(action_space=space).map_action(np.array([2, 3])).tolist() == [2, 3]
        assert Mirror(action_space=space).map_action_inverse(np.array([2, 3])).tolist() == [2, 3]
        assert Maps(action_space=space).map_action(np.array([0, 1])).tolist() == [2, 3]
        patched = CountsFromZero(action_space=space)
        patched.map_action = lambda act: act + 7
        assert patched.map_action(np.array([0])).tolist() == [7]

    @pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([3, 4]), MultiBinary(2)])
    def test_other_discrete_actions_stay(self, space):
        policy = Mirror(action_space=space)
        act = np.array([[1, 0], [0, 1]])
        assert np.array_equal(policy.map_action(act), act)
        assert np.array_equal(policy.map_action_inverse(act), act)

    @pytest.mark.parametrize(
        ("space", "shape"),
        [
            (MultiDiscrete([2, 2]), (3,)),
            (MultiDiscrete([2, 2]), (3, 1)),
            (MultiDiscrete([[2, 2]]), (1, 2, 2)),
            (MultiBinary(3), (4,)),
            (MultiBinary(3), ()),
            (BOX, (3, 1)),
            (BOX, (3,)),
            (BOX, ()),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("method", ["clip", "tanh", None])
    def test_actions_of_another_shape_are_refused(self, space, shape, method):
        policy = Mirror(action_space=space, action_bound_method=method)
        with pytest.raises(ArgumentError, match=r"(?s)actions of (Box|Multi).* must have the shape \(\.\.\., .*, got"):
            policy.map_action(np.ones(shape, int))

    @pytest.mark.parametrize("space", [Discrete(3), Box(-1, 1, ())], ids=str)
    def test_actions_of_a_space_without_axes_may_have_any_shape(self, space):
        for shape in ((), (4,), (4, 1)):
            assert Mirror(action_space=space).map_action(np.ones(shape)).shape == shape

    def test_a_batch_is_no_action(self):
        with pytest.raises(ArgumentError, match="actions must be an array or a tensor, got Batch"):
            Mirror(action_space=BOX).map_action(Batch(a=np.zeros(2)))


class TestComputeAction:
    def test_a_number_for_discrete_actions(self):
        act = CountsFromZero(action_space=Discrete(5, start=1)).compute_action(np.int64(3))
        assert act == 4
        assert type(act) is int

    @pytest.mark.parametrize("size", [1, 2])
    def test_the_shape_of_the_space_for_a_box(self, size):
        policy = Mirror(action_space=box(-2.0, 2.0, shape=(size,)), action_scaling=True)
        act = policy.compute_action(np.full(size, 0.5))
        assert act.tolist() == [1.0] * size

    def test_observations_with_parts(self):
        class PickPart(Mirror):
            def forward(self, batch, state=None, **kwargs):
                super().forward(batch, state)
                return Batch(act=batch.obs.part, state=state)

        policy = PickPart(action_space=Discrete(3))
        assert policy.compute_action({"part": 2, "mask": np.array([True, False])}, info={"lives": 3}, state="kept") == 2
        assert policy.seen.obs.mask.shape == (1, 2)
        assert policy.seen.info.lives.tolist() == [3]

    def test_the_hidden_state_is_given_on(self):
        policy = Mirror(action_space=BOX)
        policy.forward = lambda batch, state=None: Batch(act=batch.obs + state, state=state)
        assert policy.compute_action(np.array([0.25, 0.5]), state=np.array([[0.5, -0.25]])).tolist() == [0.75, 0.25]

    def test_no_gradient_is_recorded(self):
        class Linear(Mirror):
            def forward(self, batch, state=None, **kwargs):
                self.out = self.layer(torch.as_tensor(batch.obs))
                return Batch(act=self.out, state=state)

        policy = Linear(action_space=BOX)
        policy.layer = torch.nn.Linear(2, 2)
        policy.compute_action(np.zeros(2, np.float32))
        assert not policy.out.requires_grad


def test_there_is_no_noise_unless_an_algorithm_adds_it():
    act = np.array([1, 2])
    assert Mirror(action_space=Discrete(3)).exploration_noise(act, Batch(obs=act, info={})) is act


class TestNormalNumbers:
    @pytest.mark.parametrize("seed", [None, 3])
    def test_they_are_of_the_kind_and_on_the_device_that_is_asked_for(self, seed):
        policy = Mirror(action_space=BOX)
        if seed is not None:
            policy.seed(seed)
        drawn = policy.draw_normal((2, 3), torch.float64, torch.device("meta"))
        assert (drawn.shape, drawn.dtype, drawn.device.type) == ((2, 3), torch.float64, "meta")

    def test_a_seed_gives_the_same_in_all_versions(self):
        policy = Mirror(action_space=BOX)
        policy.seed(3)
        drawn = policy.draw_normal((3,), torch.float32, torch.device("cpu"))
        assert drawn.tolist() == pytest.approx([-0.8185847, -0.2133947, 0.7480844])


class TestActingWithoutTorch:
    """What the engine is told, in place of the methods of Python."""

    def test_a_policy_without_a_network_does_not(self):
        with pytest.raises(NotNativeError, match=r"^Mirror does not act in Rust: it chooses actions by a method"):
            Mirror(action_space=BOX).native_chooser((4,))

    def test_noise_of_its_own_is_left_to_the_policy(self):
        class Noisy(Mirror):
            def exploration_noise(self, act, batch):
                return act + 1

        assert Mirror(action_space=BOX).native_exploration() is None
        with pytest.raises(NotNativeError, match=r"^Noisy has exploration noise of its own$"):
            Noisy(action_space=BOX).native_exploration()

    def test_discrete_actions_stay(self):
        assert Mirror(action_space=Discrete(3, start=2)).native_map() == (False, False, None)
        assert CountsFromZero(action_space=Discrete(3)).native_map() == (False, False, None)

    def test_actions_of_a_box_are_clipped_and_stretched(self):
        space = Box(np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32))
        assert Mirror(action_space=space, action_bound_method=None).native_map() == (False, False, None)
        for options in ({}, {"action_scaling": True}, {"action_scaling": True, "action_bound_method": None}):
            clips, stretches, (low, high) = Mirror(action_space=space, **options).native_map()
            assert (low.tolist(), high.tolist()) == ([-1.0, 2.0], [3.0, 2.5])
            assert (clips, stretches) == ("action_bound_method" not in options, "action_scaling" in options)

    def test_other_actions_are_left_to_the_policy(self):
        spaces = (MultiBinary(2), MultiDiscrete([2, 3]), Box(-1, 1, (1,), np.float64))
        others = [Mirror(action_space=space) for space in spaces]
        others += [CountsFromZero(action_space=Discrete(3, start=2))]
        others += [overriding(Mirror(action_space=BOX), map_action=lambda self, act: act + 7)]
        for policy in others:
            with pytest.raises(NotNativeError, match=r"^the policy maps actions$"):
                policy.native_map()
        with pytest.raises(NotNativeError, match=r"^the policy maps actions by the hyperbolic tangent$"):
            Mirror(action_space=BOX, action_bound_method="tanh").native_map()
