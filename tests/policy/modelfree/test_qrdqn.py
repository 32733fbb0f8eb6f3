import numpy as np
import pytest
import torch

import distributional
from distributional import Table, line
from policy.given import calls_of
from rlfast.data import Batch


def make(*args, **options):
    return distributional.make("QRDQN", *args, **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_quantiles": 1}, "num_quantiles must be at least 2, got 1"),
        ({"discount_factor": 1.1}, "discount_factor must be within 0 and 1"),
        ({"reward_normalization": True}, "reward_normalization must be False"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        make(**options)


# quantiles of the return by state and action; the best actions are 1, 0 and 1
ROWS = [[[0.0, 1.0], [1.0, 2.0]], [[2.0, 4.0], [0.0, 0.0]], [[0.0, 1.0], [2.0, 6.0]]]


def test_means_of_quantiles_choose():
    policy = make(Table(ROWS))
    result = policy(Batch(obs=np.array([0, 1, 2]), info={}))
    assert result.act.tolist() == [1, 0, 1]
    assert policy.compute_q_value(result.logits, None).tolist() == [[0.5, 1.5], [3.0, 0.0], [0.5, 4.0]]
    assert policy.state_dict()["tau_hat"].flatten().tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("n_step", "expected"), [(1, [[1.5, 2.5], [1.5, 3.5], [4.0, 4.0]]), (2, [[1.25, 2.25], [2.5, 2.5], [4.0, 4.0]])]
)
def test_quantiles_after_n_steps(n_step, expected):
    policy = make(Table(ROWS), discount_factor=0.5, estimation_step=n_step)
    buffer = line(0.5, 0.5, 4.0)
    batch, indices = buffer.sample(0)
    assert policy.process_fn(batch, buffer, indices).returns.tolist() == expected


def test_losses_and_a_step_by_hand():
    model = Table(ROWS)
    policy = make(model, optim=torch.optim.SGD(model.parameters(), lr=1.0))
    batch = Batch(obs=np.array([0]), act=np.array([0]), info={}, returns=torch.tensor([[0.5, 3.0]]))
    stats = policy.learn(batch)
    # Huber's function of 0.5, 3, -0.5 and 2 is 0.125, 2.5, 0.125 and 1.5
    assert stats.loss == pytest.approx(0.25 * (0.125 + 2.5) / 2 + (0.25 * 0.125 + 0.75 * 1.5) / 2)
    assert batch.td_error.tolist() == pytest.approx([(0.125 + 2.5 + 0.125 + 1.5) / 2])
    assert model.values[0, 0].tolist() == pytest.approx([0.25 * (0.5 + 1) / 2, 1 + (0.25 * -0.5 + 0.75 * 1) / 2])


@pytest.mark.parametrize(("double", "expected"), [(True, 1), (False, 0)])
def test_who_chooses(double, expected):
    policy = make(Table(ROWS), target_update_freq=10, is_double=double)
    with torch.no_grad():
        policy.model_old.values[0] = torch.tensor([[5.0, 5.0], [0.0, 0.0]])  # for which 0 is the best
    assert torch.equal(policy.next_value(np.array([0])), policy.model_old.values[:1, expected])


def test_the_network_is_given_the_hidden_state_and_infos():
    policy = make(Table(ROWS))
    calls = calls_of(policy.model)
    batch = Batch(obs=np.array([0]), act=np.array([0]), info=Batch(lives=np.array([3])))
    batch.returns, batch.state = torch.tensor([[0.5, 3.0]]), torch.ones(1, 1)
    policy.learn(batch)
    assert [(call["state"].tolist(), call["info"].lives.tolist()) for call in calls] == [([[1.0]], [3])]


def test_importance_weights():
    policy = make(Table(ROWS))
    batch = Batch(obs=np.array([0, 1]), act=np.array([0, 0]), info={}, weight=np.array([0.5, 0.0]))
    batch.returns = torch.tensor([[0.5, 3.0], [0.0, 0.0]])
    assert policy.learn(batch).loss == pytest.approx(0.25 * 0.90625)
