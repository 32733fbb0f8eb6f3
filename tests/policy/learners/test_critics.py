"""Critics and their names; the tests of algorithms test whole updates."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from continuous import Lines, ensemble
from rlfast.data import Batch
from rlfast.policy import TD3Policy
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.continuous.actor_critic_learner import ActorCriticLearner
from rlfast.policy.learners.critics import reinitialized
from rlfast.policy.learners.replay_learner import Sample
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic


class Constant(nn.Module):
    """A value that is the same everywhere."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, obs, act):
        return self.value.expand(len(obs), 1)


@replaceable("__call__", "forward")
class Rater(ActorCriticLearner):
    """Has critics, and an actor that nobody asks."""

    def __init__(self, names, *critics):
        self.critic_names = self.lagged_names = names
        super().__init__(
            actor=nn.Linear(1, 1),
            actor_optim=None,
            action_space=Box(-1, 1, (1,)),
            tau=0.5,
            gamma=0.9,
            estimation_step=1,
            exploration_noise=None,
            action_bound_method=None,
        )
        for name, critic in zip(names, critics, strict=True):
            setattr(self, name, critic)
            setattr(self, f"{name}_old", self.lagged_copy(critic))
            setattr(self, f"{name}_optim", torch.optim.SGD(critic.parameters(), lr=0.5))

    def forward(self, batch, state=None, **kwargs):
        raise NotImplementedError

    def next_value(self, obs_next, state=None, *draws):
        raise NotImplementedError

    def gradient_step(self, sample):
        raise NotImplementedError


def sample(returns, weight=None):
    obs = torch.zeros(len(returns), 1)
    weight = None if weight is None else torch.tensor(weight)
    return Sample(None, obs, None, obs, weight, False, (), returns=torch.tensor(returns))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_critic_goes_its_own_way_and_targets_follow(number):
    names = ("critic", "critic2", "critic3")[:number]
    policy = Rater(names, *(Constant(float(i)) for i in range(number)))
    losses, error = policy.regress(sample([4.0, 2.0]))
    assert [loss.item() for loss in losses] == [((4.0 - i) ** 2 + (2.0 - i) ** 2) / 2 for i in range(number)]
    mean = sum(range(number)) / number
    assert error.tolist() == pytest.approx([4.0 - mean, 2.0 - mean])
    assert [critic.value.item() for critic in policy.critics] == [3.0] * number  # a whole step to the mean return
    policy.sync_weight()
    act = torch.zeros(2, 1)
    assert [q.tolist() for q in policy.critic_values(act, act, old=True)] == [
        [(i + 3.0) / 2] * 2 for i in range(number)
    ]
    assert [q.tolist() for q in policy.critic_values(act, act)] == [[3.0] * 2] * number


@pytest.mark.parametrize(
    ("names", "losses"), [(("critic",), ["critic_loss"]), (("critic", "critic2"), ["critic1_loss", "critic2_loss"])]
)
def test_a_step_of_critics_names_its_losses(names, losses):
    policy = Rater(names, *(Constant(float(i)) for i in range(len(names))))
    found, error = policy.critic_step(sample([4.0]))
    assert {name: loss.item() for name, loss in found.items()} == dict(zip(losses, [16.0, 9.0], strict=False))
    assert error.tolist() == [4.0 - (len(names) - 1) / 2]


def test_importance_weights():
    policy = Rater(("critic",), Constant(0.0))
    losses, error = policy.regress(sample([4.0, 2.0], weight=[0.5, 0.0]))
    assert losses[0].item() == 0.5 * 16 / 2
    assert error.tolist() == [4.0, 2.0]
    assert policy.critic.value.item() == pytest.approx(0.5 * 2 * 0.5 * 4 / 2)


class Own(Rater):
    """Steps by a method of its own, which does what the stock one does."""

    @staticmethod
    def _mse_optimizer(batch, critic, optimizer):
        return Rater._mse_optimizer(batch, critic, optimizer)


@pytest.mark.parametrize(
    ("names", "critics"),
    [
        (("critic",), lambda: (Constant(0.0),)),
        (("critic", "critic2"), lambda: (Constant(0.0), Constant(1.0))),
        (("critic",), lambda: (Lines([0.0, 0.0], [0.0, 1.0]),)),
    ],
    ids=["one", "two", "ensemble"],
)
@pytest.mark.parametrize("weight", [None, [0.5, 0.25]])
def test_steps_of_ones_own_tell_the_same_errors(names, critics, weight):
    own, stock = Own(names, *critics()), Rater(names, *critics())
    given = sample([4.0, 2.0], weight)
    fields = {"obs": given.obs, "act": given.act, "returns": given.returns}
    batch = Batch(fields if weight is None else {**fields, "weight": given.weight})
    (losses, error), (wanted, wanted_error) = own.regress(given._replace(batch=batch)), stock.regress(given)
    assert [loss.item() for loss in losses] == [loss.item() for loss in wanted]
    assert not any(loss.requires_grad for loss in losses)
    assert error.tolist() == wanted_error.tolist()


def test_an_own_second_critic_begins_elsewhere():
    layers = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 1)))
    other = reinitialized(layers)
    for ours, theirs in zip(layers.parameters(), other.parameters(), strict=True):
        assert ours.shape == theirs.shape
        assert not torch.equal(ours, theirs)


def test_noise_is_added_to_arrays_only():
    policy = Rater(("critic",), Constant(0.0))
    act = np.zeros((2, 1), np.float32)
    assert policy.exploration_noise(act, None) is act
    policy.set_exp_noise(np.ones)
    assert policy.exploration_noise(act, None).tolist() == [[1.0], [1.0]]
    assert policy.exploration_noise(act, None).dtype == np.float32
    with pytest.raises(TypeError, match="exploration_noise must be a function or None, got 3"):
        policy.set_exp_noise(3)


class TestEnsemble:
    def policy(self, critic, size=None):
        policy = Rater((), *())
        policy.critic_names = policy.lagged_names = ("critic",)
        policy.add_ensemble(critic, lambda parameters: torch.optim.SGD(parameters, lr=0.5), size)
        return policy

    def test_members_go_their_own_ways_and_targets_follow(self):
        policy = self.policy(Lines([0.0, 0.0], [0.0, 1.0]))
        losses, error = policy.regress(sample([4.0, 2.0]))
        assert [loss.item() for loss in losses] == [((16 + 4) / 2 + (9 + 1) / 2) / 2]  # the mean of both
        assert error.tolist() == [3.5, 1.5]
        assert policy.critic.offset.flatten().tolist() == [1.5, 2.0]  # half a step to the mean return, as of two losses
        policy.sync_weight()
        act = torch.zeros(2, 1)
        assert policy.ensemble_values(act, act).tolist() == [[1.5, 1.5], [2.0, 2.0]]
        assert policy.ensemble_values(act, act, old=True).tolist() == [[0.75, 0.75], [1.5, 1.5]]

    def test_importance_weights_and_one_row(self):
        policy = self.policy(Lines([0.0, 0.0], [0.0, 1.0]))
        losses, error = policy.regress(sample([4.0], weight=[0.5]))
        assert (losses[0].item(), error.tolist()) == (0.5 * (16 + 9) / 2, [3.5])

    @pytest.mark.parametrize("critic", [lambda: ensemble(5), lambda: Lines([0.0, 1.0, 2.0, 3.0, 4.0], [0.0] * 5)])
    @pytest.mark.parametrize("old", [False, True])
    def test_some_members(self, critic, old):
        policy = self.policy(critic(), 5)
        obs, act = torch.randn(7, 4), torch.randn(7, 2)
        act = act if isinstance(policy.critic, Critic) else act[:, :1]
        policy.critic_old = self.policy(critic()).critic
        network = policy.critic_old if old else policy.critic
        some = policy.ensemble_values(obs, act, old=old, members=torch.tensor([3, 0]))
        torch.testing.assert_close(some, network(obs, act)[[3, 0]].squeeze(2))
        assert policy.ensemble_values(obs, act, old=old).shape == (5, 7)

    def test_other_members_are_not_computed(self):
        policy, computed = self.policy(ensemble(5), 5), []
        policy.critic.last.register_forward_hook(lambda _, args, output: computed.append(len(output)))
        policy.ensemble_values(torch.zeros(7, 4), torch.zeros(7, 2), members=torch.tensor([3, 0]))
        assert computed == [2]

    def test_several_values_of_each(self):
        policy = self.policy(Lines([0.0, 0.0], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))
        act = torch.zeros(1, 1)
        assert policy.ensemble_values(act, act).tolist() == [[[0.0, 1.0, 2.0]], [[3.0, 4.0, 5.0]]]

    def test_what_is_no_ensemble_of_that_size(self):
        with pytest.raises(ValueError, match="ensemble_size is 10, but critic is an ensemble of 5: give both the same"):
            self.policy(ensemble(5), 10)
        policy = self.policy(Constant(0.0))
        with pytest.raises(ValueError, match=r"critic must give \[ensemble_size, 2, 1\], got \[2, 1\]: make it of"):
            policy.ensemble_values(torch.zeros(2, 1), torch.zeros(2, 1))
        with pytest.raises(TypeError, match="critic must be a Module"):
            self.policy(None)

    def test_pairs_of_critics_are_no_ensembles(self):
        with pytest.raises(ValueError, match=r"TD3Policy takes critics that give .* got an ensemble of 5; REDQ"):
            TD3Policy(
                actor=Actor(Net(4, hidden_sizes=[8]), 2),
                actor_optim=None,
                critic=ensemble(5),
                critic_optim=None,
                action_space=Box(-1, 1, (2,)),
            )
