"""What is said where a library is missing that an extra of rlfast brings."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIBRARIES = {
    "train": (
        "annotated_types",
        "gymnasium",
        "matplotlib",
        "safetensors",
        "scipy",
        "tensorboard",
        "torch",
        "tqdm",
        "tyro",
    ),
    "hdf5": ("h5py",),
    "video": ("moviepy", "pygame"),
    "wandb": ("wandb",),
}
_EXTRA_OF = {library: extra for extra, libraries in _LIBRARIES.items() for library in libraries}


class MissingExtra(ModuleNotFoundError):
    """A library is missing; the error names the extra that brings it."""


@contextmanager
def needed_by(who: str) -> Iterator[None]:
    """Has a missing library say what to install.

    :param who: what needs it.
    :raises MissingExtra: it is one that an extra brings; of others, the error stays as it is.

    >>> with needed_by("rlfast.policy"):
    ...     raise ModuleNotFoundError("No module named 'torch'", name="torch")
    Traceback (most recent call last):
    rlfast.utils.extras.MissingExtra: rlfast.policy needs torch, which ... install it: pip install "rlfast[train]"
    """
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRA_OF:
            raise
        what = (
            f'{who} needs {library}, which cannot be imported; install it: pip install "rlfast[{_EXTRA_OF[library]}]"'
        )
        raise MissingExtra(what, name=error.name) from error
