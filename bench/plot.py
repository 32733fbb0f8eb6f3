"""Draws a recording: ``python -m bench.plot FILE.json FILE.png``. Each case is a line with a dot for each library."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.libraries import RLFAST

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
    """Draws the plot.

    :raises ValueError: if no library but rlfast was measured.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    cases = ratios(run)
    if not cases:
        raise ValueError("no library was measured beside rlfast: there is nothing to compare")
    names = list(dict.fromkeys(name for _, others in cases for name in others))
    figure, axes = plt.subplots(figsize=(10, 1.5 + 0.24 * len(cases)), layout="constrained")
    for color, name in zip(COLORS * 3, names, strict=False):
        places = [(others[name], row) for row, (_, others) in enumerate(cases) if name in others]
        marker = "|" if name in run["limits"] else "o"
        axes.plot(*zip(*places, strict=True), marker, color=color, label=name, markersize=7, alpha=0.85)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(cases)), [name for name, _ in cases], fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="x", which="major", alpha=0.3)
    axes.set_xlabel("times the time (or memory) of rlfast; right of the line: rlfast takes less")
    axes.set_title(f"{run['machine']['processor']}, {run['date'][:10]}", fontsize=9)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    try:
        draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
    except ValueError as error:
        sys.exit(f"no plot: {error}")
