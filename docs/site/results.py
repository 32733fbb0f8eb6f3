"""The first table of ``docs/results.md`` and its picture, from the curves in ``docs/results``: ``make results``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlfast.cli.runs.suites import SUITES
from rlfast.experiment.report.curves import Configuration, RunCurve, command_of, find_curves, grouped, labels_of
from rlfast.experiment.report.plot import draw_panels
from rlfast.experiment.report.table import in_order, last_and_best, markdown_table, spans

DOCS = Path(__file__).resolve().parents[1]
SUITE = "mujoco-v5"
PICTURE = f"pictures/results-{SUITE}.png"
_PLACE = re.compile(rf"(<!-- {SUITE} -->\n).*?(<!-- end of {SUITE} -->\n)", re.DOTALL)

Groups = Mapping[Configuration, Sequence[RunCurve]]


def curves(docs: Path) -> Groups:
    """The kept runs of the suite, in the order of its tasks."""
    folder = docs / "results" / SUITE
    if not any(folder.rglob("*.csv")):
        return {}
    found = in_order(grouped(find_curves(folder)))
    tasks = [*SUITES[SUITE], *(key.env for key in found)]
    return dict(sorted(found.items(), key=lambda item: tasks.index(item[0].env)))


def with_results(page: str, groups: Groups) -> str:
    """The page with the section of the suite, which is empty without runs."""
    return _PLACE.sub(lambda match: match[1] + section(groups) + match[2], page)


def section(groups: Groups) -> str:
    """The table of all algorithms, a picture, and the figures of each row."""
    if not groups:
        return ""
    labels = labels_of([*groups])
    seeds = {spans([run.config.seed for run in group]) for group in groups.values()}
    of = f"seeds {seeds.pop()}" if len(seeds) == 1 else "the seeds listed below"
    of = of.replace("seeds ", "seed ") if of.removeprefix("seeds ").isdigit() else of
    meaning = f"Mean returns on MuJoCo's tasks over {of}: of last tests, and in brackets of each run's best test."
    picture = f"![Interquartile mean of tests on MuJoCo's tasks over environment steps, with 95 % intervals]({PICTURE})"
    parts = [meaning, overview(groups), *arguments(groups), *unfinished(groups), picture, "## MuJoCo, row by row"]
    parts += [markdown_table(groups, labels), commands(groups)]
    return "\n\n".join(parts) + "\n\n## Thresholds\n\n"


def overview(groups: Groups) -> str:
    """A table with a row for each task and a column for each algorithm and number of steps."""
    cells: dict[tuple[str, str], str] = {}
    for key, group in groups.items():
        column = f"{key.algorithm}, {key.values['max_steps']:,} steps"
        if (key.env, column) in cells:
            raise ValueError(f"there are two configurations of {column}, on {key.env}: keep the curves of one")
        last, best = last_and_best(group)
        cells[key.env, column] = f"{last:,.0f} ({best:,.0f})" + ", one seed" * (len(group) == 1)
    columns = sorted({column for _, column in cells})
    rows = [["task", *columns], ["---"] * (1 + len(columns))]
    rows += [[env, *(cells.get((env, one), "") for one in columns)] for env in dict.fromkeys(env for env, _ in cells)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def arguments(groups: Groups) -> list[str]:
    """A sentence for each row whose environment has arguments of its own."""
    sentences = []
    for key in groups:
        words = [f"{name}={value!r}" for name, value in key.values["env_kwargs"].items()]
        if words:
            sentences.append(f"{key.env} of {key.algorithm} is `gymnasium.make({key.env!r}, {', '.join(words)})`.")
    return sentences


def unfinished(groups: Groups) -> list[str]:
    """A sentence for each row with runs that were stopped."""
    sentences = []
    for key, group in groups.items():
        ends = {run.config.seed: run.steps[-1] for run in group if not run.ended}
        if ends:
            steps = ", ".join(f"{end:,}" for end in ends.values())
            sentences.append(f"{key.algorithm} on {key.env}: seeds {spans([*ends])} stopped after {steps} steps.")
    return sentences


def commands(groups: Groups) -> str:
    """The commands of the first runs of all rows, those with options one by one."""
    usual = "The command of a row is `rlfast train ALGORITHM --env TASK --seed 0`"
    others = [command for group in groups.values() if len((command := command_of(group[0].config)).split()) > 7]
    if not others:
        return f"{usual}."
    return "\n".join([f"{usual}, or one of these:", "", *(f"- `{command}`" for command in others)])


def main(docs: Path = DOCS) -> None:
    """Writes the page, and the picture if there are runs."""
    page, groups = docs / "results.md", curves(docs)
    page.write_text(with_results(page.read_text(), groups))
    if groups:
        draw_panels(groups, labels_of([*groups]), docs / PICTURE)
    else:
        (docs / PICTURE).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
