import hashlib
import json
import os
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlfast.experiment.checkpoint import load_checkpoint
from rlfast.experiment.dqn import build
from rlfast.experiment.folder import read_config
from rlfast.experiment.run import ConfigError, train
from rlfast.trainer import BaseTrainer
from rlfast.utils.logger import CSVLogger


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
        "checkpoint",
        "learning_curve.png",
    }
    assert {path.name for path in (run_dir / "checkpoint").iterdir()} == {
        "policy.safetensors",
        "training_state.pt",
        "counters.json",
    }
    assert (result.env_step, result.interrupted) == (200, False)
    tests = [row for row in CSVLogger(run_dir / "metrics.csv").rows() if row["scope"] == "test"]
    assert [int(row["step"]) for row in tests] == [0, 100, 180, 200]  # 20 random steps, then epochs of 80
    assert float(tests[-1]["test/returns_stat/mean"]) == result.test.returns_stat.mean
    events = EventAccumulator(str(run_dir))
    events.Reload()
    assert [event.step for event in events.Scalars("test/returns_stat/mean")] == [0, 100, 180, 200]
    counters = json.loads((run_dir / "checkpoint" / "counters.json").read_text())
    assert counters["env_step"] == 200
    assert counters["gradient_step"] == result.info.gradient_step == 45


def test_the_checkpoint_is_the_policy_that_was_tested(tiny, run_dir):
    result = train(tiny())
    parts = build(read_config(run_dir))
    load_checkpoint(run_dir / "checkpoint", parts.policy)
    assert parts.policy.eval()(run_batch()).act.shape == (1,)
    assert parts.policy._iter == result.info.gradient_step
    parts.close()


def run_batch():
    from rlfast.data import Batch

    return Batch(obs=np.zeros((1, 4), np.float32), info={})


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("options", [{}, {"prioritized": True, "n_step": 1, "dueling": True, "double": False}])
def test_the_same_seed_gives_the_same_parameters(tiny, tmp_path, options):
    hashes = []
    for number, seed in enumerate((3, 3, 4)):
        np.random.seed(number)  # what else a process did must not matter
        torch.manual_seed(number)
        result = train(tiny(seed=seed, run_dir=tmp_path / str(number), **options))
        hashes.append(parameter_hash(result.run_dir))
    sys.stdout.write(f"parameters of seeds 3, 3 and 4 with {options}: {hashes}\n")
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_configuration_written_repeats_the_run(tiny, run_dir, tmp_path):
    train(tiny(seed=6))
    again = train(replace(read_config(run_dir), run_dir=tmp_path / "again"))
    assert parameter_hash(again.run_dir) == parameter_hash(run_dir)


@pytest.mark.parametrize("max_steps", [1, 19, 20, 21, 103])
def test_steps_are_exact(tiny, run_dir, max_steps):
    result = train(tiny(max_steps=max_steps))
    assert result.env_step == result.info.train_step == max_steps
    assert json.loads((run_dir / "checkpoint" / "counters.json").read_text())["env_step"] == max_steps


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
    assert json.loads((run_dir / "checkpoint" / "counters.json").read_text())["env_step"] == 60
    assert (run_dir / "learning_curve.png").exists()


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
        ({"env": "FrozenLake-v1"}, "DQN needs array observations"),
    ],
)
def test_what_cannot_run_is_said_before_a_folder_is_made(tiny, run_dir, changes, message):
    with pytest.raises(ConfigError, match=message):
        train(tiny(**changes))
    assert not run_dir.exists()


def test_nothing_is_overwritten(tiny, run_dir):
    train(tiny())
    before = parameter_hash(run_dir)
    with pytest.raises(ConfigError, match="is not empty"):
        train(tiny(seed=9))
    assert parameter_hash(run_dir) == before
