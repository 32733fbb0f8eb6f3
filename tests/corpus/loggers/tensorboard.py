"""TensorBoard's files: what is written, and where a run goes on."""

import json
import os
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tianshou.utils import BasicLogger, TensorboardLogger
from torch.utils.tensorboard import SummaryWriter

here = os.getcwd()
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

writer = SummaryWriter("log")
writer.add_text("args", "{}")
logger = TensorboardLogger(writer, train_interval=1, update_interval=2, save_interval=2)
for step in range(1, 4):
    logger.log_train_data({"returns_stat": {"mean": float(step)}, "n_collected_steps": step}, step)
    logger.log_update_data({"loss": 1.0 / step}, step)
saved = []
for epoch in range(1, 5):
    logger.save_data(epoch, epoch * 10, epoch * 5, lambda epoch, env_step, gradient_step: saved.append([epoch, env_step, gradient_step]) or "x")
events = EventAccumulator("log")
events.Reload()
restored = TensorboardLogger(SummaryWriter("log")).restore_data()
print(
    json.dumps(
        {
            "tags": sorted(events.Tags()["scalars"]),
            "train": [[e.step, e.value] for e in events.Scalars("train/returns_stat/mean")],
            "loss": [[e.step, round(e.value, 4)] for e in events.Scalars("update/loss")],
            "saved": saved,
            "restored": [int(x) for x in restored],
            "old name": issubclass(BasicLogger, TensorboardLogger),
        }
    )
)
os.chdir(here)
folder.cleanup()
