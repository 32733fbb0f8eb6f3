"""Loading exported policies with NumPy alone."""

from __future__ import annotations

import os

from rlfast._core import ExportedPolicy


def load_policy(path: str | os.PathLike[str]) -> ExportedPolicy:
    """Load a policy that ``rlfast export --to rlfast`` has written. It needs neither torch nor Gymnasium.

    ``policy(obs)`` takes an observation as the environment returns it, an array of any numbers of the environment's
    shape, or several, ``[B, ...]``. It returns the action for the environment: an int for a Discrete space, otherwise
    an array of the space's shape, and ``[B, ...]`` for several. Actions are the best ones, or, of a run with
    ``--no-deterministic-eval``, drawn; ``policy(obs, deterministic=True)`` and ``False`` choose. ``policy.seed(seed)``
    restarts the random numbers, those that the trained policy would draw after its own ``seed(seed)``; a new policy
    begins as after ``seed(0)``. ``policy.metadata`` describes the policy.

    A recurrent policy keeps a hidden state for each observation of a call, for the next call. ``policy.reset()`` begins
    new episodes, of as many observations as the next call has; another number without it is a ValueError.
    ``policy.reset(rows)`` begins those of some rows, given by their numbers or by a flag for each row.

    :param path: the file. It may be from a stranger: opening it runs no code.
    :return: the policy.
    :raises ValueError: if the file is no policy, or one of a newer rlfast.
    :raises FileNotFoundError: if there is no such file; other errors of the system are OSErrors, too.
    """
    return ExportedPolicy(path)
