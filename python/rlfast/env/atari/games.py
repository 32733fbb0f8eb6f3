"""Names of games."""

from __future__ import annotations

import re
from difflib import get_close_matches

from rlfast.utils.runtime.extras import needed_by

_STICKY = 0.25  # of the ids that end with -v5


def rom_of(game: str) -> str:
    """Returns the emulator's name of a game.

    :param game: a name such as ``"MsPacman"``, ``"ms_pacman"``, ``"ALE/MsPacman-v5"`` or ``"MsPacmanNoFrameskip-v4"``.
    :return: the name, such as ``"ms_pacman"``.
    :raises ValueError: there is no such game.

    >>> rom_of("ALE/MsPacman-v5")
    'ms_pacman'
    """
    with needed_by("rlfast.env.atari"):
        from ale_py import roms
    name = game.removeprefix("ALE/")
    name = re.sub(r"(-ram)?(NoFrameskip|Deterministic)?(-v\d+)?$", "", name)
    known = {_letters(rom): rom for rom in roms.get_all_rom_ids()}
    if _letters(name) in known:
        return known[_letters(name)]
    close = get_close_matches(_letters(name), known, n=3)
    meant = f"; did you mean {' or '.join(known[word] for word in close)}?" if close else ""
    raise ValueError(f"ale-py has no game {game!r}{meant}")


def _letters(name: str) -> str:
    return name.replace("_", "").lower()


def sticky_probability(game: str) -> float:
    """Returns the probability with which the id of a game repeats actions: 0.25 for ids that end with ``-v5``, else 0.

    :param game: the name or id.

    >>> sticky_probability("ALE/Pong-v5"), sticky_probability("PongNoFrameskip-v4")
    (0.25, 0.0)
    """
    return _STICKY if game.endswith("-v5") else 0.0
