"""Printing records."""

from __future__ import annotations

from dataclasses import asdict
from pprint import pformat
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence


class DataclassPPrintMixin:
    """Gives a dataclass a readable print-out of its fields."""

    def pprint_asdict(self, exclude_fields: Sequence[str] | None = None, indent: int = 1) -> None:
        """Prints the class name and the fields, nested records included.

        :param exclude_fields: names of fields to leave out.
        :param indent: spaces for each level.
        """
        print(self.pprints_asdict(exclude_fields, indent))  # noqa: T201

    def pprints_asdict(self, exclude_fields: Sequence[str] | None = None, indent: int = 4) -> str:
        """What :meth:`pprint_asdict` prints, as a string."""
        fields = asdict(cast("Any", self))
        for name in exclude_fields or ():
            fields.pop(name, None)
        return f"{type(self).__name__}\n{'-' * 40}\n{pformat(fields, indent=indent)}"
