"""Learners that share a batch: their gradients are those of one learner with the whole batch."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from distributed.learning import learner_rank as ranks
from rlfast.distributed.learning.group import Group, free_address, share_gradients
from rlfast.policy.components import training_state
from rlfast.utils.optim import descend, optim_step


@pytest.mark.parametrize("name", ["dqn", "ddpg"])
def test_two_learners_learn_what_one_learns_from_the_joint_batch(name, tmp_path):
    alone = ranks.learn(name, 0, 1)
    address = free_address()
    command = [sys.executable, ranks.__file__, address, str(tmp_path), name]
    with subprocess.Popen(command, cwd=Path(ranks.__file__).parent) as other:
        group = Group(0, 2, address)
        try:
            together = ranks.policy(name)
            share_gradients(together, group)
            for step in range(ranks.STEPS):
                together.update(ranks.ROWS // 2, ranks.Part(ranks.buffer(name, step), 0, 2))
            assert group.largest(7.0) == 7.0
        finally:
            group.close()
        assert other.wait(timeout=300) == 0
    theirs = torch.load(tmp_path / "rank1.pt", weights_only=False)
    before = dict(ranks.policy(name).named_parameters())
    for place, parameter in together.named_parameters():
        torch.testing.assert_close(parameter, theirs[place], rtol=0, atol=0)  # they stay the same, to the bit
        torch.testing.assert_close(parameter, dict(alone.named_parameters())[place], rtol=1e-4, atol=1e-6)
    moved = [place for place, parameter in together.named_parameters() if not torch.equal(parameter, before[place])]
    assert moved


class Averaging:
    """A stand-in for a group, which notes when it is asked."""

    def __init__(self):
        self.norms = []

    def average(self, parameters):
        (parameter,) = parameters
        self.norms.append(float(parameter.grad.norm()))
        parameter.grad.fill_(3.0)


@pytest.mark.parametrize("step", [descend, lambda loss, optim, norm: optim_step(loss, optim, None, norm)])
def test_gradients_are_averaged_before_they_are_clipped(step):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optim, group = torch.optim.SGD([parameter], lr=1.0), Averaging()
    optim.reduce_gradients = group.average
    step((parameter * 8.0).sum(), optim, 2.0)
    assert group.norms == [8.0]
    assert float(parameter.detach()) == pytest.approx(-2.0)


def test_all_optimizers_of_a_policy_share_and_stop_sharing():
    made, group = ranks.policy("ddpg"), Averaging()
    optimizers = training_state.find(made).optimizers
    assert len(optimizers) == 2
    share_gradients(made, group)
    assert all(optim.reduce_gradients == group.average for optim in optimizers.values())
    share_gradients(made, None)
    assert not any(hasattr(optim, "reduce_gradients") for optim in optimizers.values())
    share_gradients(made, None)
