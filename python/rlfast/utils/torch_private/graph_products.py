"""Products of matrices within compiled graphs, by :mod:`rlfast.utils.torch_private.products`."""

from math import prod
from typing import Any

from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.torch_private import products

with needed_by("rlfast.utils.torch_private.graph_products"):
    import torch
    from torch import library as operators
    from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
    from torch._inductor.ir import ExternKernel, FixedLayout
    from torch._inductor.lowering import register_lowering
    from torch._inductor.select_algorithm import ExternKernelChoice

_operators: Any = operators  # without annotations
_OPERATORS = _operators.Library("rlfast", "DEF")
_OPERATORS.define("product(Tensor a, Tensor b, Tensor? bias=None) -> Tensor")
_OPERATORS.impl("product", products.multiplied, "CPU")
_operators.register_fake(
    "rlfast::product",
    lambda a, b, bias=None: a.new_empty(*a.shape[:-1], b.shape[-1]),  # noqa: ARG005
    lib=_OPERATORS,
)
_CHOICE: Any = ExternKernelChoice(products.multiplied, name="rlfast_product")


def _called(a: Any, b: Any, bias: Any = None) -> Any:
    """Let the graph's code call the product itself, without PyTorch's dispatcher."""
    inputs = [ExternKernel.realize_input(one) for one in (a, b, bias) if one is not None]
    size = [*a.get_size()[:-1], b.get_size()[-1]]
    return _CHOICE.bind(inputs, FixedLayout(a.get_device(), a.get_dtype(), size)).output_node()


_add_lowering: Any = register_lowering
_add_lowering(torch.ops.rlfast.product.default, type_promotion_kind=None)(_called)


class QuickProducts(CustomGraphPass):
    """Replaces large products of a graph."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Replace them.

        :param graph: the graph of an update, after differentiation.
        """
        aten = torch.ops.aten
        for node in [*graph.nodes]:
            operands: Any = node.args if not node.kwargs else ()
            if node.target in (aten.mm.default, aten.bmm.default):
                _replace(graph, node, *operands)
            elif node.target is aten.addmm.default and operands and operands[0].meta["val"].dim() == 1:
                _replace(graph, node, *operands[1:], bias=operands[0])
            elif node.target is aten.baddbmm.default and operands:
                _replace(graph, node, *operands[1:], added=operands[0])

    def uuid(self) -> Any:
        """Return what tells this replacement from others, for the caches of compiled graphs."""
        machine = f"{products.is_quicker()} {torch.get_num_threads() == 1}"
        return get_hash_for_files((__file__, products.__file__), machine)


def _known(size: int | torch.SymInt) -> int:
    """Return a size; that of the first call, where a graph takes batches of any size."""
    return size if isinstance(size, int) else int(size.node.hint or 0)


def _replace(
    graph: torch.fx.Graph, node: torch.fx.Node, a: Any, b: Any, *, bias: Any = None, added: Any = None
) -> None:
    """Replace a product, if it suits.

    :param bias: a row that is added to each row; None for none.
    :param added: what is added to the product by an operation of its own; None for nothing.
    """
    first, second = a.meta["val"], b.meta["val"]
    multiplications = prod(_known(size) for size in (*first.shape[-2:], second.shape[-1]))
    if not products.suits(first, second, multiplications, products.LEAST_OF_GRAPH):
        return
    with graph.inserting_before(node):
        operator = torch.ops.rlfast.product.default
        result = graph.call_function(operator, (a, b, bias))
        result.meta["val"] = node.meta["val"]
        if added is not None:
            result = graph.call_function(torch.ops.aten.add.Tensor, (result, added))
            result.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(result)
    graph.erase_node(node)
