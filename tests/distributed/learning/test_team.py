"""Learners beside the one of the run: what they are told, and what happens when one is lost."""

import pytest
import torch
from torch import nn

from rlfast.distributed.cluster.actors import InProcessCluster
from rlfast.distributed.learning import team as module
from rlfast.distributed.learning.team import LearnerLost, Team
from rlfast.experiment.config import RunWarning


class Policy(nn.Module):
    """A stand-in with one weight, and no optimizers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


class Worker:
    """A stand-in for a learner, which notes what it is told."""

    def __init__(self, rank):
        self.rank, self.told = rank, []

    def join(self, address):
        self.told.append("join")

    def take(self, state, shards):
        self.told.append(("take", float(state.get()["weight"]), shards))

    def update(self, times, env_step, shards):
        self.told.append(("update", times, env_step, shards))


class Group:
    """A stand-in for ranks of torch.distributed."""

    left = 0

    def __init__(self, rank, size, address, device):
        assert (rank, size, device) == (0, 3, "cpu")

    def average(self, parameters): ...

    def largest(self, value):
        return value + 1.0

    def close(self):
        Group.left += 1


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(module, "Group", Group)
    monkeypatch.setattr(Group, "left", 0)
    cluster, policy = InProcessCluster(), Policy()
    return cluster, policy, Team(cluster, lambda rank: cluster.start(Worker, rank), policy, 3, "cpu")


def test_all_learners_make_the_same_steps(made):
    cluster, _, team = made
    shards = [object(), object()]
    assert team.update(lambda: "own", 4, 100, shards) == "own"
    assert team.update(lambda: "again", 2, 140, [*shards]) == "again"
    replaced = [shards[0], object()]
    team.update(lambda: None, 1, 150, replaced)
    assert [actor.target.rank for actor in cluster.actors] == [1, 2]
    for actor in cluster.actors:
        assert actor.target.told == [
            "join",
            ("take", 0.0, shards),
            ("update", 4, 100, None),
            ("update", 2, 140, None),
            ("update", 1, 150, replaced),
        ]
    assert team.largest(2.0) == 3.0
    team.close()
    team.close()
    assert Group.left == 1


def test_a_lost_learner_takes_all_back_to_what_was_kept(made):
    cluster, policy, team = made
    team.update(lambda: None, 1, 0, [])
    with torch.no_grad():
        policy.weight.fill_(5.0)
    team.keep(40)
    with torch.no_grad():
        policy.weight.fill_(6.0)
    cluster.actors[1].kill()
    with pytest.raises(LearnerLost, match="learner 2 was lost") as lost:
        team.update(lambda: None, 1, 0, [])
    assert Group.left == 1
    with pytest.warns(RunWarning, match="go back by 7 gradient steps, to the last checkpoint"):
        team.recover(lost.value, 47)
    assert float(policy.weight.detach()) == 5.0
    assert team.update(lambda: "on", 3, 9, []) == "on"
    assert [actor.target.told for actor in cluster.actors[2:]] == [
        ["join", ("take", 5.0, []), ("update", 3, 9, None)]
    ] * 2
    assert team.lost == 1


def test_what_fails_in_this_process_is_the_fault_of_a_lost_learner(made):
    cluster, _, team = made
    team.update(lambda: None, 1, 0, [])

    def broken():
        raise RuntimeError("connection closed by peer")

    with pytest.raises(RuntimeError, match="connection closed by peer") as error:
        team.update(broken, 1, 0, [])
    assert not isinstance(error.value, LearnerLost)  # the others are there
    team.update(lambda: None, 1, 0, [])
    cluster.actors[0].kill()
    with pytest.raises(LearnerLost, match="learner 1 was lost"):
        team.update(broken, 1, 0, [])


def test_learners_that_are_lost_again_and_again_end_the_run(made):
    *_, team = made
    for _ in range(5):
        with pytest.warns(RunWarning):
            team.recover(LearnerLost("learner 1 was lost"), 0)
    with pytest.raises(RuntimeError, match="lost 6 times in a row"):
        team.recover(LearnerLost("learner 1 was lost"), 0)
