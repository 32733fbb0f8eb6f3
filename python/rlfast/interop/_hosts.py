"""What is said where a host is missing."""


def missing(adapter: str, host: str, install: str) -> ImportError:
    """The error of an adapter whose host cannot be imported.

    :param adapter: the adapter's module, ``__name__``.
    :param host: what the library is called.
    :param install: what ``pip install`` is to be given.

    >>> missing("rlfast.interop.sb3", "Stable-Baselines3", "rlfast[sb3]")
    ImportError('rlfast.interop.sb3 works inside Stable-Baselines3, ... install it: pip install "rlfast[sb3]"')
    """
    return ImportError(
        f'{adapter} works inside {host}, which cannot be imported; install it: pip install "{install}"', name=adapter
    )
