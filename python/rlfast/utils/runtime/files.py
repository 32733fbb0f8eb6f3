"""Writing of files."""

import os
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Replaces a file, which appears once it is complete.

    A symbolic link in its place is replaced, too, and its target is unchanged.

    :param path: the file.
    :param content: the new contents.
    :raises OSError: if it cannot be written.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        with fresh.open("xb") as file:
            file.write(content)
        fresh.replace(path)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it has its name now, or could not be made
            fresh.unlink()
