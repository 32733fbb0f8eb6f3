"""The error for a host library that is not installed."""


def missing(adapter: str, host: str, how: str) -> ImportError:
    """Makes the error of an adapter whose host cannot be imported.

    :param adapter: the name of the adapter's module.
    :param host: the name of the library.
    :param how: the command that installs it.
    :return: the error.

    >>> missing("rlfast.interop.sb3", "Stable-Baselines3", "pip install '.[sb3]'")
    ImportError("rlfast.interop.sb3 works inside Stable-Baselines3, ... install it: pip install '.[sb3]'")
    """
    return ImportError(f"{adapter} works inside {host}, which cannot be imported; install it: {how}", name=adapter)
