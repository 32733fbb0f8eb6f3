import inspect
from collections.abc import Callable
from typing import Any, get_origin

import torch
from torch import nn
from torch.distributions import Bernoulli, Distribution, Independent

from rlfast.functional.distributions import Categorical, DiagonalNormal, MultiCategorical, SquashedNormal

_SEEDED = (Categorical, DiagonalNormal, MultiCategorical, SquashedNormal)


def takes_a_tuple(dist_fn: Callable[..., Distribution]) -> bool:
    """Return whether a function that makes a distribution takes the outputs of an actor as one tuple, not as separate
    arguments.

    :param dist_fn: takes a tuple if it has one parameter, or annotates its first parameter as a tuple.
    :return: True for one tuple, False for separate arguments.

    >>> from torch.distributions import Independent, Normal
    >>> takes_a_tuple(lambda loc_scale: Independent(Normal(*loc_scale), 1)), takes_a_tuple(Normal)
    (True, False)
    >>> takes_a_tuple(lambda *loc_scale: Independent(Normal(*loc_scale), 1))
    False
    """
    try:
        signature = inspect.signature(dist_fn.forward if isinstance(dist_fn, nn.Module) else dist_fn)
    except (TypeError, ValueError):  # a function in C has no signature
        return False
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind is first.VAR_POSITIONAL:
        return False
    annotation = first.annotation
    if get_origin(annotation) is tuple or annotation is tuple or str(annotation).lower().startswith("tuple"):
        return _binds(signature, 1)
    return _binds(signature, 1) and not _binds(signature, 2)


def _binds(signature: inspect.Signature, number: int) -> bool:
    try:
        signature.bind(*[None] * number)
    except TypeError:
        return False
    return True


def draw(dist: Distribution, stream: torch.Generator | None) -> Any:
    """Draw actions from a distribution.

    :param dist: the distribution.
    :param stream: the generator of random numbers; None for torch's global generator.
    :return: the actions, a tensor of the distribution's shape.
    """
    if stream is None:
        return dist.sample()
    if type(dist) in _SEEDED:
        return dist.sample(generator=stream)  # type: ignore[call-arg]
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if started else ()
    with torch.random.fork_rng(devices):  # other distributions draw from torch's global generators
        torch.manual_seed(int(torch.randint(2**62, (), generator=stream)))
        return dist.sample()


def entropy_of(dist: Distribution) -> torch.Tensor:
    """Return the entropies of distributions.

    :param dist: the distribution of B rows.
    :return: what ``dist.entropy`` returns.
    :raises NotImplementedError: PyTorch has no formula for it, as for those of torch's ``TransformedDistribution``.
    """
    try:
        entropy: torch.Tensor = dist.entropy()
    except NotImplementedError as error:
        raise NotImplementedError(
            f"dist_fn made a {type(dist).__name__}, which has no entropy. Return a subclass of it with a method "
            "entropy(), such as the estimate -self.log_prob(self.rsample())"
        ) from error
    return entropy


def log_prob_of(dist: Any, act: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities of actions as a buffer has them, which may have integers where the distribution
    draws floats, or lack its axes of length 1, after random actions or in data of others.

    :param dist: the distribution of B rows, or an object of a class of one's own that has ``log_prob``.
    :param act: actions, ``[B, ...]``.
    :return: what ``dist.log_prob`` returns.

    >>> log_prob_of(Bernoulli(torch.tensor([[0.5], [0.25]])), torch.tensor([0, 1])).exp().tolist()
    [[0.5], [0.25]]
    """
    result: torch.Tensor = dist.log_prob(_as_drawn(dist, act) if isinstance(dist, Distribution) else act)
    return result


def _as_drawn(dist: Distribution, act: torch.Tensor) -> torch.Tensor:
    """Return actions with the shape and the dtype that the distribution draws, where they hold the same numbers."""
    shape = dist.batch_shape + dist.event_shape
    if act.shape != shape and act.shape[:1] == shape[:1] and act.numel() == shape.numel():
        act = act.reshape(shape)  # [B] beside [B, 1] would be broadcast to [B, B]
    inner = dist
    while isinstance(inner, Independent):
        inner = inner.base_dist
    return act.to(inner.logits.dtype) if isinstance(inner, Bernoulli) else act  # its logarithm takes floats alone
