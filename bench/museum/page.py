"""Makes ``docs/museum.md`` from the recorded answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from bench.museum import operations
from bench.museum.case import ABSENT, REFUSES, RIGHT, WRONG, Case, Either, address
from bench.museum.cases import AREAS, CASES
from bench.museum.run import COLUMNS

HEAD = """# The museum

<!-- Made by `make museum` from bench/museum/results.json: edit bench/museum, not this page. -->

{cases} bugs that users of reinforcement-learning libraries reported in public. Each is a small program with a known
right answer, run against rlfast and {peers} other libraries.

| | |
|---|---|
| right | the right answer, or a clear error for bad input |
| **wrong** | another answer, a crash or a hang |
| refuses | a clear error instead of an answer |
| n/a | the library has no such feature, or none that can be called separately |
| *intended* | a maintainer called the answer intended; quoted below |

An adapter in `bench/museum/adapters` calls each library's public interface, with the options documented for the task;
it does not know which case it runs. `make museum` repeats everything, each library in its own environment and each case
in its own process. If an answer looks unfair, the adapter may be wrong: please report it.

Below each table, the cases are grouped by what is called, with its arguments, the right answer, and the wrong ones. In
`ends`, `T` is a terminated step, `t` a truncated one and `.` any other. Observation `n` is followed by `n + 1`.
"""


def shown(value: Any) -> str:
    """An answer in at most 160 characters."""
    if isinstance(value, Either):
        return " or ".join(shown(each) for each in value.values)
    if isinstance(value, dict):
        text = "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    elif isinstance(value, (list, tuple)):
        text = "[" + ", ".join(shown(item) for item in value) + "]"
    else:
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 160 else text[:157] + "..."


def code(value: Any) -> str:
    return f"`{shown(value).replace('`', chr(39))}`"


def reference(issue: str) -> str:
    return f"[{issue.removeprefix('https://github.com/')}]({address(issue)})"


def cell(case: Case, name: str, library: dict[str, Any]) -> str:
    answer = library["cases"].get(case.id)
    if answer is None or answer["outcome"] == ABSENT:
        return "n/a"
    outcome = str(answer["outcome"])
    text = {WRONG: "**wrong**", REFUSES: "refuses", RIGHT: "right"}[outcome]
    return f"{text}, *intended*" if outcome in {WRONG, REFUSES} and name in case.intended else text


def summary(libraries: dict[str, Any]) -> Iterator[str]:
    yield "| library | version | right | wrong | refuses | does not apply |"
    yield "|---|---|---:|---:|---:|---:|"
    for name, library in libraries.items():
        column = COLUMNS[name]
        outcomes = [library["cases"].get(id, {"outcome": ABSENT})["outcome"] for id in CASES]
        counts = " | ".join(str(outcomes.count(outcome)) for outcome in (RIGHT, WRONG, REFUSES, ABSENT))
        yield f"| {column.title} | {library['versions'].get(column.key, '')} | {counts} |"


def area(title: str, cases: tuple[Case, ...], libraries: dict[str, Any]) -> Iterator[str]:
    some = {name: library for name, library in libraries.items() if any(cell(c, name, library) != "n/a" for c in cases)}
    yield f"## {title}"
    yield ""
    yield "| case | reported | " + " | ".join(COLUMNS[name].title for name in some) + " |"
    yield "|---|---|" + "---|" * len(some)
    for case in cases:
        cells = " | ".join(cell(case, name, library) for name, library in some.items())
        issues = ", ".join(reference(issue) for issue in case.issues)
        yield f"| [{case.title}](#{case.id}) | {issues} | {cells} |"
    yield ""
    for name in dict.fromkeys(case.operation for case in cases):
        yield f"### {name}"
        yield ""
        yield purpose(name)
        yield ""
        for case in cases:
            if case.operation == name:
                yield from details(case, some)


def purpose(operation: str) -> str:
    """The first paragraph of the docstring of an operation."""
    first = inspect.getdoc(getattr(operations, operation)).split("\n\n")[0]
    return " ".join(first.split()).replace("``", "`")


def details(case: Case, libraries: dict[str, Any]) -> Iterator[str]:
    given = ", ".join(f"{key}={shown(value)}" for key, value in case.given.items())
    arguments = f" `{given}` gives" if given else " Right:"
    refused = ", or a clear error" if case.refusing_is_right and case.right != "refused" else ""
    yield (f'<a id="{case.id}"></a>**{case.title}.**{arguments} {code(case.right)}{refused}. {case.note}'.rstrip())
    yield ""
    same: dict[tuple[str, str], list[str]] = {}
    for name, library in libraries.items():
        answer = library["cases"].get(case.id, {})
        if answer.get("outcome") in {WRONG, REFUSES}:
            same.setdefault((code(answer["observed"]), case.intended.get(name, "")), []).append(COLUMNS[name].title)
    for (observed, words), titles in same.items():
        yield f"- {', '.join(titles)}: {observed}"
        if words:
            yield f"  Intended: {words}"
    if same:
        yield ""


def page(results: dict[str, Any]) -> str:
    """Returns the text of the page."""
    libraries = {name: results["libraries"][name] for name in COLUMNS if name in results["libraries"]}
    lines = [HEAD.format(peers=len(libraries) - 1, cases=len(CASES))]
    lines += summary(libraries)
    dates = sorted({library["date"] for library in libraries.values()})
    lines += ["", f"Run on {' to '.join(dict.fromkeys((dates[0], dates[-1])))}." if dates else ""]
    for title, cases in AREAS.items():
        lines += ["", *area(title, cases, libraries)]
    return "\n".join(lines).rstrip() + "\n"
