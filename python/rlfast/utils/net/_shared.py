from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import torch
from torch import nn

_Known: TypeAlias = dict[tuple[int, int], tuple[Any, Any]]

_known: ContextVar[_Known | None] = ContextVar("features", default=None)


@contextmanager
def shared_features() -> Iterator[None]:
    """Compute what several heads need of one network once.

    Within it, heads on the same ``preprocess_net`` that are given the same object as observations, and no hidden state,
    share its features, and their gradients meet there: an actor and a critic over one network take one pass through it,
    forward and backward. Nothing may change the network's parameters within. A graph of torch.compile finds what is
    computed twice by itself.

    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> calls, net, obs = [], Net(4, hidden_sizes=[8]), torch.zeros(3, 4)
    >>> actor, critic = Actor(net, 2), Critic(net)
    >>> _ = net.register_forward_hook(lambda *_: calls.append("net"))
    >>> with shared_features():
    ...     _ = actor(obs), critic(obs)
    >>> _ = actor(obs), critic(obs)
    >>> len(calls)
    3
    """
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def features_of(net: nn.Module, obs: Any, state: Any) -> tuple[torch.Tensor, Any]:
    """Give ``net(obs, state)``: features and the next hidden state; see :func:`shared_features`."""
    known = None if torch.compiler.is_compiling() or state is not None else _known.get()
    result: tuple[torch.Tensor, Any]
    if known is None:
        result = net(obs, state)
        return result
    key = id(net), id(obs)
    if key not in known:
        known[key] = obs, net(obs, state)  # the observations are kept, lest another object take their place
    result = known[key][1]
    return result
