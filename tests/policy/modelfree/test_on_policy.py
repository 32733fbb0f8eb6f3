"""What all algorithms have in common that learn from roll-outs; what each of them does alone is in its own file."""

import io

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rlfast.data import Batch
from rlfast.policy import A2CPolicy, NPGPolicy, PGPolicy, PPOPolicy, TRPOPolicy
from rlfast.policy.components.compiled_update import CompiledUpdate
from rlfast.policy.learners.rollout_learner import RolloutLearner
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Critic
from rlfast.utils.optim import adam
from rollouts import HEADS, rollout, weights

LOSSES = {
    A2CPolicy: ["loss", "actor_loss", "vf_loss", "ent_loss"],
    NPGPolicy: ["actor_loss", "kl", "vf_loss"],
    PGPolicy: ["loss"],
    PPOPolicy: ["loss", "clip_loss", "vf_loss", "ent_loss"],
    TRPOPolicy: ["actor_loss", "kl", "step_size", "vf_loss"],
}
COMPILED = [A2CPolicy, PGPolicy, PPOPolicy]
KINDS = [*LOSSES]
SMALL = {NPGPolicy: {"actor_step_size": 0.1}}  # steps of 0.5 lead too far on so few rows


def make(kind, head="categorical", seed=0, **options):
    torch.manual_seed(seed)
    space, dist_fn, actor = HEADS[head]
    given = {
        "actor": actor(),
        "optim": adam(1e-2, fused=False),
        "dist_fn": dist_fn,
        "action_space": space,
        "action_scaling": isinstance(space, Box),
    }
    if kind.has_critic:
        given["critic"] = Critic(Net(4, hidden_sizes=[8]))
    policy = kind(**given | SMALL.get(kind, {}) | options)
    policy.seed(seed)
    return policy


@pytest.mark.parametrize("kind", KINDS)
def test_an_algorithm_stands_on_the_template_alone(kind):
    algorithms = [one for one in kind.__mro__ if one.__module__.startswith("rlfast.policy.modelfree")]
    assert algorithms == [kind]
    assert issubclass(kind, RolloutLearner)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"discount_factor": 1.1}, "discount_factor must be within 0 and 1"),
        ({"action_scaling": True}, "action_scaling needs a Box with finite bounds"),
        ({"action_bound_method": ""}, "action_bound_method must be one of"),
    ],
)
def test_bad_options(kind, options, match):
    with pytest.raises(ValueError, match=match):
        make(kind, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
def test_a_whole_update(kind, head):
    policy = make(kind, head, reward_normalization=True)
    buffer = rollout(policy)
    before = weights(policy)
    stats = policy.update(0, buffer, batch_size=32, repeat=3)
    assert isinstance(stats, kind.stats_class)
    assert {*stats.get_loss_stats_dict()} == {*LOSSES[kind]}
    assert all(np.isfinite(value) for value in stats.get_loss_stats_dict().values())
    assert not torch.equal(weights(policy), before)
    assert torch.isfinite(weights(policy)).all()
    assert policy.ret_rms.count == 80


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
def test_the_mode_in_evaluation(kind, head):
    policy = make(kind, head, deterministic_eval=True)
    batch = Batch(obs=np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32), info={})
    result = policy(batch)
    assert result.act.shape == (200, *policy.action_space.shape)
    assert not torch.equal(result.act, result.dist.mode)
    assert torch.equal(policy.eval()(batch).act, result.dist.mode)


@pytest.mark.parametrize("kind", KINDS)
def test_learning_goes_through_hooks(kind):
    quick, heard, calls = make(kind), make(kind), []
    heard.register_forward_hook(lambda *_: calls.append(1))
    buffer = rollout(make(kind))
    for policy in (quick, heard):
        policy.update(0, buffer, batch_size=32, repeat=2)
    assert len(calls) >= 4
    assert torch.allclose(weights(heard), weights(quick), atol=1e-5)


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_learns_the_same(kind):
    def learned(seed):
        policy = make(kind)
        policy.seed(seed)
        policy.update(0, rollout(make(kind)), batch_size=16, repeat=2)
        return weights(policy)

    assert torch.equal(learned(1), learned(1))
    assert not torch.equal(learned(1), learned(2))


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", [1, 3])
def test_resume_is_exact(kind, stop):
    def trained(policy, updates):
        for _ in range(updates):
            policy.update(0, buffer, batch_size=16, repeat=2)
        return policy

    buffer = rollout(make(kind))
    whole = trained(make(kind, reward_normalization=True), 4)
    file = io.BytesIO()
    torch.save(trained(make(kind, reward_normalization=True), stop).state_dict(), file)
    file.seek(0)
    resumed = make(kind, seed=5, reward_normalization=True)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(weights(trained(resumed, 4 - stop)), weights(whole))


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_without_an_optimizer_acts_and_does_not_learn(kind):
    policy = make(kind, optim=None)
    buffer = rollout(policy)
    with pytest.raises(ValueError, match="made with optim=None can act, but not learn"):
        policy.update(0, buffer, batch_size=None, repeat=1)


@pytest.mark.pitfall("F7")
@pytest.mark.parametrize("kind", COMPILED)
def test_a_graph_gives_the_same(kind, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    eager, graph = make(kind, optim=adam(1e-3)), make(kind, optim=adam(1e-3), compile=True)
    buffer = rollout(make(kind))
    for policy in (eager, graph):
        for _ in range(10):
            policy.update(0, buffer, batch_size=40, repeat=2)
    assert torch.allclose(weights(graph), weights(eager), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_actor_of_other_actions_is_taken_with_a_warning(kind):
    with pytest.warns(UserWarning, match=r"the actor gives 3 numbers, but Discrete\(4\) needs 4"):
        make(kind, action_space=Discrete(4))
