"""What a batch holds, for type checkers. All are Protocols; nothing in rlfast asks ``isinstance`` of them at run time.

An ``ObsBatchProtocol`` of the environment becomes a ``RolloutBatchProtocol`` in the buffer, then, for learning, a
``BatchWithReturnsProtocol``, a ``BatchWithAdvantagesProtocol`` and a ``LogpOldProtocol``. What ``forward`` of a policy
gives runs from ``ActBatchProtocol`` to ``DistLogProbBatchProtocol``.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
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
    """The methods of :class:`rlfast.data.Batch`; the protocols below add the fields that a function expects or gives.

    ``isinstance`` can be asked of it for the sake of Tianshou 1.0 scripts, but is slow: ask ``isinstance(x, Batch)``.
    """

    @property
    def shape(self) -> list[int]: ...
    def __setattr__(self, key: str, value: Any) -> None: ...
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
    def __setitem__(self, index: str | IndexType, value: Any) -> None: ...
    def __iter__(self) -> Iterator[Self]: ...
    def __iadd__(self, other: Any) -> Self: ...
    def __add__(self, other: Any) -> Self: ...
    def __imul__(self, value: Any) -> Self: ...
    def __mul__(self, value: Any) -> Self: ...
    def __itruediv__(self, value: Any) -> Self: ...
    def __truediv__(self, value: Any) -> Self: ...
    def keys(self) -> KeysView[str]: ...
    def values(self) -> ValuesView[Any]: ...
    def items(self) -> ItemsView[str, Any]: ...
    def get(self, key: str, default: Any = None) -> Any: ...
    def pop(self, key: str, *default: Any) -> Any: ...
    def update(self, batch: Any = None, **kwargs: Any) -> None: ...
    def is_empty(self, recurse: bool = False) -> bool: ...
    def to_numpy(self) -> Self: ...
    def to_numpy_(self) -> None: ...
    def to_torch(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> Self: ...
    def to_torch_(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> None: ...
    def to_dict(self, recursive: bool = True) -> dict[str, Any]: ...
    def to_list_of_dicts(self) -> list[dict[str, Any]]: ...
    def get_keys(self) -> KeysView[str]: ...
    def set_array_at_key(
        self, arr: NDArray[Any], key: str, index: Any = None, default_value: float | None = None
    ) -> None: ...
    def isnull(self) -> Self: ...
    def hasnull(self) -> bool: ...
    def dropnull(self) -> Self: ...
    def replace_empty_batches_by_none(self) -> None: ...
    def apply_values_transform(self, values_transform: Any, inplace: bool = False) -> Any: ...
    def to_at_least_2d(self) -> Self: ...
    def cat_(self, batches: Any) -> None: ...
    @staticmethod
    def cat(batches: Sequence[Any]) -> Any: ...
    def stack_(self, batches: Sequence[Any], axis: int = 0) -> None: ...
    @staticmethod
    def stack(batches: Sequence[Any], axis: int = 0) -> Any: ...
    def empty_(self, index: Any = None) -> Self: ...
    @staticmethod
    def empty(batch: Any, index: Any = None) -> Any: ...
    def split(self, size: int, shuffle: bool = True, merge_last: bool = False) -> Iterator[Self]: ...


class ObsBatchProtocol(BatchProtocol, Protocol):
    """Observations: what ``forward`` of a policy is given."""

    obs: arr_type | BatchProtocol
    info: arr_type | BatchProtocol


class RolloutBatchProtocol(ObsBatchProtocol, Protocol):
    """Transitions: what a replay buffer stores and samples."""

    obs_next: arr_type | BatchProtocol
    act: arr_type
    rew: NDArray[Any]
    terminated: arr_type
    truncated: arr_type


class BatchWithReturnsProtocol(RolloutBatchProtocol, Protocol):
    """With the return of each transition."""

    returns: arr_type


class PrioBatchProtocol(RolloutBatchProtocol, Protocol):
    """With importance weights, from a prioritized buffer."""

    weight: arr_type


class RecurrentStateBatch(BatchProtocol, Protocol):
    """Hidden and cell state of a recurrent network."""

    hidden: torch.Tensor
    cell: torch.Tensor


class ActBatchProtocol(BatchProtocol, Protocol):
    """An action and no more, as a random policy gives it."""

    act: arr_type


class ActStateBatchProtocol(ActBatchProtocol, Protocol):
    """With the recurrent state, None for a policy that has none."""

    state: dict[str, Any] | BatchProtocol | NDArray[Any] | None


class ModelOutputBatchProtocol(ActStateBatchProtocol, Protocol):
    """With what the network gave."""

    logits: torch.Tensor


class FQFBatchProtocol(ModelOutputBatchProtocol, Protocol):
    """With the proposed fractions and the quantiles at them (FQF, https://arxiv.org/abs/1911.02140)."""

    fractions: torch.Tensor
    quantiles_tau: torch.Tensor


class BatchWithAdvantagesProtocol(BatchWithReturnsProtocol, Protocol):
    """With advantages and state values (GAE, https://arxiv.org/abs/1506.02438: ``returns = adv + v_s``)."""

    adv: torch.Tensor
    v_s: torch.Tensor


class DistBatchProtocol(ModelOutputBatchProtocol, Protocol):
    """With the distribution that the action was drawn from."""

    dist: torch.distributions.Distribution


class DistLogProbBatchProtocol(DistBatchProtocol, Protocol):
    """With the log-probability of the action."""

    log_prob: torch.Tensor


class LogpOldProtocol(BatchWithAdvantagesProtocol, Protocol):
    """With the log-probability under the policy that acted (PPO, https://arxiv.org/abs/1707.06347)."""

    logp_old: torch.Tensor


class QuantileRegressionBatchProtocol(ModelOutputBatchProtocol, Protocol):
    """With the fractions that the quantiles were taken at (IQN, https://arxiv.org/abs/1806.06923)."""

    taus: torch.Tensor


class ImitationBatchProtocol(ActBatchProtocol, Protocol):
    """With the values and the imitation logits of discrete BCQ (https://arxiv.org/abs/1910.01708)."""

    state: dict[str, Any] | BatchProtocol | NDArray[Any] | None
    q_value: torch.Tensor
    imitation_logits: torch.Tensor


def __getattr__(name: str) -> Any:
    if name in {"TArr", "arr_type"}:  # they name torch, which is imported only for those who ask
        import torch

        value = torch.Tensor | np.ndarray
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
