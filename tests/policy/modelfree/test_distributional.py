"""What algorithms that learn distributions of returns have in common; what they learn is in files of their own."""

from functools import partial

import numpy as np
import pytest
import torch

import distributional
from rlfast.data import Batch
from rlfast.policy.q_learner import output_of_actions
from rlfast.policy.replay import Sample


@pytest.fixture(params=distributional.MODELS)
def make(request):
    return partial(distributional.make, request.param)


def test_illegal_actions_are_neither_taken_nor_learned_from(make):
    policy = make()
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    observed = Batch(obs=obs, mask=np.eye(2, dtype=bool)[np.arange(20) % 2])
    assert policy(Batch(obs=observed, info={})).act.tolist() == [0, 1] * 10
    policy.seed(0)
    if policy.learns_from_returns:
        chosen = policy.next_value(observed, None, *policy.draw_next(20))
    else:  # a reward of 0, and no discount
        sums = {"reward_sum": torch.zeros(20), "discount": torch.ones(20), "obs_next": observed}
        chosen = policy.target_distribution(Sample(None, None, None, None, 1.0, False, **sums)).detach()
    policy.seed(0)
    logits = policy(Batch(obs=obs, info={})).logits
    torch.testing.assert_close(chosen, output_of_actions(logits, torch.arange(20) % 2))
