"""Collects from environments that answer one after another."""

from __future__ import annotations

import warnings

from rlfast.data.collector import Collector


class AsyncCollector(Collector):
    """A :class:`Collector` for an asynchronous vector environment (``wait_num`` or ``timeout``).

    The policy acts for the environments that have answered, while the others go on. A collect ends when enough was
    answered; what is still being stepped then belongs to the next collect, and a collect by episodes discards it.

    Which environments come first is chance, so runs repeat only where the environment answers in order; and short
    episodes are overrepresented in ``collect(n_episode=...)``. Evaluate with :meth:`evaluate`, or better, with an
    environment that is not asynchronous.

    An environment without ``wait_num`` and ``timeout`` is stepped as by a :class:`Collector`.
    """

    def _check_env(self) -> None:
        if self._envs.is_async:
            warnings.warn("asynchronous environments may put more transitions into the buffer than asked", stacklevel=5)
