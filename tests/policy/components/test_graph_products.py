import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from rlfast.policy.components.compiled_update import CompiledUpdate
from rlfast.utils.runtime import products

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this PyTorch was built without oneDNN"
)


@pytest.fixture(autouse=True)
def quicker(monkeypatch):
    monkeypatch.setattr(products, "is_quicker", lambda: True)
    monkeypatch.setattr(products, "LEAST_OF_GRAPH", 2 * 3 * 4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


def replaced(function, *operands, tracing_mode="fake"):
    """The graph of a function after the replacement, and the names of its operators in order."""
    from rlfast.policy.components.graph_products import QuickProducts

    graph = make_fx(function, tracing_mode=tracing_mode)(*operands)
    QuickProducts()(graph.graph)
    graph.recompile()
    names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    return graph, [name for name in names if "mm" in name or "product" in name or "add." in name]


@pytest.mark.parametrize(
    ("function", "shapes", "names"),
    [
        (torch.mm, [(2, 3), (3, 4)], ["rlfast.product.default"]),
        (torch.addmm, [(4,), (2, 3), (3, 4)], ["rlfast.product.default"]),
        (torch.addmm, [(2, 4), (2, 3), (3, 4)], ["aten.addmm.default"]),
        (lambda a, b, c: torch.addmm(a, b, c, alpha=2), [(4,), (2, 3), (3, 4)], ["aten.addmm.default"]),
        (torch.bmm, [(5, 2, 3), (5, 3, 4)], ["rlfast.product.default"]),
        (torch.baddbmm, [(5, 1, 4), (5, 2, 3), (5, 3, 4)], ["rlfast.product.default", "aten.add.Tensor"]),
        (torch.mm, [(2, 3), (3, 3)], ["aten.mm.default"]),
        (torch.bmm, [(5, 1, 3), (5, 3, 4)], ["aten.bmm.default"]),
    ],
)
def test_large_products_are_replaced_and_compute_the_same(function, shapes, names):
    torch.manual_seed(0)
    operands = [torch.randn(*shape) for shape in shapes]
    graph, found = replaced(function, *operands)
    assert found == names
    torch.testing.assert_close(graph(*operands), function(*operands))


def test_products_of_other_numbers_stay():
    operands = [torch.ones(2, 3, dtype=torch.float64), torch.ones(3, 4, dtype=torch.float64)]
    assert replaced(torch.mm, *operands)[1] == ["aten.mm.default"]


def test_a_size_that_may_vary_counts_as_in_the_first_call():
    graph, names = replaced(torch.mm, torch.ones(2, 3), torch.ones(3, 4), tracing_mode="symbolic")
    assert names == ["rlfast.product.default"]
    assert graph(torch.ones(7, 3), torch.ones(3, 4)).tolist() == [[3.0] * 4] * 7


def test_the_graph_of_an_update_has_them():
    from torch._inductor.utils import run_and_get_code

    x, weight = torch.ones(2, 3), torch.ones(3, 4)
    update = CompiledUpdate(lambda a, b: torch.relu(a @ b), list)
    result, code = run_and_get_code(update, x, weight)
    assert result.tolist() == [[3.0] * 4] * 2
    assert "extern_kernels.rlfast_product(" in code[0]


def test_graphs_are_as_before_where_it_is_not_quicker(monkeypatch):
    from rlfast.policy.components import compiled_update
    from rlfast.policy.components.graph_products import QuickProducts

    key = "post_grad_custom_post_pass"
    assert compiled_update.pass_options("eager") == {}
    assert isinstance(compiled_update.pass_options("inductor")["options"][key], QuickProducts)
    uuids = [QuickProducts().uuid()]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    uuids.append(QuickProducts().uuid())
    monkeypatch.setattr(products, "is_quicker", lambda: False)
    uuids.append(QuickProducts().uuid())
    assert key not in compiled_update.pass_options("inductor")["options"]
    assert len({*uuids}) == 3  # a cached graph is not taken for another
