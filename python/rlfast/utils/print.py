"""Printing of dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pprint import pformat
from typing import Any, cast


class DataclassPPrintMixin:
    """Methods of a dataclass that print its fields readably."""

    def pprint_asdict(self, exclude_fields: Sequence[str] | None = None, indent: int = 1) -> None:
        """Prints the class name and the fields, including those of nested dataclasses.

        :param exclude_fields: names of fields to leave out.
        :param indent: spaces for each level.
        """
        print(self.pprints_asdict(exclude_fields, indent))  # noqa: T201

    def pprints_asdict(self, exclude_fields: Sequence[str] | None = None, indent: int = 4) -> str:
        """Returns the text that :meth:`pprint_asdict` prints.

        :param exclude_fields: names of fields to leave out.
        :param indent: spaces for each level.
        """
        fields = asdict(cast("Any", self))
        for name in exclude_fields or ():
            fields.pop(name, None)
        return f"{type(self).__name__}\n{'-' * 40}\n{pformat(fields, indent=indent)}"
