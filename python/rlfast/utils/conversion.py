"""Conversion of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import torch


@overload
def to_optional_float(x: torch.Tensor | float) -> float: ...
@overload
def to_optional_float(x: None) -> None: ...
def to_optional_float(x: torch.Tensor | float | None) -> float | None:
    """Convert a number to a float.

    :param x: a tensor of one element, a number, or None.
    :return: the float; None for None.

    >>> import torch
    >>> to_optional_float(torch.tensor([0.5])), to_optional_float(2), to_optional_float(None)
    (0.5, 2.0, None)
    """
    return None if x is None else float(x.item() if hasattr(x, "item") else x)
