"""Optimizer steps that may be part of the graph of a whole update.

torch.compile does not take ``optim.step()`` into a larger graph, and a CUDA graph would keep its learning rate. The
functions here do the same step on the same state with tensor operations only. An optimizer may alternate between both,
and its ``state_dict`` has the same content.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.adam import adam

from rlfast.utils.torch_private import fast_step

Tensors = list[torch.Tensor]


class CapturedGroup(NamedTuple):
    """A parameter group of an optimizer, with its state as lists of tensors."""

    params: Tensors
    state: dict[str, Tensors]
    lr: torch.Tensor
    """The learning rate; a tensor, so that a change of it does not recompile the graph."""
    options: dict[str, Any]
    source: dict[str, Any]
    """The group of the optimizer."""
    like: list[int]
    """For each parameter, the place of the first one that has made as many steps."""
    fixed: dict[str, Any]
    """The options that are constants of a graph."""


def _adam(group: CapturedGroup, params: Tensors, grads: Tensors, state: dict[str, Tensors]) -> None:
    """Do a step of Adam (Kingma and Ba, arXiv:1412.6980, algorithm 1) or AdamW (arXiv:1711.05101, algorithm 2).

    On the CPU, PyTorch's own ``adam`` would compute the powers of the bias corrections for each vector of parameters
    anew in a graph of torch.compile. On CUDA, and without torch.compile, it takes one kernel for many parameters.
    """
    options = group.options
    (beta1, beta2), decay = options["betas"], options["weight_decay"]
    compiles = torch.compiler.is_compiling()
    if params[0].is_cuda or not compiles:
        names = ("weight_decay", "eps", "amsgrad", "maximize", "decoupled_weight_decay")
        how = {"foreach": True, "capturable": True} if compiles else {"fused": True}
        same = {**how, "beta1": beta1, "beta2": beta2, **{name: options[name] for name in names}}
        largest = state.get("max_exp_avg_sq", [])
        adam(params, grads, state["exp_avg"], state["exp_avg_sq"], largest, state["step"], lr=group.lr, **same)
        return
    corrections: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}
    for i, (p, grad, step, like) in enumerate(zip(params, grads, state["step"], group.like, strict=True)):
        step.add_(1)
        shared = like, p.dtype
        if shared not in corrections:
            corrections[shared] = _bias_correction(step, beta1, p.dtype), _bias_correction(step, beta2, p.dtype)
        correction1, correction2 = corrections[shared]
        mean, mean_sq = state["exp_avg"][i], state["exp_avg_sq"][i]
        slope = -grad if options["maximize"] else grad
        if decay and options["decoupled_weight_decay"]:
            p.mul_(1 - group.lr * decay)
        elif decay:
            slope = slope + decay * p
        mean.lerp_(slope, 1 - beta1)
        mean_sq.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        if options["amsgrad"]:
            mean_sq = state["max_exp_avg_sq"][i].copy_(torch.maximum(state["max_exp_avg_sq"][i], mean_sq))
        p.sub_(group.lr * correction1 * (mean / ((mean_sq * correction2).sqrt() + options["eps"])))


def _bias_correction(step: torch.Tensor, beta: float, dtype: torch.dtype) -> torch.Tensor:
    """Return the factor of a mean of Adam.

    Inductor computes what has an exponential once, but powers again in each loop that uses them.
    """
    t = step if step.device.type == "mps" else step.double()  # MPS lacks float64
    return (1 / (1 - torch.exp(t * math.log(beta))) if beta else torch.ones_like(t)).to(dtype)


def _rmsprop(group: CapturedGroup, params: Tensors, grads: Tensors, state: dict[str, Tensors]) -> None:
    """Do a step of RMSprop as ``torch.optim.RMSprop`` does, whose function takes learning rates from the device."""
    options = group.options
    for i, (p, grad, square) in enumerate(zip(params, grads, state["square_avg"], strict=True)):
        state["step"][i].add_(1)
        slope = _slope(p, grad, options)
        square.mul_(options["alpha"]).addcmul_(slope, slope, value=1 - options["alpha"])
        var = square
        if options["centered"]:
            mean = state["grad_avg"][i].lerp_(slope, 1 - options["alpha"])
            var = square - mean.square()
        move = slope / (var.sqrt() + options["eps"])
        if options["momentum"]:
            move = state["momentum_buffer"][i].mul_(options["momentum"]).add_(move)
        p.sub_(group.lr * move)


def _sgd(group: CapturedGroup, params: Tensors, grads: Tensors, state: dict[str, Tensors]) -> None:
    """Do a step of SGD as ``torch.optim.SGD`` does, whose function takes learning rates from the device."""
    options, momentum = group.options, group.options["momentum"]
    for i, (p, grad) in enumerate(zip(params, grads, strict=True)):
        slope = _slope(p, grad, options)
        if momentum:
            buffer = state["momentum_buffer"][i].mul_(momentum).add_(slope, alpha=1 - options["dampening"])
            slope = slope + momentum * buffer if options["nesterov"] else buffer
        p.sub_(group.lr * slope)


def _slope(p: torch.Tensor, grad: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    slope = -grad if options["maximize"] else grad
    return slope + options["weight_decay"] * p if options["weight_decay"] else slope


_STEPS: dict[type[Optimizer], Callable[..., None]] = {Adam: _adam, AdamW: _adam, RMSprop: _rmsprop, SGD: _sgd}


class CapturedStep:
    """The step of an optimizer for use in a graph; :func:`capture` stores it as the optimizer's attribute ``captured``.

    :param optim: an Adam, AdamW, RMSprop or SGD that has made a step before.
    """

    def __init__(self, optim: Optimizer) -> None:
        self.step_of = _STEPS[type(optim)]
        self.groups = [_captured(optim, group) for group in optim.param_groups if _moved(optim, group)]

    def refresh(self) -> bool:
        """Copy learning rates that a schedule has changed.

        :return: whether this object still does the step of the optimizer; not if another option was changed.
        """
        for group in self.groups:
            if group.options["lr"] != group.source["lr"]:
                group.options["lr"] = float(group.source["lr"])
                group.lr.fill_(group.options["lr"])
        return all([group.fixed.items() <= group.source.items() for group in self.groups])  # noqa: C419 (quicker)

    def descend(self, loss: torch.Tensor, max_grad_norm: float | None) -> None:
        """Do one gradient step, within a graph.

        :param loss: a scalar.
        :param max_grad_norm: the largest Euclidean norm of all gradients together; None or 0 for no limit.
        """
        params = [p for group in self.groups for p in group.params]
        grads: Sequence[torch.Tensor] = torch.autograd.grad(loss, params)
        with torch.no_grad():
            if max_grad_norm:
                grads = _clipped(grads, max_grad_norm)
            start = 0
            for group in self.groups:
                stop = start + len(group.params)
                self.step_of(group, group.params, [*grads[start:stop]], group.state)
                start = stop


def _clipped(grads: Sequence[torch.Tensor], max_norm: float) -> Sequence[torch.Tensor]:
    if not torch.compiler.is_compiling():
        fast_step.clip([*grads], max_norm)
        return grads
    norm = torch.stack([grad.norm() for grad in grads]).norm()
    return [grad * (max_norm / (norm + 1e-6)).clamp(max=1.0) for grad in grads]


def _captured(optim: Optimizer, group: dict[str, Any]) -> CapturedGroup:
    params = _moved(optim, group)
    for p in params:
        if isinstance(step := optim.state.get(p, {}).get("step"), torch.Tensor):
            optim.state[p]["step"] = step.to(p.device)  # optimizers have it on the CPU, where a CUDA graph cannot count
    names = [name for name, value in optim.state.get(params[0], {}).items() if value is not None]
    state = {name: [optim.state[p][name] for p in params] for name in names}
    options = group | {"lr": float(group["lr"])}  # a schedule may change a tensor in place
    counts = [float(step) for step in state.get("step", [])]
    like = [counts.index(count) for count in counts]
    lr = torch.tensor(options["lr"], device=params[0].device)
    fixed = {name: value for name, value in group.items() if name not in ("params", "lr", "initial_lr")}
    return CapturedGroup(params, state, lr, options, group, like, fixed)


def _moved(optim: Optimizer, group: dict[str, Any]) -> Tensors:
    """Return the parameters of a group that the optimizer has moved before."""
    is_stateless = type(optim) is SGD and not group["momentum"]
    return [p for p in group["params"] if p in optim.state or (is_stateless and p.grad is not None)]


def check_capturable(optim: Optimizer) -> None:
    """Check that the step of an optimizer can be captured.

    :param optim: the optimizer.
    :raises ValueError: its class is not exactly Adam, AdamW, RMSprop or SGD.
    """
    if type(optim) not in _STEPS:
        known = ", ".join(kind.__name__ for kind in _STEPS)
        raise ValueError(f"compile=True needs an optimizer whose step it knows, one of {known}; got {type(optim)}")


def capture(optim: Optimizer) -> bool:
    """Prepare an optimizer for use in a graph.

    :param optim: the optimizer.
    :return: whether it has made a step, and so has its state.
    """
    captured: CapturedStep | None = getattr(optim, "captured", None)
    if captured is not None and captured.refresh():
        return True
    if not any(_moved(optim, group) for group in optim.param_groups):
        return False
    if not hasattr(optim, "captured"):
        optim.register_load_state_dict_post_hook(_forget)
    optim.captured = CapturedStep(optim)  # type: ignore[attr-defined]
    return True


def _forget(optim: Optimizer) -> None:
    optim.captured = None  # type: ignore[attr-defined]
