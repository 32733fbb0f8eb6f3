import json
import os
import random
import shutil
import signal
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors import numpy as arrays_file
from safetensors import torch as tensors_file
from torch.optim.lr_scheduler import StepLR

from rlfast.data import Batch, Collector, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.plain_data import pack
from rlfast.env import DummyVectorEnv, NativeVectorEnv, VectorEnvNormObs
from rlfast.experiment.checkpoint import _check_optimizers, load_checkpoint, load_policy, load_wrappers, save_checkpoint
from rlfast.exploration import OUNoise
from rlfast.policy import DQNPolicy
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer
from rlfast.utils import JSONLLogger, LazyLogger, LoggerGroup, RunningMeanStd
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam

# Most tests load a checkpoint beside another log than it was written with, and that is said.
pytestmark = pytest.mark.filterwarnings("ignore:.*logging continues without:UserWarning")


class Normalising(DQNPolicy):
    """A DQN with a normaliser and noise of its own, whose schedule is the learning rate's."""

    learns_from = None  # any trainer takes it: what is tested are checkpoints

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
    """Returns the state that the rest of the run depends on, and its logs without wall-clock times."""
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
    """Runs a trainer and stops it after a number of updates."""
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
    """An environment with a state that cannot be saved."""

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
    assert load_checkpoint(str(folders / "checkpoint"), resumed) == ["the replay buffer was not saved: it fills anew"]
    assert len(resumed.train_collector.buffer) == 0
    assert resumed.env_step == stopped.env_step


@pytest.mark.parametrize(
    ("save_buffer", "said"), [(True, []), (False, ["the data were not saved: its rows are drawn in another order"])]
)
def test_data_that_were_given_may_be_given_again(folders, save_buffer, said):
    stopped = offline(folders / "stopped")
    run_until(stopped, 2)
    save_checkpoint(folders / "checkpoint", stopped, save_buffer=save_buffer)
    assert load_checkpoint(folders / "checkpoint", offline(folders / "resumed")) == said


def test_a_run_without_tests_has_no_wrappers_of_theirs(folders):
    save_checkpoint(folders / "checkpoint", offline(folders / "stopped"))
    with pytest.raises(ValueError, match="no state of test environments") as error:
        load_wrappers(folders / "checkpoint")
    path = folders / "checkpoint" / "training_state.json"
    assert str(error.value).startswith(f"{path} is damaged, or of another run: it has no state of test environments: ")


def test_a_policy_alone(folders):
    stopped = off_policy(folders / "stopped")
    run_until(stopped, 2)
    save_checkpoint(str(folders / "checkpoint"), stopped)
    other = policy(5)
    where = {"epoch": 1, "env_step": stopped.env_step, "gradient_step": stopped.gradient_step}
    assert load_policy(str(folders / "checkpoint"), other) == where
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
        (
            {"num_envs": 3},
            r"snapshot holds a VectorReplayBuffer of \[30, 30\] rows, this trainer has a .* of \[20, 20, 20\] rows",
        ),
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
    refused = refusal(saved, on_policy(folders / "resumed"))
    assert refused == f"{saved} is of a OffpolicyTrainer, not of a OnpolicyTrainer"


def test_a_policy_of_another_kind_is_refused(saved):
    with pytest.raises(ValueError, match="not of a") as error:
        load_policy(saved, policy(kind=DQNPolicy))
    assert str(error.value) == f"{saved} is of a Normalising, not of a DQNPolicy"


def whole_state(trainer):
    """Returns everything that loading may change."""
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
    assert str(error.value).startswith(f"{saved} is damaged, or of another run: its training state does not fit: ")
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
    (folders / "file").write_text("")
    for name in ("nothing", "file"):
        with pytest.raises(FileNotFoundError, match=f"{name} holds no checkpoint"):
            load_checkpoint(folders / name, trainer)
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


def test_the_old_checkpoint_is_replaced_as_a_whole(folders, saved, monkeypatch, full_disk):
    trainer = off_policy(folders / "resumed")
    load_checkpoint(saved, trainer)
    before = trainer.env_step
    trainer.run()

    for where in ("rlfast.experiment.checkpoint._write", "rlfast.data.formats.snapshot.save", "pathlib.Path.mkdir"):
        full_disk(where)
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(saved, trainer)
        monkeypatch.undo()
        assert names_in(folders) == ["checkpoint", "resumed", "stopped", "straight"]
        assert load_policy(saved, policy())["env_step"] == before
    save_checkpoint(saved, trainer)
    assert load_policy(saved, policy())["env_step"] == trainer.env_step > before
    assert names_in(folders) == ["checkpoint", "resumed", "stopped", "straight"]


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


# -- what a kill or a full disk leaves behind --------------------------------------------------------------------------
def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_was_left_of_an_attempt_is_no_part_of_the_next(tmp_path):
    trainer = off_policy(tmp_path)
    (tmp_path / "checkpoint.new").mkdir()
    (tmp_path / "checkpoint.new" / "given_buffer.snapshot").write_bytes(b"left over")
    save_checkpoint(tmp_path / "checkpoint", trainer)
    assert names_in(tmp_path / "checkpoint") == [
        "buffer.snapshot",
        "checkpoint.json",
        "policy.safetensors",
        "training_state.json",
        "training_state.safetensors",
    ]
    assert names_in(tmp_path) == ["checkpoint"]


def test_of_two_that_are_whole_the_newer_counts(folders, saved):
    """A kill between the last rename and the removal of the old one leaves both."""
    trainer = off_policy(folders / "resumed")
    load_checkpoint(saved, trainer)
    shutil.copytree(saved, folders / "checkpoint.old")
    trainer.run()
    shutil.copytree(folders / "checkpoint.old", folders / "kept")
    save_checkpoint(saved, trainer)
    shutil.copytree(folders / "kept", folders / "checkpoint.old")
    assert load_policy(saved, policy())["env_step"] == trainer.env_step
    save_checkpoint(saved, trainer)  # and what is old makes room
    assert not (folders / "checkpoint.old").exists()


def test_the_folders_above_are_made(tmp_path):
    save_checkpoint(tmp_path / "a" / "b" / "checkpoint", off_policy(tmp_path))
    assert names_in(tmp_path / "a" / "b") == ["checkpoint"]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere folders cannot be synchronized")
def test_all_is_on_disk_before_it_takes_the_place_of_the_old_one(folders, saved, monkeypatch):
    """After a power failure a name may lead to a file whose contents never came to the disk."""
    trainer, events = off_policy(folders / "resumed"), []
    sync, rename = os.fsync, os.rename

    def noted(descriptor):
        events.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "rename", lambda *paths: (events.append("rename"), rename(*paths)))
    save_checkpoint(saved, trainer)
    first, last = events.index("rename"), len(events) - events[::-1].index("rename")
    ours = [path for path in saved.iterdir() if path.suffix != ".snapshot"]  # the engine synchronizes its own
    assert len(ours) == 4
    assert {path.stat().st_ino for path in [*ours, saved]} <= {*events[:first]}
    assert events[last:] == [folders.stat().st_ino]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux lists the files that a process has open")
def test_saving_leaves_no_file_open(folders, saved):
    trainer = off_policy(folders / "resumed")
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(3):
        save_checkpoint(saved, trainer)
    assert len([*Path("/proc/self/fd").iterdir()]) == before


# -- what is in the files ----------------------------------------------------------------------------------------------
def test_the_head_is_for_people_to_read(saved):
    text = (saved / "checkpoint.json").read_text()
    head = json.loads(text)
    assert text == json.dumps(head, indent=2) + "\n"
    assert [*head] == [
        "version", "policy", "trainer", "epoch", "env_step", "gradient_step", "buffer", "over", "checksums",
    ]  # fmt: skip
    assert (head["policy"], head["trainer"], head["buffer"]) == ("Normalising", "OffpolicyTrainer", True)
    assert head["epoch"] == 1
    assert [*head["checksums"]] == ["policy.safetensors", "training_state.json", "training_state.safetensors"]


def test_weights_may_lie_in_memory_in_any_order(folders):
    def make(seed):
        trainer = off_policy(folders / "stopped", seed)
        trainer.policy.register_buffer("table", torch.arange(6.0).reshape(2, 3).T + seed)
        return trainer

    first, other = make(0), make(1)
    assert not first.policy.table.is_contiguous()
    save_checkpoint(folders / "checkpoint", first)
    load_checkpoint(folders / "checkpoint", other)
    assert torch.equal(other.policy.table, first.policy.table)


def seal(folder, name, content):
    """Writes a file of a checkpoint with a valid checksum."""
    head = json.loads((folder / "checkpoint.json").read_text())
    head["checksums"][name] = zlib.crc32(content)
    (folder / name).write_bytes(content)
    (folder / "checkpoint.json").write_text(json.dumps(head))


def refusal(folder, trainer):
    with pytest.raises(ValueError, match=r".") as error:
        load_checkpoint(folder, trainer)
    return str(error.value)


@pytest.mark.parametrize("names", [["epoch"], ["policy", "checksums"], ["buffer"], ["env_step", "gradient_step"]])
@pytest.mark.parametrize("value", [None, "gone", 1.5])
def test_a_head_without_a_part_says_which(folders, saved, names, value):
    path, head = saved / "checkpoint.json", json.loads((saved / "checkpoint.json").read_text())
    wrong = [name for name in names if not (name == "policy" and value == "gone")]  # any text may be a name
    changed = {**head, **dict.fromkeys(wrong, value)}
    path.write_text(json.dumps({name: one for name, one in changed.items() if one is not None}))
    expected = f"{path} is damaged: it has no {', '.join(wrong)}, or one of another type"
    assert refusal(saved, off_policy(folders / "resumed")) == expected


@pytest.mark.parametrize("content", ["[]", '"version"', "{}", "\udcff", "[" * 100_000])
def test_a_head_that_is_nothing_of_the_kind(folders, saved, content):
    (saved / "checkpoint.json").write_bytes(content.encode(errors="surrogateescape"))
    assert refusal(saved, off_policy(folders / "resumed")).startswith(f"{saved / 'checkpoint.json'} is damaged: ")


def test_what_is_damaged_is_named(folders, saved):
    trainer = off_policy(folders / "resumed")
    whole = (saved / "policy.safetensors").read_bytes()
    (saved / "policy.safetensors").write_bytes(whole[:-1])
    assert refusal(saved, trainer) == f"{saved / 'policy.safetensors'} is damaged: its checksum differs"
    seal(saved, "policy.safetensors", whole[:-1])
    assert refusal(saved, trainer).startswith(
        f"{saved / 'policy.safetensors'} is damaged, or of another run: its contents cannot be read: SafetensorError("
    )
    (saved / "policy.safetensors").unlink()
    assert refusal(saved, trainer).startswith(f"{saved / 'policy.safetensors'} is missing: ")


@pytest.mark.parametrize("content", [b"[]", b'{"policy": {}}', b'{"policy": {}, "trainer": 3}', b'{"trainer": {}}'])
def test_a_state_that_is_nothing_of_the_kind(folders, saved, content):
    seal(saved, "training_state.json", content)
    expected = f"{saved / 'training_state.json'} is damaged: it does not hold the state of a policy and of a trainer"
    assert refusal(saved, off_policy(folders / "resumed")) == expected


@pytest.mark.parametrize("name", ["training_state.json", "training_state.safetensors"])
def test_a_state_that_cannot_be_read(folders, saved, name):
    seal(saved, name, b"\xff{")
    assert refusal(saved, off_policy(folders / "resumed")).startswith(
        f"{saved / 'training_state.json'} is damaged, or of another run: its contents cannot be read: "
    )


def test_other_networks_are_told_apart_by_a_few_names(folders, saved):
    other = off_policy(folders / "resumed", sizes=(8, 8, 8))
    names = sorted(
        {*tensors_file.load((saved / "policy.safetensors").read_bytes())}
        ^ {name for name in other.policy.state_dict() if not name.endswith("_extra_state")}
    )
    assert len(names) > 5
    expected = f"{saved} is of another network: only one of the two has {', '.join(names[:5])}"
    assert refusal(saved, other) == expected


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (torch.Tensor.double, "{saved} is of another network: {name} is float64 (8, 4) there and float32 (8, 4) here"),
        (
            lambda weight: weight.index_fill(0, torch.tensor([3]), torch.nan),
            "{name} of {saved} holds NaN: training has diverged, or something else wrote it",
        ),
    ],
)
def test_wrong_weights_are_named(folders, saved, harm, message):
    weights = tensors_file.load((saved / "policy.safetensors").read_bytes())
    name = next(name for name, value in weights.items() if value.shape == (8, 4))
    seal(saved, "policy.safetensors", tensors_file.save({**weights, name: harm(weights[name])}))
    assert refusal(saved, off_policy(folders / "resumed")) == message.format(saved=saved, name=name)


def test_weights_that_hold_nan_are_not_saved(folders, saved):
    trainer = off_policy(folders / "resumed")
    name, weight = next(iter(trainer.policy.named_parameters()))
    weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match="holds NaN") as error:
        save_checkpoint(saved, trainer)
    assert str(error.value).startswith(f"{name} of the policy holds NaN: ")
    load_policy(saved, policy())  # the old one


def test_a_table_of_a_policy_may_hold_nan(folders):
    def make(seed):
        trainer = off_policy(folders / "stopped", seed)
        trainer.policy.register_buffer("best", torch.full((2,), torch.nan if seed == 0 else 1.0))
        return trainer

    save_checkpoint(folders / "checkpoint", make(0))
    other = make(1)
    load_checkpoint(folders / "checkpoint", other)
    assert other.policy.best.isnan().all()


# -- optimizers --------------------------------------------------------------------------------------------------------
def changed_optimizer(folder, trainer, harm):
    """Changes the optimizer's state in a checkpoint."""
    load_checkpoint(folder, trainer)
    extra = trainer.policy.state_dict()["_extra_state"]
    (optim,) = extra["optimizers"].values()
    harm(optim)
    text, arrays = pack({"policy": {"_extra_state": extra}, "trainer": trainer.state_dict()})
    seal(folder, "training_state.json", text.encode())
    seal(folder, "training_state.safetensors", arrays_file.save(arrays))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda one: one["state"][0].update(exp_avg=torch.zeros(3)), "exp_avg of an optimizer is (3,) for (8, 4)"),
        (lambda one: one["state"][0].update(exp_avg=torch.zeros(2)), "exp_avg of an optimizer is (2,) for (8, 4)"),
        (lambda one: one["state"][1].update(exp_avg={"a": 1}), "exp_avg of an optimizer cannot be {'a': 1}"),
        (lambda one: one["param_groups"][0].update(lr="fast"), "lr of an optimizer cannot be 'fast'"),
        (lambda one: one["param_groups"][0].update(eps=["y" * 99]), "eps of an optimizer cannot be ['" + 48 * "y"),
        (lambda one: one["param_groups"][0].pop("lr"), "KeyError('lr')"),
    ],
)
def test_an_optimizer_of_another_kind(folders, saved, harm, message):
    trainer = off_policy(folders / "resumed")
    changed_optimizer(saved, trainer, harm)
    assert (
        refusal(saved, trainer) == f"{saved} is damaged, or of another run: its training state does not fit: {message}"
    )
    with pytest.raises(ValueError, match="does not fit") as error:
        load_policy(saved, trainer.policy)
    wanted = f"{saved} is damaged, or of another run: the policy's state does not fit: {message}"
    assert str(error.value) == wanted


@pytest.mark.parametrize("value", [torch.tensor(7.0), 7, 7.0, None, [7], torch.tensor([7.0])])
def test_what_optimizers_note_beside_tensors_of_the_parameters_is_theirs(folders, saved, value):
    trainer = off_policy(folders / "resumed")
    changed_optimizer(saved, trainer, lambda one: one["state"][0].update(note=value))
    assert load_checkpoint(saved, trainer) == []


def test_an_optimizer_may_keep_all_parameters_in_one_tensor(folders):
    def make(seed):
        trainer = off_policy(folders / "stopped", seed)
        trainer.policy.quasi_newton = torch.optim.LBFGS(trainer.policy.model.parameters(), history_size=3, max_iter=2)
        return trainer

    first, other = make(0), make(1)

    def closure():
        first.policy.quasi_newton.zero_grad()
        loss = sum(one.square().sum() for one in first.policy.model.parameters())
        loss.backward()
        return loss

    first.policy.quasi_newton.step(closure)
    save_checkpoint(folders / "checkpoint", first)
    assert load_checkpoint(folders / "checkpoint", other) == []
    ours, theirs = (next(iter(one.policy.quasi_newton.state.values())) for one in (other, first))
    assert torch.equal(ours["d"], theirs["d"])


def test_a_name_that_torch_adds_to_the_defaults_alone_hides_no_other():
    optim = torch.optim.LBFGS([torch.zeros(2, requires_grad=True)])
    optim.defaults = {"differentiable": False, "lr": 1.0}
    (group,) = optim.param_groups
    group.pop("differentiable", None)
    owner = SimpleNamespace(_all_optimizers=lambda: [optim])
    _check_optimizers(owner)
    group["lr"] = "fast"
    with pytest.raises(ValueError, match="lr of an optimizer cannot be 'fast'"):
        _check_optimizers(owner)


# -- going back --------------------------------------------------------------------------------------------------------
def test_what_cannot_be_put_back_is_said_beside_what_went_wrong(folders, saved, monkeypatch):
    trainer = off_policy(folders / "resumed")

    def fails(state):
        raise ValueError("twice")

    monkeypatch.setattr(trainer, "load_state_dict", fails)
    with pytest.raises(ValueError, match="its training state does not fit: twice") as error:
        load_checkpoint(saved, trainer)
    inner = error.value.__cause__ or error.value
    notes = [*getattr(error.value, "__notes__", []), *getattr(inner, "__notes__", [])]
    assert notes == ["(what the trainer was could not be put back: ValueError('twice'))"]


def test_what_could_not_be_saved_again_is_not_restored(folders, saved, monkeypatch):
    trainer = off_policy(folders / "resumed", seed=4)
    before, load = whole_state(trainer), trainer.load_state_dict

    def spoils(state):
        lost = load(state)
        monkeypatch.setattr(trainer, "state_dict", lambda: {"rows": memoryview(b"")})
        return lost

    monkeypatch.setattr(trainer, "load_state_dict", spoils)
    assert refusal(saved, trainer).startswith(
        f"{saved} is damaged, or of another run: its training state does not fit: "
    )
    monkeypatch.undo()
    assert whole_state(trainer) == before


def test_an_interrupt_while_loading_puts_back(folders, saved, monkeypatch):
    trainer = off_policy(folders / "resumed", seed=4)
    before, load = whole_state(trainer), trainer.load_state_dict
    calls = []

    def interrupted(state):
        calls.append(state)
        lost = load(state)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return lost

    monkeypatch.setattr(trainer, "load_state_dict", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_checkpoint(saved, trainer)
    assert whole_state(trainer) == before


def test_a_policy_alone_is_put_back_after_an_interrupt(saved, monkeypatch):
    other = policy(5)
    before = pack(dict(other.state_dict()))

    def interrupted(_policy):
        raise KeyboardInterrupt

    monkeypatch.setattr("rlfast.experiment.checkpoint._check_optimizers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_policy(saved, other)
    assert repr(pack(dict(other.state_dict()))) == repr(before)


class Elsewhere(VectorReplayBuffer):
    """A buffer that restores itself, as one whose rows are in other processes does."""

    def prepare_restore(self, path):
        self.restored = [path]
        return lambda: self.restored.append("now")


def test_a_buffer_may_restore_itself(folders, saved):
    trainer = off_policy(folders / "resumed", buffer=Elsewhere)
    assert load_checkpoint(saved, trainer) == []
    assert trainer.train_collector.buffer.restored == [saved / "buffer.snapshot", "now"]
    assert len(trainer.train_collector.buffer) == 0
