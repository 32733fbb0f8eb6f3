import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import signature
from typing import Any, TypeAlias, TypeVar

from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.torch_private import fast_step
from rlfast.utils.warning import warn_user

with needed_by("rlfast.utils.optim"):
    import torch
    from torch import nn


_logger = logging.getLogger(__name__)

OptimizerFactory: TypeAlias = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
OptionalOptimizer: TypeAlias = torch.optim.Optimizer | OptimizerFactory | None
"""A function from parameters to an optimizer: ``functools.partial(torch.optim.SGD, lr=0.1)``, or :func:`adam`."""

TOptim = TypeVar("TOptim", bound=torch.optim.Optimizer)


def adam(lr: float = 1e-3, **options: Any) -> OptimizerFactory:
    """Return a factory of Adam (arXiv:1412.6980) with one fused kernel for all parameters.

    The fused kernel is a third quicker on small networks than a loop over the parameters.

    :param lr: the learning rate.
    :param options: further arguments of ``torch.optim.Adam``; ``fused=False`` for devices without the fused kernel.
    :return: a function from parameters to an optimizer.

    >>> adam(1e-4)(nn.Linear(2, 1).parameters()).defaults["fused"]
    True
    """
    return partial(torch.optim.Adam, lr=lr, **{"fused": True, **options})


def adamw(lr: float = 1e-3, **options: Any) -> OptimizerFactory:
    """Return a factory of AdamW (arXiv:1711.05101), Adam with decoupled weight decay, with one fused kernel.

    :param lr: the learning rate.
    :param options: further arguments of ``torch.optim.AdamW``, such as ``weight_decay``, which is 0.01 by default.
    :return: a function from parameters to an optimizer.

    >>> adamw(1e-4)(nn.Linear(2, 1).parameters()).defaults["weight_decay"]
    0.01
    """
    return partial(torch.optim.AdamW, lr=lr, **{"fused": True, **options})


def radam(lr: float = 1e-3, **options: Any) -> OptimizerFactory:
    """Return a factory of RAdam (arXiv:1908.03265), Adam whose first steps are shorter while its variances are unsure.

    :param lr: the learning rate.
    :param options: further arguments of ``torch.optim.RAdam``.
    :return: a function from parameters to an optimizer.

    >>> radam(1e-4)(nn.Linear(2, 1).parameters()).defaults["foreach"]
    True
    """
    return partial(torch.optim.RAdam, lr=lr, **{"foreach": True, **options})


def make_optimizer(optim: OptionalOptimizer, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return an optimizer for parameters.

    :param optim: a factory; or an optimizer, or any object with its methods, which is returned as it is; or None, for
        a policy that never learns.
    :param parameters: the argument of the factory. An optimizer that has none of them, which would train nothing, is
        warned of.
    :return: the optimizer; None for None.
    :raises TypeError: ``optim`` is something else.
    """
    made = not isinstance(optim, type) and all(callable(getattr(optim, name, None)) for name in ("step", "zero_grad"))
    if optim is None or made:
        if isinstance(optim, torch.optim.Optimizer) and (left_out := [*parameters]) and not holds_any(optim, left_out):
            warn_user(
                f"{type(optim).__name__} has none of the {len(left_out)} parameters of the network that it is given "
                "for, so its steps will not train it: make the optimizer of this network's parameters()"
            )
        if type(optim) in (torch.optim.Adam, torch.optim.AdamW):
            _choose_kernel(optim)
        return optim  # type: ignore[return-value]
    if not callable(optim):
        raise TypeError(f"an optimizer must be one of torch's, or a function that makes one, got {optim!r}")
    return optim(parameters)


def holds_any(optim: torch.optim.Optimizer, parameters: Iterable[torch.Tensor]) -> bool:
    """Whether an optimizer steps any of some parameters.

    :param optim: the optimizer.
    :param parameters: the parameters.
    :return: whether it has one of them in a group.
    """
    return not {*map(id, _held(optim))}.isdisjoint(map(id, parameters))


def _choose_kernel(optim: Any) -> None:
    """Let Adam on the CPU take its kernels for lists of parameters, where the user has left the choice to PyTorch.

    They compute the same bits in six tenths of the time. The fused kernel is quicker still and rounds differently, so
    it is named in the log and not used unasked.
    """
    if any(group["fused"] or group["foreach"] for group in optim.param_groups):
        return
    name = type(optim).__name__
    _logger.info("torch.optim.%s(..., fused=True) steps in less than half the time of this optimizer", name)
    for group in optim.param_groups:
        is_plain = not any(isinstance(number, torch.Tensor) for number in (group["lr"], *group["betas"]))
        is_on_cpu = all(p.device.type == "cpu" for p in group["params"])
        if group["foreach"] is None and is_plain and is_on_cpu and not group["differentiable"]:
            group["foreach"] = True


def optim_step(
    loss: torch.Tensor,
    optim: torch.optim.Optimizer,
    module: nn.Module | None = None,
    max_grad_norm: float | None = None,
) -> None:
    """Do one gradient step: ``optim.zero_grad()``, ``loss.backward()``, clipping, ``optim.step()``.

    All parameters that the loss depends on get a gradient, so that a second optimizer can use it too.

    :param loss: a scalar.
    :param optim: the optimizer.
    :param module: the module whose gradients are clipped; None (default) for all parameters of the optimizer.
    :param max_grad_norm: the largest Euclidean norm of these gradients together; None or 0 for no limit.
    """
    optim.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    _reduce(optim)
    if max_grad_norm:
        clipped = _held(optim) if module is None else module.parameters()
        nn.utils.clip_grad_norm_(clipped, max_grad_norm)
    optim.step()


_steps_are_captured = ContextVar("steps_are_captured", default=False)


@contextmanager
def captured_steps() -> Iterator[None]:
    """Let :func:`descend` do the captured steps of optimizers, which may become part of a graph.

    :return: the context.
    """
    token = _steps_are_captured.set(True)
    try:
        yield
    finally:
        _steps_are_captured.reset(token)


def descend(loss: torch.Tensor, optim: Any, max_grad_norm: float | None = None) -> None:
    """Do one gradient step as :func:`optim_step` does, but quicker.

    Gradients are computed only for the parameters of the optimizer, so that an actor's loss takes no time for the
    gradients of its critic. Within a graph of torch.compile and within :func:`captured_steps`, where the optimizer must
    be captured (:mod:`rlfast.policy.compile.captured_optimizer`), ``.grad`` is not changed.

    :param loss: a scalar.
    :param optim: the optimizer.
    :param max_grad_norm: the largest Euclidean norm of all gradients together; None or 0 for no limit.
    :raises ValueError: ``optim`` is None.
    """
    if torch.compiler.is_compiling() or _steps_are_captured.get():
        optim.captured.descend(loss, max_grad_norm)
        return
    if optim is None:
        raise ArgumentError("a policy that was made with optim=None can act, but not learn: give it an optimizer")
    if not isinstance(optim, torch.optim.Optimizer):  # another object with the methods of an optimizer
        optim_step(loss, optim, None, max_grad_norm)
        return
    held = _held(optim)
    if type(optim).zero_grad is torch.optim.Optimizer.zero_grad:
        for p in held:  # as optim.zero_grad() does, in a tenth of its time
            p.grad = None
    else:
        optim.zero_grad()
    moved = [p for p in held if p.requires_grad]
    fast_step.backward(loss, moved)
    _reduce(optim)
    if max_grad_norm and (grads := [p.grad for p in moved if p.grad is not None]):
        fast_step.clip(grads, max_grad_norm)
    fast_step.step(optim)


def _reduce(optim: torch.optim.Optimizer) -> None:
    """Call the ``reduce_gradients`` of an optimizer that several learners have (:mod:`rlfast.distributed`)."""
    reduce = getattr(optim, "reduce_gradients", None)
    if reduce is not None:
        reduce(_held(optim))


def _held(optim: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [p for group in optim.param_groups for p in group["params"]]


def clone_optimizer(optim: TOptim, new_params: nn.Parameter | Iterable[nn.Parameter]) -> TOptim:
    """Make an optimizer of the same class and options for other parameters, without state.

    :param optim: an optimizer of ``torch.optim``; the constructors of other classes are not known. Options of
        single parameter groups are not copied.
    :param new_params: the parameters of the new optimizer.
    :return: the new optimizer.
    :raises ValueError: the class of ``optim`` is not one of ``torch.optim``.
    """
    kind = type(optim)
    if not kind.__module__.startswith("torch.optim."):
        raise ValueError(
            f"can only clone the optimizers of torch.optim, got {kind.__qualname__}; pass a factory instead"
        )
    options = {name: value for name, value in optim.defaults.items() if name in signature(kind).parameters}
    return kind([new_params] if isinstance(new_params, nn.Parameter) else new_params, **options)
