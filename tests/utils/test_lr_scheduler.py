import pytest
import torch
from torch.optim.lr_scheduler import ConstantLR, ExponentialLR, LambdaLR

from rlfast.utils import MultipleLRSchedulers


def optimizers(n):
    return [torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0) for _ in range(n)]


def rates(optims):
    return [optim.param_groups[0]["lr"] for optim in optims]


def step(optims, schedulers, times):
    for _ in range(times):
        for optim in optims:
            optim.step()
        schedulers.step()


def make(optims):
    return MultipleLRSchedulers(
        ConstantLR(optims[0], factor=0.1, total_iters=2),
        ExponentialLR(optims[1], gamma=0.9),
        LambdaLR(optims[2], lambda epoch: 1 / (1 + epoch)),
    )


def test_each_scheduler_steps():
    optims = optimizers(3)
    step(optims, make(optims), 1)
    assert rates(optims) == pytest.approx([0.1, 0.9, 0.5])
    optims = optimizers(3)
    step(optims, make(optims), 2)
    assert rates(optims) == pytest.approx([1.0, 0.81, 1 / 3])


@pytest.mark.pitfall("F10")
def test_the_state_goes_on_where_it_was_taken():
    optims = optimizers(3)
    schedulers = make(optims)
    step(optims, schedulers, 3)
    state = schedulers.state_dict()
    optim_states = [optim.state_dict() for optim in optims]
    fresh = optimizers(3)
    resumed = make(fresh)
    for optim, optim_state in zip(fresh, optim_states, strict=True):
        optim.load_state_dict(optim_state)
    resumed.load_state_dict(state)
    step(optims, schedulers, 2)
    step(fresh, resumed, 2)
    assert rates(fresh) == rates(optims)


def test_wrong_number_of_scheduler_states():
    schedulers = make(optimizers(3))
    with pytest.raises(ValueError, match="the states of 2 schedulers for 3"):
        schedulers.load_state_dict(schedulers.state_dict()[:2])
