import numpy as np
import pytest
import torch

from distributional import Table, make
from rlfast.data import Batch
from rlfast.policy.modelfree.c51 import C51TrainingStats


def test_a_step_by_hand():
    model = Table([[[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]])
    policy = make("C51", model, optim=torch.optim.SGD(model.parameters(), lr=0.1))
    batch = Batch(obs=np.array([0]), act=np.array([0]), info={}, obs_next=np.array([0]))
    batch.reward_sum, batch.discount = np.array([0.75]), np.array([0.0])  # a quarter of 0 and three of 1
    stats = policy.learn(batch)
    assert isinstance(stats, C51TrainingStats)
    assert stats.loss == pytest.approx(np.log(2), rel=1e-5)
    assert model.values[0, 0].tolist() == pytest.approx([0.5 + 0.1 * 0.25 / 0.5, 0.5 + 0.1 * 0.75 / 0.5, 0.0])
