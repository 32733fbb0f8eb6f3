"""Names that are imported on first access, and the error for a missing library that an extra of rlfast installs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_LIBRARIES = {
    "train": (
        "annotated_types",
        "cloudpickle",
        "gymnasium",
        "matplotlib",
        "safetensors",
        "scipy",
        "tensorboard",
        "torch",
        "tqdm",
    ),
    "atari": ("ale_py",),
    "hdf5": ("h5py",),
    "hub": ("huggingface_hub",),
    "mlflow": ("mlflow",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "ray": ("ray",),
    "trackio": ("trackio",),
    "tune": ("optuna",),
    "video": ("moviepy", "pygame"),
    "wandb": ("wandb",),
}
_EXTRA_OF = {library: extra for extra, libraries in _LIBRARIES.items() for library in libraries}


def how_to_install(extra: str) -> str:
    """Returns the command that installs an extra of rlfast, which is installed from its checkout.

    :param extra: the name of the extra.

    >>> how_to_install("mujoco")
    "pip install '.[mujoco]' in the checkout of rlfast"
    """
    return f"pip install '.[{extra}]' in the checkout of rlfast"


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
    rlfast.utils.runtime.extras.MissingExtra: rlfast.policy needs torch, ... install it: pip install '.[train]' ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        is_ours = isinstance(error, MissingExtra)  # of a package imported within, which the caller has not asked for
        if library not in _EXTRA_OF or (is_ours and not str(error).startswith("rlfast.")):
            raise
        what = f"{who} needs {library}, which cannot be imported; install it: {how_to_install(_EXTRA_OF[library])}"
        raise MissingExtra(what, name=error.name) from error


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Makes the functions ``__getattr__`` and ``__dir__`` of a package whose names are imported on first access.

    Its modules are attributes, too, as after :func:`import_modules_on_access`.

    :param package: the full name of the package.
    :param homes: the names that each of its modules defines.
    :return: the two functions. ``__all__`` has the names whose dependencies are installed.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name == "__all__" and home_of:
            return [one for one in sorted(home_of) if is_here(one)]
        if not name.startswith("_") and name not in home_of and find_spec(f"{package}.{name}"):
            with needed_by(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_by(f"{package}.{name}"):
            value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # later accesses find it without calling this function
        return value

    def is_here(name: str) -> bool:
        try:
            get(name)
        except MissingExtra:
            return False
        return True

    return get, lambda: sorted({*vars(sys.modules[package]), *home_of})


def import_modules_on_access(package: str) -> None:
    """Makes the modules of a package its attributes without a separate import.

    :param package: the full name of the package, which is being imported. Type checkers do not see what this adds,
        and still find misspelt names.
    """
    vars(sys.modules[package])["__getattr__"] = lazy_names(package, {})[0]
