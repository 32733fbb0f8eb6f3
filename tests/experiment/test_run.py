import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlfast.cli.runs.reporting import report
from rlfast.data import VectorReplayBuffer
from rlfast.experiment import ALGORITHMS, evaluate
from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import save_checkpoint
from rlfast.experiment.config import DataConfig, OnPolicyConfig, RunWarning
from rlfast.experiment.gather import gather
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.experiment.run_dir import read_config
from rlfast.policy.modelfree.dqn import DQNTrainingStats
from rlfast.trainer import BaseTrainer
from rlfast.utils.arguments.checks import NonFiniteError
from rlfast.utils.logger import CSVLogger, JSONLLogger, LogWarning


def parameter_hash(run_dir):
    digest = hashlib.sha256()
    for name, value in sorted(load_file(run_dir / "checkpoint" / "policy.safetensors").items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:16]


def test_the_run_folder_holds_what_it_promises(tiny, run_dir):
    result = train(tiny())
    assert {path.name for path in run_dir.iterdir() if not path.name.startswith("events")} == {
        "config.json",
        "metrics.csv",
        "metrics.jsonl",
        "best",
        "checkpoint",
        "learning_curve.png",
    }
    assert {path.name for path in (run_dir / "checkpoint").iterdir()} == {
        "policy.safetensors",
        "training_state.json",
        "training_state.safetensors",
        "buffer.snapshot",
        "checkpoint.json",
    }
    assert (result.env_step, result.interrupted) == (200, False)
    tests = [row for row in CSVLogger(run_dir / "metrics.csv").rows() if row["scope"] == "test"]
    assert [int(row["step"]) for row in tests] == [0, 100, 180, 200]  # 20 random steps, then epochs of 80
    assert float(tests[-1]["test/returns_stat/mean"]) == result.test.returns_stat.mean
    lines = JSONLLogger(run_dir / "metrics.jsonl").rows()
    assert [line["step"] for line in lines if line["scope"] == "test"] == [0, 100, 180, 200]
    events = EventAccumulator(str(run_dir))
    events.Reload()
    assert [event.step for event in events.Scalars("test/returns_stat/mean")] == [0, 100, 180, 200]
    counters = json.loads((run_dir / "checkpoint" / "checkpoint.json").read_text())
    assert counters["env_step"] == 200
    assert counters["gradient_step"] == result.info.gradient_step == 45


def test_returns_and_losses_are_logged_from_the_beginning(tiny, run_dir):
    train(tiny(max_steps=1000, updates_per_step=0.5))  # 490 gradient steps
    rows = CSVLogger(run_dir / "metrics.csv").rows()
    steps = {scope: [int(row["step"]) for row in rows if row["scope"] == scope] for scope in ("train", "update")}
    assert len(steps["train"]) == 4
    assert np.diff(steps["train"]).min() >= 200
    assert steps["update"][0] >= 99
    assert np.diff(steps["update"]).min() >= 100
    assert len(steps["update"]) == 4


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("options", [{}, {"prioritized": True, "n_step": 1, "dueling": True, "double": False}])
def test_the_same_seed_gives_the_same_parameters(tiny, tmp_path, options):
    hashes, drawn = [], []
    for number, seed in enumerate((3, 3, 4)):
        np.random.seed(number)  # what else a process did must not matter
        torch.manual_seed(number)
        random.seed(number)
        result = train(tiny(seed=seed, run_dir=tmp_path / str(number), **options))
        hashes.append(parameter_hash(result.run_dir))
        drawn.append((random.random(), np.random.random()))  # what environments may use that know no other stream
    sys.stdout.write(f"parameters of seeds 3, 3 and 4 with {options}: {hashes}\n")
    assert hashes[0] == hashes[1] != hashes[2]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_configuration_written_repeats_the_run(tiny, run_dir, tmp_path):
    train(tiny(seed=6))
    again = train(replace(read_config(run_dir), run_dir=tmp_path / "again"))
    assert parameter_hash(again.run_dir) == parameter_hash(run_dir)


@pytest.mark.filterwarnings("ignore:nothing is learned")
@pytest.mark.parametrize("max_steps", [1, 19, 20, 21, 103])
def test_steps_are_exact(tiny, run_dir, max_steps):
    result = train(tiny(max_steps=max_steps))
    assert result.env_step == result.info.train_step == max_steps
    assert json.loads((run_dir / "checkpoint" / "checkpoint.json").read_text())["env_step"] == max_steps


def test_it_stops_at_the_return_asked_for(tiny):
    result = train(tiny(stop_return=1.0, max_steps=10_000))
    assert result.env_step == 100  # the first test after an update
    assert result.reached
    assert "over 3 test episodes, reached 1" in result.summary()


def test_the_summary_is_honest(tiny):
    result = train(tiny(stop_return=1e9))
    assert not result.reached
    text = result.summary()
    assert "below 1e+09" in text
    assert "environment steps   200" in text
    assert str(result.run_dir) in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_keeps_it(tiny, run_dir, monkeypatch, number):
    collect = BaseTrainer.train_step

    def interrupted(self):
        result = collect(self)
        if self.env_step >= 60:
            os.kill(os.getpid(), number)
        return result

    monkeypatch.setattr(BaseTrainer, "train_step", interrupted)
    result = train(tiny(max_steps=100_000))
    assert result.interrupted
    assert result.env_step == 60
    assert "interrupted" in result.summary()
    assert json.loads((run_dir / "checkpoint" / "checkpoint.json").read_text())["env_step"] == 60
    assert (run_dir / "learning_curve.png").exists()


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_while_the_run_is_saved_at_its_end(tiny, run_dir, monkeypatch, signals):
    """The first changes nothing any more; the second ends the saving, and the checkpoint before it stays."""

    def interrupted(folder, trainer, **options):
        if trainer.is_over:
            for _ in range(signals):
                os.kill(os.getpid(), signal.SIGTERM)
        save_checkpoint(folder, trainer, **options)

    monkeypatch.setattr("rlfast.experiment.training.save_checkpoint", interrupted)
    result = train(tiny())
    assert (result.env_step, result.interrupted) == (200, signals == 2)
    assert result.unsaved == (None if signals == 1 else "it was interrupted at once")
    saved = json.loads((run_dir / "checkpoint" / "checkpoint.json").read_text())
    assert saved["env_step"] == 200  # of the end, or of just before the last test
    assert not (run_dir / "checkpoint.new").exists()


def best(run_dir):
    return {path.name: path.read_bytes() for path in (run_dir / "best").iterdir()}


_OF_MACHINES = re.compile("time|speed|peak_memory")


def metrics(run_dir):
    rows = CSVLogger(run_dir / "metrics.csv").rows(), JSONLLogger(run_dir / "metrics.jsonl").rows()
    return [[{k: v for k, v in row.items() if not _OF_MACHINES.search(k)} for row in one] for one in rows]


def scalars(run_dir):
    events = EventAccumulator(str(run_dir))
    events.Reload()
    tags = [tag for tag in events.Tags()["scalars"] if not _OF_MACHINES.search(tag)]
    # sorted: the files of one process and second are read in the order of their numbers as text, 10 before 9
    return {tag: sorted((event.step, event.value) for event in events.Scalars(tag)) for tag in tags}


def stopped_after(config, steps, monkeypatch):
    """A run that is told to stop once it has taken so many steps."""
    collect = BaseTrainer.train_step

    def stopping(self):
        result = collect(self)
        if self.env_step >= steps:
            self.stop()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(BaseTrainer, "train_step", stopping)
        return train(config)


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize("options", [{}, {"prioritized": True, "dueling": True}])
def test_a_run_that_was_stopped_goes_on_exactly(tiny, run_dir, tmp_path, monkeypatch, options):
    straight = train(tiny(run_dir=tmp_path / "straight", **options))
    assert stopped_after(tiny(**options), 90, monkeypatch).env_step < 100
    np.random.seed(5)
    torch.manual_seed(5)
    result = resume(run_dir)
    assert (result.env_step, result.interrupted) == (200, False)
    assert parameter_hash(run_dir) == parameter_hash(straight.run_dir)
    assert metrics(run_dir) == metrics(straight.run_dir)
    assert scalars(run_dir) == scalars(straight.run_dir)
    assert best(run_dir) == best(straight.run_dir)
    assert result.test.returns.tolist() == straight.test.returns.tolist()
    with pytest.warns(RunWarning, match="the run had ended at step 200: nothing was left to do"):
        again = resume(run_dir)
    assert (again.env_step, again.test.returns.tolist()) == (200, result.test.returns.tolist())
    assert parameter_hash(run_dir) == parameter_hash(straight.run_dir)
    assert resume(run_dir, max_steps=240).env_step == 240
    assert read_config(run_dir) == tiny(max_steps=240, **options)


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((one, {}) for one in ALGORITHMS if not issubclass(ALGORITHMS[one].config, DataConfig)),
        *((one, {"sde": True, "sde_sample_freq": 7}) for one in ("ppo", "sac")),
        ("a2c", {"sde": True, "recurrent": True}),
        ("sac", {"env": "Hopper-v5"}),
    ],
)
def test_so_does_one_of_another_algorithm(name, options, tmp_path, monkeypatch):
    size = {"num_envs": 2, "eval_episodes": 2, "eval_envs": 2, "eval_interval": 64, "hidden_sizes": (8,)}
    kind = ALGORITHMS[name].config
    if issubclass(kind, OnPolicyConfig):
        more = {"collect_steps": 32} | ({} if name == "pqn" else {"env": "Pendulum-v1"})
    else:
        more = {"collect_steps": 8, "start_steps": 24, "updates_per_step": 0.5}
    special = {"redq": {"actor_delay": 3}, "droq": {"actor_delay": 3}, "ppo": {"clip_schedule": "linear"}}
    config = kind(
        max_steps=160,
        batch_size=8,
        progress=False,
        lr_schedule="exponential",
        **size,
        **more,
        **special.get(name, {}) | options,
    )
    straight = train(replace(config, run_dir=tmp_path / "straight"))
    stopped_after(replace(config, run_dir=tmp_path / "stopped"), 90, monkeypatch)
    torch.manual_seed(5)
    assert resume(tmp_path / "stopped").env_step == 160
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize("optimizer", ["adam", "radam"])
def test_so_does_one_on_pictures_without_a_replay_buffer(optimizer, tmp_path, monkeypatch):
    config = ALGORITHMS["pqn"].config(
        env="Catch-v0",
        dtype="bfloat16",
        optimizer=optimizer,
        channels=(2, 4, 4),
        hidden_sizes=(8,),
        max_steps=128,
        num_envs=4,
        collect_steps=32,
        batch_size=16,
        eval_episodes=2,
        eval_envs=2,
        eval_interval=64,
        progress=False,
    )
    straight = train(replace(config, run_dir=tmp_path / "straight"))
    stopped_after(replace(config, run_dir=tmp_path / "stopped"), 90, monkeypatch)
    torch.manual_seed(5)
    assert resume(tmp_path / "stopped").env_step == 128
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize("number", [1, 2])
def test_a_run_killed_after_a_checkpoint_goes_on_exactly(tiny, run_dir, tmp_path, monkeypatch, number):
    saves, kept = 0, tmp_path / "kept"

    def save(folder, trainer, **options):
        nonlocal saves
        save_checkpoint(folder, trainer, **options)
        saves += 1
        if saves == number:
            shutil.copytree(folder, kept)

    with monkeypatch.context() as patch:
        patch.setattr("rlfast.experiment.training.save_checkpoint", save)
        train(tiny())
    straight = metrics(run_dir), scalars(run_dir), parameter_hash(run_dir), best(run_dir)
    shutil.rmtree(run_dir / "checkpoint")
    shutil.copytree(kept, run_dir / "checkpoint")
    resume(run_dir)
    assert (metrics(run_dir), scalars(run_dir), parameter_hash(run_dir), best(run_dir)) == straight


@pytest.mark.pitfall("F10")
def test_a_run_killed_before_its_first_checkpoint_begins_anew(tiny, run_dir, tmp_path, monkeypatch):
    straight = train(tiny(run_dir=tmp_path / "straight"))
    collect = BaseTrainer.train_step

    def killed(self):
        if self.env_step >= 60:
            raise KeyboardInterrupt
        return collect(self)

    with monkeypatch.context() as patch:
        patch.setattr(BaseTrainer, "train_step", killed)
        assert train(tiny()).unsaved == "it was interrupted at once"
    assert not (run_dir / "checkpoint").exists()
    assert metrics(run_dir)[0]
    with pytest.warns(RunWarning, match="was stopped before its first checkpoint: it begins anew"):
        assert resume(run_dir).env_step == 200
    assert parameter_hash(run_dir) == parameter_hash(straight.run_dir)
    assert metrics(run_dir) == metrics(straight.run_dir)
    assert scalars(run_dir) == scalars(straight.run_dir)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "metrics.csv",
            r"metrics.csv has 0 rows of the \d+ that were written into it: logging continues without the others",
        ),
        ("metrics.jsonl", r"metrics.jsonl has 0 rows of the \d+ that were written into it"),
        ("events", r"events.* in .*: shorter than what was written, or gone; logging continues without that"),
    ],
)
@pytest.mark.parametrize("gone", [False, True])
def test_a_log_that_is_shorter_than_its_checkpoint(tiny, run_dir, monkeypatch, name, message, gone):
    stopped_after(tiny(), 90, monkeypatch)
    path = next(run_dir.glob("events*")) if name == "events" else run_dir / name
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    path.write_bytes(content[:100] if name == "events" else b"".join(lines[: name == "metrics.csv"]))
    if gone:
        path.unlink()
    with pytest.warns(LogWarning, match=message):
        result = resume(run_dir)
    assert result.env_step == 200
    assert 200 in [int(row["step"]) for row in JSONLLogger(run_dir / "metrics.jsonl").rows() if row["scope"] == "test"]


def trained_on_cuda(run_dir):
    """The folder of a run as a machine with a GPU leaves it."""
    content = json.loads((run_dir / "config.json").read_text())
    content["config"]["device"] = "cuda:7"
    (run_dir / "config.json").write_text(json.dumps(content))


def test_a_run_from_a_gpu_goes_on_without_one(tiny, run_dir, tmp_path, monkeypatch):
    straight = train(tiny(run_dir=tmp_path / "straight"))
    stopped_after(tiny(), 90, monkeypatch)
    trained_on_cuda(run_dir)
    with pytest.warns(RunWarning, match="was trained on cuda:7, which is not here: the CPU takes over"):
        result = resume(run_dir)
    assert (result.env_step, result.config.device) == (200, "cpu")
    assert parameter_hash(run_dir) == parameter_hash(straight.run_dir)
    assert read_config(run_dir).device == "cuda:7"  # where it may go on the next time
    assert resume(run_dir, max_steps=240, device="cpu").env_step == 240
    assert read_config(run_dir).device == "cpu"
    with pytest.raises(ConfigError, match="--device cuda:9 cannot be used here"):
        resume(run_dir, max_steps=260, device="cuda:9")


@pytest.mark.parametrize("loss", [0.0, float("nan")])
def test_a_diverged_run_keeps_the_checkpoint_before(tiny, run_dir, monkeypatch, loss):
    stopped_after(tiny(), 90, monkeypatch)
    before = parameter_hash(run_dir)

    def diverging(self, batch, **_):
        next(self.model.parameters()).data[0] = torch.nan
        return DQNTrainingStats(loss=loss)

    monkeypatch.setattr("rlfast.policy.DQNPolicy.learn", diverging)
    if loss == 0:  # it hides from training what happened
        with pytest.warns(RunWarning, match="holds NaN: training has diverged"):
            assert "holds NaN" in resume(run_dir).unsaved
    else:
        with pytest.raises(NonFiniteError, match="loss is nan in an update of DQNPolicy"):
            resume(run_dir)
    assert parameter_hash(run_dir) == before


def test_a_run_without_its_buffer_says_so(tiny, run_dir, monkeypatch):
    stopped_after(tiny(save_buffer=False), 90, monkeypatch)
    with pytest.warns(RunWarning, match="not resumed exactly: the replay buffer was not saved"):
        assert resume(run_dir).env_step == 200


def test_a_checkpoint_that_cannot_be_written_stops_nothing(tiny, run_dir, monkeypatch, full_disk):
    stopped_after(tiny(), 90, monkeypatch)
    before = parameter_hash(run_dir)

    full_disk("rlfast.experiment.checkpoint._write")
    with pytest.warns(RunWarning, match="the checkpoint of step .* could not be written, the one before it stays"):
        result = resume(run_dir)
    assert result.env_step == 200
    assert "No space left" in result.unsaved
    assert parameter_hash(run_dir) == before


class Late(gym.Wrapper):
    """Has another kind of info from the sixtieth step on."""

    def __init__(self, first, later):
        super().__init__(gym.make("CartPole-v1"))
        self._infos, self._steps = (first, later), 0

    def step(self, action):
        self._steps += 1
        *rest, _ = self.env.step(action)
        return (*rest, {"k": deepcopy(self._infos[self._steps > 60])})


LATE = {"array": (np.zeros(2), np.zeros(3)), "dict": ({"x": 1}, 5), "words": (["a"], ["b", "c"]), "any": (1, object())}


def late(name):
    """Registers the environment whose infos change so, and returns its id."""
    gym.register(f"Late{name}-v0", partial(Late, *LATE[name]), max_episode_steps=50)
    return f"Late{name}-v0"


@pytest.mark.filterwarnings("ignore:.*promoted")
@pytest.mark.parametrize("name", ["array", "dict", "words"])
def test_a_run_with_promoted_infos_is_resumed(tiny, run_dir, monkeypatch, name):
    result = stopped_after(tiny(env=late(name)), 150, monkeypatch)
    assert result.env_step < 200
    assert result.unsaved is None
    assert resume(run_dir).env_step == 200
    buffer = VectorReplayBuffer.load(run_dir / "checkpoint" / "buffer.snapshot")
    kinds = {type(value) for value in buffer[:].info.k}
    assert kinds <= {np.ndarray, dict, int, np.int64, list}
    assert buffer.info.k.dtype == object


@pytest.mark.filterwarnings("ignore:.*promoted")
def test_objects_in_infos_leave_the_checkpoint_unsaved(tiny, run_dir):
    with pytest.warns(RunWarning, match=r"could not be written.*info\.k: .*, or train with save_buffer=False"):
        result = train(tiny(env=late("any")))
    assert result.env_step == 200
    assert "info.k" in result.unsaved


@pytest.mark.filterwarnings("ignore:the best policy:rlfast.experiment.config.RunWarning")
def test_a_first_checkpoint_that_cannot_be_written_leaves_none(tiny, full_disk, capsys):
    full_disk("rlfast.experiment.checkpoint._write")
    with pytest.warns(RunWarning, match="could not be written, and there is none before it: .*No space left"):
        result = train(tiny(max_steps=44))
    assert report(lambda: result) == 1
    assert "No space left on device; and there is none before it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("harm", "changes", "message"),
    [
        (lambda run: shutil.rmtree(run), {}, "is no run folder: it has no config.json"),
        (lambda run: shutil.rmtree(run / "checkpoint"), {}, "the checkpoint of .* is gone: put it back"),
        (lambda run: (run / "config.json").write_text("{"), {}, "config.json cannot be used"),
        (lambda run: edit(run / "config.json", '"dqn"', '"nqd"'), {}, "there is no algorithm 'nqd'"),
        (lambda run: edit(run / "checkpoint/checkpoint.json", "DQN", "PPO"), {}, "is of a PPOPolicy, not"),
        (lambda run: edit(run / "checkpoint/checkpoint.json", '"version": 4', '"version": 9'), {}, "of version 9"),
        (
            lambda run: (run / "checkpoint/checkpoint.json").write_text('{"version": 4}'),
            {},
            "it has no policy, trainer",
        ),
        (lambda run: (run / "metrics.csv").write_bytes(b"a,b\n1,2,3\n"), {}, "metrics.csv is damaged: its rows"),
        (lambda run: (run / "metrics.csv").write_bytes(b"\xff\n"), {}, "metrics.csv is damaged: 'utf-8'"),
        (
            lambda run: edit(run / "metrics.jsonl", '"', "'"),
            {},
            "metrics.jsonl is damaged: .* move it away to continue",
        ),
        (lambda run: None, {"max_steps": 0}, "--max-steps must be at least 1, got 0"),
        (lambda run: None, {"hidden_sizes": (9,)}, "of another network"),
        (lambda run: None, {"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_resumed_is_said_and_nothing_is_changed(tiny, run_dir, harm, changes, message):
    train(tiny(max_steps=40))
    harm(run_dir)
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file() and "events" not in path.name}
    with pytest.raises(ConfigError, match=message):
        resume(run_dir, **changes)
    assert {path: path.read_bytes() for path in before} == before


def edit(path, old, new):
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_two_processes_do_not_train_in_one_folder(tiny, run_dir):
    train(tiny(max_steps=40))
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    hold = "import sys; from pathlib import Path; from rlfast.experiment.run_dir import only_process\n"
    hold += "with only_process(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(run_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=r"another process is training in .*: let it end, or end it"):
            resume(run_dir, max_steps=60)
        assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == before
        other.kill()
    assert resume(run_dir, max_steps=60).env_step == 60


def test_an_error_leaves_its_traceback_in_the_folder(tiny, run_dir, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("in the update")

    monkeypatch.setattr("rlfast.policy.DQNPolicy.learn", broken)
    with pytest.raises(ZeroDivisionError):
        train(tiny())
    assert "in the update" in (run_dir / "error.log").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "NoSuchEnv-v0"}, "NoSuchEnv"),
        ({"env": "Pendulum-v1"}, "DQN needs discrete actions, and those of Pendulum-v1 are Box"),
        ({"env": "Blackjack-v1"}, "DQN needs observations that are arrays, numbers or dicts of these"),
    ],
)
def test_what_cannot_run_is_said_before_a_folder_is_made(tiny, run_dir, changes, message):
    with pytest.raises(ConfigError, match=message):
        train(tiny(**changes))
    assert not run_dir.exists()


def test_environments_of_a_run_that_cannot_begin_are_closed(tiny, run_dir):
    made = []

    def make_parts(*declared):
        made.append(build(*declared))
        return made[0]

    run_dir.mkdir()
    (run_dir / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        train(tiny(), make_parts=make_parts)
    assert made[0].train_collector.env.closed
    assert made[0].test_collector.env.closed


def test_a_bare_word_is_no_folder_for_rows(tiny, run_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"--storage disk is none of ram, lz4, zstd: write \./disk for a folder"):
        train(tiny(storage="disk"))
    assert not run_dir.exists()
    train(tiny(storage="./disk"))
    assert (tmp_path / "disk").is_dir()
    resume(run_dir, max_steps=208)
    train(tiny(storage="disk", run_dir=tmp_path / "other"))  # which is there now


def test_a_return_before_training_does_not_stop_it(tiny, run_dir, monkeypatch):
    returns = iter([9.0, 1.0, 2.0, 8.0])
    test = BaseTrainer._test

    def scripted(trainer):
        stats = test(trainer)
        trainer.last_test = replace(stats, returns_stat=replace(stats.returns_stat, mean=next(returns)))
        return trainer.last_test

    monkeypatch.setattr(BaseTrainer, "_test", scripted)
    result = train(tiny(stop_return=7.0, max_steps=400))
    assert (result.env_step, result.reached) == (260, True)
    with pytest.warns(RunWarning, match="ended at step 260, where a test reached 7: nothing was left to do"):
        resume(run_dir, max_steps=800)
    with pytest.warns(RunWarning, match="ended at step 260, where"):
        resume(run_dir, max_steps=8)
    assert read_config(run_dir) == tiny(stop_return=7.0, max_steps=400)  # as nothing was done
    with pytest.raises(ConfigError, match="a resumed run has its learning_rate from the checkpoint"):
        resume(run_dir, learning_rate=0.5)
    returns = iter([8.0, 9.5])
    again = resume(run_dir, stop_return=9.0)
    assert (again.env_step, again.reached, read_config(run_dir).stop_return) == (400, True, 9.0)


def scripted_tests(monkeypatch, *returns):
    """Makes tests have these mean returns, the first before training. Returns the weights at each."""
    coming, weights, test = iter(returns), [], BaseTrainer._test

    def scripted(trainer):
        stats = test(trainer)
        weights.append({name: value.clone() for name, value in trainer.policy.named_parameters()})
        trainer.last_test = replace(stats, returns_stat=replace(stats.returns_stat, mean=next(coming)))
        return trainer.last_test

    monkeypatch.setattr(BaseTrainer, "_test", scripted)
    return weights


@pytest.mark.parametrize(("returns", "step"), [([1, 9, 3, 8], 100), ([9, 9, 3, 8], 0), ([-9, -8, -7, -6], 200)])
def test_the_policy_with_the_best_test_is_kept(tiny, run_dir, monkeypatch, returns, step):
    weights = scripted_tests(monkeypatch, *map(float, returns))
    result = train(tiny())
    index = returns.index(max(returns))
    saved = load_file(run_dir / "best" / "policy.safetensors")
    assert all(saved[name].equal(value) for name, value in weights[index].items())
    assert (result.best["mean"], result.best["env_step"]) == (max(returns), step)
    assert f"best test           {max(returns):.1f} ± " in result.summary()
    assert f"at step {step}, kept in {run_dir / 'best'}" in result.summary()


def test_a_resumed_run_keeps_a_best_policy_that_is_newer_than_its_checkpoint(tiny, run_dir, monkeypatch):
    stopped_after(tiny(), 90, monkeypatch)
    edit_test(run_dir, mean=60.0)  # as of a test after the checkpoint, whose environments are not restored exactly
    kept = best(run_dir)
    scripted_tests(monkeypatch, 50.0, 20.0, 55.0)
    result = resume(run_dir)
    assert best(run_dir) == kept
    assert (result.best["mean"], result.info.best_reward) == (60.0, 55.0)
    (run_dir / "best" / "checkpoint.json").write_text("{}")
    monkeypatch.undo()
    scripted_tests(monkeypatch, 56.0)
    assert resume(run_dir, max_steps=208).best["mean"] == 56.0  # in the place of a damaged one


def edit_test(run_dir, **changes):
    path = run_dir / "best" / "checkpoint.json"
    head = json.loads(path.read_text())
    head["test"] |= changes
    path.write_text(json.dumps(head))


def test_a_run_of_an_older_version_keeps_its_next_best(tiny, run_dir, monkeypatch):
    stopped_after(tiny(), 90, monkeypatch)
    shutil.rmtree(run_dir / "best")
    scripted_tests(monkeypatch, 1.0, 2.0, 3.0, 1e6)
    result = resume(run_dir)
    assert result.best is None
    assert "best test" not in result.summary()
    monkeypatch.undo()
    scripted_tests(monkeypatch, 1e6, 1.0)
    assert resume(run_dir, max_steps=280).best["mean"] == 1e6


def test_a_run_that_begins_anew_has_no_best_policy_of_the_old_one(tiny, run_dir, monkeypatch):
    train(tiny())
    edit_test(run_dir, mean=1e9)
    shutil.rmtree(run_dir / "checkpoint")
    (run_dir / "metrics.csv").unlink()
    with pytest.warns(RunWarning, match="it begins anew"):
        result = resume(run_dir)
    assert result.best["mean"] < 1e6


def test_a_best_policy_that_cannot_be_written_stops_nothing(tiny, run_dir, full_disk):
    full_disk("rlfast.experiment.training.save_policy")
    with pytest.warns(RunWarning, match=r"the best policy, of step 0, could not be written to .*best: .*No space left"):
        result = train(tiny())
    assert (result.env_step, result.best) == (200, None)
    assert not (run_dir / "best").exists()


def test_a_folder_may_be_a_text(tiny, run_dir, tmp_path):
    train(tiny(max_steps=40))
    assert resume(str(run_dir), max_steps=60).env_step == 60
    assert len(evaluate(str(run_dir), 2).returns) == 2
    assert read_config(str(run_dir)).max_steps == 60
    assert gather(str(run_dir), 10, str(tmp_path / "rows")).n_collected_steps == 10


@pytest.mark.parametrize("name", ["policy.safetensors", "training_state.json", "buffer.snapshot"])
def test_a_missing_file_of_a_checkpoint_is_named(tiny, run_dir, name):
    train(tiny(max_steps=40))
    (run_dir / "checkpoint" / name).unlink()
    with pytest.raises(ConfigError, match=rf"checkpoint.{name} is missing: the checkpoint is incomplete"):
        resume(run_dir, max_steps=60)


def test_a_folder_that_cannot_be_written_is_named(tiny, run_dir, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file.run cannot be made: Not a directory; choose another --run-dir"):
        train(tiny(run_dir=tmp_path / "file" / "run"))
    train(tiny(max_steps=40))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="cannot be written to: copy the run to a folder of yours, and resume it"):
        resume(run_dir, max_steps=60)
    with pytest.raises(ConfigError, match="new cannot be written to: choose another --run-dir"):
        train(tiny(run_dir=tmp_path / "new"))


@pytest.mark.parametrize("storage", ["ram", "lz4", "zstd"])
def test_the_storage_of_the_buffer_changes_nothing_else(tiny, run_dir, storage):
    train(replace(tiny(), storage=storage))
    found, parts = parameter_hash(run_dir), build(read_config(run_dir))
    assert parts.train_collector.buffer._store.storage == storage
    parts.close()
    shutil.rmtree(run_dir)
    train(tiny())
    assert parameter_hash(run_dir) == found
