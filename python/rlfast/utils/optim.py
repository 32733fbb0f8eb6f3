from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import torch
from torch import nn

OptimizerFactory: TypeAlias = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
"""Makes an optimizer of parameters: ``functools.partial(torch.optim.SGD, lr=0.1)``, or :func:`adam`."""

TOptim = TypeVar("TOptim", bound=torch.optim.Optimizer)


def adam(lr: float = 1e-3, **options: Any) -> OptimizerFactory:
    """Adam (arXiv:1412.6980) as one fused kernel for all parameters, a third quicker on small networks than a loop over
    them.

    :param lr: learning rate.
    :param options: further arguments of ``torch.optim.Adam``; ``fused=False`` for parameters on a device without that
        kernel.

    >>> adam(1e-4)(nn.Linear(2, 1).parameters()).defaults["fused"]
    True
    """
    return partial(torch.optim.Adam, lr=lr, **{"fused": True, **options})


def make_optimizer(
    optim: torch.optim.Optimizer | OptimizerFactory, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """Give an optimizer for these parameters.

    :param optim: an optimizer, returned as it is, or a factory.
    :param parameters: what a factory is called with.
    """
    return optim if isinstance(optim, torch.optim.Optimizer) else optim(parameters)


def optim_step(
    loss: torch.Tensor,
    optim: torch.optim.Optimizer,
    module: nn.Module | None = None,
    max_grad_norm: float | None = None,
) -> None:
    """Do one step down the gradient: clear the gradients, ``loss.backward()``, clip if asked to, ``optim.step()``.

    Only the parameters that the optimizer holds get a gradient: an actor's loss costs no gradients of its critic.
    Within a graph of torch.compile, where the optimizer must be captured (:mod:`rlfast.utils.capture`), ``.grad`` stays
    as it is, and the norm is that of all that the optimizer holds.

    :param loss: scalar.
    :param optim: holds the parameters that are moved.
    :param module: its parameters' gradients are clipped; needed with ``max_grad_norm``.
    :param max_grad_norm: largest Euclidean norm of all these gradients together; None or 0 for no limit.
    :raises ValueError: if there is a ``max_grad_norm`` and no ``module``.
    """
    if max_grad_norm and module is None:
        raise ValueError(f"max_grad_norm={max_grad_norm} needs the module whose gradients are to be clipped")
    if torch.compiler.is_compiling():
        optim.captured.descend(loss, max_grad_norm)  # type: ignore[attr-defined]
        return
    held = [p for group in optim.param_groups for p in group["params"]]
    for p in held:  # what optim.zero_grad() does, at a tenth of its time
        p.grad = None
    moved = [p for p in held if p.requires_grad]
    loss.backward(inputs=moved)  # type: ignore[no-untyped-call]
    if max_grad_norm and module is not None:
        nn.utils.clip_grad_norm_(module.parameters(), max_norm=max_grad_norm)
    optim.step()


def clone_optimizer(optim: TOptim, new_params: nn.Parameter | Iterable[nn.Parameter]) -> TOptim:
    """Make an optimizer of the same class and options for other parameters, with no state.

    :param optim: one of ``torch.optim``: what another class's constructor takes cannot be known. Options of single
        parameter groups are not carried over.
    :param new_params: the parameters of the new optimizer.
    :raises ValueError: if ``optim`` is not of a class of ``torch.optim``.
    """
    kind = type(optim)
    if not kind.__module__.startswith("torch.optim."):
        raise ValueError(
            f"can only clone the optimizers of torch.optim, got {kind.__qualname__}; pass a factory instead"
        )
    return kind([new_params] if isinstance(new_params, nn.Parameter) else new_params, **optim.defaults)
