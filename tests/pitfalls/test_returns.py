"""A: returns and advantages at the ends of episodes, of roll-outs and of the ring."""

import numpy as np
import pytest
import torch

from oracle.returns import gae as slow_gae
from pitfalls.rows import fill, transition, vector_step
from rlfast.data import PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.functional import bootstrapped_return, gae, normalize
from rlfast.policy import BasePolicy


def flags(text):
    """``"..T.t"`` as the pair of terminated and truncated."""
    return np.array([end == "T" for end in text]), np.array([end == "t" for end in text])


def advantage_of(ends, v_next, *, v=None, rew=None, gamma=0.9, gae_lambda=0.8, v_s_given=True):
    """Advantages of a whole buffer through the policy's static, as an on-policy algorithm asks for them."""
    rew = np.ones(len(ends)) if rew is None else rew
    buffer = fill(ReplayBuffer(len(ends) + 3), ends, rew)
    batch, index = buffer.sample(0)
    v = np.full(len(ends), 0.5) if v is None else v
    returns, advantage = BasePolicy.compute_episodic_return(
        batch, buffer, index, np.asarray(v_next, float), np.asarray(v, float) if v_s_given else None, gamma, gae_lambda
    )
    if v_s_given:
        np.testing.assert_allclose(returns, advantage + v, atol=1e-6)
    return advantage


def nstep_of(buffer, n_step, gamma):
    """Each slot's n-step return, what follows slot ``i`` being worth ``1000 + i``, and the slot it bootstraps from."""
    asked = []

    def target_q(_, last):
        asked.append(np.array(last))
        return torch.as_tensor(1000.0 + np.asarray(last), dtype=torch.float64)

    index = np.sort(buffer.sample_indices(0))
    batch = BasePolicy.compute_nstep_return(buffer[index], buffer, index, target_q, gamma=gamma, n_step=n_step)
    return list(zip(batch.returns.flatten().tolist(), asked[0].tolist(), strict=True))


# -- A1, A2, A3: where an episode ends ------------------------------------------------------------------------------


@pytest.mark.pitfall("A1")
def test_truncation_bootstraps_from_the_final_observation():
    np.testing.assert_allclose(advantage_of(".t.", [0.5, 10.0, 0.5]), [7.79, 9.5, 0.95], atol=1e-6)


@pytest.mark.pitfall("A1")
@pytest.mark.parametrize("seed", range(20))
def test_advantages_are_those_of_the_definition(seed):
    random = np.random.default_rng(seed)
    ends = "".join(random.choice(list("...Tt"), int(random.integers(1, 40))))
    rew, v, v_next = random.normal(size=(3, len(ends)))
    want = slow_gae(rew, v, v_next, *flags(ends), 0.97, 0.9)
    np.testing.assert_allclose(advantage_of(ends, v_next, v=v, rew=rew, gamma=0.97, gae_lambda=0.9), want, atol=1e-6)


@pytest.mark.pitfall("A1")
def test_the_kernel_bootstraps_truncation_in_a_time_by_environment_roll_out():
    ends = np.array([list(".t."), list(".T."), list("..."), list("t.T")]).T
    terminated, truncated = ends == "T", ends == "t"
    rew, v = np.ones((3, 4)), np.full((3, 4), 0.5)
    v_next = np.where(truncated, 10.0, 0.5)
    advantage = gae(rew, v, v_next, terminated, truncated, gamma=0.9, gae_lambda=0.8)
    want = [slow_gae(rew[:, e], v[:, e], v_next[:, e], terminated[:, e], truncated[:, e], 0.9, 0.8) for e in range(4)]
    np.testing.assert_allclose(advantage, np.transpose(want), atol=1e-12)


@pytest.mark.pitfall("A2")
@pytest.mark.parametrize("worthless", [1e9, np.nan, np.inf])
def test_the_value_after_a_terminal_state_does_not_matter(worthless):
    np.testing.assert_allclose(advantage_of(".T.", [0.5, worthless, 0.5]), [1.31, 0.5, 0.95], atol=1e-6)


@pytest.mark.pitfall("A2")
@pytest.mark.parametrize("worthless", [1e9, np.nan, np.inf])
def test_the_nstep_target_of_a_terminal_state_does_not_matter(worthless):
    value = torch.tensor([worthless, 4.0])
    assert bootstrapped_return(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 0.5]), value).tolist() == [1.0, 3.0]
    buffer = fill(ReplayBuffer(4), ".T", [1.0, 1.0])
    batch = BasePolicy.compute_nstep_return(
        buffer[[0, 1]], buffer, np.array([0, 1]), lambda *_: torch.full((2,), worthless), gamma=0.5, n_step=2
    )
    assert batch.returns.flatten().tolist() == [1.5, 1.0]


@pytest.mark.pitfall("A3")
def test_the_flag_belongs_to_the_step_that_it_came_with():
    zero, rew = np.zeros(8), np.ones(8)

    def answer(ends):
        return advantage_of(ends, zero, v=zero, rew=rew, gamma=1.0, gae_lambda=1.0)

    np.testing.assert_allclose(answer("..T....."), [3, 2, 1, 5, 4, 3, 2, 1])
    np.testing.assert_allclose(answer("...T...."), [4, 3, 2, 1, 4, 3, 2, 1])
    np.testing.assert_allclose(answer(".T......"), [2, 1, 6, 5, 4, 3, 2, 1])


# -- A4: where a roll-out is cut ------------------------------------------------------------------------------------


@pytest.mark.pitfall("A4")
def test_a_roll_out_without_an_end_bootstraps_from_its_last_observation():
    np.testing.assert_allclose(advantage_of("...", [0.5, 0.5, 7.0])[-1], 1 + 0.9 * 7.0 - 0.5, atol=1e-6)


@pytest.mark.pitfall("A4")
def test_environments_do_not_leak_into_each_other():
    buffer = VectorReplayBuffer(10, 2)
    for step in range(5):
        buffer.add(vector_step([step, 100 + step], ".T", rew=[1.0, 1000.0]), buffer_ids=[0, 1])
    batch, index = buffer.sample(0)
    zero = np.zeros(10)
    _, advantage = BasePolicy.compute_episodic_return(batch, buffer, index, zero, zero, 1.0, 1.0)
    np.testing.assert_allclose(advantage, [5, 4, 3, 2, 1] + [1000] * 5)


# -- A5 to A8: n-step -----------------------------------------------------------------------------------------------


@pytest.mark.pitfall("A5")
@pytest.mark.parametrize("make", [ReplayBuffer, lambda size: PrioritizedReplayBuffer(size, 0.6, 0.4)])
def test_nstep_stops_at_boundaries_and_at_the_ring_seam(make):
    buffer = fill(make(6), "..T.t.", [1, 2, 4, 8, 16, 32])
    want = [(3, 2), (4, 2), (4, 2), (16 + 0.25 * 1004, 4), (16 + 0.5 * 1004, 4), (32 + 0.5 * 1005, 5)]
    assert nstep_of(buffer, 3, 0.5) == want
    buffer.add(transition(6, rew=64.0))
    want[5], want[0] = (64 + 0.25 * 1000, 0), (64 + 0.5 * 1000, 0)
    assert nstep_of(buffer, 3, 0.5) == want


@pytest.mark.pitfall("A6")
def test_the_discount_has_the_number_of_steps_that_were_taken():
    buffer = fill(ReplayBuffer(8), "....t")
    assert nstep_of(buffer, 3, 0.5) == [(125.25, 2), (125.375, 3), (125.5, 4), (251.0, 4), (502.0, 4)]


@pytest.mark.pitfall("A7")
@pytest.mark.parametrize("end", "Tt")
def test_the_reward_of_the_last_step_is_counted(end):
    buffer = fill(ReplayBuffer(8), ".." + end, [0, 0, 100])
    tail = 0.0 if end == "T" else 0.125 * 1002
    assert nstep_of(buffer, 3, 0.5)[0] == (25 + tail, 2)


@pytest.mark.pitfall("A8")
def test_nstep_stops_at_the_newest_row_of_a_buffer_that_is_not_full():
    buffer = fill(ReplayBuffer(10_000), "." * 10, np.arange(10.0))
    assert nstep_of(buffer, 5, 0.5)[8] == (8 + 4.5 + 0.25 * 1009, 9)
    assert nstep_of(buffer, 5, 0.5)[9] == (9 + 0.5 * 1009, 9)


# -- A9, A10: batches of one, values that were not given ------------------------------------------------------------


@pytest.mark.pitfall("A9")
@pytest.mark.parametrize("advantage", [[3.0], [2.0, 2.0], [0.0]])
def test_normalising_a_batch_of_one_gives_no_nan(advantage):
    assert normalize(torch.tensor(advantage)).tolist() == [0.0] * len(advantage)
    assert normalize(np.array(advantage)).tolist() == [0.0] * len(advantage)


@pytest.mark.pitfall("A10")
@pytest.mark.parametrize("end", "Tt")
def test_values_that_were_not_given_do_not_come_from_another_episode(end):
    """Tianshou rolls ``v_s_`` by one, so that an episode begins with the value of the one before it."""

    def second_episode(value_of_the_first_end):
        v_next = [1.0, value_of_the_first_end, 2.0, 3.0]
        return advantage_of("." + end + "..", v_next, v_s_given=False)[2:].tolist()

    assert second_episode(5.0) == second_episode(-1e6)


@pytest.mark.pitfall("A10")
def test_values_that_were_not_given_do_not_come_round_from_the_end():
    def first_step(value_of_the_last):
        return advantage_of(".T..", [1.0, 2.0, 3.0, value_of_the_last], v_s_given=False)[0]

    assert first_step(5.0) == first_step(-1e6)
