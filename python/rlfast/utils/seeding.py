import random
import sys
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


def global_random_state() -> dict[str, Any]:
    """Where the random streams stand that belong to the whole process: Python's, NumPy's and torch's, as plain data.

    Torch's are those of the CPU and of every CUDA device that has begun work.
    """
    state: dict[str, Any] = {"python": random.getstate(), "numpy": np.random.get_state(legacy=True)}
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        state["cuda"] = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return state


def set_global_random_state(state: dict[str, Any]) -> None:
    """Goes on where :func:`global_random_state` was taken. Streams of CUDA devices that are not there are left out.

    >>> state, first = global_random_state(), (random.random(), np.random.rand())
    >>> set_global_random_state(state)
    >>> (random.random(), np.random.rand()) == first
    True
    """
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        if state["cuda"] and torch.cuda.device_count() >= len(state["cuda"]):
            torch.cuda.set_rng_state_all(state["cuda"])
