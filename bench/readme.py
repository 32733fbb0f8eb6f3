"""Puts a recorded run into the README: ``python -m bench.readme bench/results/FILE.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.libraries import RLFAST, ROOT
from bench.report import quantity

BEGIN = "<!-- bench:table:begin - written by bench/readme.py, not by hand -->"
END = "<!-- bench:table:end -->"


def cell(case: dict[str, Any], name: str) -> str:
    """A library's median, and how many times ours it is."""
    results = case["results"]
    if name not in results:
        return "-"
    unit, median = case["unit"], results[name]["median"]
    text = quantity(median, unit)
    if name == RLFAST or RLFAST not in results or name not in results:
        return text
    return f"{text} ({median / results[RLFAST]['median']:.2g}x)"


def markdown(run: dict[str, Any]) -> str:
    """The machine, then a row for each case that rlfast took part in: losses stand beside wins."""
    cases = [case for case in run["cases"] if RLFAST in case["results"]]
    limits = set(run["limits"])
    names = [name for name in run["versions"] if name != RLFAST and name not in limits]
    names = [name for name in names if any(name in case["results"] for case in cases)]
    machine = run["machine"]
    effort = "short rounds, smaller image and wide buffers; " if run["effort"].get("quick") else ""
    introduction = (
        f"Medians on {machine['processor']}, {machine['cores']} cores, one thread unless the row says two ({effort}in"
        " brackets how many times rlfast's time, or memory, a library takes). [bench/README.md](bench/README.md) says"
        " how it is measured and what is not the same. The last column holds each row against the bar we set ourselves."
    )
    lines = [
        introduction,
        "",
        f"| | rlfast | {' | '.join(names)} | bar |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]
    for case in cases:
        others = " | ".join(cell(case, name) for name in names)
        lines.append(f"| {case['name']} | **{cell(case, RLFAST)}** | {others} | {'; '.join(case['bars'])} |")
    return "\n".join(lines)


def main(path: Path) -> None:
    """Replaces what stands between the markers.

    :raises ValueError: the README has no markers.
    """
    readme = ROOT / "README.md"
    before, begin, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} has no table to replace: {BEGIN} ... {END} is missing")
    readme.write_text(f"{before}{BEGIN}\n{markdown(json.loads(path.read_text()))}\n{END}{after}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
