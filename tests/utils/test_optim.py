import copy
import logging
import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import nn

from machine import PATIENCE
from rlfast.utils.optim import adam, adamw, clone_optimizer, descend, make_optimizer, optim_step


def test_adam_is_fused_unless_told_otherwise():
    net = nn.Linear(2, 1)
    assert adam(1e-4)(net.parameters()).defaults["fused"]
    optim = adam(1e-4, fused=False, betas=(0.5, 0.9))(net.parameters())
    assert not optim.defaults["fused"]
    assert optim.defaults["lr"] == 1e-4
    assert optim.defaults["betas"] == (0.5, 0.9)


def test_make_optimizer_takes_factory_or_optimizer():
    net = nn.Linear(2, 1)
    optim = make_optimizer(adam(), net.parameters())
    assert isinstance(optim, torch.optim.Adam)
    assert optim.param_groups[0]["params"] == list(net.parameters())
    assert make_optimizer(optim, []) is optim


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (torch.optim.Adam, "Adam"),
        (torch.optim.AdamW, "AdamW"),
        (adam(), None),
        (lambda parameters: torch.optim.Adam(parameters, foreach=True), None),
        (torch.optim.SGD, None),
    ],
)
def test_a_slow_optimizer_is_named_in_the_log(make, said, caplog):
    with caplog.at_level(logging.INFO):
        make_optimizer(make(nn.Linear(2, 1).parameters()), [])
    wanted = [f"torch.optim.{said}(..., fused=True) steps in less than half the time of this optimizer"]
    assert [record.getMessage() for record in caplog.records] == (wanted if said else [])


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True, "eps": 1e-3}])
def test_adam_of_users_steps_over_lists_with_equal_bits(kind, options):
    net = nn.Sequential(nn.Linear(4, 33), nn.ReLU(), nn.Linear(33, 2))
    other = copy.deepcopy(net)
    ours, theirs = make_optimizer(kind(net.parameters(), **options), []), kind(other.parameters(), **options)
    assert (ours.param_groups[0]["foreach"], theirs.param_groups[0]["foreach"]) == (True, None)
    for k in range(5):
        for module, optim in ((net, ours), (other, theirs)):
            optim.zero_grad()
            module(torch.full((3, 4), k + 0.3)).square().mean().backward()
            optim.step()
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(
    "options", [{"foreach": False}, {"fused": True}, {"lr": torch.tensor(1e-3)}, {"differentiable": True}]
)
def test_adam_of_users_keeps_the_kernel_that_they_chose(options):
    optim = torch.optim.Adam(nn.Linear(2, 1).parameters(), **options)
    before = {**optim.param_groups[0]}
    assert {**make_optimizer(optim, []).param_groups[0]} == before


def test_an_optimizer_of_other_parameters_is_warned_of():
    layer, other = nn.Linear(2, 1), nn.Linear(2, 1)
    with pytest.warns(UserWarning, match="SGD has none of the 2 parameters of the network that it is given for"):
        make_optimizer(torch.optim.SGD(other.parameters(), lr=0.1), layer.parameters())
    some = torch.optim.SGD([*other.parameters(), layer.bias], lr=0.1)
    assert make_optimizer(some, layer.parameters()) is some
    of_none = torch.optim.SGD(other.parameters(), lr=0.1)
    assert make_optimizer(of_none, nn.Tanh().parameters()) is of_none


def test_descend_clears_old_gradients_and_descends():
    weight = nn.Parameter(torch.tensor([1.0]))
    optim = torch.optim.SGD([weight], lr=0.5)
    for _ in range(2):
        descend((2 * weight).sum(), optim)
    assert weight.item() == pytest.approx(1.0 - 2 * 0.5 * 2)


def test_descend_clips_total_norm():
    module = nn.Linear(1, 1)
    before = torch.cat([p.detach().flatten().clone() for p in module.parameters()])
    optim = torch.optim.SGD(module.parameters(), lr=1.0)
    descend(module(torch.tensor([[3.0]])).sum() * 4, optim, max_grad_norm=0.5)  # gradient (12, 4)
    moved = torch.cat([p.detach().flatten() for p in module.parameters()]) - before
    assert moved.norm().item() == pytest.approx(0.5, rel=1e-5)
    assert (moved[0] / moved[1]).item() == pytest.approx(3.0, rel=1e-4)


def test_optim_step_clips_the_parameters_of_one_module():
    """Called as in Tianshou: ``optim_step(loss, optim, module, max_grad_norm)``."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        net[0].weight.fill_(2.0)
        net[1].weight.fill_(3.0)
    optim_step(net(torch.tensor([[1.0]])).sum(), torch.optim.SGD(net.parameters(), lr=1.0), net[0], 0.5)
    assert net[0].weight.item() == pytest.approx(2.0 - 0.5)
    assert net[1].weight.item() == pytest.approx(3.0 - 2.0)


@pytest.mark.parametrize("max_grad_norm", [None, 0.5])
def test_optim_step_sets_all_gradients(max_grad_norm):
    actor, critic = nn.Linear(1, 1), nn.Linear(1, 1)
    other = torch.optim.SGD(critic.parameters(), lr=0.1)
    loss = critic(actor(torch.ones(1, 1))).sum()
    optim_step(loss, torch.optim.SGD(actor.parameters(), lr=0.1), max_grad_norm=max_grad_norm)
    assert critic.bias.grad.item() == 1.0
    before = critic.bias.item()
    other.step()
    assert critic.bias.item() == pytest.approx(before - 0.1)


def test_an_optimizer_that_is_only_like_torchs():
    class Own:
        def __init__(self, parameters):
            self.parameters, self.calls = [*parameters], []

        def zero_grad(self):
            self.calls.append("zero_grad")

        def step(self):
            self.calls.append(self.parameters[0].grad.item())

    net = nn.Linear(1, 1, bias=False)
    optim = make_optimizer(Own(net.parameters()), [])
    descend(net(torch.tensor([[3.0]])).sum(), optim)
    assert optim.calls == ["zero_grad", 3.0]


def test_a_zero_grad_of_its_own_is_called():
    class Own(torch.optim.SGD):
        cleared = 0

        def zero_grad(self, set_to_none=True):
            self.cleared += 1
            super().zero_grad(set_to_none)

    net = nn.Linear(1, 1)
    optim = Own(net.parameters(), lr=0.1)
    for _ in range(2):
        descend(net(torch.ones(1, 1)).sum(), optim)
    assert optim.cleared == 2
    assert net.bias.grad.item() == 1.0


@pytest.mark.parametrize("max_grad_norm", [1e-3, 0.5, 1e9])
def test_clipping_is_torchs_own_to_the_bit(max_grad_norm):
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    theirs, x = copy.deepcopy(ours), torch.randn(8, 3)
    descend(ours(x).square().sum(), torch.optim.SGD(ours.parameters(), lr=0.1), max_grad_norm=max_grad_norm)
    theirs(x).square().sum().backward()
    nn.utils.clip_grad_norm_(theirs.parameters(), max_grad_norm)
    torch.optim.SGD(theirs.parameters(), lr=0.1).step()
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(own.grad, other.grad)
        assert torch.equal(own, other)


def own_step(loss, optim):
    optim.zero_grad()
    loss.backward()
    optim.step()


@pytest.mark.parametrize("shape", [(), (1,)])
def test_gradients_equal_backward(shape):
    nets = [nn.ModuleDict({"held": nn.Linear(2, 2), "other": nn.Linear(2, 1)}) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    for net in nets:
        net["held"].unused, net["held"].fixed = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1), False)
    losses = [net["other"](net["held"](torch.ones(3, 2)).tanh()).mean().reshape(shape) for net in nets]
    descend(losses[0], torch.optim.SGD(nets[0]["held"].parameters(), lr=0.1))
    losses[1].backward()
    held, wanted = dict(nets[0]["held"].named_parameters()), dict(nets[1]["held"].named_parameters())
    assert held["unused"].grad is held["fixed"].grad is None
    assert all(torch.equal(held[name].grad, wanted[name].grad) for name in ("weight", "bias"))
    assert all(p.grad is None for p in nets[0]["other"].parameters())


def test_a_loss_that_is_no_number_is_refused():
    weight = nn.Parameter(torch.ones(2))
    optim = torch.optim.SGD([weight], lr=0.1)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        descend(weight * 2, optim)
    with pytest.raises(RuntimeError, match="does not require grad"):
        descend(torch.ones(()), optim)
    assert weight.tolist() == [1, 1]


ADAMS = {
    "fused": {},
    "weight decay": {"weight_decay": 0.1, "betas": (0.5, 0.8), "eps": 1e-3, "maximize": True},
    "amsgrad": {"amsgrad": True},
    "plain": {"fused": False},
    "tensor": {"lr": torch.tensor(0.01)},
}


OTHERS = {
    "AdamW": partial(torch.optim.AdamW, weight_decay=0.1),
    "RMSprop": partial(torch.optim.RMSprop, momentum=0.5, centered=True),
    "SGD": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    "foreach": partial(torch.optim.Adam, foreach=True),
    "foreach, numbers": partial(torch.optim.Adam, foreach=True, betas=(0.5, 0.8), eps=1e-3),
    "foreach, maximize": partial(torch.optim.Adam, foreach=True, maximize=True),
    "foreach, decay": partial(torch.optim.Adam, foreach=True, weight_decay=0.1),
}
MAKERS = {name: partial(adam, **{"lr": 0.01, **options}) for name, options in ADAMS.items()} | {
    name: lambda kind=kind, lr=0.01: partial(kind, lr=lr) for name, kind in OTHERS.items()
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_a_step_is_the_optimizers_own_to_the_bit(maker):
    """One parameter is left out by the loss in every third step, and one is of another dtype in a group of its own."""
    torch.manual_seed(0)
    first = nn.Linear(3, 2)
    first.other = nn.Parameter(torch.ones(2, dtype=torch.float64))
    nets = [first, copy.deepcopy(first)]
    groups = [[{"params": [net.weight, net.bias]}, {"params": [net.other], "lr": 0.2}] for net in nets]
    optims = [copy.deepcopy(maker)()(own) for own in groups]
    x = torch.randn(8, 3)
    for number in range(9):
        for net, optim, step in zip(nets, optims, (descend, own_step), strict=True):
            optim.param_groups[0]["lr"] *= 0.9  # a schedule
            loss = net(x).square().sum()
            step(loss if number % 3 == 2 else loss + net.other.square().sum(), optim)
    ours, theirs = (
        {**net.state_dict(), **dict(enumerate_state(optim))} for net, optim in zip(nets, optims, strict=True)
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    assert theirs.get((0, "step"), 9) == 9
    assert theirs.get((2, "step"), 6) == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}])
def test_parameters_that_have_made_other_numbers_of_steps_and_other_dtypes(options, dtype):
    torch.manual_seed(0)
    ours = nn.ParameterList([torch.randn(2, 3, dtype=dtype), torch.randn(2, dtype=dtype)])
    theirs = copy.deepcopy(ours)
    for held, step in ((ours, descend), (theirs, own_step)):
        optim = torch.optim.Adam(held, lr=0.01, **options)
        for number in range(7):
            first, second = held
            step((first if number in (3, 4, 5) else first.mT + second).abs().square().sum(), optim)
        assert [optim.state[p]["step"].item() for p in held] == [7, 4]
    assert all(map(torch.equal, ours, theirs))


def enumerate_state(optim):
    return (((i, name), v) for i, state in optim.state_dict()["state"].items() for name, v in state.items())


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("listen", ["hook", "scheduler", "subclass"])
def test_whoever_listens_to_steps_hears_of_them(listen, fused):
    heard = []

    class Loud(torch.optim.Adam):
        def step(self, closure=None):
            heard.append(self)
            return super().step(closure)

    net = nn.Linear(2, 1)
    optim = Loud(net.parameters(), fused=fused) if listen == "subclass" else adam(0.1, fused=fused)(net.parameters())
    descend(net(torch.ones(1, 2)).sum(), optim)
    heard.clear()
    if listen == "hook":
        optim.register_step_post_hook(lambda *_: heard.append(optim))
    elif listen == "scheduler":
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optim, 0.5)
    descend(net(torch.ones(1, 2)).sum(), optim)
    if listen == "scheduler":
        scheduler.step()  # warns if no step came before
        assert optim.param_groups[0]["lr"] == 0.05
    else:
        assert heard == [optim]
    assert optim.state[net.weight]["step"] == 2


def test_clone_optimizer_drops_state():
    old, new = nn.Linear(2, 1), nn.Linear(3, 1)
    optim = torch.optim.RMSprop(old.parameters(), lr=0.3, alpha=0.5)
    descend(old(torch.ones(1, 2)).sum(), optim)
    clone = clone_optimizer(optim, new.parameters())
    assert type(clone) is torch.optim.RMSprop
    assert clone.defaults == optim.defaults
    assert not clone.state
    assert clone.param_groups[0]["params"] == list(new.parameters())
    one = nn.Parameter(torch.ones(1))
    assert clone_optimizer(optim, one).param_groups[0]["params"] == [one]


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_clone_optimizer_of_any_kind(kind):
    optim = kind(nn.Linear(2, 1).parameters(), lr=0.3, weight_decay=0.25)
    clone = clone_optimizer(optim, nn.Linear(3, 1).parameters())
    assert (type(clone), clone.defaults) == (kind, optim.defaults)


def test_adamw_decays_weights():
    net = nn.Linear(2, 1)
    before = net.weight.detach().clone()
    optim = adamw(0.5)(net.parameters())
    assert (type(optim), optim.defaults["fused"]) == (torch.optim.AdamW, True)
    descend(0 * net(torch.ones(1, 2)).sum(), optim)
    assert torch.allclose(net.weight, before * (1 - 0.5 * 0.01))


def test_clone_optimizer_refuses_what_it_cannot_know():
    class Own(torch.optim.SGD):
        pass

    with pytest.raises(ValueError, match="pass a factory"):
        clone_optimizer(Own(nn.Linear(1, 1).parameters(), lr=0.1), [])


WITHOUT_COMPILER = """
import sys
import torch
from rlfast.utils.optim import adam, descend
model = torch.nn.Linear(3, 2)
kinds = torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD
for optim in (adam(0.1)(model.parameters()), *(kind(model.parameters(), lr=0.1) for kind in kinds)):
    for _ in range(2):
        descend(model(torch.ones(4, 3)).square().mean(), optim, 0.5)
    assert optim.state_dict()["state"].get(0, {}).get("step", 2) == 2
print("torch._dynamo" in sys.modules)
"""


def test_eager_steps_import_no_compiler():
    command = [sys.executable, "-c", WITHOUT_COMPILER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "False\n", done.stderr
