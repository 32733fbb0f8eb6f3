import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlfast.utils import MovAvg, RunningMeanStd


class TestMovAvg:
    def test_it_averages_the_newest_numbers(self):
        average = MovAvg(size=3)
        assert average.get() == average.mean() == average.std() == 0.0
        assert average.add(1) == 1.0
        assert average.add([2, 3, 4]) == 3.0
        assert average.std() == pytest.approx(math.sqrt(2 / 3))

    def test_size_zero_keeps_all(self):
        average = MovAvg(size=0)
        assert average.add(np.arange(1000)) == pytest.approx(499.5)

    def test_numbers_that_are_banned_are_ignored(self):
        average = MovAvg()
        average.banned.append(7)
        assert average.add([1.0, float("nan"), 7.0, 3.0]) == 2.0

    # in Tianshou, NaN is not NaN, so looking it up in a list by value does not find it
    @pytest.mark.parametrize(
        "bad", [float("nan"), math.nan, np.float32("nan"), np.array(np.nan), torch.tensor(torch.nan), -np.inf, np.inf]
    )
    def test_numbers_that_are_not_finite_are_left_out(self, bad):
        average = MovAvg()
        average.add(5.0)
        assert average.add(bad) == 5.0
        assert average.add([float(bad), 7.0]) == 6.0
        assert len(average.cache) == 2

    @pytest.mark.parametrize(
        "numbers",
        [
            [1.0, 2.0, 6.0],
            np.array([1.0, 2.0, 6.0], np.float32),
            np.array([[1.0], [2.0], [6.0]]),
            torch.tensor([1.0, 2.0, 6.0]),
            torch.tensor([1.0, 2.0, 6.0], requires_grad=True),
        ],
    )
    def test_it_takes_lists_arrays_and_tensors(self, numbers):
        assert MovAvg().add(numbers) == 3.0

    def test_what_it_keeps_is_a_list(self):
        average = MovAvg(size=3)
        average.add(range(7))
        assert average.cache == [4.0, 5.0, 6.0]
        assert MovAvg(size=-1).add(np.arange(1000)) == pytest.approx(499.5)


@pytest.mark.pitfall("F1")
class TestRunningMeanStd:
    @given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
    def test_batches_and_workers_merge_to_one_pass(self, sizes, seed):
        rng = np.random.default_rng(seed)
        batches = [rng.normal(5.0, [1.0, 100.0, 1e-3], (size, 3)) for size in sizes]
        everything = np.concatenate(batches)
        stream, workers = RunningMeanStd(), RunningMeanStd()
        for batch in batches:
            stream.update(batch)
            worker = RunningMeanStd()
            worker.update(batch)
            workers.merge(worker)
        for stats in (stream, workers):
            assert stats.count == len(everything)
            if stats.count:
                assert stats.mean == pytest.approx(everything.mean(axis=0), rel=1e-12)
                assert stats.var == pytest.approx(everything.var(axis=0), rel=1e-11, abs=1e-12)

    def test_dimensions_are_kept_apart(self):
        stats = RunningMeanStd()
        stats.update(np.array([[0.0, 10.0], [2.0, 30.0]]))
        assert stats.mean.tolist() == [1.0, 20.0]
        assert stats.var.tolist() == [1.0, 100.0]

    @pytest.mark.parametrize("stream", [[[3.0]], [[3.0]] * 5, [[0.0]] * 5])
    def test_one_sample_and_constant_streams_are_finite(self, stream):
        stats = RunningMeanStd()
        for batch in stream:
            stats.update(batch)
        assert stats.var == 0
        assert stats.norm(stream[0]).tolist() == [0.0]
        assert np.isfinite(stats.norm(1e6))

    def test_long_runs_neither_overflow_nor_drift(self):
        stats = RunningMeanStd(clip_max=None)
        stats.update(np.array([-1e150, 1e150]))
        stats.count = 10**12  # count x var is beyond float64
        stats.update(np.array([-1e150, 1e150]))
        assert stats.var == pytest.approx(1e300)
        assert stats.norm(1e150) == pytest.approx(1.0)

    def test_float32_batches_are_summed_in_float64(self):
        stats = RunningMeanStd()
        data = np.full(1000, 16_777_217, np.float32)  # sums beyond the 24 bits of float32
        stats.update(data)
        assert stats.mean == data[0]
        assert stats.var == 0

    def test_norm_clips(self):
        stats = RunningMeanStd(clip_max=2.0)
        assert stats.norm([-5.0, 0.5, 5.0]).tolist() == pytest.approx([-2.0, 0.5, 2.0])

    def test_initial_std_is_standard_deviation(self):
        assert RunningMeanStd(mean=1.0, std=2.0, epsilon=0.0).norm(5.0) == pytest.approx(2.0)

    def test_an_empty_batch_changes_nothing(self):
        stats = RunningMeanStd()
        stats.update(np.zeros((0, 3)))
        stats.merge(RunningMeanStd())
        assert stats.count == 0
        assert stats.norm(3.0) == pytest.approx(3.0)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_bad_numbers_change_nothing(self, bad):
        stats = RunningMeanStd()
        stats.update([1.0, 3.0])
        with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="1 values are NaN or infinite"):
            stats.update([1.0, bad])
        assert (stats.mean, stats.var, stats.count) == (2.0, 1.0, 2)

    @pytest.mark.parametrize(
        ("dtype", "result"),
        [(torch.float64, torch.float64), (torch.float16, torch.float16), (torch.int64, torch.float32)],
    )
    def test_a_tensor_stays_a_tensor(self, dtype, result):
        stats = RunningMeanStd(mean=[1.0, 2.0], std=[2.0, 0.5], clip_max=3.0)
        data = torch.tensor([[5, 2], [1, 9]], dtype=dtype)
        scaled = stats.norm(data)
        assert scaled.dtype == result
        np.testing.assert_allclose(scaled.tolist(), [[2.0, 0.0], [0.0, 3.0]], rtol=1e-3)
        unlimited = RunningMeanStd(mean=[1.0, 2.0], std=[2.0, 0.5], clip_max=None)
        np.testing.assert_allclose(unlimited.norm(data).tolist(), [[2.0, 0.0], [0.0, 14.0]], rtol=1e-3)

    def test_gradients_flow_through_a_tensor(self):
        data = torch.zeros(2, requires_grad=True)
        RunningMeanStd(std=4.0).norm(data).sum().backward()
        assert data.grad.tolist() == pytest.approx([0.25, 0.25])
