"""Collecting in Rust against collecting by torch."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import rlfast
from rlfast._core import collect
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    Collector,
    CollectStats,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv, NativeVectorEnv, VectorEnvNormObs
from rlfast.policy import DiscreteSACPolicy, DQNPolicy, PGPolicy, RandomPolicy, SACPolicy, TD3Policy
from rlfast.utils.net import continuous
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam
from scripted import ScriptedPolicy

ENVS = 4
SPACE = gym.spaces.Discrete(2)


def dqn(eps: float = 0.2) -> DQNPolicy:
    torch.manual_seed(0)
    policy = DQNPolicy(model=Net(4, 2, [16]), optim=None, action_space=gym.spaces.Discrete(2))
    policy.seed(3)
    policy.set_eps(eps)
    return policy


def pg() -> PGPolicy:
    torch.manual_seed(0)
    actor = Actor(Net(4, hidden_sizes=[16]), 2)
    space = gym.spaces.Discrete(2)
    dist_fn = torch.distributions.Categorical
    return PGPolicy(actor=actor, optim=None, dist_fn=dist_fn, action_space=space, action_scaling=False)


def discrete_sac() -> DiscreteSACPolicy:
    torch.manual_seed(0)
    actor = Actor(Net(4, hidden_sizes=[16]), 2, softmax_output=False)
    nets = {"actor": actor, "critic": Critic(Net(4, hidden_sizes=[8]), last_size=2)}
    policy = DiscreteSACPolicy(**nets, actor_optim=adam(1e-3), critic_optim=adam(1e-3), action_space=SPACE)
    policy.seed(3)
    return policy


def undecided() -> DQNPolicy:
    """A policy whose values are often equal, so that torch must choose."""
    policy = dqn()
    last = policy.model.model.model[-1]
    nn.init.zeros_(last.bias)
    with torch.no_grad():
        last.weight[1] = last.weight[0]
        last.weight[1, :2] += 0.1  # equal where these neurons are silent
    return policy


def native() -> NativeVectorEnv:
    return NativeVectorEnv("CartPole-v1", ENVS, autoreset_mode=None)


def resetting() -> NativeVectorEnv:
    """Environments that use a step to reset themselves."""
    return NativeVectorEnv("CartPole-v1", ENVS)


def within() -> NativeVectorEnv:
    """Environments that reset themselves in the step that ends an episode."""
    return NativeVectorEnv("CartPole-v1", ENVS, autoreset_mode="SameStep")


def python() -> DummyVectorEnv:
    return DummyVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS)


def collector(policy, envs, mode, buffer=None, **options) -> Collector:
    buffer = VectorReplayBuffer(ENVS * 50, ENVS) if buffer is None else buffer
    return Collector(policy, envs, buffer, exploration_noise=True, native_acting=mode, **options)


def played(make, envs, mode, plays, **options) -> list:
    """What collects leave behind."""
    torch.manual_seed(11)
    np.random.seed(11)
    with collector(make(), envs(), mode, **options) as one:
        one.reset(gym_reset_kwargs={"seed": 1})
        for space in one.action_space if isinstance(one.action_space, list) else [one.action_space]:
            space.seed(5)
        told = []
        for play in plays:
            stats = play(one)
            told += [stats.returns, stats.lens, stats.n_collected_steps, stats.n_collected_episodes]
            told += [one.collect_step, one.collect_episode, one._episodes.stale.copy()]
        buffer = one.buffer
        rows = [getattr(buffer, key) for key in ("obs", "act", "rew", "terminated", "truncated", "obs_next", "done")]
        return [*told, *rows, buffer.info.env_id, one.policy.rng.random(), torch.rand(1).numpy()]


PLAYS = {
    "steps": [lambda one: one.collect(n_step=400), lambda one: one.collect(n_step=8),
              lambda one: one.collect(n_step=4)],
    "exact": [lambda one: one.collect(n_step=402, exact=True), lambda one: one.collect(n_step=3, exact=True)],
    "episodes": [lambda one: one.collect(n_episode=11), lambda one: one.collect(n_episode=2)],
    "evaluate": [lambda one: one.evaluate(11), lambda one: one.evaluate(3), lambda one: one.collect(n_step=40)],
    "seeded": [lambda one: one.collect(n_episode=6, gym_reset_kwargs={"seed": 4}), lambda one: one.collect(n_step=40)],
    "random": [lambda one: one.collect(n_step=400, random=True), lambda one: one.collect(n_step=40)],
    "random, other limits": [
        lambda one: one.collect(n_episode=7, random=True), lambda one: one.collect(n_step=402, random=True, exact=True),
        lambda one: one.evaluate(6, random=True), lambda one: one.collect(n_step=8, random=True),
    ],
}  # fmt: skip


@pytest.mark.parametrize("plays", PLAYS.values(), ids=PLAYS)
@pytest.mark.parametrize("envs", [native, resetting, within, python])
@pytest.mark.parametrize(
    "make",
    [dqn, pg, discrete_sac, undecided, lambda: dqn(0.0)],
    ids=["dqn", "pg", "discrete-sac", "undecided", "greedy"],
)
def test_collects_are_those_of_torch(make, envs, plays):
    found, wanted = (played(make, envs, mode, plays) for mode in (True, False))
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("mode", [True, False])
def test_only_environments_whose_episode_ended_must_be_reset_by_hand(mode):
    envs = native()
    with collector(dqn(), envs, mode) as one:
        one.reset()
        one.collect(n_episode=3)  # of the first three
        for number in range(3):
            with pytest.raises(RuntimeError, match="call reset first, and after each episode"):
                envs.step(np.zeros(1, np.int64), [number])
        assert not envs.step(np.zeros(1, np.int64), [3])[2]


@pytest.mark.parametrize("make", [dqn, pg, undecided])
def test_collects_are_those_of_python_environments(make):
    plays = PLAYS["steps"] + PLAYS["evaluate"]
    found, wanted = (played(make, envs, "auto", plays) for envs in (native, python))
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


def sac() -> SACPolicy:
    torch.manual_seed(0)
    actor = ActorProb(Net(3, hidden_sizes=[16]), 1, conditioned_sigma=True, unbounded=True)
    critic = continuous.Critic(Net(3, 1, hidden_sizes=[8], concat=True))
    space = gym.spaces.Box(-2, 2, (1,))
    return SACPolicy(actor=actor, critic=critic, actor_optim=adam(1e-3), critic_optim=adam(1e-3), action_space=space)


def td3() -> TD3Policy:
    torch.manual_seed(0)
    actor = continuous.Actor(Net(3, hidden_sizes=[16]), 1)
    critic = continuous.Critic(Net(3, 1, hidden_sizes=[8], concat=True))
    space = gym.spaces.Box(-2, 2, (1,))
    return TD3Policy(actor=actor, critic=critic, actor_optim=adam(1e-3), critic_optim=adam(1e-3), action_space=space)


@pytest.mark.parametrize(("make", "how"), [(sac, "collecting in Rust"), (td3, "noise is added to actions in Python")])
def test_continuous_actions_are_those_of_torch_but_for_rounding(make, how, monkeypatch):
    envs = lambda: NativeVectorEnv("Pendulum-v1", ENVS)  # noqa: E731
    wanted = played(make, envs, False, [lambda one: one.collect(n_step=40)])
    monkeypatch.setattr(type(make()).forward, "__code__", (lambda *_, **__: 1 / 0).__code__)  # torch is not called
    found = played(make, envs, True, [lambda one: one.collect(n_step=40)])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-4, atol=1e-4)
    with collector(make(), envs(), "auto") as one:
        assert how in repr(one)


def test_undecided_policies_leave_choices_to_torch_and_others_do_not():
    counts = []
    for make in (dqn, undecided):
        policy = make()
        chooser = policy.native_chooser()
        obs = np.random.default_rng(0).normal(size=(100, 1, 4)).astype(np.float32)
        counts.append(sum(chooser.choose(row) is None for row in obs))
    assert counts[0] == 0
    assert 0 < counts[1] < 100


def test_threads_change_nothing():
    results = []
    for threads in (1, 2):
        rlfast.set_num_threads(threads)
        results.append(played(dqn, native, "auto", PLAYS["steps"]))
    assert all(np.array_equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("envs", [native, resetting, within])
@pytest.mark.parametrize("make", [dqn, pg])
def test_a_resumed_collect_goes_on_as_an_uninterrupted_one(make, envs):
    first = collector(make(), envs(), "auto")
    torch.manual_seed(2)
    first.collect(n_step=200)
    saved = first.state_dict(), copy.deepcopy(first.policy.state_dict()), torch.get_rng_state()
    buffer = copy.deepcopy(first.buffer)
    wanted = first.collect(n_step=200)
    second = collector(make(), envs(), "auto", buffer)
    torch.set_rng_state(saved[2])
    second.policy.load_state_dict(saved[1])
    second.load_state_dict(saved[0])
    found = second.collect(n_step=200)
    assert np.array_equal(found.returns, wanted.returns)
    assert np.array_equal(found.lens, wanted.lens)
    assert np.array_equal(first.buffer.obs, second.buffer.obs)
    assert np.array_equal(first.buffer.act, second.buffer.act)


def test_prioritized_rows_and_one_ring():
    buffers = [PrioritizedVectorReplayBuffer(ENVS * 50, ENVS, alpha=0.6, beta=0.4, seed=1) for _ in range(2)]
    for buffer, mode in zip(buffers, (True, False), strict=True):
        collector(dqn(), native(), mode, buffer).collect(n_step=100, gym_reset_kwargs={"seed": 1})
    assert np.array_equal(buffers[0].sample(20)[0].obs, buffers[1].sample(20)[0].obs)
    rows = []
    for mode in (True, False):
        envs = NativeVectorEnv("CartPole-v1", 1, autoreset_mode=None)
        one = Collector(dqn(), envs, ReplayBuffer(60), exploration_noise=True, native_acting=mode)
        one.collect(n_step=100, gym_reset_kwargs={"seed": 1})
        rows.append(one.buffer.obs)
    assert np.array_equal(*rows)


@pytest.mark.parametrize("make", [dqn, pg])
@pytest.mark.parametrize("envs", [native, resetting, within])
def test_rows_that_must_not_be_lost_are_not_overwritten(envs, make):
    one = collector(make(), envs(), True, VectorReplayBuffer(ENVS * 20, ENVS))
    one.collect(n_step=8)
    with one.without_overwriting(), pytest.raises(ValueError, match="has filled the 20 rows"):
        one.collect(n_step=ENVS * 30)
    assert one.collect_step == 8
    with one.without_overwriting(), pytest.raises(ValueError, match="has filled the 20 rows"):
        one.collect(n_episode=ENVS * 30)
    with one.without_overwriting():
        one.collect(n_step=ENVS * 17)  # some make more where others only reset


def test_steps_that_only_reset_take_no_row():
    one = collector(dqn(), resetting(), True, VectorReplayBuffer(ENVS * 100, ENVS))
    with one.without_overwriting():  # each environment has room for 100 transitions, and makes 92 to 100
        stats = one.collect(n_step=ENVS * 96)
    assert stats.n_collected_episodes > ENVS
    assert len(one.buffer) == stats.n_collected_steps
    assert ENVS * 96 <= stats.n_collected_steps < ENVS * 97


def test_numbers_drawn_for_a_collect_that_raised_are_not_used_by_the_next(monkeypatch):
    def interrupted(*args, **options):
        collect(*args, **options)
        raise KeyboardInterrupt

    rows = []
    for interrupt in (False, True):
        one = collector(pg(), native(), True)
        one.collect(n_step=8)
        if interrupt:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr("rlfast.data.collect.native_steps.collect", interrupted)
                one.collect(n_step=40)
        torch.manual_seed(5)
        one.collect(n_step=160, reset_before_collect=True, gym_reset_kwargs={"seed": 1})
        rows.append(one.buffer[one.buffer.sample_indices(0)].obs[-20:])
    assert np.array_equal(*rows)


def test_numbers_that_a_call_leaves_are_used_by_the_next(monkeypatch):
    def few(*args, limit, **options):
        return collect(*args, limit=(limit[0], min(limit[1], 3)), **options)

    wanted = played(pg, native, False, PLAYS["steps"])
    monkeypatch.setattr("rlfast.data.collect.native_steps.collect", few)
    found = played(pg, native, True, PLAYS["steps"])
    assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_weights_are_those_of_the_moment():
    found = []
    for mode in (True, False):
        one = collector(dqn(0.0), native(), mode)
        one.collect(n_step=40, gym_reset_kwargs={"seed": 1})
        with torch.no_grad():
            one.policy.model.model.model[-1].weight.neg_()
        one.collect(n_step=80)
        found.append(one.buffer.act.tolist())
    assert found[0] == found[1]


def hooked(one: Collector) -> None:
    one.set_on_step_hook(lambda *_: None)


class Told(CollectStats):
    pass


class OwnBuffer(VectorReplayBuffer):
    def add(self, *args, **kwargs):
        return super().add(*args, **kwargs)


def patched() -> VectorReplayBuffer:
    buffer = VectorReplayBuffer(80, ENVS)
    buffer.add = buffer.add
    return buffer


def remembering() -> Collector:
    one = collector(dqn(), native(), "auto")
    one._episodes.hidden = np.zeros(ENVS)
    return one


@pytest.mark.parametrize(
    ("make", "how"),
    [
        (lambda: collector(dqn(), native(), "auto"), "collecting in Rust"),
        (lambda: collector(dqn(), resetting(), "auto"), "collecting in Rust"),
        (lambda: collector(dqn(), within(), "auto"), "collecting in Rust"),
        (lambda: collector(dqn(), python(), "auto"), "one vector step at a time: the environments are not native"),
        (lambda: collector(dqn(), VectorEnvNormObs(native()), "auto"), "the environments are not native ones"),
        (lambda: collector(dqn(), native(), False), "by torch: native_acting is False"),
        (lambda: collector(dqn(), native(), "auto", collect_stats_class=Told), "by torch: hooks and statistics"),
        (lambda: collector(dqn(), native(), "auto", preprocess_fn=lambda **_: Batch()), "a preprocess_fn"),
        (lambda: collector(dqn(), native(), "auto", on_episode_done_hook=lambda _: None), "there are hooks"),
        (lambda: collector(RandomPolicy(action_space=SPACE), native(), "auto"), "does not act in Rust"),
        (lambda: collector(ScriptedPolicy(), native(), "auto"), "by torch: ScriptedPolicy has no native_chooser"),
        (remembering, "by torch: there are hidden states"),
        (lambda: collector(dqn(), NativeVectorEnv("Blackjack-v1", ENVS), "auto"), "that are not float32"),
        (lambda: collector(dqn(), native(), "auto", CachedReplayBuffer(ReplayBuffer(80), ENVS, 20)),
         "rows of a CachedReplayBuffer are added in Python"),
        (lambda: collector(dqn(), native(), "auto", OwnBuffer(80, ENVS)), "the buffer has a method of its own"),
        (lambda: collector(dqn(), native(), "auto", patched()), "the buffer has a method of its own"),
        (lambda: collector(dqn(), native(), "auto", VectorReplayBuffer(80, ENVS, stack_num=2, save_only_last_obs=True)),
         "rows are added in Python"),
        (lambda: collector(dqn(), NativeVectorEnv("Pendulum-v1", ENVS), "auto"), "do not count actions from 0"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*_space:UserWarning")  # of environments that the policy is not made for
def test_the_representation_tells_how_actions_are_chosen(make, how):
    one = make()
    text = repr(one)
    assert how in text
    assert text.startswith(f"{type(one).__name__}({type(one.policy).__name__}, {ENVS} environments, ")


def test_a_ring_of_a_buffer_is_filled_in_python():
    one = Collector(dqn(), NativeVectorEnv("CartPole-v1", 1), VectorReplayBuffer(40, 2).buffers[1])
    assert "rows are added in Python" in repr(one)


def test_options_of_a_collect_count():
    wanted, found = (collector(dqn(1.0), native(), mode) for mode in (False, True))
    for one in (wanted, found):
        one.exploration_noise = False
        one.collect(n_step=ENVS * 10, gym_reset_kwargs={"seed": 1, "options": {"low": 0.0, "high": 1e-9}})
        one.collect(n_step=ENVS * 60, gym_reset_kwargs={"options": {"low": 0.0, "high": 1e-9}})
        one.collect(n_step=ENVS * 20)
    assert np.array_equal(found.buffer.act, wanted.buffer.act)
    assert np.array_equal(found.buffer.obs, wanted.buffer.obs)
    frames = []
    found.env.render = lambda: frames.append(1)
    found._envs.render = found.env.render
    found.collect(n_step=ENVS * 3, render=1e-9)
    assert len(frames) == 3
    with pytest.raises(ValueError, match="native_acting is True, but no_grad is False"):
        found.collect(n_step=4, no_grad=False)


def test_other_native_environments_are_stepped_one_by_one():
    envs = NativeVectorEnv("FrozenLake-v1", ENVS, autoreset_mode=None)
    policy = DQNPolicy(model=Net(1, 4, [8]), optim=None, action_space=gym.spaces.Discrete(4))
    one = collector(policy, envs, True)
    assert "have infos, or observations that are not float32" in repr(one)
    assert one.collect(n_step=40).n_collected_steps == 40


def test_other_noise_and_mapped_actions_are_left_to_python():
    one = collector(dqn(), native(), "auto")
    one.policy.__class__ = type("Quiet", (DQNPolicy,), {"exploration_noise": lambda self, act, batch: act * 0})
    assert "noise of its own" in repr(one)
    one.collect(n_step=40)
    assert not one.buffer.act.any()
    other = collector(dqn(), native(), "auto")
    other.policy.map_action = lambda act: 1 - act
    assert "maps actions" in repr(other)


def test_true_raises_where_it_cannot_be():
    one = collector(dqn(), native(), True)
    one.policy.model.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r'native_acting is True, but .* hooks.*: give "auto" or False'):
        one.collect(n_step=4)
    one.native_acting = "auto"
    assert one.collect(n_step=4).n_collected_steps == 4
    for wrong in ("yes", 1, None):
        with pytest.raises(ValueError, match='must be "auto", True or False'):
            one.native_acting = wrong
