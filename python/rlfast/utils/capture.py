"""Steps of optimizers as tensor arithmetic alone, for graphs that hold a whole update.

``optim.step()`` is a program around its kernels, and torch.compile does not take it into a larger graph. What is here
does the same with the same state, so that an optimizer may go on with either, and its ``state_dict`` knows no
difference.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

Tensors = list[torch.Tensor]


class CapturedGroup(NamedTuple):
    """A parameter group, with its state as lists."""

    params: Tensors
    state: dict[str, Tensors]
    lr: torch.Tensor
    """A tensor, so that a schedule changes an input of the graph and not the graph."""
    options: dict[str, Any]


def _adam(group: CapturedGroup, params: Tensors, grads: Tensors, state: dict[str, Tensors]) -> None:
    options = group.options
    adam(
        params,
        grads,
        state["exp_avg"],
        state["exp_avg_sq"],
        state.get("max_exp_avg_sq", []),
        state["step"],
        foreach=False,
        fused=False,
        capturable=False,
        differentiable=False,
        has_complex=False,
        decoupled_weight_decay=options.get("decoupled_weight_decay", False),
        amsgrad=options["amsgrad"],
        beta1=options["betas"][0],
        beta2=options["betas"][1],
        lr=group.lr,
        weight_decay=options["weight_decay"],
        eps=options["eps"],
        maximize=options["maximize"],
    )


def _rmsprop(group: CapturedGroup, params: Tensors, grads: Tensors, state: dict[str, Tensors]) -> None:
    options = group.options
    rmsprop(
        params,
        grads,
        state["square_avg"],
        state.get("grad_avg", []),
        state.get("momentum_buffer", []),
        state["step"],
        foreach=False,
        capturable=False,
        differentiable=False,
        has_complex=False,
        lr=group.lr,
        alpha=options["alpha"],
        eps=options["eps"],
        weight_decay=options["weight_decay"],
        momentum=options["momentum"],
        centered=options["centered"],
        maximize=options["maximize"],
    )


def _sgd(group: CapturedGroup, params: Tensors, grads: Tensors, state: dict[str, Tensors]) -> None:
    options = group.options
    buffers: list[torch.Tensor | None] = [*state.get("momentum_buffer", [None] * len(params))]
    sgd(
        params,
        grads,
        buffers,
        foreach=False,
        fused=False,
        lr=group.lr,
        weight_decay=options["weight_decay"],
        momentum=options["momentum"],
        dampening=options["dampening"],
        nesterov=options["nesterov"],
        maximize=options["maximize"],
    )


_STEPS: dict[type[Optimizer], Callable[..., None]] = {Adam: _adam, AdamW: _adam, RMSprop: _rmsprop, SGD: _sgd}


class CapturedStep:
    """What a graph needs of an optimizer that has stepped before; it is found as the optimizer's ``captured``.

    :param optim: Adam, AdamW, RMSprop or SGD.
    """

    def __init__(self, optim: Optimizer) -> None:
        self.step_of = _STEPS[type(optim)]
        self.source = [*optim.param_groups]
        self.groups = [_captured(optim, group) for group in optim.param_groups]
        self.refresh()

    def refresh(self) -> None:
        """Take over learning rates that a schedule has changed."""
        for group, source in zip(self.groups, self.source, strict=True):
            if group.options["lr"] != source["lr"]:
                group.options["lr"] = float(source["lr"])
                group.lr.fill_(group.options["lr"])

    def descend(self, loss: torch.Tensor, max_grad_norm: float | None) -> None:
        """Do one step down the gradient of ``loss``, within a graph."""
        params = [p for group in self.groups for p in group.params]
        grads: Sequence[torch.Tensor] = torch.autograd.grad(loss, params)
        with torch.no_grad():
            if max_grad_norm:
                norm = torch.stack([grad.norm() for grad in grads]).norm()
                grads = [grad * (max_grad_norm / (norm + 1e-6)).clamp(max=1.0) for grad in grads]
            start = 0
            for group in self.groups:
                stop = start + len(group.params)
                self.step_of(group, group.params, [*grads[start:stop]], group.state)
                start = stop


def _captured(optim: Optimizer, group: dict[str, Any]) -> CapturedGroup:
    params = [p for p in group["params"] if p in optim.state or (p.requires_grad and type(optim) is SGD)]
    names = [name for name, value in optim.state[params[0]].items() if value is not None] if params else []
    state = {name: [optim.state[p][name] for p in params] for name in names}
    device = params[0].device if params else None
    options = {name: value for name, value in group.items() if name != "params"}
    return CapturedGroup(params, state, torch.tensor(float(group["lr"]), device=device), options | {"lr": None})


def check_capturable(optim: Optimizer) -> None:
    """Refuse an optimizer whose step cannot be captured.

    :raises ValueError: it is none of the four classes, exactly.
    """
    if type(optim) not in _STEPS:
        known = ", ".join(kind.__name__ for kind in _STEPS)
        raise ValueError(f"compile=True needs an optimizer whose step it knows, one of {known}; got {type(optim)}")


def capture(optim: Optimizer) -> bool:
    """Make an optimizer ready for a graph.

    :return: whether it is; before its first step it has no state to take over.
    """
    if not optim.state:
        return False
    captured: CapturedStep | None = getattr(optim, "captured", None)
    if captured is None:
        if not hasattr(optim, "captured"):
            optim.register_load_state_dict_post_hook(_forget)
        optim.captured = CapturedStep(optim)  # type: ignore[attr-defined]
    else:
        captured.refresh()
    return True


def _forget(optim: Optimizer) -> None:
    optim.captured = None  # type: ignore[attr-defined]
