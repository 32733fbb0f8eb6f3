"""Puts recorded runs into the documents: ``python -m bench.readme bench/results/FILE.json ...``.

The first goes into the README's table; all of them, with a plot each, into ``docs/benchmarks.md``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.libraries import RLFAST, ROOT
from bench.plot import draw, ratios
from bench.report import quantity

BEGIN = "<!-- bench:table:begin - written by bench/readme.py, not by hand -->"
END = "<!-- bench:table:end -->"


def cell(case: dict[str, Any], name: str) -> str:
    """A library's median, and how many times ours it is."""
    results, ours = case["results"], case.get("ours", RLFAST)
    if name not in results:
        return "-"
    unit, median = case["unit"], results[name]["median"]
    text = quantity(median, unit)
    if name == ours or ours not in results:
        return text
    return f"{text} ({median / results[ours]['median']:.2g}x)"


def table(run: dict[str, Any]) -> list[str]:
    """A row for each case that rlfast took part in: losses stand beside wins."""
    cases = [case for case in run["cases"] if case.get("ours", RLFAST) in case["results"]]
    own = {case.get("ours", RLFAST) for case in cases}
    names = [name for name in run["versions"] if name not in own | set(run["limits"])]
    names = [name for name in names if any(name in case["results"] for case in cases)]
    lines = [f"| | rlfast | {' | '.join(names)} | bar |", "|---|---|" + "---|" * (len(names) + 1)]
    for case in cases:
        others = " | ".join(cell(case, name) for name in names)
        ours = cell(case, case.get("ours", RLFAST))
        lines.append(f"| {case['name']} | **{ours}** | {others} | {'; '.join(case['bars'])} |")
    return lines


def introduction(run: dict[str, Any], link: str) -> str:
    machine = run["machine"]
    effort = "short rounds, smaller image and wide buffers; " if run["effort"].get("quick") else ""
    return (
        f"Medians on {machine['processor']}, {machine['cores']} cores, one thread unless the row says two ({effort}in"
        f" brackets how many times rlfast's time, or memory, a library takes). [bench/README.md]({link}) says"
        " how it is measured and what is not the same. The last column holds each row against the bar we set ourselves."
    )


def markdown(run: dict[str, Any]) -> str:
    """What stands in the README."""
    return "\n".join([introduction(run, "bench/README.md"), "", *table(run)])


def losses(run: dict[str, Any]) -> list[str]:
    """Where another library takes less, and which bars were missed."""
    limits = set(run["limits"])
    lines = []
    for name, others in ratios(run):
        quicker = {other: ratio for other, ratio in others.items() if ratio < 1.0 and other not in limits}
        if quicker:
            listed = ", ".join(f"{other} takes {ratio:.2g} of our time" for other, ratio in quicker.items())
            lines.append(f"- {name}: {listed}.")
    missed = [(case["name"], bar) for case in run["cases"] for bar in case["bars"] if bar.endswith("MISSED")]
    return [*(lines or ["- No library was quicker than rlfast in any row."]), *(f"- {n}: {bar}." for n, bar in missed)]


def page(runs: list[tuple[Path, dict[str, Any]]], plots: Path) -> str:
    """``docs/benchmarks.md``, whose plots are drawn beside it."""
    parts = [
        "# Benchmarks\n",
        "Written by `python -m bench.readme` from the runs in `bench/results`. `rlfast bench` makes one of your own.\n",
    ]
    for path, run in runs:
        picture = plots / f"benchmarks-{path.stem}.png"
        draw(run, picture)
        versions = {name: version for found in run["versions"].values() for name, version in found.items()}
        listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        measured = f"Revision {run['revision'] or 'unknown'}, {run['date']}, load {run['load']:.2f} at the end"
        parts += [
            f"## {path.stem}\n",
            f"{introduction(run, '../bench/README.md')}\n",
            f"![Each case a line, each library a dot]({picture.name})\n",
            "\n".join(table(run)) + "\n",
            "### Where we lose\n",
            "\n".join(losses(run)) + "\n",
            "### What was measured\n",
            f"{measured}, {run['machine']['system']}; {listed}.\n",
        ]
    return "\n".join(parts)


def main(paths: list[Path]) -> None:
    """Writes both documents.

    :raises ValueError: the README has no markers.
    """
    runs = [(path, json.loads(path.read_text())) for path in paths]
    readme = ROOT / "README.md"
    before, begin, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} has no table to replace: {BEGIN} ... {END} is missing")
    readme.write_text(f"{before}{BEGIN}\n{markdown(runs[0][1])}\n{END}{after}")
    (ROOT / "docs" / "benchmarks.md").write_text(page(runs, ROOT / "docs"))


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
