import pytest
import torch
from torch import nn

from rlfast.utils.optim import adam, clone_optimizer, make_optimizer, optim_step


def test_adam_is_fused_unless_told_otherwise():
    net = nn.Linear(2, 1)
    assert adam(1e-4)(net.parameters()).defaults["fused"]
    optim = adam(1e-4, fused=False, betas=(0.5, 0.9))(net.parameters())
    assert not optim.defaults["fused"]
    assert optim.defaults["lr"] == 1e-4
    assert optim.defaults["betas"] == (0.5, 0.9)


def test_make_optimizer_calls_a_factory_and_keeps_an_optimizer():
    net = nn.Linear(2, 1)
    optim = make_optimizer(adam(), net.parameters())
    assert isinstance(optim, torch.optim.Adam)
    assert optim.param_groups[0]["params"] == list(net.parameters())
    assert make_optimizer(optim, []) is optim


def test_optim_step_clears_old_gradients_and_descends():
    weight = nn.Parameter(torch.tensor([1.0]))
    optim = torch.optim.SGD([weight], lr=0.5)
    for _ in range(2):
        optim_step((2 * weight).sum(), optim)
    assert weight.item() == pytest.approx(1.0 - 2 * 0.5 * 2)


def test_optim_step_clips_the_norm_of_all_gradients_together():
    module = nn.Linear(1, 1)
    before = torch.cat([p.detach().flatten().clone() for p in module.parameters()])
    optim = torch.optim.SGD(module.parameters(), lr=1.0)
    optim_step(module(torch.tensor([[3.0]])).sum() * 4, optim, module, max_grad_norm=0.5)  # gradient (12, 4)
    moved = torch.cat([p.detach().flatten() for p in module.parameters()]) - before
    assert moved.norm().item() == pytest.approx(0.5, rel=1e-5)
    assert (moved[0] / moved[1]).item() == pytest.approx(3.0, rel=1e-4)


def test_clipping_needs_a_module_and_says_so_before_the_step():
    weight = nn.Parameter(torch.tensor([1.0]))
    with pytest.raises(ValueError, match="needs the module"):
        optim_step(weight.sum(), torch.optim.SGD([weight], lr=1.0), max_grad_norm=0.5)
    assert weight.grad is None


def test_clone_optimizer_keeps_class_and_options_but_no_state():
    old, new = nn.Linear(2, 1), nn.Linear(3, 1)
    optim = torch.optim.RMSprop(old.parameters(), lr=0.3, alpha=0.5)
    optim_step(old(torch.ones(1, 2)).sum(), optim)
    clone = clone_optimizer(optim, new.parameters())
    assert type(clone) is torch.optim.RMSprop
    assert clone.defaults == optim.defaults
    assert not clone.state
    assert clone.param_groups[0]["params"] == list(new.parameters())
    one = nn.Parameter(torch.ones(1))
    assert clone_optimizer(optim, one).param_groups[0]["params"] == [one]


def test_clone_optimizer_refuses_what_it_cannot_know():
    class Own(torch.optim.SGD):
        pass

    with pytest.raises(ValueError, match="pass a factory"):
        clone_optimizer(Own(nn.Linear(1, 1).parameters(), lr=0.1), [])
