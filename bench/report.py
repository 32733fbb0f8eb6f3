"""The results of a session, as a table for people and as JSON."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Iterator
from typing import Any

from bench.harness import Bar, Bench, Case, Measurement
from bench.libraries import LIBRARIES, LIMITS, ROOT
from rlfast.utils.runtime.cores import processor


def quantity(value: float, unit: str) -> str:
    """Returns a value with three digits and a unit: ``12.3 us``, ``7,081 B``."""
    if unit == "B":
        return f"{value:,.0f} B"
    for factor, name in ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms")):
        if value < 999.5 * factor:
            return f"{value / factor:.3g} {name}"
    return f"{value:.3g} s"


def verdict(case: Case, bar: Bar, medians: dict[str, float]) -> str:
    judged = bar.judge(medians, case.ours)
    against = bar.against[0] if len(bar.against) == 1 else f"best of {len(bar.against)}"
    wanted = f"<= {quantity(bar.at_most, case.unit)}" if bar.at_most is not None else f">= {bar.times:.3g}x {against}"
    if judged is None:
        return f"{wanted}: not measured"
    measured, met = judged
    found = "" if bar.at_most is not None else f"{measured:.3g}x, "
    return f"{found}{wanted}: {'met' if met else 'MISSED'}"


def cell(name: str, results: dict[str, Measurement], us: str) -> str:
    if name not in results:
        return "-"
    ours, own = results.get(us), results[name]
    text = quantity(own.median, "s")
    if name == us:
        return f"{text} ±{own.spread:.0%}"
    return f"{text} ({own.median / ours.median:.3g}x)" if ours else text


def table(bench: Bench) -> Iterator[str]:
    """Returns one line for each case: the libraries' medians, their multiples of rlfast's, and the bars."""
    names = [name for name in LIBRARIES if any(name in found for found in bench.results.values())]
    rows = [["case", *names, "bars"]]
    for case, results in bench.results.items():
        medians = {name: result.median for name, result in results.items()}
        cells = [cell(name, results, case.ours) for name in names]
        if case.unit == "B":
            cells = [quantity(medians[name], "B") if name in medians else "-" for name in names]
        rows.append([case.name, *cells, "; ".join(verdict(case, bar, medians) for bar in case.bars)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)).rstrip()


def left_out(bench: Bench) -> Iterator[str]:
    """Returns one line for each library that was not measured, with the reason."""
    cases: dict[tuple[str, str], int] = {}
    for reasons in bench.unavailable.values():
        for found in reasons.items():
            cases[found] = cases.get(found, 0) + 1
    for (name, reason), count in cases.items():
        yield f"left out of {count} of {len(bench.results)} cases: {name}: {reason}"


def missed(bench: Bench) -> int:
    judged = [
        bar.judge({name: result.median for name, result in results.items()}, case.ours)
        for case, results in bench.results.items()
        for bar in case.bars
    ]
    return sum(1 for one in judged if one is not None and not one[1])


def effort(bench: Bench) -> str:
    """Returns the duration of the session, and the cases that took longest."""
    longest = sorted(bench.seconds.items(), key=lambda item: -item[1])[:5]
    shares = "; ".join(f"{case.name} and its like {seconds:.0f} s" for case, seconds in longest)
    return f"took {sum(bench.seconds.values()) / 60:.1f} minutes, the most of it: {shares}"


def machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"processor": processor(), "cores": os.cpu_count(), "memory_bytes": memory, "system": platform.platform()}


def revision() -> str:
    """Returns the commit that was measured, with a plus sign if files differed from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip()


def as_json(bench: Bench) -> dict[str, Any]:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "revision": revision(),
        "machine": machine(),
        "load": os.getloadavg()[0],
        "effort": vars(bench.effort),
        "versions": bench.versions,
        "limits": list(LIMITS),
        "seconds": {case.name: round(seconds, 1) for case, seconds in bench.seconds.items()},
        "cases": [case_json(bench, case) for case in bench.results],
    }


def case_json(bench: Bench, case: Case) -> dict[str, Any]:
    results = bench.results[case]
    medians = {name: result.median for name, result in results.items()}
    return {
        "name": case.name,
        "scenario": case.scenario,
        "ours": case.ours,
        "operation": case.operation,
        "parameters": case.parameters(bench.effort.quick),
        "threads": case.threads,
        "unit": case.unit,
        "results": {
            name: {"median": result.median, "spread": result.spread, "samples": list(result.samples)}
            for name, result in results.items()
        },
        "unavailable": bench.unavailable[case],
        "bars": [verdict(case, bar, medians) for bar in case.bars],
    }
