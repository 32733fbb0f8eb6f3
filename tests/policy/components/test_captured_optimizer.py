import copy

import pytest
import torch
from torch import nn

from rlfast.policy.components.captured_optimizer import capture, check_capturable
from rlfast.policy.components.compiled_update import CompiledUpdate
from rlfast.utils.optim import adam, descend

OPTIMIZERS = {
    "adam": adam(0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.2, amsgrad=True, betas=(0.5, 0.8)),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05, centered=True, momentum=0.5, alpha=0.9),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "groups": lambda p: torch.optim.Adam([{"params": g, "lr": 0.1 / (i + 1)} for i, g in enumerate(p)], lr=0.5),
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


def test_an_optimizer_that_never_stepped_is_not_ready():
    problem = Regression(OPTIMIZERS["adam"])
    assert not capture(problem.optim)
    problem.step(INPUT, TARGET)
    assert capture(problem.optim)


def test_only_known_optimizers():
    with pytest.raises(ValueError, match=r"one of Adam, AdamW, RMSprop, SGD; got .*Adagrad"):
        check_capturable(torch.optim.Adagrad([nn.Parameter(torch.ones(1))]))
