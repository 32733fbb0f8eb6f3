import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.policy import QRDQNPolicy
from rlfast.policy._compiled import CompiledUpdate
from rlfast.policy.modelfree.qrdqn import QRDQNTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam


class Table(nn.Module):
    """What a network gives by state number, as parameters."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, obs, state=None, info=None):
        return self.values[torch.as_tensor(obs, dtype=torch.int64).flatten()], state


def make(model=None, seed=0, **options):
    torch.manual_seed(seed)
    model = model or Net(4, 2, [8], num_atoms=2)
    policy = QRDQNPolicy(
        **{"model": model, "optim": adam(1e-2), "action_space": Discrete(2), "num_quantiles": 2} | options
    )
    policy.seed(seed)
    return policy


def transitions(kind=VectorReplayBuffer, **options):
    rng, buffer = np.random.default_rng(0), kind(100, 2, seed=0, **options)
    for t in range(50):
        obs, obs_next = rng.normal(size=(2, 2, 4)).astype(np.float32)
        flags = {"terminated": np.full(2, t % 10 == 9), "truncated": np.full(2, t % 7 == 6)}
        act = rng.integers(2, size=2)
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=2), obs_next=obs_next, info={}, **flags))
    return buffer


def weights(module):
    return torch.cat([p.detach().flatten().clone() for p in module.parameters()])


def line(*rewards):
    """Give an episode through the states 0, 1, ... by action 0, ended by its last reward."""
    buffer = VectorReplayBuffer(len(rewards), 1)
    for t, reward in enumerate(rewards):
        flags = {"terminated": np.array([t + 1 == len(rewards)]), "truncated": np.array([False])}
        buffer.add(
            Batch(
                obs=np.array([t]),
                act=np.array([0]),
                rew=np.array([reward]),
                obs_next=np.array([min(t + 1, len(rewards) - 1)]),
                info={},
                **flags,
            )
        )
    return buffer


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
    ("n_step", "expected"),
    [(1, [[1.5, 2.5], [1.5, 3.5], [4.0, 4.0]]), (2, [[1.25, 2.25], [2.5, 2.5], [4.0, 4.0]])],
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


def test_importance_weights():
    policy = make(Table(ROWS))
    batch = Batch(obs=np.array([0, 1]), act=np.array([0, 0]), info={}, weight=np.array([0.5, 0.0]))
    batch.returns = torch.tensor([[0.5, 3.0], [0.0, 0.0]])
    assert policy.learn(batch).loss == pytest.approx(0.25 * 0.90625)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("freq", [0, 2])
def test_a_whole_update(n_step, freq):
    buffer = transitions(PrioritizedVectorReplayBuffer, alpha=0.6, beta=0.4)
    policy = make(estimation_step=n_step, target_update_freq=freq)
    before, priorities = weights(policy.model), buffer.get_weight(np.arange(100)).copy()
    stats = policy.update(16, buffer)
    assert isinstance(stats, QRDQNTrainingStats)
    assert [*stats.get_loss_stats_dict()] == ["loss"]
    assert not torch.equal(weights(policy.model), before)
    assert (buffer.get_weight(np.arange(100)) != priorities).any()
    if freq:
        assert torch.equal(weights(policy.model_old), before)


def test_illegal_actions_are_neither_taken_nor_learned_from():
    policy = make()
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    masks = np.eye(2, dtype=bool)[np.arange(20) % 2]
    observed = Batch(obs=obs, mask=masks)
    assert policy(Batch(obs=observed, info={})).act.tolist() == [0, 1] * 10
    logits = policy.model(obs)[0]
    chosen = policy.next_value(observed)
    assert torch.equal(chosen, logits[torch.arange(20), torch.arange(20) % 2])


def test_as_one_graph(monkeypatch):
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
def test_resume_is_exact(carry):
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
