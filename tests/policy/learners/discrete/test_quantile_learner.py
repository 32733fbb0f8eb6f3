"""The template of quantiles at levels that are drawn or proposed, by IQN and FQF."""

import numpy as np
import pytest
import torch

from distributional import make
from policy.learners.given import calls_of
from rlfast.data import Batch

OBS = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
INFOS = Batch(lives=np.array([3, 2]))


@pytest.mark.parametrize("name", ["IQN", "FQF"])
def test_networks_are_given_hidden_states_and_infos(name):
    policy = make(name, target_update_freq=2)
    calls, later = calls_of(policy.model), calls_of(policy.model_old)
    assert policy(Batch(obs=OBS, info=INFOS)).state is None
    assert policy(Batch(obs=OBS, info=INFOS), "before").state == "before"
    assert [(call["state"], call["info"].lives.tolist()) for call in calls] == [(None, [3, 2]), ("before", [3, 2])]
    calls.clear()
    policy.quantile_outputs(OBS, "then")
    assert policy.state_after(OBS, "then") == "then"
    policy.next_value(OBS, "then")
    assert [(call["state"], call["info"]) for call in (*calls, *later)] == [("then", {})] * 4
    assert len(later) == 1


def test_proposed_levels_are_told_and_taken():
    policy = make("FQF")
    first = policy(Batch(obs=OBS, info={}))
    assert isinstance(first.fractions, Batch)
    with torch.no_grad():
        for parameter in policy.fraction_model.parameters():
            parameter.add_(torch.randn_like(parameter))
    assert not torch.equal(policy(Batch(obs=OBS, info={})).logits, first.logits)
    again = policy(Batch(obs=OBS, info={}), fractions=first.fractions)
    assert torch.equal(again.logits, first.logits)


def test_a_forward_of_ones_own_is_given_all():
    policy, given = make("IQN", target_update_freq=2), []
    inner = policy.forward

    def forward(batch, state=None, **options):
        given.append((batch, state, options))
        return inner(batch)

    policy.forward = forward
    batch, levels = Batch(obs=OBS, info={}), torch.full((2, 3), 0.5)
    policy.quantile_outputs(OBS, "before", batch, levels, "model_old")
    assert given == [(batch, "before", {"model": "model_old", "fractions": levels})]
