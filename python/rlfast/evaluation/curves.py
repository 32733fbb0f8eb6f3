"""The curves of a run, from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlfast.data.plain_data import summary
from rlfast.utils.logger import CSVLogger

if TYPE_CHECKING:
    from pathlib import Path


def read_curves(path: Path, scope: str, *wanted: str) -> dict[str, list[float]]:
    """Returns steps and statistics of returns from the log of a run.

    :param path: the file, ``metrics.csv``.
    :param scope: ``"train"`` or ``"test"``.
    :param wanted: names of statistics, such as ``"mean"``.
    :return: the numbers of environment steps under ``"step"``, and each statistic under its name.
    :raises ValueError: if the file is damaged.
    """
    rows = [row for row in CSVLogger(path).rows() if row["scope"] == scope and not _is_foreign(row, scope)]
    names = {"step": "step"} | {short: f"{scope}/returns_stat/{short}" for short in wanted}
    try:
        curves = {short: [float(row[name]) for row in rows] for short, name in names.items()}
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {summary(error)}") from error
    if not np.isfinite(curves["step"]).all():
        raise ValueError(f"{path} is damaged: a step is no number")
    return curves


def _is_foreign(row: dict[str, str], scope: str) -> bool:
    """Returns whether an entry has statistics, and none of returns, such as one that a callback of the user wrote."""
    present = [name for name, value in row.items() if value and name.startswith(f"{scope}/")]
    return bool(present) and not any(name.startswith(f"{scope}/returns_stat/") for name in present)
