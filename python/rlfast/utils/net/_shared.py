from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import torch
from torch import nn

_Known: TypeAlias = dict[tuple[int, int], tuple[Any, Any]]

_known: ContextVar[_Known | None] = ContextVar("features", default=None)


@contextmanager
def shared_features() -> Iterator[None]:
    """Return a context in which several heads on one network share its features.

    Heads with the same ``preprocess_net`` that are called with the same observation object, and without a hidden state,
    use the same features. So an actor and a critic on one network need one forward and one backward pass through it.
    The parameters of the network must not change within the context. A graph of torch.compile does not see it; see
    :func:`sharing_features`.

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
    before = _known.get()
    try:  # at once: an interrupt leaves nothing behind
        _known.set({})
        yield
    finally:
        _known.set(before)


class _Traced:
    """What a graph that is being compiled has computed so far: networks, observations and features; None if it does not
    share features. No two graphs are compiled at the same time.
    """

    found: list[tuple[nn.Module, object, Any]] | None = None


_traced = _Traced()


def sharing_features(compute: Callable[[], Any]) -> Any:
    """Return ``compute()``, for which a graph that is being compiled shares features; elsewhere it has no effect.

    The compiler removes repeated computations itself, but not the backward passes through them.

    :param compute: what is computed; it changes parameters last.
    """
    if not torch.compiler.is_compiling():
        return compute()
    _traced.found = []
    result = compute()
    _traced.found = None
    return result


@contextmanager
def separate_features() -> Iterator[None]:
    """Return a context within :func:`shared_features` in which nothing is shared, for parameters that change.

    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor
    >>> calls, net, obs = [], Net(4, hidden_sizes=[8]), torch.zeros(3, 4)
    >>> actor = Actor(net, 2)
    >>> _ = net.register_forward_hook(lambda *_: calls.append("net"))
    >>> with shared_features(), separate_features():
    ...     _ = actor(obs), actor(obs)
    >>> len(calls)
    2
    """
    before = _known.get()
    try:  # at once: an interrupt leaves nothing behind
        _known.set(None)
        yield
    finally:
        _known.set(before)


def features_of(net: nn.Module, obs: object, state: object) -> tuple[torch.Tensor, Any]:
    """Return ``net(obs, state)``, the features and the next hidden state; see :func:`shared_features`."""
    result: tuple[torch.Tensor, Any]
    result = net(obs, state) if state is not None else computed_once(net, obs, lambda: net(obs, state))
    return result


def computed_once(net: nn.Module, obs: object, compute: Callable[[], Any]) -> Any:
    """Return ``compute()``, what ``net`` makes of ``obs``; within :func:`shared_features`, the first such result."""
    if torch.compiler.is_compiling():
        return _traced_once(net, obs, compute)
    known = _known.get()
    if known is None:
        return compute()
    key = id(net), id(obs)
    if key not in known:
        known[key] = obs, compute()  # the observations are kept alive so that no other object gets their id
    return known[key][1]


def _traced_once(net: nn.Module, obs: object, compute: Callable[[], Any]) -> Any:
    if _traced.found is None:
        return compute()
    for known_net, known_obs, features in _traced.found:
        if known_net is net and known_obs is obs:
            return features
    features = compute()
    _traced.found.append((net, obs, features))
    return features
