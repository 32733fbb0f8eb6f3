"""Runs on the Hugging Face hub: published, and found again as ``hf://OWNER/NAME``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from rlfast.utils.runtime.extras import needed_by

_PREFIX: Final = "hf://"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_READ: Final = ("config.json", "checkpoint/*.json", "checkpoint/*.safetensors")
"""The files that loading a policy reads; nothing else is downloaded. None of them can run code."""


def is_on_hub(run: str | os.PathLike[str]) -> bool:
    """Whether a run is on the hub: ``hf://OWNER/NAME``, or ``hf://OWNER/NAME@REVISION``.

    :param run: the folder or the address of a run.
    """
    return os.fspath(run).startswith(_PREFIX)


def local_folder(run: str | os.PathLike[str]) -> Path:
    """Returns the folder of a run, after downloading it if it is on the hub.

    Files are kept in the hub's cache, and downloaded again only when they have changed.

    :param run: a folder, or ``hf://OWNER/NAME`` with ``@REVISION`` for a branch, a tag or a commit.
    :raises ValueError: if the address is none.
    :raises OSError: if there is no such repository, or it cannot be reached.
    :raises MissingExtra: if ``huggingface_hub`` is missing.
    """
    if not is_on_hub(run):
        return Path(run)
    name, _, revision = os.fspath(run).removeprefix(_PREFIX).partition("@")
    check_name(name)
    with needed_by(_PREFIX + name):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError

    try:
        found = snapshot_download(name, revision=revision or None, allow_patterns=[*_READ], endpoint=_endpoint())
    except HfHubHTTPError as error:  # an OSError with several lines
        raise OSError(f"{run} cannot be downloaded: {_first_line(error)}") from error
    return Path(found)


def push(folder: Path, name: str, *, private: bool = False) -> str:
    """Uploads a folder to the hub in one commit: it is there as a whole, or not at all.

    :param folder: the folder.
    :param name: the repository, ``OWNER/NAME``, which is made if there is none.
    :param private: whether a new repository is private. Default: False.
    :return: its address on the web.
    :raises ValueError: if the name is none.
    :raises OSError: if it cannot be reached, or you may not write there.
    :raises MissingExtra: if ``huggingface_hub`` is missing.
    """
    check_name(name)
    with needed_by("rlfast share --push"):
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api = huggingface_hub.HfApi(endpoint=_endpoint())
    try:
        api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload a policy trained with rlfast")
    except (*HfHubHTTPError.__bases__, LocalTokenNotFoundError) as error:  # type: ignore[misc]  # connections fail, too
        advice = "; hf auth login stores a token" if "401" in str(error) or "token" in str(error) else ""
        raise OSError(f"{name} cannot be uploaded: {_first_line(error)}{advice}") from error
    return f"{api.endpoint}/{name}"


def check_name(name: str) -> None:
    """Checks the name of a repository.

    :param name: the name.
    :raises ValueError: if it is not ``OWNER/NAME``.

    >>> check_name("cartpole")
    Traceback (most recent call last):
    ValueError: a repository of the hub is OWNER/NAME, got 'cartpole'
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a repository of the hub is OWNER/NAME, got {name!r}")


def _endpoint() -> str | None:
    """Returns the address of another hub, which its library reads when it is imported; None for the usual one."""
    return os.environ.get("HF_ENDPOINT")


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
