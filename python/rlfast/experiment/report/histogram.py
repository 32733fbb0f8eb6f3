"""Histograms of returns, as text and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_EIGHTHS = " ▏▎▍▌▋▊▉"
_MOST_BINS = 12
_COLOR = "#3b6ea5"


def counts_of(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts values in bins of equal width.

    :param values: finite numbers, at least one, of shape ``[number]``.
    :return: the count of each bin, int64 ``[bins]``, and the edges, float64 ``[bins + 1]``. There are as many bins as
        the square root of the number of values, and at most 12.
    """
    bins = int(np.clip(round(len(values) ** 0.5), 1, _MOST_BINS))
    if values.min() == values.max():
        bins = 1
    counts, edges = np.histogram(values, bins)
    return counts.astype(np.int64), edges


def text_histogram(values: NDArray[Any], width: int = 80) -> Iterator[str]:
    """Returns the lines of a histogram, one for each bin: its lower edge, a bar, and the count.

    :param values: finite numbers, at least one, of shape ``[number]``.
    :param width: columns of a line.
    """
    counts, edges = counts_of(values)
    labels = [f"{edge:,.1f}" for edge in edges[:-1]]
    room = max(len(label) for label in labels)
    free = max(width - room - len(f"{counts.max():,}") - 4, 1)
    for label, count in zip(labels, counts, strict=True):
        eighths = round(8 * free * count / counts.max())
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        yield f"{label:>{room}} │{bar} {count:,}"


def draw_histogram(values: NDArray[Any], path: Path, title: str) -> None:
    """Draws the histogram of returns.

    :param values: finite numbers, at least one, of shape ``[number]``.
    :param path: the file; its ending chooses the format.
    :param title: text above it.
    :raises OSError: if the file cannot be written.
    :raises ValueError: if there is no such format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    counts, edges = counts_of(values)
    width = np.diff(edges) if len(counts) > 1 else 1.0
    axes.bar(edges[:-1], counts, width, align="edge" if len(counts) > 1 else "center", color=_COLOR, edgecolor="white")
    axes.axvline(float(values.mean()), color="black", linewidth=1, linestyle="--")
    axes.set(xlabel="return", ylabel="episodes", title=title)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
