"""A logger of the user's own, and its intervals."""

import json

import numpy as np
from tianshou.utils import BaseLogger, LazyLogger


class Memory(BaseLogger):
    def __init__(self, **intervals):
        super().__init__(**intervals)
        self.written = []

    def write(self, step_type, step, data):
        self.written.append([step_type, step, {key: float(value) for key, value in data.items()}])

    def save_data(self, epoch, env_step, gradient_step, save_checkpoint_fn=None):
        if save_checkpoint_fn:
            self.written.append(["saved", epoch, {"path": len(save_checkpoint_fn(epoch, env_step, gradient_step))}])

    def restore_data(self):
        return 1, 2, 3


logger = Memory(train_interval=10, test_interval=1, update_interval=5, info_interval=2)
for step in (0, 5, 10, 19, 20):
    logger.log_train_data({"returns_stat": {"mean": step / 2, "std": 0.0}, "lens": np.arange(2), "name": "x", "n": step}, step)
for step in (0, 4, 5):
    logger.log_update_data({"loss": {"actor": 1.0, "critic": np.float32(2)}}, step)
logger.log_test_data({"n": 1}, 7)
for step in (1, 2, 3):
    logger.log_info_data({"best": step}, step)
logger.save_data(1, 2, 3, lambda epoch, env_step, gradient_step: "path")
lazy = LazyLogger()
lazy.write("train/env_step", 1, {})
print(json.dumps({"written": logger.written, "restored": logger.restore_data(), "lazy": lazy.restore_data()}))
