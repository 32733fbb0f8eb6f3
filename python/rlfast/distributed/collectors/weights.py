"""The weights that collectors act with: what they are, and how old."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from rlfast.distributed.cluster.actors import Cluster, Shared
from rlfast.policy import BasePolicy
from rlfast.utils.arguments.checks import count_of


class Weights(NamedTuple):
    """Weights where collectors can read them."""

    version: int
    """The number of gradient steps that they had learned from."""
    shared: Shared
    """The tensors by name."""


def acting_module(policy: BasePolicy) -> nn.Module:
    """Returns the part of a policy that chooses actions: its actor or its value network; the policy, if it has neither.

    :param policy: the policy.
    """
    try:
        module: Any = policy.acting_network  # of ReplayLearner
    except (AttributeError, NotImplementedError):
        module = getattr(policy, "actor", None)
    return module if isinstance(module, nn.Module) else policy


def acting_weights(policy: BasePolicy) -> dict[str, torch.Tensor]:
    """Returns copies of the weights and statistics that choose actions, on the CPU.

    :param policy: the policy.
    """
    state = acting_module(policy).state_dict()
    return {name: value.detach().cpu().clone() for name, value in state.items() if isinstance(value, torch.Tensor)}


def take_weights(policy: BasePolicy, weights: dict[str, torch.Tensor]) -> None:
    """Gives a policy the weights of another one, in place.

    :param policy: the policy.
    :param weights: what :func:`acting_weights` returned for the other.
    :raises RuntimeError: if the other has other networks.
    """
    module = acting_module(policy)
    own = {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    if own.keys() != weights.keys():
        raise RuntimeError(f"weights of another network: only one of the two has {sorted(own.keys() ^ weights.keys())}")
    with torch.no_grad():
        for name, value in weights.items():
            own[name].copy_(value)


class Broadcast:
    """Shares the weights of a policy again once they are older than a number of gradient steps.

    A collector that begins with :attr:`newest` acts with weights that miss fewer than ``every`` gradient steps. The
    learner learns on while it acts, so its rows are older when they arrive, by as much as the rate limiter lets the
    learner do meanwhile.

    :param cluster: where weights are shared.
    :param policy: the policy.
    :param every: number of gradient steps, at least 1.
    :raises ValueError: if ``every`` is less than 1.
    """

    def __init__(self, cluster: Cluster, policy: BasePolicy, every: int = 1) -> None:
        self._cluster, self._policy = cluster, policy
        self.every = count_of("every", every, least=1)
        self._newest: Weights | None = None

    def newest(self, gradient_step: int) -> Weights:
        """Returns the weights to begin with now.

        :param gradient_step: number of gradient steps of the policy so far.
        """
        old = self._newest
        if old is None or not 0 <= gradient_step - old.version < self.every:
            self._newest = old = Weights(gradient_step, self._cluster.share(acting_weights(self._policy)))
        return old

    def forget(self) -> None:
        """Shares the weights again at the next call of :meth:`newest`, as they were changed without a gradient step."""
        self._newest = None
