"""Samples that a thread prefetches, with the CPU as the device."""

import threading
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

import policies_to_train as policies
from machine import PATIENCE
from rlfast.data import (
    Batch,
    Collector,
    NStep,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    Sequence,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv
from rlfast.policy import TrainingStats
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer
from rlfast.trainer._prefetch import PrefetchedBuffer
from rlfast.utils.net.common import Net, Recurrent

CPU = torch.device("cpu")
PENDULUM = gym.spaces.Box(-2.0, 2.0)


class DictObs(gym.ObservationWrapper):
    """A wrapper that adds a mask of legal actions to observations."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict(obs=env.observation_space, mask=gym.spaces.MultiBinary(2))

    def observation(self, obs):
        return {"obs": obs, "mask": np.array([1, obs[0] > 0], np.int8)}


def dqn(model=None, **options):
    policy = policies.dqn(model=model, lr=1e-2, target_update_freq=5, **options)
    policy.set_eps(0.3)
    return policy


CASES = {
    "one step": (dqn, VectorReplayBuffer, {}, "CartPole-v1"),
    "n steps": (lambda: dqn(estimation_step=3), VectorReplayBuffer, {}, "CartPole-v1"),
    "n steps by the buffer": (dqn, VectorReplayBuffer, {"unit": NStep(3, 0.99)}, "CartPole-v1"),
    "stacked frames": (lambda: dqn(Net((2, 4), 2, [16])), VectorReplayBuffer, {"stack_num": 2}, "stacked"),
    "recurrent": (
        lambda: dqn(Recurrent(1, 4, 2, hidden_layer_size=8)),
        VectorReplayBuffer,
        {"stack_num": 2},
        "CartPole-v1",
    ),
    "dicts and masks": (dqn, VectorReplayBuffer, {}, "dict"),
    "priorities": (dqn, PrioritizedVectorReplayBuffer, {"alpha": 0.6, "beta": 0.4}, "CartPole-v1"),
    "soft actor-critic": (partial(policies.sac, 3, PENDULUM, estimation_step=2), VectorReplayBuffer, {}, "Pendulum-v1"),
}


def make_env(name):
    if name == "dict":
        return DictObs(gym.make("CartPole-v1"))
    if name == "stacked":
        return gym.wrappers.FrameStackObservation(gym.make("CartPole-v1"), 2)
    return gym.make(name)


def parameters(case, *, prefetch):
    make, kind, options, env = CASES[case]
    torch.manual_seed(0)
    policy = make()
    policy.seed(0)
    envs = DummyVectorEnv([lambda: make_env(env)] * 2)
    envs.seed(0)
    if env == "stacked":
        options = {"save_only_last_obs": True, **options}
    buffer = kind(200, 2, seed=0, **options)
    trainer = OffpolicyTrainer(
        policy=policy,
        max_epoch=1,
        batch_size=8,
        train_collector=Collector(policy, envs, buffer, exploration_noise=True),
        step_per_epoch=60,
        step_per_collect=10,
        update_per_step=0.5,
        start_timesteps=20,
        show_progress=False,
        prefetch=prefetch,
    )
    losses = [epoch.training_stat for epoch in trainer]
    assert trainer.gradient_step == 30
    return losses, policy.state_dict(), buffer.sample_indices(50)


@pytest.mark.parametrize("case", CASES)
def test_the_result_is_the_same(case):
    (stats, state, rows), (ahead_stats, ahead_state, ahead_rows) = (
        parameters(case, prefetch=prefetch) for prefetch in (False, True)
    )
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, ahead_state[name]), name
    assert stats[0].smoothed_loss == ahead_stats[0].smoothed_loss
    assert np.array_equal(rows, ahead_rows)  # the sampler stands where it would


def filled(kind=ReplayBuffer, size=100, **options):
    buffer = kind(size, seed=0, **options)
    for i in range(size):
        obs = {"image": np.full((2, 2), i, np.uint8), "place": np.float32(i), "name": f"row {i}"}
        row = Batch(obs=obs, act=i, rew=0.5 * i, terminated=i % 10 == 9, truncated=False, obs_next=obs, info={"i": i})
        buffer.add(row)
    return buffer


def test_one_block_of_tensors_holds_what_the_buffer_would_give():
    mine, plain = PrefetchedBuffer(filled(), CPU).series(1), filled()
    (batch, indices), (expected, expected_indices) = mine.sample(7), plain.sample(7)
    assert np.array_equal(indices, expected_indices)
    assert isinstance(batch.obs.name, np.ndarray)  # torch has no strings
    assert isinstance(batch.info.i, np.ndarray)
    tensors = [batch.obs.image, batch.obs.place, batch.obs_next.image, batch.act, batch.rew, batch.terminated]
    arrays = [expected.obs.image, expected.obs.place, expected.obs_next.image, expected.act, expected.rew]
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1
    for tensor, array in zip(tensors, [*arrays, expected.terminated], strict=True):
        assert tensor.dtype == torch.from_numpy(array).dtype
        assert np.array_equal(tensor.numpy(), array)
    assert list(batch.obs.name) == list(expected.obs.name)
    assert set(batch.keys()) == set(expected.keys())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_blocks_cross_to_cuda():
    mine, plain = PrefetchedBuffer(filled(), torch.device("cuda")).series(5), filled()
    for _ in range(5):
        (batch, _), (expected, _) = mine.sample(64), plain.sample(64)
        assert batch.obs.image.is_cuda
        assert np.array_equal(batch.obs.image.cpu().numpy(), expected.obs.image)
        assert np.array_equal(batch.act.cpu().numpy(), expected.act)
    assert mine._draw(4, None)[0].block.memory.is_pinned()


class Watched(ReplayBuffer):
    """A buffer that records the threads that sample it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.threads, self.twice = [], threading.Event()

    def sample(self, batch_size, out=None):
        self.threads.append(threading.current_thread().name)
        if len(self.threads) > 1:
            self.twice.set()
        return super().sample(batch_size, out)


def test_the_next_sample_is_drawn_while_this_one_is_learned_from():
    buffer = filled(Watched)
    mine = PrefetchedBuffer(buffer, CPU).series(3)
    mine.sample(4)
    assert buffer.twice.wait(PATIENCE)  # nobody has asked for it yet
    mine.sample(4)
    mine.sample(4)
    assert len(buffer.threads) == 3  # and none beyond the last
    assert buffer.threads[0] == "MainThread"
    assert buffer.threads[1].startswith("prefetch")
    assert not mine.is_ahead
    mine.series(2).sample(4)
    assert mine.is_ahead
    mine.sample(4)
    assert len(buffer.threads) == 5


def test_samples_go_to_the_device():
    batch, _ = PrefetchedBuffer(filled(), torch.device("meta")).sample(4)
    assert batch.rew.device.type == "meta"


def test_nothing_is_drawn_ahead_from_what_has_no_sample_indices():
    class Rows:
        def sample(self, batch_size):
            return Batch(obs=np.zeros(batch_size)), np.arange(batch_size)

    mine = PrefetchedBuffer(Rows(), CPU).series(3)
    assert len(mine.sample(4)[0]) == 4
    assert not mine.is_ahead


def test_nothing_is_drawn_ahead_before_a_series_begins():
    buffer = filled(Watched)
    mine = PrefetchedBuffer(buffer, CPU)
    mine.sample(4)
    assert not mine.is_ahead
    assert len(buffer.threads) == 1


def test_nothing_is_drawn_ahead_where_priorities_decide():
    class Noting(PrioritizedVectorReplayBuffer):
        draws = 0

        def sample(self, batch_size, out=None):
            type(self).draws += 1
            return super().sample(batch_size, out)

    buffer = Noting(20, 1, alpha=0.6, beta=0.4, seed=0)
    buffer.add(Batch(obs=[0.0], act=[0], rew=[0.0], terminated=[False], truncated=[False], obs_next=[1.0]), [0])
    mine = PrefetchedBuffer(buffer, CPU).series(3)
    mine.sample(4)
    mine._thread.shutdown()  # waits for whatever was begun
    assert Noting.draws == 1
    mine.update_weight(np.array([0]), np.array([2.0]))
    assert buffer.weight[0] == pytest.approx((2 + np.finfo(np.float32).eps) ** 0.6)


def test_a_sample_of_another_size_is_refused():
    mine = PrefetchedBuffer(filled(), CPU).series(3)
    mine.sample(4)
    with pytest.raises(ValueError, match="a sample of 4 rows was drawn ahead, and one of 5 is asked for"):
        mine.sample(5)


def test_errors_of_the_thread_are_the_callers():
    with pytest.raises(ValueError, match="empty"):
        PrefetchedBuffer(ReplayBuffer(5), CPU).series(2).sample(4)
    buffer = filled()
    mine = PrefetchedBuffer(buffer, CPU).series(3)
    buffer.sample = lambda size: (_ for _ in ()).throw(OSError("the disk is gone"))
    with pytest.raises(OSError, match="the disk is gone"):
        mine.sample(4)


def test_all_else_is_the_buffers_own():
    buffer = filled()
    mine = PrefetchedBuffer(buffer, CPU)
    assert len(mine) == 100
    assert mine.stack_num == 1
    assert np.array_equal(mine[3].act, buffer[3].act)
    assert np.array_equal(mine.nstep(np.arange(5), 3, 0.9)[0], buffer.nstep(np.arange(5), 3, 0.9)[0])


@pytest.mark.parametrize("unit", [None, Sequence(3)])
def test_offline_training_takes_it_too(unit):
    def loss(prefetch):
        torch.manual_seed(0)
        policy = dqn(Net(1, 2, [8]))
        buffer = ReplayBuffer(50, seed=0)
        for i in range(50):
            buffer.add(Batch(obs=[i / 50], act=i % 2, rew=1.0, terminated=False, truncated=i == 49, obs_next=[i / 50]))
        trainer = OfflineTrainer(policy, 1, 8, buffer=buffer, step_per_epoch=6, show_progress=False, prefetch=prefetch)
        (epoch,) = trainer
        return epoch.training_stat.loss

    if unit is None:
        assert loss(prefetch=True) == loss(prefetch=False)
    else:
        buffer = PrefetchedBuffer(filled(unit=unit), CPU).series(2)
        expected = filled(unit=unit)
        for _ in range(2):
            (batch, _), (other, _) = buffer.sample(4), expected.sample(4)
            assert np.array_equal(batch.mask.numpy(), other.mask)
            assert np.array_equal(batch.obs.place.numpy(), other.obs.place)


# -- trainers ----------------------------------------------------------------------------------------------------------


def watched(rows=50):
    buffer = Watched(rows, seed=0)
    for i in range(rows):
        buffer.add(Batch(obs=[i / 50], act=i % 2, rew=1.0, terminated=False, truncated=i == 49, obs_next=[i / 50]))
    return buffer


def offline(buffer, *, prefetch=True, **options):
    torch.manual_seed(0)
    policy = dqn(Net(1, 2, [8]))
    return OfflineTrainer(
        policy, options.pop("max_epoch", 1), 8, buffer=buffer, step_per_epoch=10, show_progress=False,
        prefetch=prefetch, **options,
    )  # fmt: skip


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.policy.parameters()])


@pytest.mark.parametrize("max_step", [None, 24])
def test_offline_training_draws_ahead_within_an_epoch_and_not_beyond(max_step):
    buffer, expected = watched(), watched()
    ahead, plain = offline(buffer, max_epoch=2, max_step=max_step), offline(expected, prefetch=False, max_epoch=2,
                                                                            max_step=max_step)  # fmt: skip
    ahead.run()
    plain.run()
    assert ahead.gradient_step == plain.gradient_step == (20 if max_step is None else 3)
    assert len(buffer.threads) == len(expected.threads) == ahead.gradient_step
    assert sum(name.startswith("prefetch") for name in buffer.threads) == (18 if max_step is None else 2)
    assert torch.equal(weights(ahead), weights(plain))
    assert np.array_equal(buffer.sample_indices(20), expected.sample_indices(20))  # the stream stands where it would


def test_nothing_is_drawn_ahead_where_a_collect_comes_in_between():
    buffer, policy = Watched(100, seed=0), dqn()
    collector = Collector(policy, DummyVectorEnv([lambda: gym.make("CartPole-v1")]), buffer)
    collector.collect(n_step=20, random=True)
    OfflineTrainer(policy, 1, 4, collector, buffer=buffer, step_per_epoch=8, step_per_collect=2, show_progress=False,
                   prefetch=True).run()  # fmt: skip
    assert buffer.threads == ["MainThread"] * 4


def test_samples_of_a_policy_without_parameters_go_to_the_cpu(arguments):
    parts, given = arguments(max_epoch=1, prefetch=True)
    seen = []

    def update(sample_size, buffer):
        seen.append(buffer.sample(sample_size)[0].obs)
        return TrainingStats()

    parts.policy.update = update
    OffpolicyTrainer(**given).run()
    assert [(obs.device, obs.shape) for obs in seen] == [(CPU, (4, 2))] * 10


def test_offline_training_that_is_stopped_learns_from_what_was_drawn():
    buffer, expected = watched(), watched()
    ahead, plain = offline(buffer), offline(expected, prefetch=False)
    learn = ahead.policy.learn

    def stop_at_the_fourth(*args, **kwargs):
        if ahead.gradient_step == 3:
            assert buffer.twice.wait(PATIENCE)
            ahead.stop()
        return learn(*args, **kwargs)

    ahead.policy.learn = stop_at_the_fourth
    assert list(ahead) == []
    assert (ahead.gradient_step, len(buffer.threads)) == (5, 5)
    assert not ahead._is_ahead
    ahead.policy.learn = learn
    assert len(list(ahead)) == 1
    plain.run()
    assert torch.equal(weights(ahead), weights(plain))


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_while_learning_leaves_nothing_that_draws(error):
    buffer = watched()
    entered, go_on = threading.Event(), threading.Event()
    sample = buffer.sample

    def slowly(size):
        if threading.current_thread().name.startswith("prefetch"):
            entered.set()
            go_on.wait(PATIENCE)
        return sample(size)

    buffer.sample = slowly
    trainer = offline(buffer)

    def fail(*_, **__):
        assert entered.wait(PATIENCE)  # the next sample is being drawn
        threading.Timer(0.2, go_on.set).start()
        raise error

    trainer.policy.learn = fail
    with pytest.raises(error):
        trainer.run()
    assert go_on.is_set()  # the draw was waited for
    assert not trainer._is_ahead
    assert len(buffer.threads) == 2
    del trainer.policy.learn
    assert trainer.run().gradient_step == 10


def test_another_buffer_is_followed():
    first, second = watched(), watched()
    trainer = offline(first, max_epoch=2)
    for epoch in trainer:
        if epoch.epoch == 1:
            trainer.buffer = second
    assert (len(first.threads), len(second.threads)) == (10, 10)
    parts = dqn(), DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    collector = Collector(*parts, ReplayBuffer(100, seed=0))
    online = OffpolicyTrainer(parts[0], 1, 4, collector, step_per_epoch=8, step_per_collect=4, show_progress=False,
                              prefetch=True)  # fmt: skip
    online.run()
    collector.buffer = other = Watched(100, seed=0)
    online.run()
    assert len(other.threads) == 8


def test_rows_that_the_users_own_class_draws_are_not_drawn_ahead():
    class Own(Watched):
        def sample_indices(self, batch_size):
            return np.random.randint(len(self), size=batch_size)

    buffer = filled(Own)
    mine = PrefetchedBuffer(buffer, CPU).series(3)
    for _ in range(3):
        mine.sample(4)
    assert buffer.threads == ["MainThread"] * 3
