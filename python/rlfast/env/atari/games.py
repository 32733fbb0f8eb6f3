"""Names of games."""

from __future__ import annotations

import re
from difflib import get_close_matches

from rlfast.utils.runtime.extras import needed_by

_STICKY = 0.25
_STICKY_VERSIONS = ("-v0", "-v5")  # of ids


def rom_of(game: str) -> str:
    """Returns the emulator's name of a game.

    :param game: a name such as ``"MsPacman"``, ``"ms_pacman"``, ``"ALE/MsPacman-v5"`` or ``"MsPacmanNoFrameskip-v4"``.
    :return: the name, such as ``"ms_pacman"``.
    :raises ValueError: there is no such game, or the name asks for the console's memory instead of its screen.
    :raises FileNotFoundError: the game's ROM cannot be read.

    >>> rom_of("ALE/MsPacman-v5")
    'ms_pacman'
    """
    with needed_by("rlfast.env.atari"):
        from ale_py import roms
    name = game.removeprefix("ALE/")
    name = re.sub(r"(NoFrameskip|Deterministic)?(-v\d+)?$", "", name)
    if name.endswith("-ram"):
        raise ValueError(f"{game!r} asks for the console's memory, and observations here are its screens: drop '-ram'")
    known = {_letters(rom): rom for rom in roms.get_all_rom_ids()}
    if _letters(name) in known:
        rom = known[_letters(name)]
        try:
            roms.get_rom_path(rom)
        except OSError as error:
            reason = str(error).splitlines()[0]
            raise FileNotFoundError(
                f"the ROM of {rom} cannot be read: {reason}; install ale-py again, or unset ALE_ROMS_DIR"
            ) from error
        return rom
    close = get_close_matches(_letters(name), known, n=3)
    meant = f"; did you mean {' or '.join(known[word] for word in close)}?" if close else ""
    raise ValueError(f"ale-py has no game {game!r}{meant}")


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def sticky_probability(game: str) -> float:
    """Returns the probability with which the id of a game repeats actions: 0.25 for ids that end with ``-v5``
    or ``-v0``, else 0, as they are registered by ale-py.

    :param game: the name or id.

    >>> sticky_probability("ALE/Pong-v5"), sticky_probability("PongNoFrameskip-v4")
    (0.25, 0.0)
    """
    return _STICKY if game.endswith(_STICKY_VERSIONS) else 0.0
