import platform

import pytest
import torch
from torch import nn
from torch.nn import functional

from rlfast import _core
from rlfast.utils.net import _layers
from rlfast.utils.net.common import MLP
from rlfast.utils.net.ensemble import EnsembleLinear
from rlfast.utils.torch_private import products

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this PyTorch was built without oneDNN"
)
ZEN5 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n"


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def quicker(monkeypatch, request):
    """Every product of float32 suits; returns the shapes of those that were multiplied."""
    went, inner = [], products.multiplied

    def multiplied(a, b, bias=None):
        went.append((tuple(a.shape), tuple(b.shape)))
        return inner(a, b, bias)

    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    monkeypatch.setattr(products, "is_quicker", lambda: True)
    monkeypatch.setattr(products, "LEAST", 0)
    monkeypatch.setattr(products, "multiplied", multiplied)
    return went


def tensors(*shapes, dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]


def same_with_gradients(function, expected, operands):
    """Whether two functions have the same result, and the same gradients by all operands."""
    results = []
    for compute in (function, expected):
        y = compute(*operands)
        slope = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
        results.append([y, *torch.autograd.grad((y * slope).sum(), [x for x in operands if x is not None])])
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 3)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_linear_layer_is_that_of_torch(quicker, shape, has_bias):
    x, weight, bias = tensors(shape, (7, 3), (7,))
    same_with_gradients(products.linear, functional.linear, [x, weight, bias if has_bias else None])
    rows = x.numel() // 3
    assert quicker == [((rows, 3), (3, 7)), ((rows, 7), (7, 3)), ((3, rows), (rows, 7))]


@pytest.mark.parametrize("has_bias", [True, False])
def test_layers_of_an_ensemble_are_those_of_torch(quicker, has_bias):
    x, weight, bias = tensors((2, 5, 3), (2, 3, 7), (2, 1, 7))
    expected = torch.bmm if not has_bias else lambda a, b, c: torch.baddbmm(c, a, b)
    operands = [x, weight, bias] if has_bias else [x, weight]
    same_with_gradients(lambda a, b, c=None: products.ensemble_linear(a, b, c), expected, operands)
    assert len(quicker) == 3


def test_a_layer_of_an_ensemble_is_multiplied_so(quicker):
    EnsembleLinear(2, 3, 4)(torch.ones(5, 3))
    assert quicker == [((2, 5, 3), (2, 3, 4))]


def test_gradients_of_gradients_are_those_of_torch(quicker):
    operands = tensors((5, 3), (7, 3), (7,))

    def penalty(linear):
        y = torch.tanh(linear(*operands)).square().sum()
        slopes = torch.autograd.grad(y, operands, create_graph=True)
        return torch.autograd.grad(sum(slope.square().sum() for slope in slopes), operands)

    torch.testing.assert_close(penalty(products.linear), penalty(functional.linear), rtol=1e-4, atol=1e-5)
    assert len(quicker) > 3


def test_a_gradient_of_one_number_everywhere(quicker):
    x, weight, bias = tensors((5, 3), (7, 3), (7,))
    products.linear(x, weight, bias).sum().backward()  # its gradient has no memory of its own
    assert bias.grad.tolist() == [5.0] * 7
    torch.testing.assert_close(weight.grad, x.detach().sum(0).expand(7, 3))
    assert len(quicker) == 3


def test_only_needed_gradients_are_computed(quicker):
    x, weight, bias = tensors((5, 3), (7, 3), (7,))
    products.linear(x.detach(), weight, bias).sum().backward()
    assert quicker == [((5, 3), (3, 7)), ((3, 5), (5, 7))]
    quicker.clear()
    products.linear(x, weight.detach(), bias).sum().backward()
    assert quicker == [((5, 3), (3, 7)), ((5, 7), (7, 3))]
    with torch.no_grad():
        y = products.linear(x, weight, bias)
    assert not y.requires_grad
    torch.testing.assert_close(y, functional.linear(x, weight, bias).detach())


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # of PyTorch, where it differentiates forward
def test_what_has_to_see_torchs_product_gets_it(quicker):
    x, weight, bias = tensors((5, 3), (7, 3), (7,))
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(x, weight, bias).dtype == torch.bfloat16
    torch.func.vmap(products.linear, (0, None, None))(x[:, None], weight, bias)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones(5, 3))
        assert torch.autograd.forward_ad.unpack_dual(products.linear(dual, weight, bias)).tangent is not None
    products.linear(x[0], weight, bias)
    products.linear(x.double(), weight.double(), bias.double())
    assert products.linear(x.to("meta"), weight.to("meta"), bias.to("meta")).shape == (5, 7)
    assert quicker == []


def test_small_products_are_left_to_torch(quicker, monkeypatch):
    monkeypatch.setattr(products, "LEAST", 5 * 3 * 7)
    x, weight, ensemble, bias = tensors((5, 3), (7, 3), (2, 3, 7), (2, 1, 7))
    y = products.linear(x[:4], weight, bias[0, 0])
    torch.testing.assert_close(y, functional.linear(x[:4], weight, bias[0, 0]))
    few = x[:4].expand(2, 4, 3)
    torch.testing.assert_close(products.ensemble_linear(few, ensemble, bias), torch.bmm(few, ensemble) + bias)
    products.ensemble_linear(few, ensemble, None)
    assert quicker == []
    products.linear(x, weight, None)
    products.ensemble_linear(x.expand(2, 5, 3), ensemble, None)
    assert len(quicker) == 2


def test_where_torchs_own_is_as_quick_nothing_changes(quicker, monkeypatch):
    monkeypatch.setattr(products, "is_quicker", lambda: False)
    products.linear(*tensors((5, 3), (7, 3), (7,)))
    products.ensemble_linear(*tensors((2, 5, 3), (2, 3, 7), (2, 1, 7)))
    products.sequential(nn.Sequential(nn.Linear(3, 7)), torch.ones(5, 3))
    assert quicker == []


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def test_layers_in_order_are_those_of_torch(quicker):
    layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), Doubled(4, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    (x,) = tensors((5, 3))
    same_with_gradients(
        lambda x, *_: products.sequential(layers, x), lambda x, *_: layers(x), [x, *layers.parameters()]
    )
    assert len(quicker) == 2 * 3


class Twice(nn.Sequential):
    def forward(self, x):
        return super().forward(super().forward(x))


def test_layers_of_a_subclass_are_called_as_it_wants(quicker):
    layers, (x,) = Twice(nn.Linear(3, 3)), tensors((5, 3))
    torch.testing.assert_close(products.sequential(layers, x), layers(x))
    assert quicker == []


@pytest.mark.parametrize(("compiles", "is_quicker"), [(True, True), (False, False)])
def test_layers_fall_back_to_torch(quicker, monkeypatch, compiles, is_quicker):
    called, forward = [], nn.Sequential.forward
    monkeypatch.setattr(nn.Sequential, "forward", lambda layers, x: called.append(layers) or forward(layers, x))
    monkeypatch.setattr(products, "is_compiling", lambda: compiles)
    monkeypatch.setattr(products, "is_quicker", lambda: is_quicker)
    layers = nn.Sequential(nn.Linear(3, 7))
    assert products.sequential(layers, torch.ones(5, 3)).shape == (5, 7)
    assert called == [layers]
    assert quicker == []


@pytest.mark.parametrize("part", [lambda layers: layers, lambda layers: layers[0]], ids=["all", "layer"])
@pytest.mark.parametrize(
    "watch",
    [
        lambda module, hook: module.register_forward_hook(hook),
        lambda module, hook: module.register_forward_pre_hook(hook),
        lambda module, hook: module.register_full_backward_hook(hook),
        lambda module, hook: module.register_full_backward_pre_hook(hook),
    ],
)
def test_hooks_are_called(quicker, part, watch):
    layers, calls = nn.Sequential(nn.Linear(3, 4)), []
    watch(part(layers), lambda *args: calls.append(args) or None)
    (x,) = tensors((5, 3))
    products.sequential(layers, x).sum().backward()
    assert len(calls) == 1
    assert quicker == []


def test_hooks_and_own_methods_are_called(quicker):
    layers, calls = nn.Sequential(nn.Linear(3, 4)), []
    hook = nn.modules.module.register_module_forward_hook(lambda module, *_: calls.append(module))
    try:
        products.sequential(layers, torch.ones(5, 3))
    finally:
        hook.remove()
    assert calls == [layers[0], layers]
    layers[0].forward = lambda x: x + 1
    assert products.sequential(layers, torch.ones(5, 3)).tolist() == [[2.0] * 3] * 5
    assert quicker == []


def test_large_layers_use_fast_products(quicker, monkeypatch):
    monkeypatch.setattr(_layers, "LEAST", 5 * 4 * 6)
    net = MLP(3, 2, hidden_sizes=[4, 6], linear_layer=nn.Linear)
    assert [type(layer) for layer in net.model] == [nn.Linear, nn.ReLU] * 2 + [nn.Linear]
    net(torch.ones(4, 3))
    assert quicker == []
    net(torch.ones(5, 3))
    assert len(quicker) == 3
    quicker.clear()
    MLP(4, 6)(torch.ones(5, 4))
    assert len(quicker) == 1


@pytest.mark.parametrize(
    ("processor", "family"),
    [
        (ZEN5, 26),
        (ZEN5.replace("26", "25"), 25),
        (ZEN5.replace("26", "27"), 27),
        (ZEN5.replace("AuthenticAMD", "GenuineIntel"), 0),
        ("AMD64 Family 26 Model 2 Stepping 1, AuthenticAMD", 26),
        ("AuthenticAMD", 0),
        ("AuthenticAMD family unknown", 0),
        ("", 0),
    ],
)
def test_the_processors_on_which_it_is_quicker(monkeypatch, processor, family):
    monkeypatch.setattr(products, "_processor", lambda: processor)
    assert products._amd_family(processor) == family
    for capability, has in (("AVX512", True), ("AVX2", False)):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        assert products.is_quicker.__wrapped__() is (has and family >= 26)


def test_what_the_system_says_of_the_processor(monkeypatch, tmp_path):
    listed = tmp_path / "cpuinfo"
    monkeypatch.setattr(products, "Path", {"/proc/cpuinfo": listed}.__getitem__)
    monkeypatch.setattr(platform, "processor", lambda: "another system")
    assert products._processor() == "another system"
    for further in ("", "\n" + ZEN5.replace(": 0", ": 1") + "\n" + ZEN5.replace(": 0", ": 2") + "\n"):
        listed.write_text(ZEN5 + further, encoding="utf-8")
        assert products._processor().strip() == ZEN5.strip()  # the first of all


@pytest.mark.parametrize("error", [AttributeError, RuntimeError, TypeError])
def test_products_without_onednn(monkeypatch, error):
    def operator(*_):
        raise error

    x, weight = torch.ones(2, 3), torch.ones(3, 4)
    monkeypatch.setattr(products, "is_quicker", lambda: True)
    assert products._has_onednn.__wrapped__()
    monkeypatch.setattr(products, "_by_onednn", operator)
    assert not products._has_onednn.__wrapped__()
    monkeypatch.setattr(products, "_has_onednn", lambda: False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert products.multiplied(x, weight).tolist() == [[3.0] * 4] * 2
    assert not products.suits(x, weight, 2**40, 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert products.suits(x, weight, 2**40, 1)


def test_on_several_threads_only_larger_products_suit(monkeypatch):
    x, weight = torch.ones(2, 3), torch.ones(3, 4)
    monkeypatch.setattr(products, "is_quicker", lambda: True)
    for threads, expected in ((1, [False, True, True, True]), (2, [False, False, False, True])):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        sizes = (99, 100, products.LEAST - 1, products.LEAST)
        assert [products.suits(x, weight, size, 100) for size in sizes] == expected


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shapes", [[(5, 3), (3, 4)], [(2, 5, 3), (2, 3, 4)]])
def test_products_into_given_memory(monkeypatch, threads, shapes):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    a, b = (x.detach() for x in tensors(*shapes))
    out, by_engine, engines = torch.empty(*a.shape[:-1], 4), [], _core.multiply
    monkeypatch.setattr(_core, "multiply", lambda *operands: by_engine.append(True) or engines(*operands))
    assert products.multiplied(a, b, torch.arange(4.0), out=out) is out
    torch.testing.assert_close(out, a @ b + torch.arange(4.0))
    assert by_engine == [True] * (threads == 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_out_for_wrong_product_count_is_refused(monkeypatch, threads):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    a, b = (x.detach() for x in tensors((2, 5, 3), (2, 3, 4)))
    with pytest.raises(ValueError if threads == 2 else _core.SchemaMismatch):
        products.multiplied(a, b, out=torch.empty(3, 5, 4))


def test_the_engine_refuses_what_is_no_product():
    a, b, out = torch.ones(5, 3), torch.ones(3, 4), torch.zeros(5, 4)
    wrong = [
        (out[:4], a, b),
        (out[:, :3], a, b),
        (out, a[:, :2], b),
        (out, a, b, torch.ones(3)),
        (out, a, b, torch.ones(2, 4)),
        (out[None].expand(2, 5, 4), a[None].expand(2, 5, 3), b[None]),
        (torch.tensor(0.0), a, b),
        (out.double(), a, b),
        (out[:0], a, b),
    ]
    for operands in wrong:
        with pytest.raises(_core.SchemaMismatch):
            _core.multiply(*operands)
    assert not out.any()
    assert not _core.multiply(out, a, 3)
    assert not _core.multiply(out, a, b, 3)


def test_large_products_by_the_engine():
    a, b = (x.detach() for x in tensors((200, 150), (150, 170)))
    torch.testing.assert_close(products.multiplied(a, b), a @ b, rtol=1e-4, atol=1e-4)
    wide = torch.empty(3, 200, 170)
    _core.multiply(wide, a.expand(3, 200, 150), b.t().contiguous().t().expand(3, 150, 170))
    torch.testing.assert_close(wide, (a @ b).expand(3, 200, 170), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "by_columns", "given", "is_onednn"),
    [
        (5, True, False, True),
        (65, True, False, True),
        (5, False, False, False),
        (5, True, True, True),
        (65, True, True, False),
        (4, True, True, False),
    ],
)
def test_which_products_onednn_makes_on_one_thread(monkeypatch, rows, by_columns, given, is_onednn):
    went, inner = [], products._by_onednn
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(products, "LEAST", 5 * 3 * 7)
    products._has_onednn()
    monkeypatch.setattr(products, "_by_onednn", lambda *args: went.append(1) or inner(*args))
    a, b, bias = torch.randn(rows, 3), torch.randn(7, 3).t(), torch.randn(7)
    out = torch.full((rows, 7), torch.nan) if given else None
    y = products.multiplied(a, b if by_columns else b.contiguous(), bias, out=out)
    torch.testing.assert_close(y, torch.addmm(bias, a, b))
    assert y is out or not given
    assert bool(went) is is_onednn


class Own(torch.Tensor):
    """A tensor of another class."""


def negative(*shape):
    """Minus ones, whose memory holds ones and whose negative bit is set."""
    x = torch.complex(torch.zeros(shape), torch.ones(shape)).conj().imag
    assert x.is_neg()
    return x


def freed(*shape):
    """A tensor whose memory was given back, as shards of parameters are."""
    x = torch.ones(shape)
    x.untyped_storage().resize_(0)
    return x


def shortened(*shape):
    """A tensor with less memory than elements."""
    x = torch.ones(shape)
    x.untyped_storage().resize_(4 * x.numel() - 4)
    return x


ODD = {
    "negative bit": negative,
    "freed": freed,
    "subclass": lambda *shape: torch.ones(shape).as_subclass(Own),
    "sparse": lambda *shape: torch.ones(shape).to_sparse(),
    "float64": lambda *shape: torch.ones(shape, dtype=torch.float64),
    "conjugate": lambda *shape: torch.ones(shape, dtype=torch.complex64).conj(),
    "meta": lambda *shape: torch.ones(shape, device="meta"),
    "expanded": lambda *shape: torch.ones(()).expand(shape),
    "other strides": lambda *shape: torch.ones(tuple(2 * n for n in shape))[tuple(slice(None, None, 2) for _ in shape)],
    "one axis more": lambda *shape: torch.ones((1, *shape)),
    "one axis less": lambda *shape: torch.ones(shape[1:]),
    "no elements": lambda *shape: torch.ones((*shape[:-1], 0)),
    "no rows": lambda *shape: torch.ones((0, *shape[1:])),
    "other length": lambda *shape: torch.ones((*shape[:-1], shape[-1] + 1)),
    "parameter": lambda *shape: nn.Parameter(torch.ones(shape)),
}


def outcome(function, *operands):
    """The class and the numbers of a result, or the class of an error."""
    try:
        y = function(*operands)
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as error:
        return type(error)
    has_numbers = all(operand.device.type == "cpu" for operand in operands)
    return type(y), y.dtype, y.shape, y.tolist() if has_numbers else None


@pytest.mark.parametrize("place", [0, 1, 2], ids=["x", "weight", "bias"])
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("has_gradients", [True, False])
def test_odd_tensors_are_treated_as_torch_does(quicker, kind, place, has_gradients):
    layers = {
        products.linear: (functional.linear, [(5, 3), (4, 3), (4,)]),
        products.ensemble_linear: (lambda x, w, b: torch.baddbmm(b, x, w), [(2, 5, 3), (2, 3, 4), (2, 1, 4)]),
    }
    for ours, (torchs, shapes) in layers.items():
        operands = [torch.full(shape, 2.0) for shape in shapes]
        operands[place] = ODD[kind](*shapes[place])
        with torch.set_grad_enabled(has_gradients):
            assert outcome(ours, *operands) == outcome(torchs, *operands), ours


@pytest.mark.parametrize("shapes", [[(5, 3), (3, 4), (4,)], [(2, 5, 3), (2, 3, 4), (4,)]])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("given", [True, False])
def test_products_of_graphs_see_the_negative_bit(monkeypatch, shapes, threads, place, given):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    operands = [torch.full(shape, 2.0) for shape in shapes]
    operands[place] = negative(*shapes[place])
    out = torch.empty(*shapes[0][:-1], 4) if given else None
    y = products.multiplied(*operands, out=out)
    torch.testing.assert_close(y, operands[0] @ operands[1] + operands[2])
    assert y is out or not given
    for made in (freed, shortened):
        operands[place] = made(*shapes[place])
        assert not _core.multiplies(operands[place])
    operands[place] = freed(*shapes[place])
    with pytest.raises(RuntimeError):
        products.multiplied(*operands, out=out)


def test_a_mode_sees_the_product(quicker):
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    seen = []
    x, weight = torch.ones(5, 3), torch.ones(4, 3)
    with Mode():
        products.linear(x, weight, None)
    assert functional.linear in seen or torch._C._nn.linear in seen
    assert quicker == []
