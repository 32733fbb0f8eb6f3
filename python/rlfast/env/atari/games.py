"""Names of games."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

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
        raise ValueError(f"{game!r} has the console's memory as observations, but AtariEnv shows screens: drop '-ram'")
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


def title_of(rom: str) -> str:
    """Returns the name of a game in ids.

    :param rom: the emulator's name.

    >>> title_of("ms_pacman")
    'MsPacman'
    """
    return rom.title().replace("_", "")


def spec_of(game: str, **kwargs: Any) -> EnvSpec:
    """Returns a registration of :class:`AtariEnv` under the id of a game, with the threshold of ale-py's registration.

    :param game: as for :func:`rom_of`; the id of a name without a version is ale-py's newest, ``"ALE/Pong-v5"``.
    :param kwargs: the arguments of the environment.
    :return: the registration, with which :func:`gymnasium.make` makes such an environment.
    :raises ValueError: there is no such game.
    """
    rom = rom_of(game)
    id = game if re.search(r"-v\d+$", game) else f"ALE/{title_of(rom)}-v5"
    with needed_by("rlfast.env.atari"):
        import ale_py  # noqa: F401 (which registers the games)
    threshold = getattr(gym.registry.get(id), "reward_threshold", None)
    return EnvSpec(
        id,
        "rlfast.env.atari:AtariEnv",
        reward_threshold=threshold,
        disable_env_checker=True,  # which warns of stacks of frames
        kwargs={"game": game, **kwargs},
    )


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
