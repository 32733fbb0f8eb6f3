"""Schedulers together, dataclasses printed, numbers that may be missing."""

import contextlib
import io
import json
from dataclasses import dataclass, field

import torch
from tianshou.utils import DummyTqdm, MultipleLRSchedulers, tqdm_config
from tianshou.utils.conversion import to_optional_float
from tianshou.utils.print import DataclassPPrintMixin


@dataclass
class Stats(DataclassPPrintMixin):
    loss: float = 0.5
    parts: dict = field(default_factory=lambda: {"b": 1, "a": 2})


first, second = (torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0) for _ in range(2))
schedule = MultipleLRSchedulers(torch.optim.lr_scheduler.ExponentialLR(first, 0.5), torch.optim.lr_scheduler.StepLR(second, 2, 0.1))
for _ in range(3):
    schedule.step()
state = schedule.state_dict()
out = io.StringIO()
with contextlib.redirect_stdout(out):
    Stats().pprint_asdict(exclude_fields=["loss"])
with DummyTqdm(total=10, **tqdm_config) as bar:
    bar.update(3)
    bar.set_postfix(loss=1)
print(
    json.dumps(
        {
            "lr": [first.param_groups[0]["lr"], second.param_groups[0]["lr"]],
            "state": [part["last_epoch"] for part in state],
            "printed": out.getvalue(),
            "bar": [bar.n, bar.total],
            "optional": [to_optional_float(None), to_optional_float(torch.tensor(2.5)), to_optional_float(1)],
        }
    )
)
