import json
import os
import random
import shutil
import signal
import time

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import StepLR

from rlfast.data import (
    Batch,
    Collector,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv, NativeVectorEnv, VectorEnvNormObs
from rlfast.experiment.checkpoint import load_checkpoint, load_policy, save_checkpoint
from rlfast.exploration import OUNoise
from rlfast.policy import DQNPolicy
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer
from rlfast.utils import JSONLLogger, LazyLogger, LoggerGroup, RunningMeanStd
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam
from rlfast.utils.plain import pack

# Most tests load a checkpoint beside another log than it was written with, and that is said.
pytestmark = pytest.mark.filterwarnings("ignore:.*logging continues without:UserWarning")


class Normalising(DQNPolicy):
    """A DQN with a normaliser and noise of its own, whose schedule is the learning rate's."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.lr_scheduler = StepLR(self.optim, 5, 0.9)
        self.norm, self.noise = RunningMeanStd(), OUNoise(seed=1)

    def exploration_noise(self, act, batch):
        self.norm.update(batch.obs)
        flip = self.noise((len(act),)) + self.norm.norm(batch.obs)[:, 0] > 0.4
        return np.where(flip, 1 - act, super().exploration_noise(act, batch))

    def learn(self, batch, batch_size=None, repeat=1, **kwargs):
        batch.info = Batch()
        return super().learn(batch, **kwargs)


def policy(seed=0, sizes=(8,), kind=Normalising):
    torch.manual_seed(seed)
    made = kind(
        model=Net((4,), 2, list(sizes), norm_layer=torch.nn.BatchNorm1d),
        optim=adam(1e-2),
        action_space=gym.spaces.Discrete(2),
        target_update_freq=3,
        estimation_step=2,
    )
    made.seed(seed)
    made.set_eps(0.3)
    return made


def environments(seed, number):
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * number)
    envs.seed(seed)
    return envs


def off_policy(folder, seed=0, buffer=VectorReplayBuffer, num_envs=2, max_epoch=4, **policy_kwargs):
    learner = policy(seed, **policy_kwargs)
    return OffpolicyTrainer(
        policy=learner,
        max_epoch=max_epoch,
        batch_size=8,
        train_collector=Collector(
            learner, environments(seed, num_envs), buffer(60, num_envs, seed=seed), exploration_noise=True
        ),
        test_collector=Collector(learner, environments(seed + 100, 2)),
        step_per_epoch=24,
        step_per_collect=6,
        episode_per_test=2,
        update_per_step=0.5,
        start_timesteps=10,
        train_fn=lambda epoch, step: learner.set_eps(1 / (1 + step / 20)),
        test_fn=lambda epoch, step: learner.set_eps(0.1),
        logger=JSONLLogger(folder / "metrics.jsonl", train_interval=1, update_interval=1),
        verbose=False,
        show_progress=False,
    )


def prioritized(size, number, seed):
    return PrioritizedVectorReplayBuffer(size, number, alpha=0.6, beta=0.4, seed=seed)


def on_policy(folder, seed=0):
    learner = policy(seed)
    return OnpolicyTrainer(
        policy=learner,
        max_epoch=4,
        batch_size=None,
        train_collector=Collector(learner, environments(seed, 2), VectorReplayBuffer(60, 2, seed=seed)),
        test_collector=None,
        step_per_epoch=24,
        step_per_collect=6,
        repeat_per_collect=1,
        logger=JSONLLogger(folder / "metrics.jsonl", train_interval=1, update_interval=1),
        show_progress=False,
    )


def offline(folder, seed=0):
    rng, buffer = np.random.default_rng(0), prioritized(50, 1, seed)
    for i in range(50):
        obs = rng.normal(size=(2, 1, 4)).astype(np.float32)
        row = Batch(obs=obs[0], act=rng.integers(2, size=1), rew=rng.normal(size=1), terminated=[i % 7 == 6],
                    truncated=[False], obs_next=obs[1])  # fmt: skip
        buffer.add(row)
    return OfflineTrainer(
        policy=policy(seed),
        max_epoch=4,
        batch_size=8,
        buffer=buffer,
        step_per_epoch=5,
        logger=JSONLLogger(folder / "metrics.jsonl", train_interval=1, update_interval=1),
        show_progress=False,
    )


def offline_beside_collecting(folder, seed=0):
    """Learns from one buffer by priority, while a collector fills another."""
    trainer = offline(folder, seed)
    envs, buffer = environments(seed, 2), VectorReplayBuffer(60, 2, seed=seed)
    return OfflineTrainer(
        policy=trainer.policy,
        max_epoch=4,
        batch_size=8,
        buffer=trainer.buffer,
        train_collector=Collector(trainer.policy, envs, buffer, exploration_noise=True),
        step_per_epoch=12,
        step_per_collect=4,
        logger=trainer.logger,
        show_progress=False,
    )


def native(mode):
    """Environments in Rust, to train and to test in."""

    def make(folder, seed=0):
        trainer = off_policy(folder, seed)
        envs, tests = (NativeVectorEnv("CartPole-v1", 2, autoreset_mode=mode) for _ in range(2))
        envs.reset(seed=seed)
        tests.reset(seed=seed + 100)
        envs.action_space.seed(seed) if mode else envs.single_action_space.seed(seed)
        buffer = trainer.train_collector.buffer
        trainer.train_collector = Collector(trainer.policy, envs, buffer, exploration_noise=True)
        trainer.test_collector = Collector(trainer.policy, tests)
        return trainer

    return make


KINDS = {
    "off-policy": off_policy,
    "prioritized": lambda folder, seed=0: off_policy(folder, seed, prioritized),
    "on-policy": on_policy,
    "offline": offline,
    "offline beside collecting": offline_beside_collecting,
    "native": native(None),
    "native that resets itself in the next step": native("next-step"),
    "native that resets itself at once": native("same-step"),
}


def everything(trainer, folder):
    """All that the rest of the run would depend on, and all it has logged but for wall-clock times."""
    weights = {name: value for name, value in trainer.policy.state_dict().items() if not name.endswith("_extra_state")}
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = [{k: v for k, v in row.items() if not ("time" in k or "speed" in k)} for row in rows]
    state = trainer.policy.state_dict()["_extra_state"]
    return {
        "weights": b"".join(value.numpy().tobytes() for value in weights.values()),
        "policy": repr({name: state[name] for name in ("random", "parts", "values", "torch_random", "lr_scheduler")}),
        "counters": (trainer.epoch, trainer.env_step, trainer.gradient_step, trainer.best_reward, trainer.best_epoch),
        "rows": rows,
    }


def run_until(trainer, calls):
    """Runs, and stops after so many updates."""
    update, count = trainer.policy_update_fn, 0

    def counting(stats):
        nonlocal count
        count += 1
        if count == calls:
            trainer.stop()
        return update(stats)

    trainer.policy_update_fn = counting
    trainer.run()
    del trainer.policy_update_fn


@pytest.fixture
def folders(tmp_path):
    for name in ("straight", "stopped", "resumed"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("calls", [1, 4, 7])
def test_training_goes_on_as_if_it_had_never_stopped(folders, kind, calls):
    make = KINDS[kind]
    straight = make(folders / "straight")
    straight.run()
    stopped = make(folders / "stopped")
    run_until(stopped, calls)
    assert 0 < stopped.gradient_step < straight.gradient_step
    save_checkpoint(folders / "checkpoint", stopped)
    (folders / "resumed" / "metrics.jsonl").write_bytes((folders / "stopped" / "metrics.jsonl").read_bytes())
    resumed = make(folders / "resumed", seed=9)  # nothing of the new one may shine through
    resumed.logger.write("test/env_step", 999, {"lost": 1.0})  # logged after the checkpoint, and taken back
    np.random.seed(77)
    torch.manual_seed(77)
    assert load_checkpoint(folders / "checkpoint", resumed) == []
    assert resumed.run().gradient_step == straight.gradient_step
    assert everything(resumed, folders / "resumed") == everything(straight, folders / "straight")


@pytest.mark.pitfall("F10")
def test_it_does_so_from_20_random_points(folders):
    straight = off_policy(folders / "straight")
    straight.run()
    expected = everything(straight, folders / "straight")
    updates = straight.gradient_step // 3
    stopped = off_policy(folders / "stopped")
    points = sorted(random.Random(3).choices(range(1, updates), k=20))
    for k, (before, point) in enumerate(zip([0, *points], points, strict=False)):
        if point > before:
            run_until(stopped, point - before)
        save_checkpoint(folders / f"checkpoint-{k}", stopped)
    for k in range(20):
        resumed = off_policy(folders / "resumed", seed=k)
        shutil.copy(folders / "stopped" / "metrics.jsonl", folders / "resumed")
        assert load_checkpoint(folders / f"checkpoint-{k}", resumed) == []
        assert resumed.gradient_step == points[k] * 3
        resumed.run()
        assert everything(resumed, folders / "resumed") == expected, points[k]


def test_saving_changes_nothing(folders):
    straight, other = off_policy(folders / "straight"), off_policy(folders / "stopped")
    np.random.seed(0)
    straight.run()
    np.random.seed(0)
    for _ in other:
        save_checkpoint(folders / "checkpoint", other)
    assert everything(other, folders / "stopped") == everything(straight, folders / "straight")


class Simulated(gym.Wrapper):
    """Has something inside that no file can hold."""

    def __init__(self, env):
        super().__init__(env)
        self.simulator = memoryview(b"...")


def test_environments_that_cannot_be_restored_begin_anew_and_it_is_said(folders):
    def make(folder, seed=0):
        trainer = off_policy(folder, seed)
        envs = DummyVectorEnv([lambda: Simulated(gym.make("CartPole-v1")), lambda: gym.make("CartPole-v1")])
        envs.seed(seed)
        trainer.train_collector = Collector(
            trainer.policy, envs, VectorReplayBuffer(60, 2, seed=seed), exploration_noise=True
        )
        return trainer

    stopped = make(folders / "stopped")
    run_until(stopped, 3)
    save_checkpoint(folders / "checkpoint", stopped)
    final = []
    for _ in range(2):
        resumed = make(folders / "resumed", seed=3)
        (sentence,) = load_checkpoint(folders / "checkpoint", resumed)
        assert sentence.startswith("training environments 0 begin new episodes: Simulated.simulator is a ")
        buffer = resumed.train_collector.buffer
        running = [index for index in buffer.unfinished_index() if index < 30]
        resumed.train_collector.collect(n_step=2)
        if running:  # what ran in the buffer counts as cut short
            assert buffer.truncated[running[0]] or buffer.terminated[running[0]]
        resumed.run()
        final.append(everything(resumed, folders / "resumed")["weights"])
    assert final[0] == final[1]  # and it is said once and for all how


def test_without_its_buffer_a_run_fills_a_new_one(folders):
    stopped = off_policy(folders / "stopped")
    run_until(stopped, 3)
    save_checkpoint(folders / "checkpoint", stopped, save_buffer=False)
    assert not (folders / "checkpoint" / "buffer.snapshot").exists()
    resumed = off_policy(folders / "resumed")
    assert load_checkpoint(folders / "checkpoint", resumed) == ["the replay buffer was not saved: it fills anew"]
    assert len(resumed.train_collector.buffer) == 0
    assert resumed.env_step == stopped.env_step


def test_a_policy_alone(folders):
    stopped = off_policy(folders / "stopped")
    run_until(stopped, 2)
    save_checkpoint(folders / "checkpoint", stopped)
    other = policy(5)
    where = {"epoch": 1, "env_step": stopped.env_step, "gradient_step": stopped.gradient_step}
    assert load_policy(folders / "checkpoint", other) == where
    for ours, theirs in zip(other.parameters(), stopped.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.fixture
def saved(folders):
    trainer = off_policy(folders / "stopped")
    run_until(trainer, 2)
    save_checkpoint(folders / "checkpoint", trainer)
    return folders / "checkpoint"


def test_networks_may_share_their_layers(folders, saved):
    trainer = off_policy(folders / "resumed")
    trainer.policy.twin = trainer.policy.model
    save_checkpoint(saved, trainer)
    other = off_policy(folders / "resumed", seed=2)
    other.policy.twin = other.policy.model
    load_checkpoint(saved, other)
    assert other.policy.twin is other.policy.model


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"kind": DQNPolicy}, "is of a Normalising, not of a DQNPolicy"),
        ({"sizes": (16,)}, r"another network: model.* is \(8, 4\) there and \(16, 4\) here"),
        ({"sizes": (8, 8)}, "another network: only one of the two has model"),
        ({"num_envs": 3}, "holds a VectorReplayBuffer of .* this trainer has a VectorReplayBuffer"),
        ({"buffer": prioritized}, "is not a PrioritizedVectorReplayBuffer"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_before_anything_changes(folders, saved, made, message):
    other = off_policy(folders / "resumed", seed=4, **made)
    before = {name: value.clone() for name, value in other.policy.named_parameters()}
    with pytest.raises(ValueError, match=message):
        load_checkpoint(saved, other)
    assert all(torch.equal(value, before[name]) for name, value in other.policy.named_parameters())
    assert (other.epoch, other.env_step, len(other.train_collector.buffer)) == (0, 0, 0)
    with pytest.raises(ValueError, match="is of a OffpolicyTrainer, not of a OnpolicyTrainer"):
        load_checkpoint(saved, on_policy(folders / "resumed"))


def whole_state(trainer):
    """All that loading may change, to the bit."""
    state = {**trainer.state_dict(), "seconds": 0, "logger": None}
    text, arrays = pack({"policy": dict(trainer.policy.state_dict()), "trainer": state})
    return text, {name: array.tobytes() for name, array in arrays.items()}, trainer.train_collector.buffer._core.dump()


def normalised(trainer):
    envs = VectorEnvNormObs(environments(5, 2))
    trainer.train_collector = Collector(trainer.policy, envs, trainer.train_collector.buffer, exploration_noise=True)


def of_wider_observations(trainer):
    def make():
        wide = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
        return gym.wrappers.TransformObservation(gym.make("CartPole-v1"), lambda obs: np.append(obs, obs[:2]), wide)

    envs = DummyVectorEnv([make] * 2)
    trainer.train_collector = Collector(trainer.policy, envs, trainer.train_collector.buffer)


def without_tests(trainer):
    trainer.test_collector = None


def scheduled_otherwise(trainer):
    trainer.policy.lr_scheduler = None


def logged_otherwise(trainer):
    trainer.logger = LoggerGroup([LazyLogger(), LazyLogger()])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (normalised, "with 0 wrappers, these have 1"),
        (of_wider_observations, r"with observations \(4,\), these have \(6,\)"),
        (without_tests, "has a collector where the other has none"),
        (scheduled_otherwise, "lr_scheduler"),
        (logged_otherwise, "state of 0 loggers for 2"),
    ],
)
def test_a_trainer_made_otherwise_is_as_it_was(folders, saved, change, message):
    other = off_policy(folders / "resumed", seed=4)
    run_until(other, 1)
    change(other)
    before = whole_state(other)
    with pytest.raises(ValueError, match=message) as error:
        load_checkpoint(saved, other)
    assert str(saved) in str(error.value)
    assert whole_state(other) == before


def test_a_policy_alone_is_as_it_was(saved):
    other = policy(5)
    other.lr_scheduler = None
    before = pack(dict(other.state_dict()))
    with pytest.raises(ValueError, match="lr_scheduler"):
        load_policy(saved, other)
    assert repr(pack(dict(other.state_dict()))) == repr(before)


def test_what_is_no_checkpoint(folders, saved):
    trainer = off_policy(folders / "resumed")
    with pytest.raises(FileNotFoundError, match="nothing holds no checkpoint"):
        load_checkpoint(folders / "nothing", trainer)
    head = saved / "checkpoint.json"
    head.write_text(head.read_text().replace('"version": 4', '"version": 99'))
    with pytest.raises(ValueError, match="a checkpoint of version 99: this rlfast reads version 4"):
        load_checkpoint(saved, trainer)
    head.write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        load_checkpoint(saved, trainer)


@pytest.mark.parametrize(
    "name", ["policy.safetensors", "training_state.json", "training_state.safetensors", "buffer.snapshot"]
)
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damage_is_seen(folders, saved, name, damage):
    path = saved / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    trainer = off_policy(folders / "resumed")
    with pytest.raises((ValueError, OSError)):
        load_checkpoint(saved, trainer)
    assert trainer.env_step == 0


@pytest.mark.pitfall("D7")
def test_nothing_in_a_checkpoint_is_pickled(saved):
    for path in saved.iterdir():
        assert not path.read_bytes().startswith((b"\x80", b"PK"))
        assert path.suffix in (".json", ".safetensors", ".snapshot")


def test_the_old_checkpoint_is_replaced_as_a_whole(folders, saved, monkeypatch):
    trainer = off_policy(folders / "resumed")
    load_checkpoint(saved, trainer)
    before = trainer.env_step
    trainer.run()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    for where in ("rlfast.experiment.checkpoint._write", "rlfast.data.buffer.io.snapshot.save"):
        with monkeypatch.context() as patch:
            patch.setattr(where, full)
            with pytest.raises(OSError, match="No space left"):
                save_checkpoint(saved, trainer)
        assert load_policy(saved, policy())["env_step"] == before
    save_checkpoint(saved, trainer)
    assert load_policy(saved, policy())["env_step"] == trainer.env_step > before
    assert sorted(path.name for path in folders.iterdir()) == ["checkpoint", "resumed", "stopped", "straight"]


def test_between_the_two_renames_the_old_one_is_found(folders, saved):
    saved.rename(folders / "checkpoint.old")  # where a kill may leave it
    trainer = off_policy(folders / "resumed")
    load_checkpoint(saved, trainer)
    assert trainer.env_step > 0
    save_checkpoint(saved, trainer)
    assert not (folders / "checkpoint.old").exists()
    load_checkpoint(saved, trainer)


@pytest.mark.skipif(os.name != "posix", reason="limits on file sizes are POSIX's")
def test_a_disk_without_room_leaves_the_old_one(folders, saved):
    """A limit on the size of files stands for a disk that is full: the engine and Python both meet it."""
    import resource

    trainer = off_policy(folders / "resumed")
    load_checkpoint(saved, trainer)
    before, limits = trainer.env_step, resource.getrlimit(resource.RLIMIT_FSIZE)
    trainer.run()
    for size in (100, 3000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                save_checkpoint(saved, trainer)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert load_policy(saved, policy())["env_step"] == before


def test_columns_of_objects_ask_for_pickles(folders, saved):
    trainer = off_policy(folders / "resumed")
    trainer.train_collector.buffer = buffer = ReplayBuffer(10)
    buffer.add(Batch(obs=np.array(object()), act=0, rew=1.0, terminated=False, truncated=False, obs_next=object()))
    with pytest.raises(TypeError, match="pass allow_pickle=True"):
        save_checkpoint(saved, trainer)
    assert load_policy(saved, policy())["env_step"] > 0  # the old one


def save_for_ever(folders):
    trainer = off_policy(folders / "stopped", max_epoch=10**6)
    trainer.stop()
    trainer.run()  # the test and the random steps before the first update
    while True:
        save_checkpoint(folders / "checkpoint", trainer)


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX's")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_kill_while_saving_leaves_a_whole_checkpoint(folders):
    """A process that does nothing but save is killed at random moments; each time its run goes on exactly."""
    chance, seen, kills, longest, found = random.Random(7), set(), 0, 0.1, {}
    trainer = off_policy(folders / "stopped")
    run_until(trainer, 2)
    save_checkpoint(folders / "checkpoint", trainer)
    while kills < 20 or (len(seen) == 1 and kills < 200):
        pid = os.fork()
        if pid == 0:
            save_for_ever(folders)
        time.sleep(chance.uniform(0.5, 1.0) * longest)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        before, found = found, {path.name: path.stat().st_ino for path in folders.glob("checkpoint*")}
        longest *= 1.3 if found == before else 0.9  # about as long as the first save takes on this machine, today
        seen.add(tuple(sorted(found)))
        kills += 1
        trainer = off_policy(folders / "resumed", seed=3)
        assert load_checkpoint(folders / "checkpoint", trainer) == []
        assert trainer.env_step > 0
    assert len(seen) > 1  # some kills came in the middle
