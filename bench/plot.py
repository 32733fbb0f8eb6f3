"""Draws a recording: ``python -m bench.plot FILE.json FILE.png``. Each case is a line with a dot for each library."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.labels import TITLES, described
from bench.libraries import RLFAST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02", "#a6761d", "#666666", "#1f78b4", "#b2df8a", "#fb9a99")


def ratios(run: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    """Returns, for each case with rlfast, the time (or memory) of other libraries as a multiple of rlfast's."""
    found = []
    for case in run["cases"]:
        medians = {name: result["median"] for name, result in case["results"].items()}
        ours = medians.pop(case.get("ours", RLFAST), None)
        if ours and medians:
            found.append((case["name"], {name: value / ours for name, value in medians.items()}))
    return found


def draw(run: dict[str, Any], path: Path) -> None:
    """Draws the plot into a file.

    :raises ValueError: if no library but rlfast was measured.
    """
    from matplotlib import pyplot as plt

    figure = figure_of(run)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def figure_of(run: dict[str, Any]) -> Figure:
    """Returns the plot.

    :raises ValueError: if no library but rlfast was measured.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    cases = ratios(run)
    if not cases:
        raise ValueError("no library was measured beside rlfast: there is nothing to compare")
    names = list(dict.fromkeys(name for _, others in cases for name in others))
    figure, axes = plt.subplots(figsize=(10, 1.5 + 0.24 * len(cases)), layout="constrained")
    for color, name in zip(COLORS * 3, names, strict=False):
        places = [(others[name], row) for row, (_, others) in enumerate(cases) if name in others]
        marker = "|" if name in run["limits"] else "o"
        axes.plot(
            *zip(*places, strict=True), marker, color=color, label=TITLES.get(name, name), markersize=7, alpha=0.85
        )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.45), max(high, 2.2))  # room for ticks at 0.5, 1 and 2
    axes.set_yticks(range(len(cases)), [described(name) for name, _ in cases], fontsize=9)
    axes.invert_yaxis()
    axes.grid(axis="x", which="major", alpha=0.3)
    axes.set_xlabel("time (or memory) as a multiple of rlfast's: right of the line, rlfast takes less")
    axes.set_title(f"{run['machine']['processor']}, {run['date'][:10]}", fontsize=9)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.tick_params(axis="x", labelsize=9)
    figure.legend(fontsize=9, loc="outside lower center", ncols=4)
    return figure


if __name__ == "__main__":
    try:
        draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
    except ValueError as error:
        sys.exit(f"no plot: {error}")
