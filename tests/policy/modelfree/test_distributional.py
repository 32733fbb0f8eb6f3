"""What algorithms that learn distributions of returns have in common; what they learn is in files of their own."""

import copy
from functools import partial

import numpy as np
import pytest
import torch

import distributional
from distributional import transitions, weights
from rlfast.data import Batch, PrioritizedVectorReplayBuffer
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.q_learner import output_of_actions
from rlfast.policy.replay import Sample
from rlfast.utils.optim import adam


@pytest.fixture(params=distributional.MODELS)
def make(request):
    return partial(distributional.make, request.param)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"discount_factor": 1.1}, "discount_factor must be within 0 and 1"),
        ({"reward_normalization": True}, "reward_normalization must be False"),
    ],
)
def test_bad_options(make, options, match):
    with pytest.raises(ValueError, match=match):
        make(**options)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("freq", [0, 2])
def test_a_whole_update(make, n_step, freq):
    buffer = transitions(PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4)
    policy = make(estimation_step=n_step, target_update_freq=freq)
    before, priorities = weights(policy.model), buffer.get_weight(np.arange(100)).copy()
    stats = policy.update(16, buffer)
    assert isinstance(stats, policy.stats_class)
    assert "loss" in stats.get_loss_stats_dict()
    assert not torch.equal(weights(policy.model), before)
    assert (buffer.get_weight(np.arange(100)) != priorities).any()
    if freq:
        assert torch.equal(weights(policy.model_old), before)
        policy.update(16, buffer)
        assert torch.equal(weights(policy.model_old), before)  # until the third


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


def test_as_one_graph(make, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    options = {"estimation_step": 2, "target_update_freq": 3, "optim": adam(1e-3)}
    eager, graph = (make(compile=compile, **options) for compile in (False, True))
    for policy in (eager, graph):
        buffer = transitions()
        for _ in range(10):
            policy.update(16, buffer)
    assert weights(graph).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-5)


@pytest.mark.parametrize("carry", ["copy", "state"])
def test_resume_is_exact(make, carry):
    def run(policy, start, stop):
        for step in range(start, stop):
            buffer, indices = transitions(), np.random.default_rng(step).integers(100, size=16)
            policy.learn(policy.process_fn(buffer[indices], buffer, indices))
        return weights(policy)

    def fresh(seed=0):
        return make(seed=seed, target_update_freq=2)

    half = fresh()
    run(half, 0, 3)
    resumed = copy.deepcopy(half) if carry == "copy" else fresh(5)
    if carry == "state":
        resumed.load_state_dict(half.state_dict())
    assert torch.equal(run(resumed, 3, 6), run(fresh(), 0, 6))
