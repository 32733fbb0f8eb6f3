import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.utils.torch_private import products

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
    from rlfast.utils.torch_private.graph_products import QuickProducts

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
    expected = function(*operands)
    torch.testing.assert_close(graph(*operands), expected)
    computed = [node.meta["val"] for node in graph.graph.nodes if node.op == "call_function"]
    assert all(value.shape == expected.shape for value in computed)  # what later passes read


def test_products_of_other_numbers_stay():
    operands = [torch.ones(2, 3, dtype=torch.float64), torch.ones(3, 4, dtype=torch.float64)]
    assert replaced(torch.mm, *operands)[1] == ["aten.mm.default"]


def test_a_size_that_may_vary_counts_as_in_the_first_call():
    graph, names = replaced(torch.mm, torch.ones(2, 3), torch.ones(3, 4), tracing_mode="symbolic")
    assert names == ["rlfast.product.default"]
    assert graph(torch.ones(7, 3), torch.ones(3, 4)).tolist() == [[3.0] * 4] * 7


def test_a_size_that_may_vary_stays_so():
    from rlfast.utils.torch_private.graph_products import QuickProducts

    graph = make_fx(torch.mm, tracing_mode="symbolic")(torch.ones(2, 3), torch.ones(3, 4))
    (product,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
    guards = product.meta["val"].shape[0].node.shape_env.guards
    before = len(guards)
    QuickProducts()(graph.graph)
    assert len(guards) == before  # another size needs no other graph


def test_a_size_that_no_call_has_told_counts_as_none():
    def product(x, weight):
        return x[x[:, 0] > 0] @ weight

    names = replaced(product, torch.ones(2, 3), torch.ones(3, 8), tracing_mode="symbolic")[1]
    assert names == ["aten.mm.default"]


def test_the_operator_makes_shapes_without_numbers():
    product = torch.ops.rlfast.product
    a, b = torch.empty(5, 2, 3, device="meta"), torch.empty(5, 3, 4, device="meta")
    assert product(a, b).shape == product(a, b, torch.empty(4, device="meta")).shape == (5, 2, 4)


def test_the_graph_of_an_update_has_them():
    from torch._inductor.utils import fresh_inductor_cache, run_and_get_code

    def update(a, b, bias):
        return torch.addmm(bias, a[0], b[0]), torch.bmm(a, b)  # no further kernels: no C++ is compiled

    torch.manual_seed(0)
    operands = [torch.randn(*shape) for shape in ((5, 2, 3), (5, 3, 4), (4,))]
    with fresh_inductor_cache():  # a graph of an earlier run would not be lowered again
        results, code = run_and_get_code(CompiledUpdate(update, list), *operands)
    torch.testing.assert_close(results, update(*operands))
    assert code[0].count("extern_kernels.rlfast_product(") == 2


def test_graphs_are_as_before_where_it_is_not_quicker(monkeypatch):
    from rlfast.policy.compile import compiled_update
    from rlfast.utils.torch_private.graph_products import QuickProducts

    key = "post_grad_custom_post_pass"
    assert compiled_update.pass_options("eager") == {}
    assert isinstance(compiled_update.pass_options("inductor")["options"][key], QuickProducts)
    uuids = [QuickProducts().uuid()]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    uuids.append(QuickProducts().uuid())
    monkeypatch.setattr(products, "is_quicker", lambda: False)
    uuids.append(QuickProducts().uuid())
    assert compiled_update.pass_options("inductor")["options"] == {"size_asserts": False, "alignment_asserts": False}
    assert len({*uuids}) == 3  # a cached graph is not taken for another
