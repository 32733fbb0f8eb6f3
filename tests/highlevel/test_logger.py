import os
import subprocess
import sys

import pytest

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from machine import PATIENCE
from rlfast.highlevel.logger import LoggerFactory, LoggerFactoryDefault, TLogger
from rlfast.utils import BaseLogger, LazyLogger, TensorboardLogger, WandbLogger


def test_tensorboard_writes_to_the_folder(tmp_path):
    folder = tmp_path / "Ant-v4" / "ppo"
    factory = LoggerFactoryDefault()
    logger = factory.create_logger(
        log_dir=str(folder), experiment_name="Ant-v4/ppo", run_id=None, config_dict={"lr": 0.1}
    )
    assert type(logger) is factory.get_logger_class() is TensorboardLogger
    assert isinstance(logger, TLogger)
    logger.write("train/env_step", 3, {"train/x": 0.5})
    logger.close()
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/x")] == [(3, 0.5)]
    told = events.Tensors("args/text_summary")[0].tensor_proto.string_val[0].decode()
    assert told == str({"log_dir": str(folder), "logger_type": "tensorboard", "wandb_project": None})


WANDB = """
from rlfast.highlevel.logger import LoggerFactoryDefault
factory = LoggerFactoryDefault()
factory.logger_type = "wandb"
factory.wandb_project = "benchmark"
factory.group = "seeds"
factory.job_type = "train"
factory.wandb_entity = "we"
factory.save_interval = 2
logger = factory.create_logger("log/a", "a/b", "7", {"lr": 0.5})
run = logger.wandb_run
assert type(logger) is factory.get_logger_class()
assert (run.project, run.name, run.id, run.group, run.job_type) == ("benchmark", "a__b", "7", "seeds", "train")
assert run.entity == "we"
assert dict(run.config) == {"lr": 0.5}
assert logger.save_interval == 2
logger.write("train/env_step", 3, {"train/x": 0.5})
logger.close()
"""


def test_weights_and_biases_gets_what_was_assigned(tmp_path):
    pytest.importorskip("wandb")
    environment = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    subprocess.run([sys.executable, "-c", WANDB], env=environment, cwd=tmp_path, timeout=PATIENCE, check=True)
    assert list((tmp_path / "log" / "a" / "wandb").rglob("*.wandb"))
    assert list((tmp_path / "log" / "a").glob("events.*"))


def test_what_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match=r"needs wandb, .*install it: pip install '\.\[wandb\]'"):
        LoggerFactoryDefault("wandb", "project").create_logger(str(tmp_path), "name", None, {})
    with pytest.raises(ImportError, match=r"WandbLogger needs wandb"):
        WandbLogger()


def test_wrong_types_are_refused(tmp_path):
    with pytest.raises(ValueError, match="give wandb_project"):
        LoggerFactoryDefault("wandb")
    with pytest.raises(ValueError, match=r"logger_type must be .*, got 'pandas'"):
        LoggerFactoryDefault("pandas")
    factory = LoggerFactoryDefault()
    factory.logger_type = "csv"
    for call in (lambda: factory.create_logger(str(tmp_path / "log"), "name", None, {}), factory.get_logger_class):
        with pytest.raises(ValueError, match=r"logger_type must be .*, got 'csv'"):
            call()
    assert not (tmp_path / "log").exists()


def test_factories_of_ones_own():
    class Silent(LoggerFactory):
        def create_logger(self, log_dir, experiment_name, run_id, config_dict) -> BaseLogger:
            return LazyLogger()

    factory = Silent()
    assert isinstance(factory.create_logger("", "", None, {}), LazyLogger)
    with pytest.raises(NotImplementedError, match="Silent"):
        factory.get_logger_class()
    with pytest.raises(TypeError, match="abstract"):
        LoggerFactory()


def test_factories_can_be_printed():
    assert "logger_type=tensorboard" in str(LoggerFactoryDefault())
