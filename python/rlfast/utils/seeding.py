from typing import Any

import numpy as np


def generator(seed: int | None = None) -> np.random.Generator:
    """Make a random stream of its own, for one component.

    :param seed: any non-negative integer. With None, a seed is drawn once from NumPy's global generator, so that a
        script which starts with ``np.random.seed(0)`` still repeats itself.
    :raises ValueError: if ``seed`` is negative.

    >>> float(generator(7).random()) == float(generator(7).random())
    True
    >>> np.random.seed(0); first = generator().random()
    >>> np.random.seed(0); first == generator().random()
    True
    """
    return np.random.default_rng(int(np.random.randint(2**63 - 1, dtype=np.int64)) if seed is None else seed)


class SeededMixin:
    """A random stream that starts when it is first asked for, and can be restarted or carried over."""

    _rng: np.random.Generator | None = None

    @property
    def rng(self) -> np.random.Generator:
        """The generator; without :meth:`seed`, seeded from NumPy's global one at its first use."""
        if self._rng is None:
            self._rng = generator()
        return self._rng

    @rng.setter
    def rng(self, value: np.random.Generator) -> None:
        self._rng = value

    def seed(self, seed: int) -> None:
        """Restart the stream.

        :param seed: any non-negative integer.
        """
        self._rng = generator(seed)

    def random_state(self) -> dict[str, Any] | None:
        """Where the stream stands, for a checkpoint; None before its first use."""
        return None if self._rng is None else dict(self._rng.bit_generator.state)

    def set_random_state(self, state: dict[str, Any] | None) -> None:
        """Go on where :meth:`random_state` was taken."""
        self._rng = None
        if state is not None:
            self._rng = np.random.default_rng()
            self._rng.bit_generator.state = state
