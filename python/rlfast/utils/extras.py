"""The error for a missing library that an optional extra of rlfast installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    """A library is missing; the message names the extra that installs it."""


@contextmanager
def needed_by(who: str) -> Iterator[None]:
    """Convert the error of a missing library into one that says what to install.

    :param who: the name of what needs the library, for the message.
    :raises MissingExtra: a library is missing that an extra installs; errors of other libraries stay unchanged.

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
