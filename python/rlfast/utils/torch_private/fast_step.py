"""Backward pass, clipping and Adam's step without the checks of PyTorch, for networks whose computation is as short.

They buy 7 to 20 % of the processor time of updates of small networks (DQN of 3 x 128 units, batches of 64). Private are
the call of the engine of automatic differentiation, the kernels for lists of tensors, the kernel of fused Adam and the
lists of hooks of optimizers. ``tests/utils/test_optim.py`` compares them bitwise with the public calls.
"""

from inspect import unwrap
from typing import Any

from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.torch_private import ENABLED

with needed_by("rlfast.utils.optim"):
    import torch
    from torch import nn
    from torch.optim import adam, optimizer, rmsprop, sgd


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


def step(optim: torch.optim.Optimizer) -> None:
    """Do ``optim.step()``, that of a fused Adam with bitwise equal results in half its time.

    :param optim: the optimizer.
    """
    if not (ENABLED and (_step_fused(optim) or _step_unwrapped(optim))):
        optim.step()


_STEPS: dict[type[torch.optim.Optimizer], Any] = {
    kind: unwrap(kind.step) for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD)
}


@torch.no_grad()
def _step_unwrapped(optim: torch.optim.Optimizer) -> bool:
    """Do ``step()`` of a usual optimizer without what it is wrapped in: hooks, the profiler's mark, and an import of
    torch._dynamo.

    :return: whether the step was done. It is not if there are hooks, or gradients of the step itself are wanted.
    """
    function = _STEPS.get(type(optim))
    if function is None or "step" in vars(optim) or optim.defaults["differentiable"] or _has_hooks(optim):
        return False
    function(optim)
    return True


_ONE = torch.ones((), dtype=torch.float32)


@torch.no_grad()
def _step_fused(optim: torch.optim.Optimizer) -> bool:
    """Do ``step()`` of a fused Adam with bitwise equal results, without the overhead that takes half of its time.

    :return: whether the step was done. It is not if the optimizer is not a fused Adam, lacks a gradient, or has step
        hooks (learning rate schedulers add one).
    """
    if type(optim) is not torch.optim.Adam or "step" in vars(optim) or _has_hooks(optim):
        return False
    arguments_of_groups = (_fused_arguments(optim, group) for group in optim.param_groups)
    ready = [arguments for arguments in arguments_of_groups if arguments is not None]
    if len(ready) < len(optim.param_groups):
        return False
    for group, arguments in zip(optim.param_groups, ready, strict=True):
        steps = arguments[-1]
        if steps[0].is_cpu:  # adding a number would convert it to a tensor for each of them
            torch._foreach_add_(steps, _ONE, alpha=1.0)
        else:
            torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            *arguments,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=group["maximize"],
        )
    return True


def _has_hooks(optim: torch.optim.Optimizer) -> bool:
    return bool(
        optim._optimizer_step_pre_hooks  # noqa: SLF001
        or optim._optimizer_step_post_hooks  # noqa: SLF001
        or optimizer._global_optimizer_pre_hooks  # noqa: SLF001
        or optimizer._global_optimizer_post_hooks  # noqa: SLF001
    )


def _fused_arguments(optim: torch.optim.Optimizer, group: dict[str, Any]) -> tuple[list[torch.Tensor], ...] | None:
    """Return the lists of tensors that the kernel takes for a group, step counts last; None if it cannot be used."""
    params = group["params"]
    if not group["fused"] or group["amsgrad"] or group.get("decoupled_weight_decay"):
        return None
    if any(isinstance(number, torch.Tensor) for number in (group["lr"], *group["betas"])):
        return None
    grads = [p.grad for p in params]
    if any(grad is None for grad in grads) or len({(p.device, p.dtype) for p in params}) != 1:
        return None
    if not all(optim.state.get(p) for p in params):
        optim._init_group(group, [], [], [], [], [], [])  # type: ignore[attr-defined]  # noqa: SLF001
    states = [optim.state[p] for p in params]
    exp_avgs, exp_avg_sqs, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
    return params, grads, exp_avgs, exp_avg_sqs, [], steps
