"""Returns of episodes and of n steps, by hand; parity with the engine's own functions is in tests/functional."""

import numpy as np
import pytest
import torch

from rlfast.data import Batch, NStep, ReplayBuffer
from rlfast.policy import BasePolicy
from rlfast.policy.components.returns import episode_mc_return_to_go


def filled(ends, **options):
    """Rewards 1, 2, 4, ...; ``"T"`` terminates, ``"t"`` truncates."""
    buffer = ReplayBuffer(len(ends), **options)
    for i, end in enumerate(ends):
        flags = {"terminated": end == "T", "truncated": end == "t"}
        buffer.add(Batch(obs=float(i), act=0, rew=2.0**i, obs_next=i + 1.0, info={}, **flags))
    return buffer


def test_the_rest_of_an_episode():
    assert episode_mc_return_to_go([1, 0, 4], 0.5).tolist() == [2.0, 2.0, 4.0]
    assert episode_mc_return_to_go(np.array([0.0, 1.0])).tolist() == [0.99, 1.0]
    assert episode_mc_return_to_go([]).tolist() == []
    for dtype in (np.int8, np.float32):
        assert episode_mc_return_to_go(np.array([1, 2], dtype)).dtype == np.float64


def test_where_the_next_observation_has_a_value():
    buffer = filled("..Tt")
    assert BasePolicy.value_mask(buffer, np.array([2, 3, 0])).tolist() == [False, True, True]
    with pytest.raises(ValueError, match=r"^terminated must be flags, 0 or 1, got 7"):
        BasePolicy.value_mask(Batch(terminated=np.array([0, 7])), np.array([0, 1]))


def test_bytes_that_are_viewed_as_flags_end_episodes_unless_they_are_0():
    buffer = filled(".....")
    batch, indices = buffer.sample(0)
    value = np.full(5, 3.0)
    found = []
    for flags in (np.uint8([0, 2, 0, 255, 0]).view(bool), np.array([False, True, False, True, False])):
        batch.terminated = batch.truncated = flags
        found.append(BasePolicy.compute_episodic_return(batch, buffer, indices, value, value, 0.5, 0.5))
    np.testing.assert_array_equal(*found)


def test_defaults_are_those_of_tianshou():
    buffer = filled("..")
    batch, indices = buffer.sample(0)
    value = np.ones(2)
    plain = BasePolicy.compute_episodic_return(batch, buffer, indices, value, value)
    spelt_out = BasePolicy.compute_episodic_return(batch, buffer, indices, value, value, 0.99, 0.95)
    assert [one.tolist() for one in plain] == [one.tolist() for one in spelt_out]


def test_without_values_every_reward_counts():
    buffer = filled("..T")
    batch, indices = buffer.sample(0)
    returns, _ = BasePolicy.compute_episodic_return(batch, buffer, indices, None, None, 0.5, 1.0)
    assert returns.tolist() == [3.0, 4.0, 4.0]
    again, _ = BasePolicy.compute_episodic_return(batch, buffer, indices, None, None, 0.5, 1 - 1e-9)
    assert again.tolist() == pytest.approx([3.0, 4.0, 4.0])
    text = "gae_lambda=0.95 needs the next observations' values v_s_; without them it must be 1"
    with pytest.raises(ValueError, match=r"gae_lambda") as error:
        BasePolicy.compute_episodic_return(batch, buffer, indices)
    assert str(error.value) == text


def test_flags_of_the_batch_count_in_any_form():
    buffer = filled("...")
    batch, indices = buffer.sample(0)
    batch.terminated = np.array([[0.0], [1.0], [0.0]])
    batch.truncated = np.array([1, 0, 0])
    returns, _ = BasePolicy.compute_episodic_return(batch, buffer, indices, np.full((3, 1), 8.0), None, 0.5, 1.0)
    assert returns.tolist() == [5.0, 2.0, 8.0]
    for name in ("terminated", "truncated"):
        wrong = Batch(batch, **{name: np.array([0, 7, 0])})
        with pytest.raises(ValueError, match=f"^{name} must be flags, 0 or 1, got 7"):
            BasePolicy.compute_episodic_return(wrong, buffer, indices, None, None, 0.5, 1.0)


def test_no_rows_have_no_returns():
    batch, indices = filled("...").sample(0)
    found = BasePolicy.compute_episodic_return(batch[:0], filled("..."), indices[:0], gae_lambda=1.0)
    assert [one.shape for one in found] == [(0,), (0,)]


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_other_indices_than_rows(rows):
    buffer = filled("...")
    batch, _ = buffer.sample(0)
    for compute in (
        lambda: BasePolicy.compute_episodic_return(batch, buffer, np.arange(rows), gae_lambda=1.0),
        lambda: BasePolicy.compute_nstep_return(batch, buffer, np.arange(rows), lambda *_: torch.ones(rows)),
    ):
        with pytest.raises(ValueError, match=rf"^got 3 rows and {rows} indices$"):
            compute()


def test_values_may_have_any_shape_of_one_for_each_row():
    buffer = filled("..T")
    batch, indices = buffer.sample(0)
    value = np.array([[1.0], [2.0], [3.0]])
    found = BasePolicy.compute_episodic_return(batch, buffer, indices, value, value, 0.5, 0.5)
    flat = BasePolicy.compute_episodic_return(batch, buffer, indices, value.ravel(), value.ravel(), 0.5, 0.5)
    assert [one.shape for one in found] == [(3,), (3,)]
    assert [one.tolist() for one in found] == [one.tolist() for one in flat]
    with pytest.raises(ValueError, match=r"^values: got shape \[2\], wanted one for each of 3 rewards$"):
        BasePolicy.compute_episodic_return(batch, buffer, indices, value, value.ravel()[:2], 0.5, 0.5)


def nstep(buffer, value, **options):
    batch, indices = buffer.sample(0)
    asked = []

    def target_q(given, last):
        assert given is buffer
        assert not torch.is_grad_enabled()
        asked.append(last.tolist())
        return value

    result = BasePolicy.compute_nstep_return(batch, buffer, indices, target_q, **options)
    assert result is batch
    return batch, asked


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_n_steps_by_hand(dtype):
    batch, asked = nstep(filled("..T."), torch.full((4,), 16.0, dtype=dtype), gamma=0.5, n_step=2)
    assert asked == [[1, 2, 2, 3]]
    assert batch.returns.tolist() == [[1 + 0.5 * 2 + 0.25 * 16], [2 + 0.5 * 4], [4.0], [8 + 0.5 * 16]]
    assert batch.returns.dtype == dtype


def test_returns_are_on_the_device_of_the_values():
    batch, _ = nstep(filled("..T."), torch.full((4,), 16.0, device="meta"))
    assert batch.returns.device.type == "meta"


def test_one_step_by_default():
    batch, asked = nstep(filled("..T"), torch.full((3,), 100.0))
    assert asked == [[0, 1, 2]]
    assert batch.returns.tolist() == [[pytest.approx(100.0)], [pytest.approx(101.0)], [4.0]]


def test_values_of_several_columns():
    batch, _ = nstep(filled(".T"), torch.tensor([[4.0, 8.0], [1.0, 1.0]]), gamma=0.5)
    assert batch.returns.tolist() == [[3.0, 5.0], [2.0, 2.0]]


def test_weights_become_tensors_like_the_values():
    buffer = filled("..")
    batch, indices = buffer.sample(0)
    batch.weight = np.array([0.5, 1.0])
    BasePolicy.compute_nstep_return(batch, buffer, indices, lambda *_: torch.ones(2, dtype=torch.float64))
    assert (batch.weight.tolist(), batch.weight.dtype) == ([0.5, 1.0], torch.float64)


def test_sums_that_the_buffer_brings_hold():
    buffer = filled("..T.", unit=NStep(2, 0.5))
    batch, asked = nstep(buffer, torch.full((4,), 16.0), gamma=0.9)
    assert asked == [[1, 2, 2, 3]]
    assert batch.returns.tolist() == [[6.0], [4.0], [4.0], [16.0]]
    batch.rew = batch.rew.astype(np.float32)
    BasePolicy.compute_nstep_return(batch, buffer, batch.last_index, lambda *_: torch.full((4,), 16.0))
    assert batch.returns.tolist() == [[6.0], [4.0], [4.0], [16.0]]
    with pytest.raises(
        ValueError, match=r"^the buffer's unit sums rewards already, n_step=3 would do so again; set it to 1$"
    ):
        nstep(buffer, torch.ones(4), n_step=3)


def test_normalized_rewards_have_no_bootstrapped_returns():
    text = "rew_norm must be False: bootstrapped returns of normalized rewards are not defined; scale the rewards"
    with pytest.raises(ValueError, match=f"^{text}$"):
        nstep(filled(".."), torch.ones(2), rew_norm=True)
