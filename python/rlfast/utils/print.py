"""Printing records."""

from __future__ import annotations

from dataclasses import asdict
from pprint import pprint
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence


class DataclassPPrintMixin:
    """Gives a dataclass a readable print-out of its fields."""

    def pprint_asdict(self, exclude_fields: Sequence[str] | None = None) -> None:
        """Prints the class name and the fields, nested records included.

        :param exclude_fields: names of fields to leave out.
        """
        fields = asdict(cast("Any", self))
        for name in exclude_fields or ():
            fields.pop(name, None)
        print(type(self).__name__)  # noqa: T201
        print("-" * 40)  # noqa: T201
        pprint(fields)  # noqa: T203
