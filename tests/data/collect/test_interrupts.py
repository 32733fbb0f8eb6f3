"""Collects that are interrupted at any bytecode: every stored row is a step, and the next collect works."""

from functools import partial

import numpy as np
import pytest

from env.test_interrupts import LENGTH, Marked, N, makers
from interrupts import Interrupt, check_gradients, interrupt, points, spread
from rlfast.data import AsyncCollector, Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, SubprocVectorEnv, VectorEnvNormReward
from rlfast.policy import RandomPolicy


class Policy(RandomPolicy):
    """Stores what it saw, and counts steps in a hidden state that begins anew with each episode."""

    def forward(self, batch, state=None, **kwargs):
        count = np.zeros((len(batch.obs), 1)) if state is None else np.asarray(state.count)
        act = (np.asarray(batch.obs)[:, 0] * 10 + np.asarray(batch.obs)[:, 2]).astype(int)
        return Batch(act=act, state=Batch(count=count + 1), policy=Batch(seen=np.asarray(batch.obs)))


def preprocess(**fields):
    return {}


ENVS = {
    "dummy": lambda mode: DummyVectorEnv(makers(), autoreset_mode=mode),
    "process": lambda mode: SubprocVectorEnv(makers(), autoreset_mode=mode, num_workers=1),
    "scaled": lambda mode: VectorEnvNormReward(DummyVectorEnv(makers(), autoreset_mode=mode), gamma=0.5),
}


def collector_of(envs, kind=Collector, **options):
    policy = Policy(action_space=Marked.action_space)
    return kind(policy, envs, VectorReplayBuffer(120 * N, N), **options)


def check_rows(buffer, *, rewards=True):
    """Checks that every stored row is one step of its own environment, and that rows of an episode are in order."""
    rows, index = buffer.sample(0)
    obs, after, act = rows.obs.astype(int), rows.obs_next.astype(int), rows.act.astype(int)
    assert (index // 120).tolist() == obs[:, 0].tolist()
    assert after[:, :2].tolist() == obs[:, :2].tolist()
    assert after[:, 2].tolist() == (obs[:, 2] + 1).tolist()
    assert act.tolist() == (10 * obs[:, 0] + obs[:, 2]).tolist()
    if rewards:
        assert rows.rew.tolist() == act.tolist()
    assert rows.terminated.tolist() == (after[:, 2] == LENGTH).tolist()
    if "policy" in rows:
        assert rows.policy.seen.astype(int).tolist() == obs.tolist()
        assert rows.policy.hidden_state.count[:, 0].tolist() == obs[:, 2].tolist()
    assert rows.info.number.tolist() == obs[:, 0].tolist()
    for ring in range(N):
        own = obs[index // 120 == ring]
        assert [*map(tuple, own)] == sorted({*map(tuple, own)})  # each once, in order
        before = np.array([buffer.prev(i) != i for i in index[index // 120 == ring]])
        same = np.r_[False, own[1:, 1] == own[:-1, 1]]
        assert before.tolist() == same.tolist()  # an episode that was broken off goes on nowhere
        assert (own[same, 2] == own[:-1, 2][same[1:]] + 1).all()


def use(collector):
    collector.collect(n_step=2 * N)
    collector.collect(n_episode=2)
    collector.reset_env()
    collector.collect(n_step=5 * N)


def works(collector, kind=Collector):
    stats = collector.collect(n_step=5 * N)
    assert stats.n_collected_steps >= 5 * N
    check_rows(collector.buffer, rewards=type(collector.env) is not VectorEnvNormReward)
    assert (collector.collect(n_episode=N).lens == LENGTH).all()
    other = collector_of(collector.env, kind)
    if collector.env.waiting_id:
        collector.reset_env()
    assert other.collect(n_step=5 * N).n_collected_steps >= 5 * N
    check_rows(other.buffer, rewards=type(collector.env) is not VectorEnvNormReward)
    collector.reset_env()
    collector.reset_buffer()


def sweep(collector, use, check, sample, start=0, error=Interrupt):
    check(collector)
    for point in spread(points(lambda: use(collector)), sample, start):
        collector.reset_buffer()
        place = interrupt(lambda: use(collector), point, error)
        try:
            check(collector)
        except BaseException as failure:
            failure.add_note(f"after an interrupt at point {point}, {place}")
            raise


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("error", [Interrupt, MemoryError])
@pytest.mark.parametrize("mode", [None, "next-step", "same-step"])
@pytest.mark.parametrize("kind", ENVS)
def test_rows_are_steps_after_an_interrupt(kind, mode, error, count):
    collector = collector_of(ENVS[kind](mode), preprocess_fn=preprocess if mode == "same-step" else None)
    sweep(collector, use, works, count, start=3, error=error)
    collector.close()


@pytest.mark.parametrize("line", ["with self.acting:", "torch.set_grad_enabled(False)"])
def test_gradients_are_recorded_again(line):
    def collect():  # in a new collector, so that each call has the same points
        collector_of(ENVS["dummy"](None)).collect(n_step=3 * N)

    check_gradients(collect, line)


@pytest.mark.filterwarnings("ignore:asynchronous environments may put more")
def test_asynchronous_collects_recover():
    collector = collector_of(DummyVectorEnv(makers(), wait_num=2), AsyncCollector)
    sweep(collector, use, partial(works, kind=AsyncCollector), 15)
