"""Trained policies without torch: files that NumPy, Rust, C and ONNX run, from an observation to an action.

A :class:`Program` describes a policy; ``FORMATS`` has a function for each format that writes it. :func:`load_policy`
needs NumPy alone.
"""

from typing import TYPE_CHECKING

from rlfast.export.load import load_policy
from rlfast.utils.runtime.extras import lazy_names

if TYPE_CHECKING:
    from rlfast.export.formats import FORMATS, export, save
    from rlfast.export.program import Program
    from rlfast.export.trained import program_of, program_of_run

__all__ = ["FORMATS", "Program", "export", "load_policy", "program_of", "program_of_run", "save"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"formats": ("FORMATS", "export", "save"), "program": ("Program",), "trained": ("program_of", "program_of_run")},
)
