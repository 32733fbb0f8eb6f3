from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from numpy.typing import ArrayLike, NDArray


class MovAvg:
    """A moving average over the newest finite numbers; NaN, infinity and those in ``banned`` are ignored.

    :param size: the number of numbers that it covers; 0 or less for all.

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
        self.size = size
        self.cache: list[float] = []
        self.banned = [math.inf, math.nan, -math.inf]

    def add(self, data_array: float | Sequence[float] | NDArray[Any] | torch.Tensor) -> float:
        """Add numbers, oldest first.

        :param data_array: a number, or a list, an array or a tensor of numbers, on any device.
        :return: the new average.
        """
        if type(data_array) is float:
            numbers: list[float] = [data_array]
        else:  # NumPy does not convert tensors with gradients or on accelerators
            numbers = np.ravel(data_array.detach().cpu() if hasattr(data_array, "detach") else data_array).tolist()
        self.cache.extend(number for number in numbers if math.isfinite(number) and number not in self.banned)
        if 0 < self.size < len(self.cache):
            del self.cache[: -self.size]
        return self.get()

    def get(self) -> float:
        """Return the average; 0 if there are no numbers yet."""
        return math.fsum(self.cache) / len(self.cache) if self.cache else 0.0

    def mean(self) -> float:
        """Return the average; 0 if there are no numbers yet."""
        return self.get()

    def std(self) -> float:
        """Return the population standard deviation; 0 if there are no numbers yet."""
        return float(np.std(self.cache)) if self.cache else 0.0


class RunningMeanStd:
    """Running mean and variance of each dimension, in float64.

    Batches are merged by the pairwise update of Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm
    for computing sample variances", 1979), in terms of the fraction of the new batch, so that no product grows with
    the count.

    :param mean: the mean before the first update.
    :param std: the standard deviation before the first update.
    :param clip_max: the largest absolute value that :meth:`norm` returns; None for no limit.
    :param epsilon: added to the variance before its square root is taken, so that constant data stay finite.

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

    @overload
    def norm(self, data_array: torch.Tensor) -> torch.Tensor: ...
    @overload
    def norm(self, data_array: ArrayLike) -> NDArray[np.float64]: ...
    def norm(self, data_array: ArrayLike | torch.Tensor) -> NDArray[np.float64] | torch.Tensor:
        """Scale data to mean 0 and variance 1 by the statistics so far.

        :param data_array: ``[..., *dims]``, an array or a tensor.
        :return: scaled data of the same shape: an array of float64, or a tensor of the same dtype (float32 for
            integers) on the same device, through which gradients flow.
        """
        data: Any = data_array
        deviation = np.sqrt(self.var + self.eps)
        if hasattr(data, "new_tensor"):
            tensor = data if data.is_floating_point() else data.float()
            moved: torch.Tensor = (tensor - tensor.new_tensor(self.mean)) / tensor.new_tensor(deviation)
            return moved.clamp(-self.clip_max, self.clip_max) if self.clip_max else moved
        scaled: NDArray[np.float64] = (np.asarray(data) - self.mean) / deviation
        return np.clip(scaled, -self.clip_max, self.clip_max) if self.clip_max else scaled

    def update(self, data_array: ArrayLike) -> None:
        """Add a batch.

        :param data_array: ``[batch, *dims]``; an empty batch changes nothing.
        :raises ValueError: the batch has NaN or infinity; nothing is changed then.
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
        """Add the statistics of another instance, as if its data had been added here.

        :param other: for example the statistics of another worker; not changed.
        """
        if other.count:
            self._merge(other.mean, other.var, other.count)

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics so far, for a checkpoint, as numbers and lists."""
        return {"mean": self.mean.tolist(), "var": self.var.tolist(), "count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned.

        :param state: the state.
        """
        mean, var = (np.array(state[name], np.float64) for name in ("mean", "var"))
        self._set(mean, var, int(state["count"]))

    def _merge(self, mean: NDArray[np.float64], var: NDArray[np.float64], count: int) -> None:
        total = self.count + count
        fraction = count / total
        delta = mean - self.mean
        self._set(
            self.mean + fraction * delta,
            (1 - fraction) * self.var + fraction * var + fraction * (1 - fraction) * delta * delta,
            total,
        )

    def _set(self, mean: NDArray[np.float64], var: NDArray[np.float64], count: int) -> None:
        vars(self).update(mean=mean, var=var, count=count)  # one call, which Ctrl-C cannot interrupt half-way
