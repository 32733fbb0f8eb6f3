"""Products of matrices, on processors for which PyTorch lacks the quick kernels.

PyTorch multiplies float32 matrices by MKL, which uses kernels for AVX2 on AMD's processors. Those from Zen 5 on do
twice as many operations by AVX-512 in the same time. rlfast's engine uses it (by the crate ``gemm``), and so does
oneDNN, which is part of PyTorch as well and divides a product among threads. A product of two matrices of 256 x 256
takes 150 us by both, and 310 us by MKL; of 64 x 128 and 128 x 128, the engine takes 12 us and MKL 21 us
(``python -m bench.products``).
"""

import platform
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, cast

from rlfast import _core
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.torch_private import ENABLED

with needed_by("rlfast.utils.torch_private.products"):
    import torch
    from torch import nn
    from torch.compiler import is_compiling
    from torch.nn import functional
    from torch.nn.modules import module as torch_module
    from torch.overrides import has_torch_function

LEAST = 2**21
"""The least number of multiplications of a product that is not left to PyTorch: calls from Python take time."""
LEAST_OF_GRAPH = 2**17
"""The same within a graph on one thread, which makes shorter calls."""

FEW_ROWS = 64
"""The largest number of rows of a product that takes less time than to put the second matrix into another order."""

_any_global_hook: Callable[[], bool] = torch_module._has_any_global_hook  # noqa: SLF001 (torch has no other way to ask)
_KNOWN = torch.Tensor, nn.Parameter
_HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


@cache
def is_quicker() -> bool:
    """Return whether the products of this module are quicker than PyTorch's: on AMD's Zen 5 and newer."""
    return ENABLED and torch.backends.cpu.get_cpu_capability() == "AVX512" and _amd_family(_processor()) >= 26


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


def suits(a: torch.Tensor, b: torch.Tensor, multiplications: int, least: int) -> bool:
    """Return whether two matrices, or m of each, are multiplied quicker by :func:`multiplied`.

    :param a: the first.
    :param b: the second.
    :param multiplications: the number of multiplications of a product.
    :param least: the least number that pays on one thread.
    """
    return (
        multiplications >= least
        and a.dtype == b.dtype == torch.float32
        and a.device.type == b.device.type == "cpu"
        and is_quicker()
        and (torch.get_num_threads() == 1 or (multiplications >= LEAST and _has_onednn()))
    )


def multiplied(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Multiply matrices, without gradients: by oneDNN on several threads, and mostly where the second matrix lies in
    memory by columns, as the weights of a layer do; else by the engine.

    :param a: ``[i, j]`` or ``[m, i, j]``.
    :param b: ``[j, k]`` or ``[m, j, k]``.
    :param bias: ``[k]``, added to each row; None for none.
    :param out: where the result is written, ``[i, k]`` or ``[m, i, k]``; None for a new tensor.
    :return: the result.
    """
    is_by_columns = b.dim() == 2 and b.stride(0) == 1 < b.stride(1)
    suits_onednn = torch.get_num_threads() > 1 or (is_by_columns and (out is None or _is_of_few_rows(a, b)))
    is_by_onednn = suits_onednn and _has_onednn()
    if is_by_onednn and not all(map(_core.multiplies, (a, b) if bias is None else (a, b, bias))):
        return _by_torch(a, b, bias, out)
    if is_by_onednn and a.dim() == 2:
        y = _by_onednn(a, b, bias)
        return y if out is None else out.copy_(y)
    result = a.new_empty(*a.shape[:-1], b.shape[-1]) if out is None else out
    if not is_by_onednn:
        return result if _core.multiply(result, a, b, bias) else _by_torch(a, b, bias, out)
    for place, one, other in zip(result, a, b, strict=True):
        place.copy_(_by_onednn(one, other, bias))
    return result


def _by_torch(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor | None) -> torch.Tensor:
    """Multiply tensors that are not plain numbers in memory: with a negative bit, of subclasses, freed, empty."""
    one = a.dim() == 2
    y = torch.matmul(a, b) if bias is None else torch.addmm(bias, a, b) if one else torch.baddbmm(bias, a, b)
    return y if out is None else out.copy_(y)


def _is_of_few_rows(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether a product pays for a copy of its result, if oneDNN makes it.

    64 x 512 and 512 x 512 takes 160 us by oneDNN, and 310 us by the engine, which puts all of the second matrix into
    another order first.
    """
    return a.size(0) <= FEW_ROWS and a.numel() * b.size(1) >= LEAST


def _by_onednn(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    operator = torch.ops.mkldnn._linear_pointwise.default  # noqa: SLF001 (PyTorch has no public one)
    if bias is not None:
        bias = bias.contiguous()  # the operator reads past the first number of an expanded tensor
    return cast("torch.Tensor", operator(a, b.t(), bias, "none", [], ""))


@cache
def _has_onednn() -> bool:
    """Return whether this PyTorch has oneDNN's product under the name and with the arguments that are used here."""
    try:
        return _by_onednn(torch.ones(2, 3), torch.ones(3, 4), None).tolist() == [[3.0] * 4] * 2
    except (AttributeError, RuntimeError, TypeError):
        return False


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute what ``torch.nn.functional.linear`` does, by the quicker library.

    Within a graph that is being compiled it is left to PyTorch, as :mod:`rlfast.utils.torch_private.graph_products`
    replaces the products of graphs.

    :param x: ``[..., inputs]``.
    :param weight: ``[outputs, inputs]``.
    :param bias: ``[outputs]``, or None.
    :return: ``[..., outputs]``.
    """
    is_product = (
        not is_compiling()
        and x.dim() > 1
        and weight.dim() == 2
        and x.size(-1) == weight.size(1)
        and (bias is None or bias.shape == weight.shape[:1])
        and suits(x, weight, x.numel() * weight.size(0), LEAST)
        and _is_plain(x, weight, bias)
    )
    if not is_product:
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
    is_product = (
        not is_compiling()
        and x.dim() == weight.dim() == 3
        and x.size(0) == weight.size(0)
        and x.size(2) == weight.size(1)
        and (bias is None or (bias.shape == (weight.size(0), 1, weight.size(2)) and _core.multiplies(bias)))
        and suits(x, weight, x.size(1) * prod(weight.shape[1:]), LEAST)
        and _is_plain(x, weight, bias)
    )
    if not is_product:
        return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
    y = _product(x, weight)
    return y if bias is None else y + bias


def _is_plain(*operands: torch.Tensor | None) -> bool:
    """Return whether nothing has to see PyTorch's own product: no subclass and no mode of ``__torch_function__``, no
    bias that PyTorch may refuse, and no transformation (autocast, vmap, jvp).
    """
    given = [operand for operand in operands if operand is not None]
    are_known = all(
        type(one) in _KNOWN and one.layout is torch.strided and one.dtype == torch.float32 and one.device.type == "cpu"
        for one in given
    )
    return are_known and not (
        has_torch_function(given)
        or torch.is_autocast_enabled("cpu")
        or torch._C._are_functorch_transforms_active()  # noqa: SLF001 (as above)
        or torch.autograd.forward_ad._current_level >= 0  # noqa: SLF001
    )


def _product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    if torch.is_grad_enabled():  # in a backward pass, too, if its gradients are to be differentiated
        return cast("torch.Tensor", _Product.apply(a, b, bias))
    return multiplied(a, b, bias)


class _Product(torch.autograd.Function):
    """A product, with the products of its gradients, which have as many multiplications."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return multiplied(a, b, bias)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        a, b = ctx.saved_tensors
        needs_a, needs_b, needs_bias = ctx.needs_input_grad
        return (
            _product(gradient, b.mT) if needs_a else None,
            _product(a.mT, gradient) if needs_b else None,
            gradient.sum(dim=0) if needs_bias else None,
        )
