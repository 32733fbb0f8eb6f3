"""Protocols of the fields of batches, for type checkers. rlfast does not check them at run time.

An ``ObsBatchProtocol`` is the input of a policy. A ``RolloutBatchProtocol`` is stored in a buffer. Updates add fields
to it: ``BatchWithReturnsProtocol``, ``BatchWithAdvantagesProtocol``, ``LogpOldProtocol``. The outputs of a policy's
``forward`` range from ``ActBatchProtocol`` to ``DistLogProbBatchProtocol``.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    arr_type: TypeAlias = torch.Tensor | NDArray[Any]
    TArr: TypeAlias = arr_type
    IndexType: TypeAlias = slice | int | NDArray[Any] | list[int]
else:
    IndexType = slice | int | np.ndarray | list[int]

TNestedDictValue: TypeAlias = np.ndarray[Any, Any] | dict[str, "TNestedDictValue"]
TBatch = TypeVar("TBatch", bound="BatchProtocol")


@runtime_checkable
class BatchProtocol(Protocol):
    """The methods of :class:`Batch`; the protocols below add the fields that a function takes or returns.

    ``isinstance`` works with it, but is slow: prefer ``isinstance(x, Batch)``.
    """

    @property
    def shape(self) -> list[int]: ...
    def __setattr__(self, key: str, value: object) -> None: ...
    def __getattr__(self, key: str) -> Any: ...
    def __contains__(self, key: str) -> bool: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: IndexType) -> Self: ...
    def __getitem__(self, index: str | IndexType) -> Any: ...
    def __setitem__(self, index: str | IndexType, value: object) -> None: ...
    def __iter__(self) -> Iterator[Self]: ...
    def __iadd__(self, other: Self | float) -> Self: ...
    def __add__(self, other: Self | float) -> Self: ...
    def __imul__(self, value: float) -> Self: ...
    def __mul__(self, value: float) -> Self: ...
    def __itruediv__(self, value: float) -> Self: ...
    def __truediv__(self, value: float) -> Self: ...
    def keys(self) -> KeysView[str]: ...
    def values(self) -> ValuesView[Any]: ...
    def items(self) -> ItemsView[str, Any]: ...
    def get(self, key: str, default: object = None) -> Any: ...
    def pop(self, key: str, *default: Any) -> Any: ...
    def update(self, batch: dict[str, Any] | Self | None = None, **kwargs: Any) -> None: ...
    def is_empty(self, recurse: bool = False) -> bool: ...
    def to_numpy(self) -> Self: ...
    def to_numpy_(self) -> None: ...
    def to_torch(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> Self: ...
    def to_torch_(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> None: ...
    def to_dict(self, recursive: bool = True) -> dict[str, Any]: ...
    def to_list_of_dicts(self) -> list[dict[str, Any]]: ...
    def get_keys(self) -> KeysView[str]: ...
    def set_array_at_key(
        self, arr: NDArray[Any], key: str, index: IndexType | None = None, default_value: float | None = None
    ) -> None: ...
    def isnull(self) -> Self: ...
    def hasnull(self) -> bool: ...
    def dropnull(self) -> Self: ...
    def replace_empty_batches_by_none(self) -> None: ...
    def apply_values_transform(self, values_transform: Callable[[Any], Any], inplace: bool = False) -> Any: ...
    def to_at_least_2d(self) -> Self: ...
    def cat_(self, batches: Any) -> None: ...
    @staticmethod
    def cat(batches: Sequence[Any]) -> Any: ...
    def stack_(self, batches: Sequence[Any], axis: int = 0) -> None: ...
    @staticmethod
    def stack(batches: Sequence[Any], axis: int = 0) -> Any: ...
    def empty_(self, index: IndexType | None = None) -> Self: ...
    @staticmethod
    def empty(batch: BatchProtocol, index: IndexType | None = None) -> Any: ...
    def split(self, size: int, shuffle: bool = True, merge_last: bool = False) -> Iterator[Self]: ...


class ObsBatchProtocol(BatchProtocol, Protocol):
    """Observations and infos: the input of a policy's ``forward``."""

    obs: arr_type | BatchProtocol
    info: arr_type | BatchProtocol


class RolloutBatchProtocol(ObsBatchProtocol, Protocol):
    """Transitions: the rows that a replay buffer stores and samples."""

    obs_next: arr_type | BatchProtocol
    act: arr_type
    rew: NDArray[Any]
    terminated: arr_type
    truncated: arr_type


class BatchWithReturnsProtocol(RolloutBatchProtocol, Protocol):
    """Transitions with their returns."""

    returns: arr_type


class PrioBatchProtocol(RolloutBatchProtocol, Protocol):
    """Transitions with importance weights, from a prioritized buffer."""

    weight: arr_type


class RecurrentStateBatch(BatchProtocol, Protocol):
    """Hidden and cell state of a recurrent network."""

    hidden: torch.Tensor
    cell: torch.Tensor


class ActBatchProtocol(BatchProtocol, Protocol):
    """Actions: the output of a random policy."""

    act: arr_type


class ActStateBatchProtocol(ActBatchProtocol, Protocol):
    """Actions with the recurrent state, which is None for a policy without one."""

    state: dict[str, Any] | BatchProtocol | NDArray[Any] | None


class ModelOutputBatchProtocol(ActStateBatchProtocol, Protocol):
    """Actions with the output of the network."""

    logits: torch.Tensor


class FQFBatchProtocol(ModelOutputBatchProtocol, Protocol):
    """Actions with the proposed fractions and the quantiles at them (FQF, https://arxiv.org/abs/1911.02140)."""

    fractions: torch.Tensor
    quantiles_tau: torch.Tensor


class BatchWithAdvantagesProtocol(BatchWithReturnsProtocol, Protocol):
    """Transitions with advantages and state values (GAE, https://arxiv.org/abs/1506.02438: ``returns = adv + v_s``)."""

    adv: torch.Tensor
    v_s: torch.Tensor


class DistBatchProtocol(ModelOutputBatchProtocol, Protocol):
    """Actions with the distribution that they were drawn from."""

    dist: torch.distributions.Distribution


class DistLogProbBatchProtocol(DistBatchProtocol, Protocol):
    """Actions with their log-probabilities."""

    log_prob: torch.Tensor


class LogpOldProtocol(BatchWithAdvantagesProtocol, Protocol):
    """Transitions with log-probabilities under the policy that acted (PPO, https://arxiv.org/abs/1707.06347)."""

    logp_old: torch.Tensor


class QuantileRegressionBatchProtocol(ModelOutputBatchProtocol, Protocol):
    """Actions with the fractions of their quantiles (IQN, https://arxiv.org/abs/1806.06923)."""

    taus: torch.Tensor


class ImitationBatchProtocol(ActBatchProtocol, Protocol):
    """Actions with the values and the imitation logits of discrete BCQ (https://arxiv.org/abs/1910.01708)."""

    state: dict[str, Any] | BatchProtocol | NDArray[Any] | None
    q_value: torch.Tensor
    imitation_logits: torch.Tensor


def __getattr__(name: str) -> Any:
    if name in {"TArr", "arr_type"}:  # they refer to torch, which is imported only when they are used
        import torch

        value = torch.Tensor | np.ndarray
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
