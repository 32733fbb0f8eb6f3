"""Numbers of several kinds as Python's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import torch


@overload
def to_optional_float(x: torch.Tensor | float) -> float: ...
@overload
def to_optional_float(x: None) -> None: ...
def to_optional_float(x: torch.Tensor | float | None) -> float | None:
    """A tensor of one element, or a number, as a float; None stays None.

    >>> import torch
    >>> to_optional_float(torch.tensor([0.5])), to_optional_float(2), to_optional_float(None)
    (0.5, 2.0, None)
    """
    return None if x is None else float(x.item() if hasattr(x, "item") else x)
