import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.runtime.seeding import SeededMixin


def _require_non_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:  # also false for NaN
            raise ArgumentError(f"{name} must be 0 or more, got {value}")


class BaseNoise(SeededMixin, ABC):
    """The base class of noise: a random process over actions with its own random generator (see :meth:`seed`)."""

    @abstractmethod
    def reset(self) -> None:
        """Resets the process to its initial state; the random generator keeps its state."""

    def start_episodes(self, rows: NDArray[np.bool_]) -> None:
        """Resets the process in rows whose next noise is the first of an episode. Does nothing, unless overridden.

        :param rows: ``[B]``, for the rows of the last noise.
        """

    @abstractmethod
    def __call__(self, size: int | Sequence[int]) -> NDArray[np.float64]:
        """Draws the next noise.

        :param size: the shape of the actions, usually ``(envs, action_dim)``; an int for one axis.
        :return: noise of that shape.
        """

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the process and of the random generator, for a checkpoint."""
        return {"random": self.random_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state.

        :param state: the return value of :meth:`state_dict`.
        """
        self.set_random_state(state["random"])


class GaussianNoise(BaseNoise):
    """Independent normal noise, the usual choice for DDPG and TD3.

    :param mu: the mean.
    :param sigma: the standard deviation, 0 or more.
    :param seed: seeds the random generator; with None it is seeded from NumPy's global generator at its first use.
    :raises ValueError: ``sigma`` is negative or NaN.

    >>> GaussianNoise(sigma=0.1, seed=0)((2, 3)).shape
    (2, 3)
    """

    def __init__(self, mu: float = 0.0, sigma: float = 1.0, *, seed: int | None = None) -> None:
        _require_non_negative(sigma=sigma)
        self._mu = mu
        self._sigma = sigma
        if seed is not None:
            self.seed(seed)

    def reset(self) -> None:
        """Does nothing: the process has no state."""

    def __call__(self, size: int | Sequence[int]) -> NDArray[np.float64]:
        return self.rng.normal(self._mu, self._sigma, size)


class OUNoise(BaseNoise):
    r"""Noise that drifts back to its mean: the Ornstein-Uhlenbeck process.

    DDPG uses it for exploration (Lillicrap et al., arXiv:1509.02971, section 7).

    .. math::
        x_{t+1} = x_t + \theta\,(\mu - x_t)\,\Delta t + \sigma \sqrt{\Delta t}\;\epsilon_t,
        \qquad \epsilon_t \sim N(0, 1)

    (Euler-Maruyama steps of :math:`dx = \theta (\mu - x) dt + \sigma dW`; Uhlenbeck and Ornstein 1930.) Each row of the
    actions has a process of its own. Collectors let it start anew with each episode of its environment, except those of
    asynchronous environments.

    :param mu: the mean that it returns to.
    :param sigma: the strength of the noise, 0 or more.
    :param theta: the rate of the return to the mean.
    :param dt: the length of a time step, 0 or more.
    :param x0: the value after :meth:`reset`; None for 0.
    :param seed: seeds the random generator; with None it is seeded from NumPy's global generator at its first use.
    :raises ValueError: ``sigma`` or ``dt`` is negative or NaN.

    >>> noise = OUNoise(sigma=0.0, theta=0.5, dt=1.0, x0=8.0)
    >>> noise((1,)).item(), noise((1,)).item()
    (4.0, 2.0)
    >>> noise.reset(); noise((1,)).item()
    4.0
    """

    def __init__(
        self,
        mu: float = 0.0,
        sigma: float = 0.3,
        theta: float = 0.15,
        dt: float = 1e-2,
        x0: float | NDArray[np.floating] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        _require_non_negative(sigma=sigma, dt=dt)
        self._mu = mu
        self._pull = theta * dt
        self._spread = sigma * math.sqrt(dt)
        self._x0 = 0.0 if x0 is None else x0
        if seed is not None:
            self.seed(seed)
        self.reset()

    def reset(self) -> None:
        self._x: float | NDArray[np.floating] = self._x0

    def start_episodes(self, rows: NDArray[np.bool_]) -> None:
        if isinstance(self._x, np.ndarray) and self._x.shape[:1] == rows.shape:
            start = np.broadcast_to(self._x0, self._x.shape)
            self._x = np.where(rows.reshape(-1, *(1,) * (self._x.ndim - 1)), start, self._x)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "x": self._x}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._x = state["x"]

    def __call__(self, size: int | Sequence[int], mu: float | None = None) -> NDArray[np.float64]:
        """Draws the next noise; a change of ``size`` resets the process.

        :param size: the shape of the actions; an int for one axis.
        :param mu: the mean in this step; None for that of the constructor.
        :return: noise of that shape.
        """
        shape = (size,) if isinstance(size, int) else tuple(size)
        if isinstance(self._x, np.ndarray) and self._x.shape != shape:
            self.reset()
        drift = self._pull * ((self._mu if mu is None else mu) - self._x)
        noise: NDArray[np.float64] = self._x + drift + self._spread * self.rng.normal(size=shape)
        self._x = noise
        return noise.copy()
