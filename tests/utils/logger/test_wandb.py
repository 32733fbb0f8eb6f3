import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from machine import PATIENCE
from rlfast.utils import WandbLogger

wandb = pytest.importorskip("wandb")

SCRIPT = """
import sys
from rlfast.utils import WandbLogger
from torch.utils.tensorboard import SummaryWriter
logger = WandbLogger(train_interval=10, update_interval=1, save_interval=1, project="p", name="n", config={"lr": 0.5})
assert logger.restore_data() == (0, 0, 0)
logger.load(SummaryWriter("tensorboard"))  # as Tianshou's scripts do
logger.log_train_data({"returns_stat": {"mean": 3.0}}, 10)
logger.log_train_data({"returns_stat": {"mean": 4.0}}, 15)  # within the interval
logger.log_test_data({"returns_stat": {"mean": 5.0}}, 20)
logger.log_update_data({"loss": 0.25}, 7)
saved = []
logger.save_data(2, 20, 7, lambda *where: saved.append(where) or "")
logger.save_data(2, 20, 7, lambda *where: saved.append(where) or "")
assert saved == [(2, 20, 7)]
assert logger.restore_data() == (2, 20, 7)
assert logger.last_log_update_step == 7
summary = {key: value for key, value in dict(logger.wandb_run.summary).items() if not key.startswith("_")}
import json; print("SUMMARY", json.dumps(summary))
print("DIR", logger.wandb_run.dir)
logger.close()
"""


def test_figures_go_to_a_run_that_stays_here(tmp_path):
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:rlfast", "-c", SCRIPT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("SUMMARY", "DIR")))
    assert json.loads(lines["SUMMARY"]) == {
        "train/returns_stat/mean": 3.0,
        "train/env_step": 10,
        "test/returns_stat/mean": 5.0,
        "test/env_step": 20,
        "update/loss": 0.25,
        "update/gradient_step": 7,
        "save/epoch": 2,
        "save/env_step": 20,
        "save/gradient_step": 7,
    }
    assert tmp_path in Path(lines["DIR"]).parents
    assert list(tmp_path.rglob("*.wandb"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    points = {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}
    assert points == {
        "train/returns_stat/mean": [(10, 3.0)],
        "test/returns_stat/mean": [(20, 5.0)],
        "update/loss": [(7, 0.25)],
    }


def test_who_says_the_project_and_the_run(tmp_path):
    script = """
import wandb
from rlfast.utils import WandbLogger
logger = WandbLogger(group="seeds", job_type="train", log_dir=".", disable_stats=True)
assert (logger.wandb_run.project, logger.wandb_run.group, logger.wandb_run.job_type) == ("theirs", "seeds", "train")
again = WandbLogger(project="other")
assert again.wandb_run is logger.wandb_run
logger.finalize()
"""
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_PROJECT": "theirs"}
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, timeout=PATIENCE, check=True)
    assert list(tmp_path.rglob("*.wandb"))


def test_a_checkpoint_says_where_and_when_it_was_saved(tmp_path, monkeypatch):
    made = SimpleNamespace(add_file=lambda path: None)
    monkeypatch.setattr(wandb, "Artifact", lambda name, **options: vars(made).update(name=name, **options) or made)
    logger = WandbLogger.__new__(WandbLogger)
    logger.wandb_run = SimpleNamespace(id="run", offline=False, summary={}, log_artifact=lambda artifact: None)
    logger.save_interval, logger.last_save_step = 1, -1
    (tmp_path / "policy.pth").touch()
    logger.save_data(2, 20, 7, lambda *_: str(tmp_path / "policy.pth"))
    where = str(tmp_path / "policy.pth")
    expected = {"save/epoch": 2, "save/env_step": 20, "save/gradient_step": 7, "checkpoint_path": where}
    assert made.metadata == {"epoch": 2, **expected}
