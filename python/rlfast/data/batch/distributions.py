"""Torch distributions as fields of a batch: indexing their rows, and counting them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.distributions import Distribution

    TDistribution = TypeVar("TDistribution", bound=Distribution)
else:
    TDistribution = TypeVar("TDistribution")


def is_distribution(value: object) -> TypeGuard[Distribution]:
    """Whether ``value`` is a torch distribution. This does not import torch: without it, no value is one."""
    distributions = sys.modules.get("torch.distributions")
    return distributions is not None and isinstance(value, distributions.Distribution)


def get_sliced_dist(dist: TDistribution, index: Any) -> TDistribution:
    """Returns the distribution of the rows at ``index``.

    :param dist: a distribution whose class has ``__getitem__``, as those of :mod:`rlfast.functional`; or torch's
        Categorical, Bernoulli, Normal or Uniform, also within Independent.
    :param index: an index of the axes of ``dist.batch_shape``.
    :return: a distribution of the same class.
    :raises NotImplementedError: ``dist`` is of another class.

    >>> import torch
    >>> get_sliced_dist(torch.distributions.Normal(torch.zeros(4, 2), torch.ones(4, 2)), slice(1, 3)).batch_shape
    torch.Size([2, 2])
    """
    sliced: TDistribution = _with_parameters(dist, lambda parameter: parameter[index], index)
    return sliced


def dist_to_atleast_2d(dist: TDistribution) -> TDistribution:
    """Adds a batch axis of length 1 to a distribution that has no batch shape; returns others unchanged.

    :param dist: a distribution that :func:`get_sliced_dist` takes.
    :return: a distribution with a batch shape.
    :raises NotImplementedError: ``dist`` has no batch shape and is of a class that :func:`get_sliced_dist` refuses.
    """
    return dist if dist.batch_shape else get_sliced_dist(dist, None)


def get_len_of_dist(dist: Distribution) -> int:
    """Returns the number of rows: the first length of ``dist.batch_shape``.

    :param dist: a torch distribution.
    :raises TypeError: ``dist.batch_shape`` is empty.
    """
    if not dist.batch_shape:
        raise TypeError(f"a distribution without rows has no length: {dist}")
    return dist.batch_shape[0]


def equal(dist: Distribution, other: object) -> bool:
    """Whether two distributions are of the same class and have equal parameters."""
    if type(dist) is not type(other):
        return False
    ours, theirs = _state(dist), _state(other)
    return ours.keys() == theirs.keys() and all(_same(value, theirs[name]) for name, value in ours.items())


def _state(dist: Distribution) -> dict[str, Any]:
    """Returns the attributes that define a distribution, without values that it derived from its parameters."""
    state = dict(dist.__dict__)
    if "_param" in state:
        state.pop("probs", None)
        state.pop("logits", None)
    state.pop("_validate_args", None)
    return state


def _same(value: object, other: object) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(value, other)
    if isinstance(value, list):
        return isinstance(other, list) and len(value) == len(other) and all(map(_same, value, other))
    return equal(value, other) if is_distribution(value) else bool(value == other)


def _with_parameters(dist: Any, change: Callable[[torch.Tensor], torch.Tensor], index: Any) -> Any:
    from torch.distributions import Bernoulli, Categorical, Independent, Normal, Uniform

    if hasattr(type(dist), "__getitem__"):
        return dist[index]
    if isinstance(dist, Independent):
        return type(dist)(_with_parameters(dist.base_dist, change, index), dist.reinterpreted_batch_ndims)
    if isinstance(dist, Categorical | Bernoulli):
        name = "logits" if dist._param is dist.__dict__.get("logits") else "probs"  # noqa: SLF001 (which of the two was given has no public name)
        return type(dist)(**{name: change(dist._param)}, validate_args=False)  # noqa: SLF001
    if isinstance(dist, Normal | Uniform):
        parameters = {name: change(getattr(dist, name)) for name in dist.arg_constraints}
        return type(dist)(**parameters, validate_args=False)
    raise NotImplementedError(
        f"cannot index the rows of a {type(dist).__name__}: give its class a __getitem__, or store its parameters"
    )
