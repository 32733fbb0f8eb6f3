"""The picture of a search for settings."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def draw_study(scores: Sequence[tuple[float, bool]], importances: Mapping[str, float], path: Path) -> None:
    """Draws the scores of trials with the best so far, and how much each setting explains of their differences.

    :param scores: the score of each trial, and whether it was stopped early.
    :param importances: the share of each setting, from 0 to 1; empty if it is not known.
    :param path: the picture, a PNG file.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.5), layout="constrained")
    history, bars = figure.subplots(1, 2)
    values, stopped = np.array([value for value, _ in scores]), np.array([stopped for _, stopped in scores])
    numbers = np.arange(1, len(values) + 1)
    history.scatter(numbers[~stopped], values[~stopped], s=16, label="trial")
    if stopped.any():
        history.scatter(numbers[stopped], values[stopped], s=16, color="0.6", marker="x", label="stopped early")
    history.step(numbers, np.maximum.accumulate(np.where(stopped, -np.inf, values)), "C1", where="post", label="best")
    history.set(xlabel="trial", ylabel="mean return of the last three tests", title="history")
    history.legend()
    names = [*importances][::-1]
    bars.barh(names, [importances[name] for name in names])
    bars.set(xlabel="share of the differences", title="importance")
    picture = BytesIO()
    figure.savefig(picture, dpi=150)
    replace_file(path, picture.getvalue())
