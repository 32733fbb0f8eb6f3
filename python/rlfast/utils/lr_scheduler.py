from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.optim.lr_scheduler import LRScheduler

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_scheduler(scheduler: object) -> None:
    """Checks that a scheduler can step without arguments, as updates of policies step it.

    :param scheduler: the scheduler.
    :raises TypeError: it has no method ``step``, or one that needs arguments, as that of ``ReduceLROnPlateau``.
    """
    step = getattr(scheduler, "step", None)
    if not callable(step):
        raise TypeError(f"lr_scheduler must have a method step, or be None, got {scheduler!r}")
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):  # a function of C
        return
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in _VARIADIC]
    if needed:
        raise TypeError(
            f"{type(scheduler).__name__}.step needs {', '.join(needed)}, but a policy steps its lr_scheduler after "
            "each update without arguments: call this scheduler yourself, such as in the trainer's test_fn"
        )


class MultipleLRSchedulers:
    """Several learning rate schedulers that step together, for policies with several optimizers.

    :param schedulers: the schedulers; :meth:`state_dict` returns their states in this order.
    :raises TypeError: a scheduler needs arguments at each step, such as ``ReduceLROnPlateau``.

    >>> import torch
    >>> optims = [torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0) for _ in range(2)]
    >>> both = MultipleLRSchedulers(*(torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.5) for o in optims))
    >>> for optim in optims: optim.step()
    >>> both.step()
    >>> [optim.param_groups[0]["lr"] for optim in optims]
    [0.5, 0.5]
    """

    def __init__(self, *schedulers: LRScheduler) -> None:
        for scheduler in schedulers:
            check_scheduler(scheduler)
        self.schedulers = schedulers

    def step(self) -> None:
        """Step each scheduler once."""
        for scheduler in self.schedulers:
            scheduler.step()

    def state_dict(self) -> list[dict[str, Any]]:
        """Return the state of each scheduler."""
        return [scheduler.state_dict() for scheduler in self.schedulers]

    def load_state_dict(self, state_dict: Sequence[dict[str, Any]]) -> None:
        """Restore what :meth:`state_dict` returned.

        :param state_dict: one state for each scheduler, in the same order.
        :raises ValueError: the number of states differs from that of schedulers; nothing is changed then.
        """
        if len(state_dict) != len(self.schedulers):
            raise ValueError(f"got the states of {len(state_dict)} schedulers for {len(self.schedulers)}")
        for scheduler, state in zip(self.schedulers, state_dict, strict=True):
            scheduler.load_state_dict(state)
