"""What holds for each policy that learns from fixed data."""

import copy
import pickle

import numpy as np
import pytest
import torch

from continuous import OBS, weights
from policy.given import forwarding
from policy.imitation.policies import CONTINUOUS, DISCRETE, make_policy, rows
from rlfast.data import Batch, PrioritizedVectorReplayBuffer
from rlfast.policy.compile.compiled_update import CompiledUpdate

NAMES = (*CONTINUOUS, *DISCRETE)
CHANGING = pytest.param("cql", {"imitation_steps": 3}, id="cql that imitates at first")
"""A policy whose loss changes during the tests."""
WITH_OPTIONS = [*(pytest.param(name, {}, id=name) for name in NAMES), CHANGING]


def learned(policy, buffer, start=0, stop=4):
    told = None
    for step in range(start, stop):
        indices = np.random.default_rng(step).integers(100, size=16)
        told = policy.learn(policy.process_fn(buffer[indices], buffer, indices))
    return weights(policy), told


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_update_moves_every_network(name):
    policy = make_policy(name)
    policy.train()
    buffer = policy.process_buffer(rows(name))
    before = {one: weights(network) for one, network in policy.named_children() if one != "temperature"}
    stats = [policy.update(16, buffer) for _ in range(4)][-1]
    assert isinstance(stats, policy.stats_class)
    assert all(np.isfinite(value) for value in stats.get_loss_stats_dict().values())
    for one, network in policy.named_children():
        assert one not in before or not torch.equal(weights(network), before[one]), one
    assert policy(OBS).act.shape == ((100, 2) if name in CONTINUOUS else (100,))


@pytest.mark.parametrize(("name", "options"), WITH_OPTIONS)
def test_as_one_graph(name, options, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    policies = [make_policy(name, compile=compile, **options) for compile in (False, True)]
    (eager, told), (graph, same) = (learned(policy, policy.process_buffer(rows(name))) for policy in policies)
    assert graph.numpy() == pytest.approx(eager.numpy(), abs=1e-5)
    assert same.get_loss_stats_dict() == pytest.approx(told.get_loss_stats_dict(), abs=1e-4)


@pytest.mark.parametrize("carry", ["copy", "pickle", "state"])
@pytest.mark.parametrize(("name", "options"), WITH_OPTIONS)
def test_resume_is_exact(name, options, carry):
    half, straight = make_policy(name, **options), make_policy(name, **options)
    buffer = half.process_buffer(rows(name))
    learned(half, buffer, 0, 3)
    if carry == "state":
        resumed = make_policy(name, seed=5, **options)
        resumed.load_state_dict(half.state_dict())
    else:
        resumed = copy.deepcopy(half) if carry == "copy" else pickle.loads(pickle.dumps(half))
    ours, theirs = learned(resumed, buffer, 3, 6), learned(straight, buffer, 0, 6)
    assert torch.equal(ours[0], theirs[0])
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("name", [name for name in NAMES if "imitation" not in name])
def test_priorities(name):
    policy = make_policy(name)
    buffer = policy.process_buffer(rows(name, PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4))
    before = buffer.get_weight(range(100)).copy()
    policy.update(16, buffer)
    assert (buffer.get_weight(range(100)) != before).any()


@pytest.mark.parametrize("name", NAMES)
def test_the_value_of_a_truncated_end_counts_and_that_of_a_terminal_one_does_not(name):
    def told(shift, flag):
        policy, buffer = make_policy(name), rows(name)
        obs_next = np.array(buffer.obs_next)
        obs_next[getattr(buffer, flag)] += shift
        buffer._meta.obs_next = obs_next
        policy.process_buffer(buffer)
        indices = np.flatnonzero(buffer.terminated if flag == "terminated" else ~buffer.terminated & buffer.truncated)
        if name == "cql":
            policy.cql_weight = 0.0  # which asks for actions at the next observation
        return policy.learn(policy.process_fn(buffer[indices], buffer, indices)).get_loss_stats_dict()

    assert told(0.0, "terminated") == pytest.approx(told(3.0, "terminated"))
    assert (told(0.0, "truncated") == pytest.approx(told(3.0, "truncated"))) is ("imitation" in name)


@pytest.mark.parametrize(("name", "options"), WITH_OPTIONS)
def test_learning_goes_through_a_forward_that_was_replaced(name, options):
    if name == "bcq":
        pytest.skip("its learning chooses no actions")
    policy = make_policy(name, **options)
    calls = forwarding(policy)
    policy.update(16, policy.process_buffer(rows(name)))
    assert calls


@pytest.mark.parametrize("name", DISCRETE)
def test_illegal_actions_are_never_chosen(name):
    policy = make_policy(name)
    mask = np.arange(100)[:, None] % 3 != np.arange(3)
    act = np.asarray(policy(Batch(obs=Batch(obs=OBS.obs, mask=mask), info={})).act)
    assert mask[np.arange(100), act].all()
    assert {*act} == {0, 1, 2}
