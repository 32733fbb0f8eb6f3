"""Whether presets reach their thresholds on seeds that nobody chose: ``python docs/site/robust.py [SUITE_DIR ...]``.

Adds the runs of suites to ``docs/results/seeds-10-19.csv``, and writes the section of ``docs/results.md`` from it.
"""

from __future__ import annotations

import csv
import re
import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.report.curves import RunCurve, find_curves

DOCS = Path(__file__).resolve().parents[1]
KEPT = DOCS / "results" / "seeds-10-19.csv"
SEEDS = range(10, 20)
_PLACE = re.compile(r"(<!-- seeds 10-19 -->\n).*?(<!-- end of seeds 10-19 -->\n)", re.DOTALL)
_COLUMNS = ("task", "algorithm", "seed", "threshold", "steps", "last", "tests")


@dataclass(frozen=True, order=True)
class Run:
    """A run to a threshold."""

    task: str
    algorithm: str
    seed: int
    threshold: float
    steps: int
    """Environment steps until the last test, which is the first that reached the threshold, if any did."""
    last: float
    """The mean return of the last test."""
    tests: str = ""
    """All tests of a run that missed the threshold, as ``STEP:MEAN`` with spaces between."""

    @property
    def reached(self) -> bool:
        """Whether the last test reached the threshold."""
        return self.last >= self.threshold


def run_of(curve: RunCurve) -> Run | None:
    """What is kept of a run with a preset; None if it has not ended, or has another seed or no threshold."""
    config, threshold = curve.config, curve.config.stop_return
    if not curve.ended or config.seed not in SEEDS or threshold is None:
        return None
    steps, last = curve.steps[-1], round(curve.mean[-1], 2)
    tests = " ".join(f"{step}:{mean:.4g}" for step, mean in zip(curve.steps, curve.mean, strict=True))
    return Run(config.env, algorithm_of(config).name, config.seed, threshold, steps, last, tests * (last < threshold))


def read(path: Path = KEPT) -> list[Run]:
    """The runs of the file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Run(
            row["task"], row["algorithm"], int(row["seed"]), float(row["threshold"]), int(row["steps"]),
            float(row["last"]), row["tests"],
        )
        for row in rows
    ]  # fmt: skip


def write(runs: list[Run], path: Path = KEPT) -> None:
    """Writes the file; a later run replaces one of the same task, algorithm and seed."""
    newest = {(run.task, run.algorithm, run.seed): run for run in runs}
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([getattr(run, name) for name in _COLUMNS] for run in sorted(newest.values()))


def section(runs: list[Run]) -> str:
    """The table, a line for each preset, and the tests of the runs that missed."""
    reached, presets = sum(run.reached for run in runs), 0
    rows = []
    for (task, algorithm), found in groupby(sorted(runs), key=lambda run: (run.task, run.algorithm)):
        presets, group = presets + 1, list(found)
        steps = [run.steps for run in group if run.reached]
        span = f"{median(steps):,.0f} ({min(steps):,} to {max(steps):,})" if steps else ""
        count = f"{len(steps)} of {len(group)}"
        rows.append(f"| {task} | `{algorithm}` | {group[0].threshold:g} | {count} | {span} |")
    lines = [
        f"{reached} of {len(runs)} runs of {presets} presets reach their threshold on seeds 10 to 19.",
        "",
        "| task | algorithm | threshold | runs that reached it | steps, median (least to most) |",
        "|---|---|---|---|---|",
        *rows,
    ]
    missed = [run for run in sorted(runs) if not run.reached]
    if missed:
        lines += ["", "The tests of those that missed it, as step:mean return:", ""]
        lines += [f"- `{run.algorithm}`, {run.task}, seed {run.seed}: {run.tests}" for run in missed]
    return "\n".join(lines) + "\n"


def main(folders: list[str]) -> None:
    """Adds the runs in folders, and writes the section."""
    curves = [curve for folder in folders for curve in find_curves(Path(folder))]
    write([*read(), *(run for run in map(run_of, curves) if run is not None)])
    page = DOCS / "results.md"
    page.write_text(_PLACE.sub(lambda match: match[1] + section(read()) + match[2], page.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
