"""Backward pass, clipping and Adam's step without the checks of PyTorch, for networks whose computation is as short.

They buy 7 to 20 % of the processor time of updates of small networks (DQN of 3 x 128 units, batches of 64). Private are
the call of the engine of automatic differentiation, the kernels for lists of tensors, the kernel of fused Adam and the
lists of hooks of optimizers. ``tests/utils/test_optim.py`` compares them bitwise with the public calls.
"""

from inspect import unwrap
from typing import Any, TypeAlias

from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.torch_private import ENABLED

with needed_by("rlfast.utils.optim"):
    import torch
    from torch import nn
    from torch.optim import adam, optimizer, rmsprop, sgd
_List: TypeAlias = list[torch.Tensor]
_Lists: TypeAlias = tuple[_List, _List, _List, _List, _List]
_METHODS = torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.state_dict
for _public in (*_METHODS, adam.adam, sgd.sgd, rmsprop.rmsprop):
    # Each imports torch._dynamo, to be left out of its graphs, which takes as long as a short run. No graph calls them.
    _function = unwrap(_public)
    if not hasattr(_function, "__dynamo_disable"):
        setattr(_function, "__dynamo_disable", _function)


def backward(loss: torch.Tensor, moved: list[torch.Tensor]) -> None:
    """Do ``loss.backward(inputs=moved)`` without its checks, which take longer than a small network.

    :param loss: a scalar.
    :param moved: the tensors that get gradients.
    """
    if loss.dim() or not moved or not ENABLED:
        loss.backward(inputs=moved)  # type: ignore[no-untyped-call]
        return
    torch.autograd.Variable._execution_engine.run_backward(  # noqa: SLF001
        (loss,), (torch.ones_like(loss),), False, False, tuple(moved), allow_unreachable=True, accumulate_grad=True
    )


@torch.no_grad()
def clip(grads: list[torch.Tensor], max_norm: float) -> None:
    """Clip gradients as ``nn.utils.clip_grad_norm_`` does, with bitwise equal results, in half its time.

    :param grads: the gradients, which are changed in place.
    :param max_norm: the largest Euclidean norm of all of them together.
    """
    if not ENABLED:
        norm = nn.utils.get_total_norm(grads)
        scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        for grad in grads:
            grad.mul_(scale.to(grad.device))
        return
    device = grads[0].device
    norms = torch._foreach_norm(grads)  # noqa: SLF001 (public only through clip_grad_norm_)
    norm = torch.linalg.vector_norm(torch.stack([norm.to(device) for norm in norms]))
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    if all(grad.device == device for grad in grads):
        torch._foreach_mul_(grads, scale)
    else:
        for grad in grads:
            grad.mul_(scale.to(grad.device))


def lerp(targets: list[torch.Tensor], sources: list[torch.Tensor], share: float) -> None:
    """Move tensors towards others, by one call for all of them.

    :param targets: the tensors that move.
    :param sources: the others.
    :param share: the share of the way, in [0, 1].
    """
    if ENABLED:
        torch._foreach_lerp_(targets, sources, share)
    else:
        for target, source in zip(targets, sources, strict=True):
            target.lerp_(source, share)


_STEPS: dict[type[torch.optim.Optimizer], Any] = {
    kind: unwrap(kind.step) for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD)
}
"""Steps without what they are wrapped in: hooks, the profiler's mark, and an import of torch._dynamo."""


def step(optim: torch.optim.Optimizer) -> None:
    """Do ``optim.step()`` of a usual optimizer by fewer calls, that of Adam in about half its time, to the same bits.

    :param optim: the optimizer.
    """
    function = _STEPS.get(type(optim))
    if not ENABLED or function is None or optim.defaults["differentiable"] or _is_watched(optim):
        optim.step()
        return
    with torch.no_grad():
        if not (type(optim) is torch.optim.Adam and _step_adam(optim)):
            function(optim)


_ONE = torch.ones((), dtype=torch.float32)
_UNKNOWN = ("amsgrad", "decoupled_weight_decay")
_UNKNOWN_LISTED = (*_UNKNOWN, "weight_decay", "maximize", "capturable", "differentiable")
_LISTED = {(torch.device("cpu"), dtype) for dtype in (torch.float32, torch.float64)}


def _step_adam(optim: torch.optim.Adam) -> bool:
    """Do ``step()`` of ``fused=True`` or ``foreach=True``; return False for other options and missing gradients."""
    ready = [lists for group in optim.param_groups if (lists := _lists(optim, group)) is not None]
    if len(ready) < len(optim.param_groups):
        return False
    for group, (params, grads, means, squares, steps) in zip(optim.param_groups, ready, strict=True):
        if steps[0].is_cpu:  # adding a number would convert it to a tensor for each of them
            torch._foreach_add_(steps, _ONE, alpha=1.0)
        else:
            torch._foreach_add_(steps, 1)
        if group["fused"]:
            options: dict[str, Any] = {name: group[name] for name in ("lr", "weight_decay", "eps", "maximize")}
            options["beta1"], options["beta2"] = group["betas"]
            torch._fused_adam_(params, grads, means, squares, [], steps, amsgrad=False, **options)
        else:
            _listed(group, params, grads, means, squares, steps[0].item())
    return True


def _listed(group: dict[str, Any], params: _List, grads: _List, means: _List, squares: _List, count: float) -> None:
    """Call the kernels of ``foreach=True``, with tensors for numbers, which each of them would convert for itself."""
    (beta1, beta2), like = group["betas"], params[0]
    torch._foreach_lerp_(means, grads, 1 - beta1)
    torch._foreach_mul_(squares, like.new_tensor(beta2))
    torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
    roots = torch._foreach_sqrt(squares)  # noqa: SLF001
    torch._foreach_div_(roots, like.new_tensor((1 - beta2**count) ** 0.5))
    torch._foreach_add_(roots, like.new_tensor(group["eps"]), alpha=1.0)
    torch._foreach_addcdiv_(params, means, roots, -(group["lr"] / (1 - beta1**count)))


def _is_watched(optim: torch.optim.Optimizer) -> bool:
    """Whether others would notice a step: by hooks, as learning rate schedulers, or by a ``step`` of their own."""
    own = optim._optimizer_step_pre_hooks or optim._optimizer_step_post_hooks  # noqa: SLF001
    of_all = optimizer._global_optimizer_pre_hooks or optimizer._global_optimizer_post_hooks  # noqa: SLF001
    return bool(own or of_all) or "step" in vars(optim)


def _lists(optim: torch.optim.Adam, group: dict[str, Any]) -> _Lists | None:
    """Return the lists of tensors that the kernels take for a group, step counts last; None if they cannot be used."""
    params, is_fused = group["params"], group["fused"]
    if any(group.get(name) for name in (_UNKNOWN if is_fused else _UNKNOWN_LISTED)):
        return None
    if any(isinstance(number, torch.Tensor) for number in (group["lr"], *group["betas"])):
        return None
    grads, kinds = [p.grad for p in params], {(p.device, p.dtype) for p in params}
    if len(kinds) != 1 or any(g is None for g in grads) or not (is_fused or (group["foreach"] and kinds <= _LISTED)):
        return None
    if not all(optim.state.get(p) for p in params):
        optim._init_group(group, [], [], [], [], [], [])  # type: ignore[no-untyped-call]  # noqa: SLF001
    states = [optim.state[p] for p in params]
    exp_avgs, exp_avg_sqs, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
    if not is_fused and len({step.item() for step in steps}) > 1:
        return None
    return params, grads, exp_avgs, exp_avg_sqs, steps
