import operator
import random
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def draw_seed(seed: int | None = None) -> int:
    """Return the seed, or draw one from NumPy's global generator, so that ``np.random.seed`` repeats a run."""
    return int(np.random.randint(2**63 - 1, dtype=np.int64)) if seed is None else int(seed)


def generator(seed: int | None = None) -> np.random.Generator:
    """Make a random generator for one component.

    :param seed: a non-negative integer, or a sequence of them. With None, a seed is drawn from NumPy's global
        generator, so that scripts which call ``np.random.seed`` are reproducible.
    :return: the generator.
    :raises ValueError: ``seed`` is negative, or a sequence of more than 1,024 numbers.

    >>> float(generator(7).random()) == float(generator(7).random())
    True
    >>> np.random.seed(0); first = generator().random()
    >>> np.random.seed(0); first == generator().random()
    True
    """
    if seed is None:
        seed = draw_seed()
    return np.random.default_rng(_words(seed) if hasattr(seed, "__len__") else seed)


def _words(seed: Any) -> list[int]:
    """Convert a sequence of numbers to a seed. NumPy would read one of any length, and crash on a recursive list."""
    if isinstance(seed, np.ndarray):
        seed = seed.reshape(-1)
    if len(seed) > 1024:
        raise ValueError(f"a seed has at most 1024 numbers, got {len(seed)}")
    return [operator.index(word) for word in seed]


_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def stream_of(state: Mapping[str, Any]) -> np.random.Generator:
    """Make a random generator from a state, which may come from a file.

    :param state: the state of one of NumPy's bit generators.
    :return: the generator.
    :raises ValueError: the state is not one of these, or it is damaged.

    >>> stream = generator(7)
    >>> stream_of(dict(stream.bit_generator.state)).random() == stream.random()
    True
    """
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if name not in _BIT_GENERATORS:
        known = ", ".join(_BIT_GENERATORS)
        raise ValueError(f"the state of a random generator must be that of one of {known}, got {name!r}")
    bits = getattr(np.random, name)()
    try:
        if name == "MT19937":
            _check_places(state["state"]["key"], 624, state["state"]["pos"])
        elif name == "Philox":
            _check_places(state["buffer"], 4, state["buffer_pos"])
        bits.state = state
    except (KeyError, TypeError, OverflowError, IndexError) as error:
        raise ValueError(f"damaged state of a random generator: {error!r}") from error
    return np.random.Generator(bits)


def _check_places(words: ArrayLike, number: int, place: int) -> None:
    """Check an array index that NumPy uses without a check of its bounds."""
    if np.shape(words) != (number,) or not 0 <= place <= number:
        raise ValueError(
            f"the state of a random generator must have {number} words and a position among them, got shape "
            f"{np.shape(words)} and position {place}"
        )


class SeededMixin:
    """A base class with a random generator, which is made at its first use and can be seeded, saved and restored."""

    _rng: np.random.Generator | None = None

    @property
    def rng(self) -> np.random.Generator:
        """The random generator; without :meth:`seed`, it is seeded from NumPy's global generator at its first use."""
        if self._rng is None:
            self._rng = generator()
        return self._rng

    @rng.setter
    def rng(self, value: np.random.Generator) -> None:
        self._rng = value

    def seed(self, seed: int) -> None:
        """Seed the random generator.

        :param seed: a non-negative integer.
        """
        self._rng = generator(seed)

    def random_state(self) -> dict[str, Any] | None:
        """Return the state of the random generator, for a checkpoint; None before its first use."""
        return None if self._rng is None else dict(self._rng.bit_generator.state)

    def set_random_state(self, state: dict[str, Any] | None) -> None:
        """Restore the state of the random generator.

        :param state: the return value of :meth:`random_state`.
        :raises ValueError: the state is damaged.
        """
        self._rng = None if state is None else stream_of(state)


def global_random_state() -> dict[str, Any]:
    """Return the states of the global random generators of Python, NumPy and torch, as plain data.

    Those of torch are the CPU's and, if CUDA is initialized, that of every CUDA device. They are left out if torch is
    not imported.
    """
    state: dict[str, Any] = {"python": random.getstate(), "numpy": np.random.get_state(legacy=True)}
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        state["cuda"] = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return state


def set_global_random_state(state: dict[str, Any]) -> None:
    """Restore what :func:`global_random_state` returned.

    The states of CUDA devices are ignored if there are fewer devices now.

    :param state: the states.
    :raises ValueError: the state of NumPy's generator is damaged; nothing is changed then.

    >>> state, first = global_random_state(), (random.random(), np.random.rand())
    >>> set_global_random_state(state)
    >>> (random.random(), np.random.rand()) == first
    True
    """
    numpy = state["numpy"]
    if isinstance(numpy, dict):  # the script has replaced NumPy's global bit generator
        stream_of(numpy)
    else:
        _check_places(numpy[1], 624, numpy[2])
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch: Any = sys.modules.get("torch")
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])
        if state["cuda"] and torch.cuda.device_count() >= len(state["cuda"]):
            torch.cuda.set_rng_state_all(state["cuda"])
