"""Loggers that write text files: one row of CSV, or one line of JSON, for each entry."""

from __future__ import annotations

import csv
import json
import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

from rlfast.utils.logger.base import CheckpointLogger, LogValue, LogWarning
from rlfast.utils.runtime.files import replace_file

_SAVE = "save"


class _RowLogger(CheckpointLogger):
    """Writes one row for each entry: ``scope``, ``axis``, ``step``, ``time`` (seconds since the start), and numbers."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        train_interval: int = 1000,
        test_interval: int = 1,
        update_interval: int = 1000,
        info_interval: int = 1,
        save_interval: int = 1,
    ) -> None:
        """Makes a logger for a file; rows that the file holds already are kept.

        :param path: the file; its folder must exist.
        :param train_interval: as in :class:`BaseLogger`; so are the next three.
        :param save_interval: epochs between two checkpoints.
        """
        super().__init__(train_interval, test_interval, update_interval, info_interval, save_interval)
        self.path = Path(path)
        self._start = time.perf_counter()
        self._mended = False
        self._held: int | None = None  # the number of rows in the file; None until counted

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Appends one row, and closes the file, so that other programs can read the row.

        :param step_type: the kind and its axis, such as ``train/env_step``.
        :param step: the position on that axis.
        :param data: numbers by name.
        """
        if not self._mended:
            _drop_unfinished_line(self.path)
            self._mended = True
        scope, _, axis = step_type.partition("/")
        seconds = round(time.perf_counter() - self._start, 3)
        self._append(
            {"scope": scope, "axis": axis, "step": step, "time": seconds} | {k: _plain(v) for k, v in data.items()}
        )
        if self._held is not None:
            self._held += 1

    def _write_counters(self, counters: dict[str, int], path: str) -> None:  # noqa: ARG002
        self.write(f"{_SAVE}/epoch", counters["save/epoch"], dict(counters))

    def _read_counters(self) -> tuple[int, int, int]:
        saved = [row for row in self.rows() if row["scope"] == _SAVE]
        if not saved:
            return 0, 0, 0
        try:
            epoch, env_step, gradient_step = (
                int(saved[-1][f"save/{key}"]) for key in ("epoch", "env_step", "gradient_step")
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._damaged(f"the row of the last checkpoint is not valid: {error!r}") from error
        return epoch, env_step, gradient_step

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint, with the number of rows and the seconds since the start."""
        if self._held is None:  # counted once: counting for every checkpoint would take longer each time
            self._held = sum(1 for _ in self.rows())
        return {**super().state_dict(), "rows": self._held, "seconds": time.perf_counter() - self._start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state: deletes the rows that were written after it; ``time`` continues from there.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: the state or the file is damaged; nothing is changed then.
        """
        super().load_state_dict(state)
        if "rows" in state:
            self._start = time.perf_counter() - state["seconds"]
            held = sum(1 for _ in self.rows())
            if held < state["rows"]:
                warnings.warn(
                    f"{self.path} has {held} rows of the {state['rows']} that were written into it: logging "
                    "continues without the others",
                    LogWarning,
                    stacklevel=2,
                )
            self._keep(state["rows"])
            self._held = None

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Checks a state and the file without changing anything.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: the state or the file is damaged.
        """
        super().check_state_dict(state)
        if "rows" in state:
            rows, seconds = state["rows"], state["seconds"]
            if type(rows) is not int or rows < 0 or not isinstance(seconds, int | float) or not isfinite(seconds):
                raise ValueError(f"a log cannot have {rows!r:.50} rows after {seconds!r:.50} seconds")
            self.rows()  # raises if the file is damaged

    def _whole_lines(self) -> list[str]:
        """Returns the lines of the file, without a last line that is incomplete."""
        if not self.path.is_file():  # a pipe would be waited for
            if self.path.exists():
                raise self._damaged("it is no file")
            return []
        try:
            with self.path.open(newline="") as file:
                return [line for line in file if line.endswith("\n")]
        except UnicodeDecodeError as error:
            raise self._damaged(error) from error

    def _damaged(self, why: object) -> ValueError:
        return ValueError(f"{self.path} is damaged: {why}; move it away to continue with a new file")

    @abstractmethod
    def rows(self) -> Iterable[dict[str, Any]]:
        """Returns all rows of the file."""

    @abstractmethod
    def _append(self, row: dict[str, Any]) -> None: ...

    @abstractmethod
    def _keep(self, number: int) -> None:
        """Deletes all but the first ``number`` rows."""


class CSVLogger(_RowLogger):
    """Writes a CSV file with one row for each entry; a cell is empty if the entry has no such number.

    When an entry brings a new name, the file is rewritten with one more column, and replaced atomically.

    >>> import tempfile; path = Path(tempfile.mkdtemp()) / "metrics.csv"
    >>> logger = CSVLogger(path)
    >>> logger.write("test/env_step", 100, {"test/return": 20.5})
    >>> logger.write("update/gradient_step", 50, {"update/loss": 0.25})
    >>> [(row["scope"], row["step"], row["test/return"], row["update/loss"]) for row in logger.rows()]
    [('test', '100', '20.5', ''), ('update', '50', '', '0.25')]
    """

    def rows(self) -> list[dict[str, str]]:
        """Returns all rows of the file, with values as strings.

        :raises ValueError: the file is damaged.
        """
        try:
            reader = csv.DictReader(self._whole_lines())
            rows = list(reader)
        except csv.Error as error:
            raise self._damaged(error) from error
        if rows and (
            not {"scope", "step"} <= rows[0].keys() or any(None in row or None in row.values() for row in rows)
        ):
            raise self._damaged("its rows do not fit its columns")
        return rows

    def _append(self, row: dict[str, Any]) -> None:
        names = self._names()
        if new := [name for name in row if name not in names]:
            names += new
            self._rewrite(names, self.rows())
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, names).writerow(row)

    def _names(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return next(csv.reader(file), [])

    def _keep(self, number: int) -> None:
        rows = self.rows()  # first, because it raises if the file is damaged
        self._rewrite(self._names(), rows[:number])

    def _rewrite(self, names: list[str], rows: list[dict[str, str]]) -> None:
        temporary = self.path.with_name(self.path.name + ".tmp")
        with temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(self.path)


class JSONLLogger(_RowLogger):
    """Writes one line for each entry, a JSON object; NaN and infinity, which JSON does not have, become null.

    >>> import tempfile; path = Path(tempfile.mkdtemp()) / "metrics.jsonl"
    >>> logger = JSONLLogger(path)
    >>> logger.write("test/env_step", 100, {"test/return": 20.5})
    >>> logger.rows()[0]["test/return"]
    20.5
    """

    def rows(self) -> list[dict[str, Any]]:
        """Returns all rows of the file.

        :raises ValueError: the file is damaged.
        """
        try:
            rows = [json.loads(line) for line in self._whole_lines() if line.strip()]
        except (ValueError, RecursionError) as error:
            raise self._damaged(error) from error
        if not all(isinstance(row, dict) and "scope" in row and "step" in row for row in rows):
            raise self._damaged("a line is not a row of a log")
        return rows

    def _append(self, row: dict[str, Any]) -> None:
        row = {name: None if isinstance(value, float) and not isfinite(value) else value for name, value in row.items()}
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def _keep(self, number: int) -> None:
        rows = self.rows()[:number]
        replace_file(self.path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def _drop_unfinished_line(path: Path) -> None:
    """Deletes an incomplete last line, which a killed process has left, so that the next row does not continue it."""
    if path.is_file():
        content = path.read_bytes()
        if (whole := content.rfind(b"\n") + 1) < len(content):
            os.truncate(path, whole)


def _plain(value: object) -> Any:
    """Converts NumPy numbers and arrays to Python numbers and lists."""
    return value.tolist() if hasattr(value, "tolist") else value
