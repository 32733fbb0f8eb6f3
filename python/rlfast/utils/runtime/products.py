"""Products of matrices by oneDNN, on processors for which PyTorch's other library lacks the quick kernels.

PyTorch multiplies float32 matrices by MKL, which uses kernels for AVX2 on AMD's processors. Those from Zen 5 on do
twice as many operations by AVX-512 in the same time, and oneDNN, which is part of PyTorch as well, uses it: a product
of two matrices of 256 x 256 takes 145 us there, and 303 us by MKL (``python -m bench.products``).
"""

import platform
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn import functional
from torch.nn.modules import module as torch_module

_any_global_hook: Callable[[], bool] = torch_module._has_any_global_hook  # noqa: SLF001 (torch has no other way to ask)
_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"

LEAST = 2**21
"""The least number of multiplications of a product, at which oneDNN's longer call pays."""


@cache
def is_quicker() -> bool:
    """Return whether oneDNN multiplies large float32 matrices quicker than MKL does: on AMD's Zen 5 and newer."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _amd_family(_processor()) >= 26 and _has_operator()


def _has_operator() -> bool:
    """Return whether this PyTorch has oneDNN's product under the name and with the arguments that are used here."""
    try:
        return multiplied(torch.ones(2, 3), torch.ones(3, 4)).tolist() == [[3.0] * 4] * 2
    except (AttributeError, RuntimeError, TypeError):
        return False


def _processor() -> str:
    """Return what the system says of the processor."""
    listed = Path("/proc/cpuinfo")
    return listed.read_text(encoding="utf-8").partition("\n\n")[0] if listed.exists() else platform.processor()


def _amd_family(processor: str) -> int:
    """Return the family of a processor of AMD, and 0 for others.

    :param processor: text of the system, such as ``vendor_id : AuthenticAMD`` and ``cpu family : 26`` in lines of
        their own, or ``AMD64 Family 26 Model 2 Stepping 1, AuthenticAMD``.

    >>> _amd_family("AMD64 Family 26 Model 2 Stepping 1, AuthenticAMD")
    26
    """
    if "AuthenticAMD" not in processor:
        return 0
    words = processor.replace(":", " ").lower().split()
    after = [word for name, word in pairwise(words) if name == "family"]
    return int(after[0]) if after and after[0].isdigit() else 0


def suits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether large matrices of this kind are multiplied quicker by oneDNN.

    :param a: a matrix.
    :param b: the other.
    """
    return a.dtype == b.dtype == torch.float32 and a.device.type == b.device.type == "cpu" and is_quicker()


def multiplied(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Multiply two matrices by oneDNN, without gradients.

    :param a: ``[i, j]``.
    :param b: ``[j, k]``.
    :param bias: ``[k]``, added to each row; None for none.
    :return: ``[i, k]``.
    """
    operator = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001 (PyTorch has no public one)
    return cast("torch.Tensor", operator(a, b.t(), bias, "none", [], ""))


def multiplied_each(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply m pairs of matrices by oneDNN, without gradients.

    :param a: ``[m, i, j]``.
    :param b: ``[m, j, k]``.
    :return: ``[m, i, k]``.
    """
    out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
    for i, (one, other) in enumerate(zip(a, b, strict=True)):
        out[i] = multiplied(one, other)
    return out


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute what ``torch.nn.functional.linear`` does, by the quicker library.

    Within a graph that is being compiled it is left to PyTorch, as :mod:`rlfast.policy.components.graph_products`
    replaces the products of graphs.

    :param x: ``[..., inputs]``.
    :param weight: ``[outputs, inputs]``.
    :param bias: ``[outputs]``, or None.
    :return: ``[..., outputs]``.
    """
    if is_compiling() or x.numel() * weight.size(0) < LEAST or x.dim() == 1 or not (suits(x, weight) and _is_plain()):
        return functional.linear(x, weight, bias)
    y = _product(x.flatten(0, -2), weight.t(), bias)
    return y if x.dim() == 2 else y.reshape(*x.shape[:-1], -1)


def sequential(layers: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """Compute what ``layers(x)`` does, with the products of ``nn.Linear`` by :func:`linear`.

    Layers with hooks, and of subclasses, are called as they are.

    :param layers: the layers.
    :param x: ``[..., inputs]``.
    :return: ``[..., outputs]``.
    """
    if is_compiling() or not is_quicker() or type(layers) is not nn.Sequential or _is_watched(layers):
        return cast("torch.Tensor", layers(x))
    for layer in layers:
        plain: Any = layer if type(layer) is nn.Linear and not _is_watched(layer) else None
        x = layer(x) if plain is None else linear(x, plain.weight, plain.bias)
    return x


def _is_watched(module: nn.Module) -> bool:
    """Return whether a call of a module does more than its class's ``forward``."""
    own = module.__dict__
    return "forward" in own or any(own[hooks] for hooks in _HOOKS) or _any_global_hook()


def ensemble_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute ``x @ weight + bias`` for m members, by the quicker library.

    :param x: ``[m, rows, inputs]``.
    :param weight: ``[m, inputs, outputs]``.
    :param bias: ``[m, 1, outputs]``, or None.
    :return: ``[m, rows, outputs]``.
    """
    if is_compiling() or x.size(1) * weight[0].numel() < LEAST or not (suits(x, weight) and _is_plain()):
        return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
    y = _product(x, weight)
    return y if bias is None else y + bias


def _is_plain() -> bool:
    """Return whether no transformation is active that has to see PyTorch's own product: autocast, vmap, jvp."""
    return not (
        torch.is_autocast_enabled("cpu")
        or torch._C._are_functorch_transforms_active()  # noqa: SLF001 (as above)
        or torch.autograd.forward_ad._current_level >= 0  # noqa: SLF001
    )


def _product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    if torch.is_grad_enabled():  # in a backward pass, too, if its gradients are to be differentiated
        return cast("torch.Tensor", _Product.apply(a, b, bias))
    return _by_onednn(a, b, bias)


def _by_onednn(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return multiplied(a, b, bias) if a.dim() == 2 else multiplied_each(a, b)


class _Product(torch.autograd.Function):
    """A product by oneDNN, with the products of its gradients, which have as many multiplications."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return _by_onednn(a, b, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        a, b = ctx.saved_tensors
        needs_a, needs_b, needs_bias = ctx.needs_input_grad
        return (
            _product(gradient, b.mT) if needs_a else None,
            _product(a.mT, gradient) if needs_b else None,
            gradient.sum(dim=0) if needs_bias else None,
        )
