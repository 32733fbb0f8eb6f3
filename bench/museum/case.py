"""What a case is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

RIGHT, WRONG, REFUSES, ABSENT = "right", "wrong", "refuses", "does not apply"


@dataclass(frozen=True)
class Either:
    """Several right answers, anywhere within an expected value."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Case:
    """One bug: what goes in and what is right.

    :ivar id: a short name, unique in the museum.
    :ivar title: what a correct library does.
    :ivar issues: public reports, ``owner/repository#number``, or addresses; at least one.
    :ivar operation: the function of :mod:`bench.museum.operations` that runs it.
    :ivar given: the arguments of that function: plain data.
    :ivar right: what it must return: plain data. ``Either`` lists several answers.
    :ivar refusing_is_right: whether a clear error is a right answer too.
    :ivar tolerance: the relative and absolute deviation that numbers may have.
    :ivar intended: for libraries whose maintainers call their answer intended: what they said, and where.
    :ivar note: what a reader must know to judge the answers.
    """

    id: str
    title: str
    issues: tuple[str, ...]
    operation: str
    given: dict[str, Any]
    right: Any
    refusing_is_right: bool = False
    tolerance: float = 1e-5
    intended: dict[str, str] = field(default_factory=dict)
    note: str = ""


def address(issue: str) -> str:
    """Returns the address of an issue, which GitHub redirects to the pull request if it is one."""
    if issue.startswith("https://"):
        return issue
    repository, number = issue.split("#")
    return f"https://github.com/{repository}/issues/{number}"
