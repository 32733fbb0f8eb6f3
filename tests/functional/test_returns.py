"""Returns and advantages, compared with their definitions at every kind of boundary, in every layout, and errors."""

import itertools
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import returns as slow
from rlfast import functional
from rlfast.functional import discounted_returns, gae, normalize, nstep_returns, vtrace
from rlfast.functional.returns import VTraceReturns, as_flags


def flags(text):
    """``"..T.t"`` as the pair of terminated and truncated."""
    return np.array([end == "T" for end in text], bool), np.array([end == "t" for end in text], bool)


def roll_out(seed, *shape, dtype=np.float64, chance=0.1):
    random = np.random.default_rng(seed)
    rewards, values, next_values, log_ratios = (random.normal(size=shape).astype(dtype) for _ in range(4))
    terminated, truncated = random.random(shape) < chance, random.random(shape) < chance
    # Inside an episode the next value is that of the next row, as V-trace takes for granted.
    inside = ~(terminated | truncated)[:-1]
    next_values[:-1][inside] = values[1:][inside]
    return rewards, values, next_values, log_ratios, terminated, truncated


def columns_of(function, arrays, shape):
    """A result column by column, the columns flattened to one axis."""
    flat = [array.reshape(shape[0], -1) for array in arrays]
    columns = [function(*(array[:, column] for array in flat)) for column in range(flat[0].shape[1])]
    return np.stack(columns, axis=1).reshape(shape)


class TestGAE:
    def advantages(self, ends, next_values):
        n = len(ends)
        return gae(np.ones(n), np.full(n, 0.5), np.array(next_values), *flags(ends), gamma=0.9, gae_lambda=0.8)

    @pytest.mark.pitfall("A1")
    def test_truncation_bootstraps_from_final_obs(self):
        np.testing.assert_allclose(self.advantages(".t.", [0.5, 10.0, 0.5]), [7.79, 9.5, 0.95])

    @pytest.mark.pitfall("A2")
    @pytest.mark.parametrize("beyond", [0.5, 1e9, np.inf, np.nan])
    def test_what_follows_termination_does_not_matter(self, beyond):
        np.testing.assert_allclose(self.advantages(".T.", [0.5, beyond, 0.5]), [1.31, 0.5, 0.95])

    @pytest.mark.pitfall("A3")
    def test_a_flag_belongs_to_its_own_step(self):
        rewards, zero = np.array([1.0, 1, 1, 0, 0, 0, 0, 0]), np.zeros(8)

        def first(ends):
            return gae(rewards, zero, np.ones(8), *flags(ends), gamma=1.0, gae_lambda=1.0)[0]

        assert (first("..T....."), first(".T......"), first("...T....")) == (5.0, 3.0, 6.0)

    @pytest.mark.pitfall("A4")
    def test_cut_rollout_bootstraps(self):
        np.testing.assert_allclose(self.advantages("...", [0.5, 0.5, 7.0])[-1], 1 + 0.9 * 7 - 0.5)

    @pytest.mark.pitfall("A4")
    @pytest.mark.parametrize("columns", [2, 3, 4, 8, 9, 16, 40])
    def test_environments_do_not_leak_into_one_another(self, columns):
        rewards = np.tile(np.where(np.arange(columns) % 2, 10.0, np.nan), (5, 1))
        terminated = np.tile(np.arange(columns) % 2 == 0, (5, 1))
        got = gae(rewards, np.zeros_like(rewards), np.zeros_like(rewards), terminated, gamma=1.0, gae_lambda=1.0)
        assert np.isnan(got[:, ::2]).all()
        assert (got[:, 1::2] == np.arange(50.0, 0.0, -10.0)[:, None]).all()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(
        "shape", [(0,), (1,), (50,), (3000,), (5000,), (40, 1), (40, 3), (40, 5), (33, 8), (33, 20), (20, 3, 7), (9, 0)]
    )
    @pytest.mark.parametrize("chance", [0.0, 0.01, 0.3])
    def test_it_is_its_definition_in_every_layout(self, shape, dtype, chance):
        rewards, values, next_values, _, *ends = roll_out(1, *shape, dtype=dtype, chance=chance)
        got = gae(rewards, values, next_values, *ends, gamma=0.97, gae_lambda=0.9)
        assert got.dtype == dtype
        assert got.shape == shape

        def recursion(r, v, nv, term, trunc):
            advantage, following = np.zeros(len(r)), 0.0
            for t in reversed(range(len(r))):
                following = 0.0 if term[t] or trunc[t] else following
                advantage[t] = following = r[t] + (0.0 if term[t] else 0.97 * nv[t]) - v[t] + 0.97 * 0.9 * following
            return advantage

        if got.size:
            want = columns_of(recursion, (rewards, values, next_values, *ends), shape)
            np.testing.assert_allclose(got, want, rtol=2e-5 if dtype == np.float32 else 1e-11, atol=2e-5)

    @settings(max_examples=100, deadline=None)
    @given(st.text("....Tt", min_size=1, max_size=60), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
    def test_it_is_the_sum_of_its_definition(self, ends, gamma, gae_lambda, seed):
        rewards, values, next_values = np.random.default_rng(seed).normal(size=(3, len(ends)))
        want = slow.gae(rewards, values, next_values, *flags(ends), gamma, gae_lambda)
        got = gae(rewards, values, next_values, *flags(ends), gamma, gae_lambda)
        np.testing.assert_allclose(got, want, atol=1e-10)


class TestDiscountedReturns:
    @pytest.mark.pitfall("A7")
    def test_by_hand(self):
        rewards, ends = np.array([1.0, 2.0, 4.0, 8.0]), flags(".T.t")
        assert discounted_returns(rewards, *ends, gamma=0.5).tolist() == [2, 2, 8, 8]
        nan = np.nan
        got = discounted_returns(rewards, *ends, np.array([nan, nan, nan, 16.0]), gamma=0.5)
        assert got.tolist() == [2, 2, 12, 16]

    @settings(max_examples=100, deadline=None)
    @given(st.text("....Tt", min_size=1, max_size=60), st.floats(0, 1), st.integers(0, 99))
    def test_it_is_the_sum_of_its_definition(self, ends, gamma, seed):
        rewards, (terminated, truncated) = np.random.default_rng(seed).normal(size=len(ends)), flags(ends)
        want = slow.discounted(rewards, terminated | truncated, gamma)
        np.testing.assert_allclose(discounted_returns(rewards, terminated, truncated, gamma=gamma), want, atol=1e-10)

    def test_with_values_it_is_the_monte_carlo_advantage(self):
        rewards, values, next_values, _, *ends = roll_out(2, 300, 5)
        got = discounted_returns(rewards, *ends, next_values, gamma=0.9)
        want = gae(rewards, values, next_values, *ends, gamma=0.9, gae_lambda=1.0) + values
        np.testing.assert_allclose(got, want, atol=1e-12)

    def test_integer_rewards_are_welcome(self):
        got = discounted_returns(np.array([1, 2]), *flags("..T"[1:]), gamma=0.5)
        assert got.dtype == np.float64
        assert got.tolist() == [2, 2]
        assert discounted_returns([1, 2], np.zeros(2, bool), gamma=0.5).tolist() == [2, 2]


class TestNStepReturns:
    @pytest.mark.pitfall("A6")
    @pytest.mark.pitfall("A7")
    def test_nstep_exponent_and_last_reward(self):
        next_values = np.array([np.nan, np.nan, np.nan, np.nan, 100.0, 1000.0])
        got = nstep_returns(np.array([1.0, 2, 4, 8, 16, 32]), next_values, *flags("..T.t."), n_step=3, gamma=0.5)
        assert got.tolist() == [3, 4, 4, 16 + 25, 16 + 50, 32 + 500]

    @pytest.mark.parametrize("n_step", [1, 2, 3, 7, 100])
    @pytest.mark.parametrize("shape", [(1,), (50,), (30, 3), (30, 16), (9, 40)])
    def test_it_is_the_sum_of_its_definition(self, shape, n_step):
        rewards, _, next_values, _, *ends = roll_out(3, *shape)

        def by_definition(r, nv, term, trunc):
            returns = np.zeros(len(r))
            for start in range(len(r)):
                for k, t in enumerate(range(start, min(start + n_step, len(r)))):
                    returns[start] += 0.9**k * r[t]
                    last = k == n_step - 1 or t == len(r) - 1
                    if (last or trunc[t]) and not term[t]:
                        returns[start] += 0.9 ** (k + 1) * nv[t]
                    if term[t] or trunc[t]:
                        break
            return returns

        want = columns_of(by_definition, (rewards, next_values, *ends), shape)
        np.testing.assert_allclose(nstep_returns(rewards, next_values, *ends, n_step=n_step, gamma=0.9), want)


class TestVTrace:
    @settings(max_examples=100, deadline=None)
    @given(
        st.text("....Tt", min_size=1, max_size=40),
        st.floats(0, 1),
        st.floats(0.3, 3),
        st.floats(0.3, 3),
        st.integers(0, 99),
    )
    def test_targets_are_equation_1(self, ends, gamma, rho_bar, c_bar, seed):
        rewards, values, next_values, log_ratios = np.random.default_rng(seed).normal(size=(4, len(ends)))
        terminated, truncated = flags(ends)
        inside = ~(terminated | truncated)[:-1]
        next_values[:-1][inside] = values[1:][inside]
        arrays = (rewards, values, next_values)
        want = slow.vtrace(np.exp(log_ratios), *arrays, *flags(ends), gamma, rho_bar, c_bar)
        got = vtrace(*arrays, log_ratios, *flags(ends), gamma, rho_bar=rho_bar, c_bar=c_bar)
        np.testing.assert_allclose(got.targets, want, atol=1e-10)
        following = np.append(want[1:], np.nan)
        last = np.append(~inside, True)
        following = np.where(terminated, 0.0, np.where(last, next_values, following))
        advantage = np.minimum(np.exp(log_ratios), rho_bar) * (rewards + gamma * following - values)
        np.testing.assert_allclose(got.advantages, advantage, atol=1e-10)

    def test_on_policy_it_is_gae(self):
        rewards, values, next_values, _, *ends = roll_out(4, 60, 6)
        got = vtrace(rewards, values, next_values, np.zeros_like(values), *ends, 0.9, trace_lambda=0.7)
        want = gae(rewards, values, next_values, *ends, gamma=0.9, gae_lambda=0.7) + values
        np.testing.assert_allclose(got.targets, want, atol=1e-12)

    @pytest.mark.pitfall("A2")
    def test_what_follows_termination_does_not_matter(self):
        got = vtrace(np.ones(2), np.zeros(2), np.array([0.0, np.nan]), np.zeros(2), *flags(".T"), 0.5)
        assert (got.targets.tolist(), got.advantages.tolist()) == ([1.5, 1.0], [1.5, 1.0])


class TestNormalize:
    @pytest.mark.pitfall("A9")
    @pytest.mark.parametrize("advantage", [[3.0], [2.0, 2.0], []])
    def test_without_a_deviation_there_is_nothing_left(self, advantage):
        assert normalize(torch.tensor(advantage)).tolist() == [0.0] * len(advantage)
        assert normalize(np.array(advantage)).tolist() == [0.0] * len(advantage)

    @pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
    def test_mean_and_deviation(self, kind):
        got = np.asarray(normalize(kind(np.random.default_rng(0).normal(3, 5, (40, 7)))))
        np.testing.assert_allclose([got.mean(), got.std(ddof=1)], [0, 1], atol=1e-7)


CALLS = {
    "gae": lambda r, v, nv, lr, *ends: gae(r, v, nv, *ends),
    "discounted_returns": lambda r, v, nv, lr, *ends: discounted_returns(r, *ends, nv),
    "nstep_returns": lambda r, v, nv, lr, *ends: nstep_returns(r, nv, *ends, n_step=3),
    "vtrace": lambda r, v, nv, lr, *ends: vtrace(r, v, nv, lr, *ends),
}


@pytest.fixture(params=CALLS)
def call(request):
    return CALLS[request.param]


def arrays_in(result):
    return list(result) if isinstance(result, VTraceReturns) else [result]


class TestKinds:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_tensors_give_tensors(self, call, dtype):
        arrays = roll_out(5, 20, 3, dtype=dtype)
        tensors = [torch.from_numpy(array) for array in arrays]
        tensors[1].requires_grad_()
        for got, want in zip(arrays_in(call(*tensors)), arrays_in(call(*arrays)), strict=True):
            assert got.dtype == torch.from_numpy(want).dtype
            assert not got.requires_grad
            assert got.numpy().tolist() == want.tolist()

    @pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
    def test_mixed_dtypes_promote_to_widest(self, call, kind):
        arrays = list(roll_out(6, 20))
        want = arrays_in(call(*arrays))
        arrays[0] = kind(arrays[0].astype(np.float32))
        arrays[2] = torch.from_numpy(arrays[2])
        arrays[5] = torch.from_numpy(arrays[5])
        for got, exact in zip(arrays_in(call(*arrays)), want, strict=True):
            assert type(got) is type(arrays[0])
            assert np.asarray(got).dtype == np.float64
            np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)

    def test_singles_among_doubles_are_widened_exactly(self, call):
        for single in itertools.product((False, True), repeat=3):
            arrays = list(roll_out(6, 20, 3))
            for place, is_single in enumerate(single, start=1):
                arrays[place] = arrays[place].astype(np.float32 if is_single else np.float64)
            wide = [array.astype(np.float64) if array.dtype == np.float32 else array for array in arrays]
            for got, want in zip(arrays_in(call(*arrays)), arrays_in(call(*wide)), strict=True):
                assert got.dtype == np.float64
                assert got.tolist() == want.tolist()

    def test_single_rewards_among_doubles_are_widened_too(self, call):
        arrays = list(roll_out(6, 20, 3))
        arrays[0] = arrays[0].astype(np.float32)
        wide = [arrays[0].astype(np.float64), *arrays[1:]]
        for got, want in zip(arrays_in(call(*arrays)), arrays_in(call(*wide)), strict=True):
            assert got.dtype == np.float64
            assert got.tolist() == want.tolist()

    def test_no_truncation_is_the_same_as_none(self, call):
        arrays = roll_out(7, 30, 2)
        for got, want in zip(
            arrays_in(call(*arrays[:5], np.zeros((30, 2), bool))), arrays_in(call(*arrays[:5], None)), strict=True
        ):
            assert got.tolist() == want.tolist()

    def test_strides_and_inputs_unchanged(self, call):
        arrays = roll_out(8, 30, 4)
        strided = [np.asfortranarray(array) for array in arrays]
        before = [array.copy() for array in strided]
        for got, want in zip(arrays_in(call(*strided)), arrays_in(call(*arrays)), strict=True):
            assert got.tolist() == want.tolist()
        for array, copy in zip(strided, before, strict=True):
            assert array.tolist() == copy.tolist()

    def test_arrays_that_may_not_be_written_are_read(self, call):
        arrays = roll_out(9, 30)
        want = arrays_in(call(*arrays))
        for array in arrays:
            array.flags.writeable = False
        assert [got.tolist() for got in arrays_in(call(*arrays))] == [array.tolist() for array in want]

    def test_large_rollout_equals_small_ones(self, call):
        """Large enough to run without the interpreter."""
        arrays = roll_out(10, 300, 40)
        halves = [arrays_in(call(*(array[:, part] for array in arrays))) for part in (slice(0, 20), slice(20, 40))]
        for got, *want in zip(arrays_in(call(*arrays)), *halves, strict=True):
            np.testing.assert_allclose(got, np.concatenate(want, axis=1), rtol=1e-12)


class TestBadInput:
    @pytest.mark.parametrize(
        ("place", "name"), [(2, "next_values"), (4, "terminated"), (5, "truncated")], ids=lambda value: str(value)
    )
    def test_shapes_that_differ_are_named(self, call, place, name):
        arrays = list(roll_out(11, 6, 2))
        arrays[place] = arrays[place][:5]
        with pytest.raises(ValueError, match=rf"{name}: got shape \[5, 2\], wanted that of rewards, \[6, 2\]"):
            call(*arrays)

    def test_flags_must_be_flags(self, call):
        arrays = list(roll_out(12, 6))
        arrays[4] = np.array([0, 0, 0.5, 1, 0, 0])
        with pytest.raises(ValueError, match=r"terminated must be flags, 0 or 1, got 0\.5"):
            call(*arrays)
        arrays[4] = ["no"] * 6
        with pytest.raises(TypeError, match=r"terminated must be flags, bool or 0 and 1, got an array of <U2"):
            call(*arrays)

    @pytest.mark.parametrize(
        "kind",
        [list, np.float32, np.int8, object, torch.as_tensor, lambda flags: torch.as_tensor(flags).float()],
        ids=["list", "float", "int", "object", "tensor", "float tensor"],
    )
    def test_flags_of_any_kind(self, call, kind):
        arrays = list(roll_out(12, 20, chance=0.3))
        given = [
            flags.astype(kind) if isinstance(kind, type) and kind is not list else kind(flags) for flags in arrays[4:]
        ]
        assert np.array_equal(arrays_in(call(*arrays[:4], *given)), arrays_in(call(*arrays)))

    @pytest.mark.parametrize("columns", [1, 8])
    def test_nonzero_bytes_are_flags(self, call, columns):
        arrays = roll_out(12, 100, columns, chance=0.3)
        ones = np.random.default_rng(0).choice(np.uint8([1, 2, 4, 128, 255]), (2, 100, columns))
        odd = [np.where(flags, one, 0).astype(np.uint8).view(bool) for flags, one in zip(arrays[4:], ones, strict=True)]
        assert np.array_equal(arrays_in(call(*arrays[:4], *odd)), arrays_in(call(*arrays)))

    @pytest.mark.parametrize("shapes", [((20,), (20, 1)), ((20, 1), (20,)), ((20, 3), (20, 3, 1))], ids=str)
    def test_axes_of_length_one_at_the_end(self, call, shapes):
        rewards, others = shapes
        arrays = list(roll_out(12, *rewards, chance=0.3))
        given = [array.reshape(rewards if place == 0 else others) for place, array in enumerate(arrays)]
        assert np.array_equal(arrays_in(call(*given)), arrays_in(call(*arrays)))

    @pytest.mark.parametrize(
        ("dtype", "got"), [(np.float16, "float16"), (complex, "complex128"), (object, "object"), (bool, "bool")]
    )
    def test_floats_must_be_floats(self, call, dtype, got):
        arrays = [array.astype(dtype) if place < 4 else array for place, array in enumerate(roll_out(13, 6))]
        with pytest.raises(TypeError, match=f"rewards: got dtype {got}, wanted float64"):
            call(*arrays)

    def test_a_number_is_no_roll_out(self):
        with pytest.raises(ValueError, match=r"rewards: got a single number, wanted \[T\] or \[T, N\]"):
            gae(np.float64(1), np.float64(1), np.float64(1), np.array(False))

    @pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan])
    def test_discounts_lie_between_0_and_1(self, gamma):
        rewards, values, next_values, log_ratios, *ends = roll_out(14, 6)
        match = f"gamma: got {'NaN' if np.isnan(gamma) else gamma}, wanted a number from 0 to 1"
        with pytest.raises(ValueError, match=match):
            gae(rewards, values, next_values, *ends, gamma=gamma)
        with pytest.raises(ValueError, match=match):
            discounted_returns(rewards, *ends, gamma=gamma)
        with pytest.raises(ValueError, match=match):
            nstep_returns(rewards, next_values, *ends, gamma=gamma)
        with pytest.raises(ValueError, match=match):
            vtrace(rewards, values, next_values, log_ratios, *ends, gamma=gamma)
        with pytest.raises(ValueError, match=match.replace("gamma", "gae_lambda")):
            gae(rewards, values, next_values, *ends, gae_lambda=gamma)
        with pytest.raises(ValueError, match=match.replace("gamma", "trace_lambda")):
            vtrace(rewards, values, next_values, log_ratios, *ends, trace_lambda=gamma)

    def test_steps_and_bounds_are_positive(self):
        rewards, values, next_values, log_ratios, *ends = roll_out(15, 6)
        with pytest.raises(ValueError, match="n_step: got 0, wanted at least 1"):
            nstep_returns(rewards, next_values, *ends, n_step=0)
        for name in ("rho_bar", "c_bar"):
            with pytest.raises(ValueError, match=f"{name}: got 0, wanted a positive number"):
                vtrace(rewards, values, next_values, log_ratios, *ends, **{name: 0.0})


def test_numpy_callers_need_no_torch():
    script = (
        "import sys, numpy as np; from rlfast.functional import gae; "
        "gae(np.ones(3), np.ones(3), np.ones(3), np.zeros(3, bool)); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_huge_rollouts_use_copies():
    """Others have the interpreter meanwhile, and may write to the arrays that were given."""
    columns = 2**22 + 1
    rng = np.random.default_rng(0)
    rewards, values, next_values = (rng.random((2, columns), np.float32) for _ in range(3))
    ends = rng.random((2, columns)) < 0.1
    given = [rewards, values, next_values, ends, np.zeros_like(ends)]
    halves = slice(9), slice(9, None)
    parts = [gae(*(array[:, half] for array in given), gamma=0.9, gae_lambda=0.8) for half in halves]
    begun = threading.Event()

    def overwrite():
        begun.wait()
        for array in given:
            array[...] = 1

    other, interval = threading.Thread(target=overwrite), sys.getswitchinterval()
    other.start()
    sys.setswitchinterval(100.0)  # the other thread goes on when this one gives the interpreter away, not before
    try:
        begun.set()
        whole = gae(*given, gamma=0.9, gae_lambda=0.8)
    finally:
        sys.setswitchinterval(interval)
        other.join()
    assert (whole == np.concatenate(parts, 1)).all()
    assert all((array == 1).all() for array in given)


# -- defaults and edges ------------------------------------------------------------------------------------------------
def test_defaults_are_one_step_and_weights_up_to_one():
    rewards, values, next_values, log_ratios, terminated, truncated = roll_out(3, 12)
    ends = (terminated, truncated)
    expected = nstep_returns(rewards, next_values, *ends, n_step=1, gamma=0.9)
    assert np.array_equal(nstep_returns(rewards, next_values, *ends, gamma=0.9), expected)
    both = [vtrace(rewards, values, next_values, log_ratios + 1, *ends, gamma=0.9, **bars) for bars in ({}, BARS)]
    for mine, spelt_out in zip(*both, strict=True):
        assert np.array_equal(mine, spelt_out)


BARS = {"rho_bar": 1.0, "c_bar": 1.0}


def test_normalizing_two_advantages():
    assert normalize(np.array([1.0, 3.0])).tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert normalize(np.array([1.0, 3.0]), eps=2.0).tolist() == pytest.approx([-1 / (2**0.5 + 2), 1 / (2**0.5 + 2)])


def test_flags_may_carry_gradients_and_be_as_they_are():
    done = np.array([True, False])
    assert as_flags("done", done) is done
    assert as_flags("done", torch.tensor([1.0, 0.0], requires_grad=True)).tolist() == [True, False]
    for kind in "biuf":
        assert as_flags("done", np.array([1, 0]).astype(np.dtype(f"{kind}{1 if kind == 'b' else 4}"))).dtype == bool
    with pytest.raises(TypeError, match="done must be flags"):
        as_flags("done", np.array([1j, 0j]))
    with pytest.raises(TypeError, match="done must be flags"):
        as_flags("done", ["X"])


def test_the_flag_that_is_wrong_is_named():
    arrays, good = (np.ones(3), np.ones(3), np.ones(3)), np.zeros(3, bool)
    for place, name in enumerate(("terminated", "truncated")):
        ends = [good, good]
        ends[place] = np.full(3, 7)
        with pytest.raises(ValueError, match=f"^{name} must be flags, 0 or 1, got 7"):
            gae(*arrays, *ends, 0.9, 0.9)


def test_half_precision_of_any_kind_is_taken():
    rewards = torch.tensor([1.0, 2.0, 4.0], dtype=torch.bfloat16)
    done = torch.tensor([False, False, True])
    assert discounted_returns(rewards, done, gamma=0.5).tolist() == pytest.approx([3.0, 4.0, 4.0])


def test_integers_are_computed_in_float64():
    result = discounted_returns(np.array([1, 2, 4]), np.array([0, 0, 1]), gamma=0.5)
    assert (result.dtype, result.tolist()) == (np.float64, [3.0, 4.0, 4.0])


@pytest.mark.parametrize("shape", [(4,), (2, 2), (1, 4), (2, 2, 1)])
def test_as_many_values_in_another_order_are_refused(shape):
    rewards = np.ones((4, 1))
    values = np.ones(shape)
    if shape == (4,):
        gae(rewards, values, values, np.zeros(4, bool), np.zeros(4, bool), 0.9, 0.9)
        return
    with pytest.raises(ValueError, match="shape"):
        gae(rewards, values, values, np.zeros(4, bool), np.zeros(4, bool), 0.9, 0.9)


def test_arrays_at_odd_addresses_are_read():
    rewards, values = np.arange(3.0), np.array([0.5, 0.25, 4.0])
    odd = np.frombuffer(b"." + rewards.tobytes(), np.float64, offset=1)
    assert not odd.flags.aligned
    ends = np.zeros(3, bool)
    assert gae(odd, values, values, ends).tolist() == gae(rewards, values, values, ends).tolist()


def test_names_are_found_where_they_are_at_home():
    home = functional.__getattr__("gae")
    assert home is gae
    del vars(functional)["gae"]
    assert functional.gae is home
    assert vars(functional)["gae"] is home
    with pytest.raises(AttributeError, match=r"module 'rlfast\.functional' has no attribute 'nothing'"):
        functional.__getattr__("nothing")


def test_names_are_listed_before_they_are_asked_for():
    script = (
        "from rlfast import functional as f; assert {*f.__all__, '__name__'} <= {*dir(f)}; assert 'gae' in f.__all__"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert {*functional.__all__} <= {*dir(functional)}
