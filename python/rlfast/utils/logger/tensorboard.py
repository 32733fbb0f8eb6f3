"""A logger for TensorBoard."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.utils.logger.base import CheckpointLogger, LogValue, LogWarning
from rlfast.utils.warning import deprecation

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from rlfast.utils.logger.base import TRestoredData


class TensorboardLogger(CheckpointLogger):
    """Writes scalars to a ``SummaryWriter``.

    :param writer: the writer.
    :param train_interval: as in :class:`BaseLogger`; so are the next three.
    :param save_interval: epochs between two checkpoints.
    :param write_flush: whether every entry is flushed to disk at once.
    """

    def __init__(
        self,
        writer: SummaryWriter,
        train_interval: int = 1000,
        test_interval: int = 1,
        update_interval: int = 1000,
        info_interval: int = 1,
        save_interval: int = 1,
        write_flush: bool = True,
    ) -> None:
        super().__init__(train_interval, test_interval, update_interval, info_interval, save_interval)
        self.writer = writer
        self.write_flush = write_flush
        self._own = max(self._files(), key=lambda path: path.stat().st_mtime_ns, default=None)

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:  # noqa: ARG002
        """Writes each number as a scalar of its name.

        :param step_type: ignored.
        :param step: the step of the scalars.
        :param data: numbers by name.
        """
        for name, value in data.items():
            self.writer.add_scalar(name, value, global_step=step)
        if self.write_flush:
            self.writer.flush()

    def _write_counters(self, counters: dict[str, int], path: str) -> None:  # noqa: ARG002
        for name, step in counters.items():
            self.write(name, step, {name: step})

    def _read_counters(self) -> tuple[int, int, int]:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(self.writer.log_dir))
        events.Reload()

        def last(name: str) -> int:
            return int(events.Scalars(name)[-1].step) if name in events.Tags()["scalars"] else 0

        return last("save/epoch"), last("save/env_step"), last("save/gradient_step")

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint, with the sizes of the event files."""
        self.writer.flush()
        return {**super().state_dict(), "files": {path.name: path.stat().st_size for path in self._files()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state, and deletes the events that other writers to this folder have written after it.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: the state is damaged; nothing is changed then.
        """
        super().load_state_dict(state)
        if "files" not in state:
            return
        files: dict[str, int] = state["files"]
        sizes = {path: path.stat().st_size for path in self._files()}
        short = files.keys() - {path.name for path, size in sizes.items() if size >= files.get(path.name, 0)}
        if short:
            where = f"{', '.join(sorted(short))} in {self.writer.log_dir}"
            warnings.warn(
                f"{where}: shorter than what was written, or gone; logging continues without that",
                LogWarning,
                stacklevel=2,
            )
        for path, size in sizes.items():
            if path.name in files:
                os.truncate(path, min(files[path.name], size))
            elif path != self._own:
                path.unlink()

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Checks a state without changing anything.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: the state is damaged.
        """
        super().check_state_dict(state)
        files = state.get("files", {})
        if not isinstance(files, dict) or any(type(size) is not int or size < 0 for size in files.values()):
            raise ValueError(f"sizes of event files cannot be {files!r:.50}")

    def _files(self) -> list[Path]:
        return sorted(Path(self.writer.log_dir).glob("events.out.tfevents.*"))

    def close(self) -> None:
        """Closes the writer."""
        self.writer.close()

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:
        """Reads the values of all scalars in the event files of a folder.

        :param log_path: the folder.
        :return: arrays of values by name, in the order of their steps, nested at the slashes in the names. Where a
            name with more slashes begins with another name, it is not nested.
        """
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(log_path), size_guidance={"scalars": 0})  # by default a sample of 10,000 values
        events.Reload()
        data: dict[str, Any] = {}
        for name in sorted(events.Tags()["scalars"]):
            *scopes, last = name.split("/")
            inner: Any = data
            for scope in scopes:
                inner = inner.setdefault(scope, {}) if isinstance(inner, dict) else inner
            inner, last = (inner, last) if isinstance(inner, dict) else (data, name)
            inner[last] = np.array([event.value for event in events.Scalars(name)])
        return data


class BasicLogger(TensorboardLogger):
    """The old name of :class:`TensorboardLogger`, with the same arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        deprecation("BasicLogger is now called TensorboardLogger")
        super().__init__(*args, **kwargs)
