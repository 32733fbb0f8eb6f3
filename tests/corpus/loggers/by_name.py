"""A logger from the factory that the examples on MuJoCo take, and what it leaves on disk."""

import json
import os
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tianshou.highlevel.logger import LoggerFactory, LoggerFactoryDefault
from tianshou.utils import TensorboardLogger

found = {}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "Ant-v4", "ppo", "0")
    factory = LoggerFactoryDefault()
    factory.logger_type = "tensorboard"
    logger = factory.create_logger(log_dir=path, experiment_name="Ant-v4/ppo/0", run_id=None, config_dict={"lr": 0.1})
    found["kind"] = [isinstance(factory, LoggerFactory), type(logger) is TensorboardLogger, factory.wandb_project]
    logger.log_test_data({"returns_stat": {"mean": 2.5}}, 10)
    logger.writer.flush()
    events = EventAccumulator(path)
    events.Reload()
    found["scalars"] = {name: [[e.step, e.value] for e in events.Scalars(name)] for name in events.Tags()["scalars"]}
    found["texts"] = events.Tags()["tensors"]
    logger.writer.close()
try:
    LoggerFactoryDefault(logger_type="wandb")
except ValueError:
    found["without a project"] = "ValueError"
print(json.dumps(found))
