import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from rlfast.policy.compile.captured_optimizer import _bias_correction, capture, check_capturable
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.utils.optim import adam, descend

OPTIMIZERS = {
    "adam": adam(0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2, amsgrad=True, betas=(0.5, 0.8)),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05, centered=True, momentum=0.5, alpha=0.9),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "groups": lambda p: torch.optim.Adam([{"params": g, "lr": 0.1 / (i + 1)} for i, g in enumerate(p)], lr=0.5),
}
RARE = {  # seldom used, and quick to try without a graph
    "adam upwards": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.2, eps=0.1, maximize=True),
    "rmsprop upwards": lambda p: torch.optim.RMSprop(p, lr=0.05, weight_decay=0.2, eps=0.1, maximize=True),
    "sgd upwards": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.2, maximize=True),
    "tensor": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1)),
    "no momentum": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.0, 0.9)),
}
INPUT, TARGET = (torch.randn(8, size, generator=torch.Generator().manual_seed(size)) for size in (3, 2))


class Regression:
    def __init__(self, optim, max_grad_norm=None):
        torch.manual_seed(0)
        self.net = nn.Linear(3, 2)
        self.optim = optim(self.net.parameters())
        self.max_grad_norm = max_grad_norm

    def step(self, x, y):
        loss = (self.net(x) - y).square().mean()
        descend(loss, self.optim, max_grad_norm=self.max_grad_norm)
        return loss.detach()


@pytest.fixture
def in_a_graph(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")  # captured in full, and run without a C++ compiler
    return lambda problem: CompiledUpdate(problem.step, lambda: [problem.optim])


@pytest.mark.pitfall("F7")
@pytest.mark.parametrize("max_grad_norm", [None, 0.1])
@pytest.mark.parametrize("optim", OPTIMIZERS)
def test_the_step_in_a_graph_is_the_optimizers_own(in_a_graph, optim, max_grad_norm):
    own, captured = (Regression(OPTIMIZERS[optim], max_grad_norm) for _ in range(2))
    step = in_a_graph(captured)
    for number in range(6):
        for problem in (own, captured):
            for group in problem.optim.param_groups:
                group["lr"] *= 0.9  # a schedule
        assert step(INPUT, TARGET).item() == pytest.approx(own.step(INPUT, TARGET).item(), abs=1e-5)
        assert torch.allclose(captured.net.weight, own.net.weight, atol=1e-5), number
        assert torch.allclose(captured.net.bias, own.net.bias, atol=1e-5)
    left, right = own.optim.state_dict(), captured.optim.state_dict()
    assert left.keys() == right.keys()
    for key, state in left["state"].items():
        for name, value in state.items():
            same = value is right["state"][key][name] is None or torch.allclose(
                value, right["state"][key][name], atol=1e-5
            )
            assert same, name


@pytest.mark.parametrize("optim", [*OPTIMIZERS.values(), *RARE.values()], ids=[*OPTIMIZERS, *RARE])
def test_the_captured_step_is_the_optimizers_own(optim):
    own, captured = (Regression(optim) for _ in range(2))
    for problem in (own, captured):
        problem.step(INPUT, TARGET)
    for max_grad_norm in (None, 0, 0.1, 1e6):
        for problem in (own, captured):
            for group in problem.optim.param_groups:
                group["lr"] *= 0.9  # a schedule
        assert capture(captured.optim)
        own.max_grad_norm = max_grad_norm
        own.step(INPUT, TARGET)
        captured.optim.captured.descend((captured.net(INPUT) - TARGET).square().mean(), max_grad_norm)
        for name, value in captured.net.named_parameters():
            torch.testing.assert_close(value, own.net.get_parameter(name), atol=1e-6, rtol=1e-5)
    left, right = (problem.optim.state_dict()["state"] for problem in (own, captured))
    torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("optim", OPTIMIZERS)
def test_what_the_loss_does_not_depend_on_stays(optim):
    problem = Regression(OPTIMIZERS[optim])
    problem.net.bias.requires_grad_(False)
    unused = nn.Parameter(torch.ones(2))
    problem.optim.add_param_group({"params": [unused]})
    problem.step(INPUT, TARGET)
    assert capture(problem.optim)
    bias, weight = problem.net.bias.tolist(), problem.net.weight.tolist()
    problem.optim.captured.descend(problem.net(INPUT).square().mean(), None)
    assert (problem.net.bias.tolist(), unused.tolist()) == (bias, [1.0, 1.0])
    assert problem.net.weight.tolist() != weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parameters_that_have_made_fewer_steps_have_corrections_of_their_own(dtype):
    own, captured = ([nn.Parameter(torch.ones(2, dtype=dtype)) for _ in range(3)] for _ in range(2))
    optims = [torch.optim.Adam(params, lr=0.1) for params in (own, captured)]
    for used in (slice(0, 1), slice(0, 3), slice(0, 3)):
        for params, optim in zip((own, captured), optims, strict=True):
            optim.zero_grad()
            sum((p**3).sum() for p in params[used]).backward()
            optim.step()
    for _ in range(3):
        optims[0].zero_grad()
        sum((p**3).sum() for p in own).backward()
        optims[0].step()
        assert capture(optims[1])
        optims[1].captured.descend(sum((p**3).sum() for p in captured), None)
    precision = {"rtol": 1e-5, "atol": 1e-6} if dtype is torch.float32 else {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(captured, own, **precision)
    assert [int(state["step"]) for state in optims[1].state.values()] == [6, 5, 5]


class OnMps(torch.Tensor):
    """A tensor as one of a device without float64."""

    device = SimpleNamespace(type="mps")

    def double(self):
        raise TypeError


def test_corrections_need_no_float64_where_there_is_none():
    step = torch.tensor(2.0)
    expected = 1 / (1 - 0.9**2)
    for count in (step, step.as_subclass(OnMps)):
        correction = _bias_correction(count, 0.9, torch.float32)
        assert correction.item() == pytest.approx(expected, rel=1e-6)
        assert correction.dtype is torch.float32


def test_gradients_near_zero_are_clipped_as_torch_does():
    parameter = nn.Parameter(torch.zeros(1))
    optim = torch.optim.SGD([parameter], lr=1e6)
    (parameter.sum() * 0).backward()
    assert capture(optim)
    optim.captured.descend(2e-6 * parameter.sum(), 1e-6)
    assert parameter.item() == pytest.approx(-2 / 3)  # the norm counts as 3e-6


def test_one_step_is_captured_until_a_state_is_loaded():
    problem, hooks = Regression(OPTIMIZERS["adam"]), []
    problem.step(INPUT, TARGET)
    register = problem.optim.register_load_state_dict_post_hook
    problem.optim.register_load_state_dict_post_hook = lambda hook: hooks.append(register(hook))
    assert capture(problem.optim)
    captured = problem.optim.captured
    assert capture(problem.optim)
    assert problem.optim.captured is captured  # a graph holds its tensors
    for _ in range(2):
        problem.optim.load_state_dict(problem.optim.state_dict())
        assert capture(problem.optim)
        assert problem.optim.captured is not captured
        state = problem.optim.captured.groups[0].state["exp_avg"]
        assert state[0] is problem.optim.state[problem.net.weight]["exp_avg"]
    assert len(hooks) == 1


def test_the_learning_rate_is_on_the_device_of_the_parameters():
    parameter = nn.Parameter(torch.ones(2, device="meta"))
    optim = torch.optim.SGD([{"params": []}, {"params": [parameter]}], lr=0.1)
    parameter.sum().backward()
    assert capture(optim)
    assert [group.lr.device.type for group in optim.captured.groups] == ["meta"]


def test_a_state_that_was_loaded_takes_the_place_of_the_captured_one(in_a_graph):
    own, captured = (Regression(OPTIMIZERS["adam"]) for _ in range(2))
    step = in_a_graph(captured)
    for _ in range(3):
        step(INPUT, TARGET)
    for _ in range(5):
        own.step(INPUT, TARGET)
    captured.net.load_state_dict(own.net.state_dict())
    captured.optim.load_state_dict(copy.deepcopy(own.optim.state_dict()))
    for _ in range(3):
        own.step(INPUT, TARGET)
        step(INPUT, TARGET)
    assert torch.allclose(captured.net.weight, own.net.weight, atol=1e-5)
    assert captured.optim.state[captured.net.weight]["step"] == 8


@pytest.mark.parametrize("optim", OPTIMIZERS)
def test_an_optimizer_that_never_stepped_is_not_ready(optim):
    problem = Regression(OPTIMIZERS[optim])
    assert not capture(problem.optim)
    problem.step(INPUT, TARGET)
    assert capture(problem.optim)


def test_only_known_optimizers():
    with pytest.raises(ValueError, match=r"one of Adam, AdamW, RMSprop, SGD; got .*Adagrad"):
        check_capturable(torch.optim.Adagrad([nn.Parameter(torch.ones(1))]))
