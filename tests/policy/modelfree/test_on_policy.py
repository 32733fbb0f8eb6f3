"""What all algorithms have in common that learn from roll-outs; what each of them does alone is in its own file."""

import io
from contextlib import closing

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from policy.given import forwarding
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, SubprocVectorEnv
from rlfast.functional import Categorical
from rlfast.policy import A2CPolicy, NPGPolicy, PGPolicy, PPOPolicy, TRPOPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Critic
from rlfast.utils.optim import adam
from rollouts import HEADS, Table, rollout, weights

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
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"discount_factor": 1.1}, "discount_factor must be within 0 and 1"),
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
    assert not torch.equal(make(kind, head).eval()(batch).act, result.dist.mode)


@pytest.mark.parametrize("kind", KINDS)
def test_learning_goes_through_an_override_of_forward(kind):
    quick, heard = make(kind), make(kind)
    calls = forwarding(heard)
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
@pytest.mark.parametrize(("kind", "head"), [*((kind, "categorical") for kind in COMPILED), (PPOPolicy, "sde")])
def test_a_graph_gives_the_same(kind, head, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    eager, graph = make(kind, head, optim=adam(1e-3)), make(kind, head, optim=adam(1e-3), compile=True)
    buffer = rollout(make(kind, head))
    for policy in (eager, graph):
        for _ in range(10):
            policy.update(0, buffer, batch_size=40, repeat=2)
    assert torch.allclose(weights(graph), weights(eager), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_actor_of_other_actions_is_taken_with_a_warning(kind):
    with pytest.warns(UserWarning, match=r"the actor gives 3 numbers, but Discrete\(4\) needs 4"):
        make(kind, action_space=Discrete(4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", [Categorical, torch.distributions.Categorical])
@pytest.mark.parametrize("overridden", [False, True])
def test_learning_with_an_illegal_action_equals_learning_without_it(kind, library, overridden):
    """Three actions of which one is illegal, and two actions, are the same problem."""

    def learned(actions, masked):
        actor, critic = Table([[0.5, -0.5, 9.0][:actions]] * 2), Table([[1.0], [2.0]])
        options = {"dist_fn": lambda logits: library(logits=logits), "action_space": Discrete(actions)}
        options |= {"critic": critic} if kind.has_critic else {}
        policy = make(kind, actor=actor, optim=lambda parameters: torch.optim.SGD(parameters, lr=0.5), **options)
        if overridden:
            forwarding(policy)
        obs = np.arange(6) % 2
        if masked:
            obs = Batch(obs=obs, mask=np.tile([True, True, False], (6, 1)))
        buffer = VectorReplayBuffer(6, 1)
        for i in range(6):
            flags = {"terminated": [i == 5], "truncated": [False]}
            row = {"obs": obs[i : i + 1], "act": [i // 2 % 2], "rew": [float(i % 3)], "obs_next": obs[i : i + 1]}
            buffer.add(Batch(**row, info=Batch(), **flags))
        stats = policy.update(0, buffer, batch_size=None, repeat=3)
        return actor.values.detach(), stats.get_loss_stats_dict()

    (masked, losses), (plain, wanted) = learned(3, True), learned(2, False)
    torch.testing.assert_close(masked[:, :2], plain, rtol=1e-4, atol=1e-5)
    assert masked[:, 2].tolist() == pytest.approx([9.0, 9.0])
    assert losses == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert not torch.equal(plain, torch.tensor([[0.5, -0.5]] * 2))


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("head", ["categorical", "probabilities", "multi"])
def test_illegal_actions_are_not_taken(head, mode):
    policy = make(A2CPolicy, head, deterministic_eval=True).train(mode)
    choices = 5 if head == "multi" else 3
    mask = np.tile(np.arange(choices) % 2 == 1, (50, 1))
    obs = Batch(obs=np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32), mask=mask)
    acts = policy(Batch(obs=obs, info={})).act
    assert {*map(tuple, acts.reshape(50, -1).tolist())} <= ({(1, 1)} if head == "multi" else {(1,)})


@pytest.mark.parametrize("kind", COMPILED)
def test_a_compiled_update_with_masks(kind, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")

    def learned(compile):
        policy, buffer = make(kind, compile=compile), VectorReplayBuffer(40, 2)
        drawn = np.random.default_rng(1)
        for _ in range(20):
            mask = drawn.random((2, 3)) < 0.7
            mask[:, 0] = True
            obs = Batch(obs=drawn.normal(size=(2, 4)).astype(np.float32), mask=mask)
            act = policy(Batch(obs=obs, info={})).act.numpy()
            end = {"terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)}
            buffer.add(Batch(obs=obs, act=act, rew=drawn.normal(size=2), obs_next=obs, info=Batch(), **end))
        for _ in range(3):
            policy.update(0, buffer, batch_size=None, repeat=2)
        return weights(policy)

    torch.testing.assert_close(learned(True), learned(False))


class Doors(gym.Env):
    """One of three doors is locked; whoever tries it is refused."""

    observation_space = Dict(obs=Box(-1, 1, (4,), np.float32), mask=MultiBinary(3))
    action_space = Discrete(3)

    def _observed(self):
        self.locked = int(self.np_random.integers(3))
        obs = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        return {"obs": obs, "mask": (np.arange(3) != self.locked).astype(np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observed(), {}

    def step(self, action):
        if action == self.locked:
            raise RuntimeError("a locked door")
        self.steps += 1
        return self._observed(), float(action), self.steps == 7, False, {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("envs", [DummyVectorEnv, SubprocVectorEnv])
def test_collecting_at_random_and_by_the_policy_and_learning(kind, envs):
    policy = make(kind)
    with closing(envs([Doors] * 3)) as env:
        env.action_space[0].seed(0)
        collector = Collector(policy, env, VectorReplayBuffer(120, 3))
        collector.reset()
        for is_random in (True, False):
            collector.collect(n_step=60, random=is_random)
        policy.update(0, collector.buffer, batch_size=32, repeat=2)
        assert torch.isfinite(weights(policy)).all()
        assert {*collector.buffer.act.tolist()} == {0, 1, 2}


class Push(gym.Env):
    observation_space, action_space = Box(-1, 1, (4,)), Box(-2, 2, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), float(action.sum()), bool(self.np_random.random() < 0.1), False, {}


def test_a_policy_of_bfloat16_collects_and_learns():
    policy = make(PPOPolicy, "normal").bfloat16()
    collector = Collector(policy, DummyVectorEnv([Push] * 2), VectorReplayBuffer(40, 2))
    collector.collect(n_step=40)
    policy.update(0, collector.buffer, batch_size=20, repeat=1)
    assert torch.isfinite(weights(policy)).all()
    assert collector.buffer.act.dtype == np.float32
