"""Products of matrices within compiled graphs, by the quicker of PyTorch's libraries."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from rlfast.utils.runtime import products

_library: Any = torch.library  # it has no annotations
_OPERATORS = _library.Library("rlfast", "DEF")


def _add_operator(schema: str, function: Callable[..., torch.Tensor], shape: Callable[..., torch.Tensor]) -> None:
    _OPERATORS.define(schema)
    name = schema.partition("(")[0]
    _OPERATORS.impl(name, function, "CPU")
    _library.register_fake(f"rlfast::{name}", shape, lib=_OPERATORS)


_add_operator(
    "linear(Tensor a, Tensor b, Tensor? bias=None) -> Tensor",
    products.multiplied,
    lambda a, b, bias=None: a.new_empty(a.shape[0], b.shape[1]),  # noqa: ARG005
)
_add_operator(
    "bmm(Tensor a, Tensor b) -> Tensor",
    products.multiplied_each,
    lambda a, b: a.new_empty(a.shape[0], a.shape[1], b.shape[2]),
)


class QuickProducts(CustomGraphPass):
    """Replaces large products of a graph by those of :mod:`rlfast.utils.runtime.products`."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Replace them.

        :param graph: the graph of an update, after differentiation.
        """
        aten, own = torch.ops.aten, torch.ops.rlfast
        for node in [*graph.nodes]:
            operands: Any = node.args if not node.kwargs else ()
            if node.target is aten.mm.default:
                _replace(graph, node, own.linear.default, *operands)
            elif node.target is aten.addmm.default and operands and operands[0].meta["val"].dim() == 1:
                _replace(graph, node, own.linear.default, *operands[1:], bias=operands[0])
            elif node.target is aten.bmm.default:
                _replace(graph, node, own.bmm.default, *operands)
            elif node.target is aten.baddbmm.default and operands:
                _replace(graph, node, own.bmm.default, *operands[1:], added=operands[0])

    def uuid(self) -> Any:
        """Return what tells this version of the replacement from others, for the caches of compiled graphs."""
        return get_hash_for_files((__file__, products.__file__), str(products.is_quicker()))


def _known(size: int | torch.SymInt) -> int:
    """Return a size; that of the first call, where a graph takes batches of any size."""
    return size if isinstance(size, int) else int(size.node.hint or 0)


def _replace(
    graph: torch.fx.Graph, node: torch.fx.Node, target: Any, a: Any, b: Any, *, bias: Any = None, added: Any = None
) -> None:
    """Replace a product by another operator, if its operands suit.

    :param bias: an operand of the operator; None for none.
    :param added: what is added to the product by an operation of its own; None for nothing.
    """
    first, second = a.meta["val"], b.meta["val"]
    sizes = [_known(size) for size in (*first.shape[-2:], second.shape[-1])]
    if prod(sizes) < products.LEAST or not products.suits(first, second):
        return
    with graph.inserting_before(node):
        result = graph.call_function(target, (a, b) if bias is None else (a, b, bias))
        result.meta["val"] = node.meta["val"]
        if added is not None:
            result = graph.call_function(torch.ops.aten.add.Tensor, (result, added))
            result.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(result)
    graph.erase_node(node)
