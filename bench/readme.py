"""Writes the tables of recordings into the documents: ``python -m bench.readme``.

The newest recording of each topic in ``bench/results`` fills the tables of ``README.md``, ``docs/benchmarks.md`` and
``bench/GOALS.md``, and its pictures are drawn into ``docs/pictures``. A topic is the name of a recording
without its date: ``replay`` of ``2026-11-24-replay.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.labels import TITLES, described, verdict
from bench.libraries import RLFAST, ROOT
from bench.plot import draw, ratios
from bench.plot_summary import draw_summary, summary
from bench.report import quantity

Runs = dict[str, tuple[Path, dict[str, Any]]]
"""The newest recording of each topic, with its path."""


def recordings(folder: Path) -> Runs:
    """Returns the newest recording of each topic, without cases that a newer recording of another topic has.

    :param folder: a folder with files named ``DATE-TOPIC.json``.
    """
    found: Runs = {}
    for path in sorted(folder.glob("????-??-??-*.json")):
        topic = path.stem[len("2026-11-22-") :]
        run = json.loads(path.read_text())
        if topic not in found or run["date"] > found[topic][1]["date"]:
            found[topic] = (path, run)
    newest: dict[str, str] = {}
    for _, run in found.values():
        for case in run["cases"]:
            newest[case["name"]] = max(newest.get(case["name"], ""), run["date"])
    for _, run in found.values():
        run["cases"] = [case for case in run["cases"] if newest[case["name"]] == run["date"]]
    return found


def cell(case: dict[str, Any], name: str) -> str:
    """Returns a library's median, and the multiple of rlfast's that it is."""
    results, ours = case["results"], case.get("ours", RLFAST)
    if name not in results:
        return "-"
    unit, median = case["unit"], results[name]["median"]
    text = quantity(median, unit)
    if name == ours or ours not in results:
        return text
    return f"{text} ({times(median / results[ours]['median'])})"


def times(ratio: float) -> str:
    """Returns a factor with two digits: ``0.97x``, ``1.5x``, ``230x``."""
    return f"{float(f'{ratio:.2g}'):g}x"


def table(run: dict[str, Any]) -> list[str]:
    """Returns a table row for each case with rlfast, whether it is faster or not."""
    cases = [case for case in run["cases"] if case.get("ours", RLFAST) in case["results"]]
    own = {case.get("ours", RLFAST) for case in cases}
    names = [name for name in run["versions"] if name not in own | set(run["limits"])]
    names = [name for name in names if any(name in case["results"] for case in cases)]
    titles = " | ".join(["rlfast", *(TITLES.get(name, name) for name in names)])
    lines = [f"| | {titles} |", "|---|---|" + "---|" * len(names)]
    for case in cases:
        others = [cell(case, name) for name in names]
        ours = cell(case, case.get("ours", RLFAST))
        lines.append(f"| {' | '.join([described(case['name']), f'**{ours}**', *others])} |")
    return lines


def losses(run: dict[str, Any]) -> list[str]:
    """Returns a line for each case in which another library is better."""
    limits = set(run["limits"])
    lines = []
    for name, others in ratios(run):
        better = {other: ratio for other, ratio in others.items() if ratio < 1.0 and other not in limits}
        if better:
            listed = ", ".join(f"{TITLES.get(other, other)} {ratio:.3g}x" for other, ratio in better.items())
            lines.append(f"- {described(name)}: {listed}")
    return lines or ["- in no row"]


def goals(run: dict[str, Any]) -> list[str]:
    """Returns a table row for each goal of a recording, missed goals first; nothing if it has none."""
    rows = []
    for case in run["cases"]:
        for bar in case["bars"]:
            goal, _, state = verdict(bar).rpartition(": ")
            rows.append((state != "MISSED", f"| {described(case['name'])} | {goal} | {state} |"))
    if not rows:
        return []
    return ["| | measured, goal | |", "|---|---|---|", *(row for _, row in sorted(rows, key=lambda row: row[0]))]


def all_goals(runs: Runs) -> str:
    """Returns the goals of all recordings, each under the name of its recording."""
    found = {path.stem: goals(run) for path, run in runs.values()}
    return "\n\n".join(f"### {name}\n\n" + "\n".join(lines) for name, lines in sorted(found.items()) if lines)


def measured(path: Path, run: dict[str, Any]) -> str:
    """Returns the machine, the date and the versions of a recording."""
    versions = {name: version for found in run["versions"].values() for name, version in found.items()}
    listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    effort = " Short rounds (`--quick`), smaller image and wide buffers." if run["effort"].get("quick") else ""
    return (
        f"Recording: `bench/results/{path.name}`, {run['date'][:16].replace('T', ' ')} UTC, revision"
        f" {run['revision'] or 'unknown'}, {run['machine']['processor']}, {run['machine']['cores']} cores, load"
        f" {run['load']:.2f}.{effort} {listed}."
    )


def section(path: Path, run: dict[str, Any], picture: Path) -> str:
    """Returns the section of ``docs/benchmarks.md`` for a recording."""
    parts = ["\n".join(table(run)), f"![Each case is a line, each library a dot on it](pictures/{picture.name})"]
    parts += ["**Where rlfast loses** (multiples of its time or memory):", "\n".join(losses(run)), measured(path, run)]
    return "\n\n".join(parts)


def overview(runs: Runs, results: str) -> str:
    """Returns the README's table with the rows of :func:`bench.plot_summary.summary`.

    :param results: the folder of the recordings, as a link from the document.
    """
    rows = summary(runs)
    names = list(rows[0].peers)
    titles = " | ".join(TITLES[name] for name in names)
    lines = [f"| | rlfast | {titles} | recording |", "|---|---|" + "---|" * (len(names) + 1)]
    for row in rows:
        others = " | ".join(cell(row.case, name) for name in names)
        source = f"[{row.recording.stem}]({results}/{row.recording.name})"
        lines.append(f"| {row.label} | **{cell(row.case, RLFAST)}** | {others} | {source} |")
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """Returns the document with new content between the markers with this name.

    :raises ValueError: if it has no such markers.
    """
    begin, end = (f"<!-- bench:{name}:{which} -->" for which in ("begin", "end"))
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no place for {name}: the document lacks the lines {begin} and {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def main() -> None:
    """Writes the tables of the three documents and draws the pictures.

    :raises ValueError: if a document has no markers for a table, or a row of the overview is in no recording.
    """
    runs = recordings(ROOT / "bench" / "results")
    pictures = ROOT / "docs" / "pictures"
    pictures.mkdir(exist_ok=True)
    readme, page, goals_page = ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "bench" / "GOALS.md"
    readme_text = fill(readme.read_text(), "overview", overview(runs, "bench/results"))
    page_text = fill(page.read_text(), "overview", overview(runs, "../bench/results"))
    for topic, (path, run) in runs.items():
        picture = pictures / f"benchmarks-{topic}.png"
        page_text = fill(page_text, topic, section(path, run, picture))
        draw(run, picture)
    draw_summary(summary(runs), pictures / "speed.svg")
    readme.write_text(readme_text)
    page.write_text(page_text)
    goals_page.write_text(fill(goals_page.read_text(), "goals", all_goals(runs)))


if __name__ == "__main__":
    main()
