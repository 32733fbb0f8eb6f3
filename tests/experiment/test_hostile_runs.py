"""Files of a run with correct checksums and wrong contents raise the documented error and change nothing."""

import json
import os
import random
import signal
import zlib

import numpy as np
import pytest
import torch
from safetensors import numpy as arrays_file
from safetensors import torch as tensors_file

from faults.json_tree import nested, variants
from rlfast.cli import main
from rlfast.data.plain_data import pack
from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import load_checkpoint, load_policy, save_checkpoint
from rlfast.experiment.report.plot import learning_curve
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.experiment.run_dir import read_config
from rlfast.experiment.training import CheckpointSaver, make_trainer
from rlfast.utils.logger import CSVLogger, JSONLLogger, LazyLogger


def seal(folder, name, content):
    """Writes a file of a checkpoint with a valid checksum."""
    head = json.loads((folder / "checkpoint.json").read_text())
    head["checksums"][name] = zlib.crc32(content)
    (folder / name).write_bytes(content)
    (folder / "checkpoint.json").write_text(json.dumps(head))


@pytest.fixture
def run(tiny):
    """The folder of a run that stopped in an episode."""
    return train(tiny(max_steps=44)).run_dir


@pytest.fixture
def trainer(run):
    """A trainer like that of the run, at its beginning."""
    config = read_config(run)
    parts = build(config)
    yield make_trainer(config, parts, LazyLogger(), CheckpointSaver(config, run))
    parts.close()


def state(trainer):
    """Returns everything that a checkpoint may change."""
    text, arrays = pack(
        {"policy": dict(trainer.policy.state_dict()), "trainer": {**trainer.state_dict(), "seconds": 0}}
    )
    return text, {name: array.tobytes() for name, array in arrays.items()}, trainer.train_collector.buffer._core.dump()


def attack(trainer, checkpoint):
    """Loads a damaged checkpoint and returns whether that succeeded. An error must name it and change nothing."""
    before = state(trainer)
    try:
        load_checkpoint(checkpoint, trainer)
    except ValueError as error:
        assert str(checkpoint) in str(error), error  # noqa: PT017 (what else it is, is any of many)
        assert state(trainer) == before
        return False
    return True


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize("seed", range(3))
def test_a_changed_training_state(run, trainer, seed):
    checkpoint = run / "checkpoint"
    tree = json.loads((checkpoint / "training_state.json").read_text())
    refused = 0
    for text in variants(tree, 50, seed):
        seal(checkpoint, "training_state.json", text.encode())
        refused += not attack(trainer, checkpoint)
    assert refused > 20


@pytest.mark.pitfall("D7")
def test_a_changed_head(run, trainer):
    checkpoint = run / "checkpoint"
    tree = json.loads((checkpoint / "checkpoint.json").read_text())
    refused = 0
    for text in variants(tree, 80, 1):
        (checkpoint / "checkpoint.json").write_text(text)
        refused += not attack(trainer, checkpoint)
    assert refused > 40


@pytest.mark.pitfall("D7")
def test_changed_arrays_of_the_training_state(run, trainer):
    checkpoint, chance = run / "checkpoint", random.Random(2)
    arrays = arrays_file.load((checkpoint / "training_state.safetensors").read_bytes())
    harms = [
        lambda a: a.astype(np.float32),
        lambda a: a.reshape(-1)[:-1].copy(),
        lambda a: np.full_like(a, np.array(-1).astype(a.dtype)),
        lambda a: a[None],
        lambda a: np.zeros(0),
    ]
    for _ in range(60):
        name = chance.choice([*arrays])
        content = arrays_file.save({**arrays, name: chance.choice(harms)(arrays[name])})
        seal(checkpoint, "training_state.safetensors", content)
        attack(trainer, checkpoint)
    seal(checkpoint, "training_state.safetensors", b"\x08" + bytes(7) + b"{}      ")
    assert not attack(trainer, checkpoint)
    seal(checkpoint, "training_state.safetensors", b"no tensors")
    assert not attack(trainer, checkpoint)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda w: w.double(), r"float64 \(8, 4\) there and float32 \(8, 4\) here"),
        (lambda w: w.long(), r"int64 \(8, 4\) there"),
        (lambda w: w.index_fill(0, torch.tensor(3), torch.nan), "holds NaN"),
        (lambda w: w[:4].contiguous(), r"\(4, 4\) there and \(8, 4\) here"),
    ],
)
def test_weights_of_another_kind(run, trainer, harm, message):
    weights = tensors_file.load((run / "checkpoint" / "policy.safetensors").read_bytes())
    name = next(name for name, value in weights.items() if value.shape == (8, 4))
    seal(run / "checkpoint", "policy.safetensors", tensors_file.save({**weights, name: harm(weights[name])}))
    with pytest.raises(ValueError, match=message):
        load_checkpoint(run / "checkpoint", trainer)
    assert not attack(trainer, run / "checkpoint")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda optim: optim["state"][0].update(exp_avg=torch.zeros(3)), r"exp_avg of an optimizer is \(3,\) for"),
        (lambda optim: optim["state"][0].update(exp_avg={"a": 1}), "exp_avg of an optimizer cannot be"),
        (lambda optim: optim["param_groups"][0].update(lr="fast"), "lr of an optimizer cannot be 'fast'"),
        (lambda optim: optim["param_groups"][0].pop("lr"), "lr"),
    ],
)
def test_optimizers_of_another_kind(run, trainer, harm, message):
    load_checkpoint(run / "checkpoint", trainer)
    policy = dict(trainer.policy.state_dict())
    (optim,) = policy["_extra_state"]["optimizers"].values()
    harm(optim)
    text, arrays = pack({"policy": {"_extra_state": policy["_extra_state"]}, "trainer": trainer.state_dict()})
    seal(run / "checkpoint", "training_state.json", text.encode())
    seal(run / "checkpoint", "training_state.safetensors", arrays_file.save(arrays))
    with pytest.raises(ValueError, match=message):
        load_checkpoint(run / "checkpoint", trainer)
    with pytest.raises(ValueError, match=message):
        load_policy(run / "checkpoint", trainer.policy)
    assert not attack(trainer, run / "checkpoint")


def test_weights_that_are_nan_do_not_replace_a_checkpoint(run, trainer):
    load_checkpoint(run / "checkpoint", trainer)
    before = {path.name: path.read_bytes() for path in (run / "checkpoint").iterdir()}
    next(trainer.policy.parameters()).data[0] = torch.nan
    with pytest.raises(ValueError, match="of the policy holds NaN: training has diverged"):
        save_checkpoint(run / "checkpoint", trainer)
    assert {path.name: path.read_bytes() for path in (run / "checkpoint").iterdir()} == before


def end(capsys, *arguments):
    """Returns the exit status of a command, which must print its error in one line."""
    status = main([*map(str, arguments)])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert shown.err.count("\n") <= 1, shown.err
    return status


@pytest.mark.pitfall("D7")
def test_changed_settings(run, capsys):
    tree = json.loads((run / "config.json").read_text())
    for text in variants(tree, 80, 3):
        (run / "config.json").write_text(text)
        try:
            config = read_config(run)
        except ValueError as error:
            assert str(run) in str(error)  # noqa: PT017 (likewise)
            assert end(capsys, "eval", run) == end(capsys, "train", "--resume", run) == 2
        else:
            assert config.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_sizes": [2**40]},
        {"hidden_sizes": [2**62]},
        {"hidden_sizes": [10**30]},
        {"hidden_sizes": "64"},
        {"env": "NoSuchEnv-v0"},
        {"env": "Pendulum-v1"},
        {"env": ""},
        {"device": "banana"},
        {"device": "meta"},
        {"num_envs": "8"},
        {"buffer_size": 2**62},
        {"seed": None},
        {"eval_envs": True},
        {"backend": ["auto"]},
        {"learning_rate": float("nan")},
    ],
)
def test_settings_that_cannot_be_meant(run, capsys, change):
    content = json.loads((run / "config.json").read_text())
    content["config"] |= change
    (run / "config.json").write_text(json.dumps(content))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert end(capsys, "train", "--resume", run, "--no-progress") == 2
    if "buffer_size" not in change:  # which playing does not need
        assert end(capsys, "eval", run, "--episodes", "1") == 2
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("test/returns_stat/mean", "something/else"),
        lambda text: text.replace("step", "stop"),
        lambda text: text.replace("scope", "scape"),
        lambda text: text.replace(",44,", ",forty-four,"),
        lambda text: text.replace(",44,", ",nan,"),
        lambda text: text.replace("save/epoch", "sieve/epoch"),
        lambda text: text.replace("\n", ",1\n"),
        lambda text: '"' + text,
        lambda text: "\0" * 50 + "\n" + text,
    ],
)
def test_changed_metrics(run, capsys, change):
    path = run / "metrics.csv"
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))
    assert end(capsys, "plot", run, "--out", run / "x.png") in (0, 2)
    try:
        CSVLogger(path).restore_data()
        learning_curve(run)
    except ValueError as error:
        assert "metrics.csv is damaged" in str(error)  # noqa: PT017 (likewise)


@pytest.mark.parametrize("line", ["5", "[]", '{"scope": "test"}', nested(100_000), "{", '{"scope": "save", "step": 1}'])
def test_changed_lines_of_json(run, line):
    path = run / "metrics.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl is damaged"):
        JSONLLogger(path).restore_data()


@pytest.mark.parametrize("name", ["config.json", "learning_curve.png", "error.log"])
def test_links_in_a_run_folder_are_not_written_through(run, tmp_path, monkeypatch, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes((run / name).read_bytes() if name == "config.json" else b"precious")
    kept = elsewhere.read_bytes()
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(elsewhere)
    if name == "error.log":
        monkeypatch.setattr("rlfast.policy.DQNPolicy.learn", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            resume(run, max_steps=60)
    else:
        resume(run, max_steps=60)
    assert elsewhere.read_bytes() == kept
    assert not (run / name).is_symlink()
    assert not list(run.glob(".*"))


LOGS = ["metrics.csv", "metrics.jsonl", "events"]
READ = ["metrics.csv", "events", "config.json", "checkpoint/checkpoint.json", "checkpoint/buffer.snapshot"]


@pytest.mark.parametrize(("name", "kind"), [*((name, "pipe") for name in READ), ("metrics.jsonl", "device")])
def test_what_is_no_file_is_refused_and_not_waited_for(run, capsys, name, kind):
    path = next(run.glob("events*")) if name == "events" else run / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    signal.alarm(60)
    assert end(capsys, "train", "--resume", run, "--max-steps", "60", "--no-progress") == 2
    if name in ("config.json", "checkpoint/checkpoint.json"):
        assert end(capsys, "eval", run, "--episodes", "1") == 2
    if name == "metrics.csv":
        assert end(capsys, "plot", run, "--out", run / "x.png") == 2
    signal.alarm(0)
    assert path.is_fifo() or path.is_dir() or path.is_symlink()


@pytest.mark.parametrize("name", ["metrics.csv", "events"])
def test_logs_with_other_names_are_refused(run, tmp_path, name):
    path = next(run.glob("events*")) if name == "events" else run / name
    (tmp_path / "elsewhere").hardlink_to(path)
    kept = path.read_bytes()
    with pytest.raises(ConfigError, match=r"has other names \(hard links\).* resume the copy"):
        resume(run, max_steps=60)
    assert (tmp_path / "elsewhere").read_bytes() == kept


@pytest.mark.parametrize("name", LOGS)
def test_logs_that_are_links_are_refused(run, tmp_path, name):
    path = next(run.glob("events*")) if name == "events" else run / name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    kept = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(ConfigError, match="is a symbolic link, and going on would change what it leads to"):
        resume(run, max_steps=60)
    assert (tmp_path / "elsewhere").read_bytes() == kept
