from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from numpy.typing import ArrayLike, NDArray


class MovAvg:
    """Moving average over the newest finite numbers; NaN and infinities are left out.

    :param size: how many numbers count; 0 for all.
    :raises ValueError: if ``size`` is negative.

    >>> average = MovAvg(size=66)
    >>> average.add(5)
    5.0
    >>> average.add(float("nan"))
    5.0
    >>> average.add([6, 7, 8])
    6.5
    >>> f"{average.mean():.2f} ± {average.std():.2f}"
    '6.50 ± 1.12'
    """

    def __init__(self, size: int = 100) -> None:
        if size < 0:
            raise ValueError(f"size must be 0 (no limit) or more, got {size}")
        self.size = size
        self.cache: deque[float] = deque(maxlen=size or None)

    def add(self, data_array: float | Sequence[float] | NDArray[Any] | torch.Tensor) -> float:
        """Add numbers, oldest first.

        :param data_array: a number, or numbers in a list, an array or a tensor (of any device, gradients or not).
        :return: the new average.
        """
        if type(data_array) is float:
            numbers: list[float] = [data_array]
        else:  # a tensor that needs a gradient or lives on an accelerator is no ArrayLike
            numbers = np.ravel(data_array.detach().cpu() if hasattr(data_array, "detach") else data_array).tolist()
        self.cache.extend(number for number in numbers if math.isfinite(number))
        return self.get()

    def get(self) -> float:
        """Give the average, 0 if there is none yet."""
        return math.fsum(self.cache) / len(self.cache) if self.cache else 0.0

    def mean(self) -> float:
        """Give the average, 0 if there is none yet."""
        return self.get()

    def std(self) -> float:
        """Give the standard deviation (of the population), 0 if there is no number yet."""
        return float(np.std(self.cache)) if self.cache else 0.0


class RunningMeanStd:
    """Mean and variance of a stream, for each dimension on its own, in float64.

    Batches are merged by the pairwise update of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm
    for computing sample variances", 1979), written with the fraction of the new batch, so that no product grows with
    the count.

    :param mean: what :meth:`norm` subtracts until the first update.
    :param std: what :meth:`norm` divides by until the first update.
    :param clip_max: largest absolute value that :meth:`norm` gives; None for no limit.
    :param epsilon: added to the variance before its root is taken, so that a constant stream stays finite.

    >>> stats = RunningMeanStd()
    >>> stats.update([[1.0, 10.0], [3.0, 10.0]])
    >>> stats.mean.tolist(), stats.var.tolist(), stats.count
    ([2.0, 10.0], [1.0, 0.0], 2)
    >>> stats.norm([4.0, 10.0]).round(3).tolist()
    [2.0, 0.0]
    """

    def __init__(
        self,
        mean: ArrayLike = 0.0,
        std: ArrayLike = 1.0,
        clip_max: float | None = 10.0,
        epsilon: float = float(np.finfo(np.float32).eps),
    ) -> None:
        self.mean: NDArray[np.float64] = np.asarray(mean, np.float64)
        self.var: NDArray[np.float64] = np.square(np.asarray(std, np.float64))
        self.clip_max = clip_max
        self.count = 0
        self.eps = epsilon

    def norm(self, data_array: ArrayLike) -> NDArray[np.float64]:
        """Scale to mean 0 and variance 1 by the statistics so far.

        :param data_array: ``[..., *dims]``.
        """
        scaled: NDArray[np.float64] = (np.asarray(data_array) - self.mean) / np.sqrt(self.var + self.eps)
        return np.clip(scaled, -self.clip_max, self.clip_max) if self.clip_max else scaled

    def update(self, data_array: ArrayLike) -> None:
        """Add a batch.

        :param data_array: ``[batch, *dims]``; an empty batch changes nothing.
        :raises ValueError: if there is a NaN or an infinity in it; nothing is changed then.
        """
        data = np.asarray(data_array, np.float64)
        if len(data) == 0:
            return
        mean, var = data.mean(axis=0), data.var(axis=0)
        if not np.isfinite(var).all():
            raise ValueError(
                f"the variance of this batch of shape {data.shape} is not finite: "
                f"{np.size(data) - np.isfinite(data).sum()} values are NaN or infinite; filter or clip them first"
            )
        self._merge(mean, var, len(data))

    def merge(self, other: RunningMeanStd) -> None:
        """Add all that another one has seen, as if its stream had come here.

        :param other: for example that of another worker; it stays as it is.
        """
        if other.count:
            self._merge(other.mean, other.var, other.count)

    def state_dict(self) -> dict[str, Any]:
        """Give the statistics so far, for a checkpoint: numbers and lists of them."""
        return {"mean": self.mean.tolist(), "var": self.var.tolist(), "count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self.mean, self.var = (np.array(state[name], np.float64) for name in ("mean", "var"))
        self.count = int(state["count"])

    def _merge(self, mean: NDArray[np.float64], var: NDArray[np.float64], count: int) -> None:
        total = self.count + count
        fraction = count / total
        delta = mean - self.mean
        self.var = (1 - fraction) * self.var + fraction * var + fraction * (1 - fraction) * delta * delta
        self.mean = self.mean + fraction * delta
        self.count = total
