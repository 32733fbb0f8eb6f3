"""Loggers of trackers: in processes of their own, as these libraries start threads and warn of each other."""

import json
import os
import subprocess
import sys

import pytest

from machine import PATIENCE
from rlfast.cli import main
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.declaration import Declaration
from rlfast.experiment.training import make_loggers
from rlfast.utils.logger import LazyLogger, trackers
from rlfast.utils.logger.trackers import MLflowLogger, TrackioLogger

ENTRIES = """
import json, sys
from rlfast.utils.logger.trackers import {kind}
logger = {kind}({project!r}, name="one", config={{"lr": 0.5, "sizes": [1, 2]}}, train_interval=10, update_interval=1)
assert logger.run_id is None and logger.restore_data() == (0, 0, 0)
logger.log_train_data({{"returns_stat": {{"mean": 3.0}}}}, 10)
logger.log_train_data({{"returns_stat": {{"mean": 4.0}}}}, 15)  # within the interval
logger.log_test_data({{"returns_stat": {{"mean": 5.0}}}}, 20)
state = json.loads(json.dumps(logger.state_dict()))
logger.close()
again = {kind}({project!r}, config={{"lr": 0.5, "sizes": [1, 2]}}, train_interval=10, update_interval=1)
again.check_state_dict(state)
again.load_state_dict(state)
again.log_train_data({{"returns_stat": {{"mean": 6.0}}}}, 15)  # within the interval of the state
again.log_update_data({{"loss": 0.25}}, 7)
again.log_test_data({{"returns_stat": {{"mean": 8.0}}}}, 40)
assert again.run_id == logger.run_id
again.close()
again.close()
"""

MLFLOW = """
import mlflow
client = mlflow.MlflowClient()
(run,) = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
history = {}
for name in run.data.metrics:
    history[name] = [[one.step, one.value] for one in client.get_metric_history(run.info.run_id, name)]
print("FOUND", json.dumps([history, run.data.params, run.info.status, run.info.run_name]))
"""
TRACKIO = """
import os, sqlite3, trackio
(run,) = trackio.Api().runs("mine")
rows = sqlite3.connect(os.path.join(os.environ["TRACKIO_DIR"], "mine.db")).execute("select step, metrics from metrics")
print("FOUND", json.dumps([[[step, json.loads(entry)] for step, entry in rows], run.config["lr"], run.name]))
"""
HISTORY = {
    "train/returns_stat/mean": [[10, 3.0]],
    "train/env_step": [[10, 10.0]],
    "test/returns_stat/mean": [[20, 5.0], [40, 8.0]],
    "test/env_step": [[20, 20.0], [40, 40.0]],
    "update/loss": [[7, 0.25]],
    "update/gradient_step": [[7, 7.0]],
}


def found(code, tmp_path, **environment):
    """What a process prints at its end."""
    settings = os.environ | environment
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, env=settings, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.partition("FOUND ")[2].partition("\n")[0])


def test_mlflow_has_the_entries(tmp_path):
    code = ENTRIES.format(kind="MLflowLogger", project="mine") + MLFLOW
    store = {"MLFLOW_TRACKING_URI": f"file://{tmp_path / 'store'}", "MLFLOW_ALLOW_FILE_STORE": "true"}
    history, params, status, name = found(code, tmp_path, **store)
    assert history == HISTORY
    assert params == {"lr": "0.5", "sizes": "[1, 2]"}
    assert (status, name) == ("FINISHED", "one")


def test_mlflow_keeps_runs_in_a_database(tmp_path):
    code = ENTRIES.format(kind="MLflowLogger", project="mine") + MLFLOW
    history, *_ = found(code, tmp_path, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert history == HISTORY


def test_trackio_has_the_entries(tmp_path):
    code = ENTRIES.format(kind="TrackioLogger", project="mine") + TRACKIO
    rows, lr, name = found(code, tmp_path, TRACKIO_DIR=str(tmp_path / "trackio"))
    assert rows == [
        [10, {"train/returns_stat/mean": 3.0, "train/env_step": 10.0}],
        [20, {"test/returns_stat/mean": 5.0, "test/env_step": 20.0}],
        [7, {"update/loss": 0.25, "update/gradient_step": 7.0}],
        [40, {"test/returns_stat/mean": 8.0, "test/env_step": 40.0}],
    ]
    assert (lr, name) == (0.5, "one")


def test_another_run_of_the_same_name_is_another_one(tmp_path):
    code = """
import json, trackio
from rlfast.utils.logger.trackers import TrackioLogger
for _ in range(2):
    logger = TrackioLogger("mine", name="one")
    logger.log_test_data({"reward": 1.0}, 20)
    logger.close()
print("FOUND", json.dumps(len([*trackio.Api().runs("mine")])))
"""
    assert found(code, tmp_path, TRACKIO_DIR=str(tmp_path / "trackio")) == 2


class FakeTracker(trackers._TrackerLogger):
    def __init__(self):
        super().__init__({"train_interval": 1})
        self.calls = []

    def _begin(self):
        self.calls.append("begin")
        return self.run_id or "new"

    def _send(self, step, data):
        self.calls.append((step, data))

    def _end(self):
        self.calls.append("end")


def test_a_run_begins_with_its_first_entry():
    logger = FakeTracker()
    logger.close()
    assert logger.calls == []
    logger.load_state_dict(FakeTracker().state_dict() | {"run_id": "old"})
    logger.log_test_data({"reward": 1.0}, 3)
    logger.close()
    logger.close()
    assert logger.calls == ["begin", (3, {"test/reward": 1.0, "test/env_step": 3}), "end"]
    assert logger.run_id == "old"
    with pytest.raises(ValueError, match="run_id must be a text, got 3"):
        logger.check_state_dict(logger.state_dict() | {"run_id": 3})


@pytest.mark.parametrize(("kind", "library"), [(MLflowLogger, "mlflow"), (TrackioLogger, "trackio")])
def test_missing_library_names_the_extra(kind, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"{kind.__name__} needs {library}.*pip install '.\[{library}\]'"):
        kind()


RUN = """
import json
from rlfast.cli import main
small = ["num-envs=2", "eval-episodes=2", "eval-envs=2", "eval-interval=80", "hidden-sizes=8", "start-steps=20",
         "batch-size=8", "no-progress", "trackers=TRACKER", "env=CartPole-v1"]
assert main(["train", "dqn", "--run-dir", "run", "--max-steps", "160", *(f"--{one}" for one in small)]) == 0
assert main(["train", "--resume", "run", "--max-steps", "240"]) == 0
"""
FOUND_IN_MLFLOW = """
import mlflow
client = mlflow.MlflowClient()
(run,) = client.search_runs([client.get_experiment_by_name("rlfast").experiment_id])
steps = sorted({one.step for one in client.get_metric_history(run.info.run_id, "test/returns_stat/mean")})
found = [steps, run.data.params["env"], run.info.run_name, run.data.metrics["info/peak_memory"]]
print("FOUND", json.dumps(found))
"""


def test_resumed_run_continues_in_its_tracker(tmp_path):
    store = {"MLFLOW_TRACKING_URI": f"file://{tmp_path / 'store'}", "MLFLOW_ALLOW_FILE_STORE": "true"}
    steps, env, name, memory = found(RUN.replace("TRACKER", "mlflow") + FOUND_IN_MLFLOW, tmp_path, **store)
    assert (steps[0], steps[-1]) == (0, 240)
    assert len(steps) >= 3
    assert (env, name) == ("CartPole-v1", "run")
    assert 50 < memory < 20_000  # MiB


def test_resumed_run_has_the_same_id_in_wandb(tmp_path, monkeypatch):
    ids = []

    class Fake(LazyLogger):
        def __init__(self, run_id, **_):
            super().__init__()
            ids.append(run_id)

    monkeypatch.setattr("rlfast.utils.logger.wandb.WandbLogger", Fake)
    config = ALGORITHMS["dqn"].config(trackers=("wandb",))
    for name in ("one", "one", "other"):
        (tmp_path / name).mkdir(exist_ok=True)
        make_loggers(tmp_path / name, config, Declaration()).close()
    assert ids[0] == ids[1] != ids[2]


def test_unknown_tracker_is_one_line(capsys):
    assert main(["train", "dqn", "--trackers", "neptune"]) == 2
    assert "neptune" in capsys.readouterr().err
