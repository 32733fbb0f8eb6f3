import inspect
from collections.abc import Callable
from typing import Any, get_origin

import torch
from torch import nn
from torch.distributions import Distribution

from rlfast.functional.distributions import Categorical, DiagonalNormal, MultiCategorical, SquashedNormal

_SEEDED = (Categorical, DiagonalNormal, MultiCategorical, SquashedNormal)


def takes_a_tuple(dist_fn: Callable[..., Distribution]) -> bool:
    """Whether a function that makes a distribution takes all that an actor gives as one tuple, as right after
    Tianshou 1.0, and not one by one.

    :param dist_fn: one parameter, or a first one that is annotated as a tuple, says so.

    >>> from torch.distributions import Independent, Normal
    >>> takes_a_tuple(lambda loc_scale: Independent(Normal(*loc_scale), 1)), takes_a_tuple(Normal)
    (True, False)
    >>> takes_a_tuple(lambda *loc_scale: Independent(Normal(*loc_scale), 1))
    False
    """
    try:
        signature = inspect.signature(dist_fn.forward if isinstance(dist_fn, nn.Module) else dist_fn)
    except (TypeError, ValueError):  # of a function in C, nothing is known
        return False
    if not signature.parameters:
        return False
    annotation = next(iter(signature.parameters.values())).annotation
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
    """Draw actions.

    :param dist: the distribution.
    :param stream: what random numbers come from; None for torch's global generator.
    """
    if stream is None:
        return dist.sample()
    if type(dist) in _SEEDED:
        return dist.sample(generator=stream)  # type: ignore[call-arg]
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if started else ()
    with torch.random.fork_rng(devices):  # others ask torch's global generators
        torch.manual_seed(int(torch.randint(2**62, (), generator=stream)))
        return dist.sample()
