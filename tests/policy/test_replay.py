"""The base class of algorithms that learn from sampled transitions, with minimal algorithms."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn

from algorithms import make_policy, rows
from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, Sequence
from rlfast.policy.replay import ReplayLearner, Sample, returns_of, rows_of_both
from rlfast.policy.stats import TrainingStats


class Stats(TrainingStats):
    def __init__(self, **losses):
        super().__init__()
        vars(self).update(losses)


class Line(ReplayLearner):
    """A value that is one weight times the first number of an observation, learned by steps of 0.1."""

    stats_class = Stats

    def __init__(self, gamma=0.5, n_step=1, compile=False, **options):
        super().__init__(gamma=gamma, n_step=n_step, action_space=Discrete(2), compile=compile, **options)
        self.net = nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.net.weight)
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.samples = []

    @property
    def acting_network(self):
        return self.net

    def value(self, obs):
        return self.net(torch.as_tensor(obs)).flatten()

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), int))

    def next_value(self, obs_next, state=None, *draws):
        return sum(draws, self.value(obs_next))

    def gradient_step(self, sample):
        if not torch.compiler.is_compiling():
            self.samples.append(sample)
        error = sample.returns - self.value(sample.obs)
        loss = error.square().mean()
        grad = torch.autograd.grad(loss, self.net.weight)[0]
        with torch.no_grad():
            self.net.weight.sub_(0.1 * grad)
        return {"loss": loss.detach(), "step": grad.sum()}, error.detach()


class Drawing(Line):
    """Draws 1, 2, 3, ... and notes for what."""

    def __init__(self, **options):
        super().__init__(**options)
        self.drawn = []

    def _draw(self, what, rows):
        self.drawn.append(what)
        return (torch.full((rows,), float(len(self.drawn))),)

    def draw_next(self, rows):
        return self._draw("next", rows)

    def draw_step(self, rows):
        return self._draw("step", rows)


def chain(kind=ReplayBuffer, length=4, **options):
    """One episode: observations 0, 1, 2, ..., rewards 1, the last step terminal."""
    buffer = kind(length, **options)
    for t in range(length):
        flags = {"terminated": t == length - 1, "truncated": False}
        obs = np.array([t], np.float32)
        buffer.add(Batch(obs=obs, act=0, rew=1.0, obs_next=obs + 1, info={}, **flags))
    return buffer


def processed(policy, buffer=None, rows=None):
    buffer = chain() if buffer is None else buffer
    rows = np.arange(len(buffer)) if rows is None else rows
    return policy.process_fn(buffer[rows], buffer, rows)


class TestReturns:
    def test_by_hand(self):
        batch = processed(Line())
        assert batch.returns.flatten().tolist() == [1 + 0.5 * 1, 1 + 0.5 * 2, 1 + 0.5 * 3, 1.0]
        batch = processed(Line(n_step=3))
        assert batch.returns.flatten().tolist() == [1.75 + 0.125 * 3, 1.75, 1.5, 1.0]

    @pytest.mark.parametrize("learns_from_returns", [True, False])
    def test_next_observations_of_sample_are_taken(self, learns_from_returns):
        """A subclass may have changed them, as normalization does."""
        policy, buffer, rows = Line(), chain(), np.arange(4)
        policy.learns_from_returns = learns_from_returns
        batch = buffer[rows]
        batch.obs_next = batch.obs_next + 10
        policy.process_fn(batch, buffer, rows)
        assert batch.obs_next.flatten().tolist() == [11.0, 12.0, 13.0, 14.0]
        if learns_from_returns:
            assert batch.returns.flatten().tolist() == [6.5, 7.0, 7.5, 1.0]
        assert policy._target_q(buffer, rows).tolist() == [1.0, 2.0, 3.0, 4.0]

    def test_normalized_rewards_are_refused(self):
        policy = Line()
        policy.rew_norm = True
        with pytest.raises(ValueError, match="rew_norm"):
            processed(policy)

    def test_several_values_of_a_row(self):
        class Two(Line):
            def next_value(self, obs_next, state=None, *draws):
                value = super().next_value(obs_next, state)
                return torch.stack([value, 10 * value], 1)

        policy = Two()
        batch = processed(policy)
        assert batch.returns.tolist() == [[1.5, 6.0], [2.0, 11.0], [2.5, 16.0], [1.0, 1.0]]
        policy.gradient_step = lambda sample: ({"loss": sample.returns.sum()}, None)
        assert policy.learn(batch).loss == 41.0

    def test_an_algorithm_that_makes_its_own(self):
        own, stock_ = Own(n_step=2), Line(n_step=2)
        batch = processed(own)
        assert batch.reward_sum.tolist() == [1.5, 1.5, 1.5, 1.0]
        assert batch.discount.tolist() == [0.25, 0.25, 0.0, 0.0]
        assert batch.obs_next.flatten().tolist() == [2.0, 3.0, 4.0, 4.0]
        assert "returns" not in batch
        assert own.learn(batch).loss == stock_.learn(processed(stock_)).loss
        assert torch.equal(own.net.weight, stock_.net.weight)

    def test_the_hidden_states_before_next_observations(self):
        """They are those of the next rows, but after the last one."""
        policy, plain, buffer, rows = Own(), chain(), ReplayBuffer(4), np.arange(4)
        policy.state_after = lambda obs, state: {"hidden": state.hidden + 10 * torch.as_tensor(obs)}
        for row in plain[rows]:
            row.policy = Batch(hidden_state=Batch(hidden=5 + row.obs))
            buffer.add(row)
        batch = processed(policy, buffer, rows)
        assert batch.state.hidden.flatten().tolist() == [5.0, 6.0, 7.0, 8.0]
        assert batch.state_next.hidden.flatten().tolist() == [6.0, 7.0, 8.0, 8.0 + 30.0]
        assert "state_next" not in processed(policy)

    def test_those_of_several_columns(self):
        sample = Sample(*[None] * 6, reward_sum=torch.tensor([1.0, 2.0]), discount=torch.tensor([0.5, 0.0]))
        values = torch.tensor([[2.0, 4.0], [6.0, 8.0]])
        assert returns_of(sample, values).tolist() == [[2.0, 3.0], [2.0, 2.0]]


class TestLearn:
    def test_losses_by_name_and_errors_for_priorities(self):
        policy, batch = Line(), None
        batch = processed(policy)
        stats = policy.learn(batch)
        errors = [1.5, 1.0, 0.5, -2.0]
        assert isinstance(stats, Stats)
        assert stats.get_loss_stats_dict() == {
            "loss": pytest.approx(np.square(errors).mean()),
            "step": pytest.approx(-2 * np.mean(np.multiply(errors, [0, 1, 2, 3]))),
        }
        assert batch.td_error.tolist() == errors

    def test_priorities_reach_the_buffer(self):
        buffer = chain(PrioritizedReplayBuffer, alpha=1.0, beta=1.0)
        policy = Line()
        policy.update(64, buffer)  # each row is drawn
        sample = policy.samples[0]
        assert sample.weight.dtype == torch.float32
        weight = buffer.get_weight(np.arange(4))  # the least priority's is 1, others' are smaller in proportion
        assert (0.5 / np.array([1.5, 1.0, 0.5, 2.0])).tolist() == pytest.approx((weight / weight.max()).tolist())

    def test_no_errors_leave_priorities_and_say_so(self):
        policy = Line()
        policy.gradient_step = lambda sample: ({"loss": sample.returns.sum()}, None)
        with pytest.warns(UserWarning, match="priorities stay"):
            policy.update(4, chain(PrioritizedReplayBuffer, alpha=1.0, beta=1.0))

    def test_every_so_many_steps(self):
        class Third(Line):
            def is_due(self):
                return self._iter % 3 == 0

        policy, always = Third(), Line()
        for _ in range(7):
            policy.update(4, chain())
            always.update(4, chain())
        assert [sample.is_due for sample in policy.samples] == [True, False, False, True, False, False, True]
        assert all(sample.is_due for sample in always.samples)

    def test_the_count_of_steps_is_saved(self):
        policy, other = Line(), Line()
        for _ in range(3):
            policy.update(4, chain())
        other.load_state_dict(policy.state_dict())
        assert other._iter == policy._iter == 3


class TestDraws:
    def test_next_value_and_step_have_their_own(self):
        policy = Drawing()
        batch = processed(policy)
        assert batch.returns.flatten().tolist() == [2.0, 2.5, 3.0, 1.0]  # each with a draw of 1
        policy.learn(batch)
        assert policy.drawn == ["next", "step"]
        assert policy.samples[0].draws[0].tolist() == [2.0] * 4

    @pytest.mark.parametrize(
        ("flag", "drawn"), [("learns_from_rewards", ["step"]), ("learns_from_returns", ["next", "step"])]
    )
    def test_samples_without_returns_have_them_too(self, flag, drawn):
        policy = Drawing()
        setattr(policy, flag, False)
        policy.extra_names = ("rew",)
        batch = processed(policy)
        batch.state_next = torch.ones(4)
        sample = policy._as_sample(batch)
        assert policy.drawn == drawn
        assert [numbers.tolist() for numbers in sample.draws] == [[float(len(drawn))] * 4]
        assert [column.tolist() for column in sample.extras] == [[1.0] * 4]
        assert (sample.state_next is None) == (flag == "learns_from_rewards")


class TestTargetQ:
    def test_a_target_of_a_subclass(self):
        class Own(Line):
            def _target_q(self, buffer, indices):
                return super()._target_q(buffer, indices) * 2

        assert processed(Own()).returns.flatten().tolist() == [2.0, 3.0, 4.0, 1.0]


def test_the_hidden_state_after_observations_is_the_networks():
    asked = []

    class Remembering(Line):
        @property
        def acting_network(self):
            return lambda obs, **given: (asked.append((obs, given)), "after")

    obs = np.zeros((2, 1))
    assert Remembering().state_after(obs, "before") == "after"
    assert asked == [(obs, {"state": "before", "info": {}})]


class Single(Line):
    """Takes single precision, and a column more."""

    extra_names = ("rew",)

    @property
    def _dtype(self):
        return torch.float32


class Imitating(Line):
    """Learns the actions, whatever they were rewarded with."""

    learns_from_rewards = False

    def gradient_step(self, sample):
        return super().gradient_step(sample._replace(returns=sample.act.float()))


class Own(Line):
    """Computes the returns itself."""

    learns_from_returns = False

    def gradient_step(self, sample):
        with torch.no_grad():
            value = self.next_value(sample.obs_next, sample.state_next, *sample.draws_next)
        return super().gradient_step(sample._replace(returns=sample.bootstrapped(value)))


@pytest.mark.usefixtures("as_it_is")
class TestWholeUpdates:
    """Targets and gradient step in one function, of tensors alone."""

    @pytest.mark.parametrize("kind", [Line, Drawing, Own, Single, Imitating])
    @pytest.mark.parametrize("n_step", [1, 3])
    def test_they_learn_the_same(self, kind, n_step):
        parts, whole = (kind(n_step=n_step, compile=compile) for compile in (False, True))
        for _ in range(3):
            assert whole.learn(processed(whole)).loss == pytest.approx(parts.learn(processed(parts)).loss, rel=1e-6)
        assert torch.allclose(whole.net.weight, parts.net.weight)
        assert whole._iter == 3

    def test_samples_have_the_parts_of_returns(self):
        policy = Single(n_step=3, compile=True)
        batch = processed(policy)
        assert "returns" not in batch
        assert batch.reward_sum.tolist() == [1.75, 1.75, 1.5, 1.0]
        batch.state = batch.state_next = np.ones(4)  # columns of the user's
        policy.learn(batch)
        (sample,) = policy.samples
        assert isinstance(sample.obs, torch.Tensor)
        assert isinstance(sample.obs_next, torch.Tensor)
        assert (sample.batch, sample.state, sample.state_next) == (None, None, None)
        assert (sample.obs.flatten().tolist(), sample.obs_next.flatten().tolist()) == ([0, 1, 2, 3], [3, 4, 4, 4])
        assert sample.returns.tolist() == [1.75 + 0.125 * 3, 1.75, 1.5, 1.0]
        assert (sample.act.dtype, sample.extras[0].tolist()) == (torch.float32, [1.0] * 4)

    def test_without_rewards_none_are_read(self):
        policy = Imitating(compile=True)
        batch = processed(policy)
        assert not {"returns", "reward_sum", "discount"} & {*batch.keys()}
        policy.learn(batch)
        assert policy.samples[0].reward_sum is None
        plain = Imitating()
        assert not {"returns", "reward_sum", "discount"} & {*processed(plain).keys()}

    def test_what_one_function_cannot_take_is_refused(self):
        policy, buffer = Line(compile=True), ReplayBuffer(1)
        obs = {"a": np.zeros(1, np.float32)}
        buffer.add(Batch(obs=obs, act=0, rew=1.0, obs_next=obs, terminated=True, truncated=False, info={}))
        with pytest.raises(TypeError, match=r"^compile=True needs observations that are one array, got a Batch$"):
            processed(policy, buffer)

        class Recurrent(Line):
            def __init__(self, **options):
                super().__init__(**options)
                self.memory = nn.LSTM(1, 1)

        Recurrent(compile=False)
        with pytest.raises(ValueError, match="cannot take recurrent networks such as LSTM"):
            Recurrent(compile=True)


@pytest.mark.usefixtures("as_it_is")
@pytest.mark.parametrize(
    ("kind", "compile", "names"),
    [
        (Single, False, ("act", "weight", "returns")),
        (Own, False, ("act", "weight", "reward_sum", "discount")),
        (Single, True, ("obs", "obs_next", "act", "weight", "reward_sum", "discount")),
    ],
)
def test_samples_are_moved_to_the_networks(kind, compile, names):
    policy = kind(compile=compile)
    batch = processed(policy)
    batch.weight = np.ones(4)
    if "returns" in batch:
        batch.returns = batch.returns.double()
    sample = policy.to("meta")._as_sample(batch)
    assert sample.weight.dtype == torch.float32
    assert sample.returns is None or sample.returns.dtype == torch.float32
    assert {getattr(sample, name).device.type for name in names} == {"meta"}
    assert {extra.device.type for extra in sample.extras} <= {"meta"}


class Remembering(Line):
    """Learns from sequences."""

    learns_from_sequences = True

    def value(self, obs):
        return self.net(obs.flat()).flatten()


@pytest.mark.usefixtures("as_it_is")
@pytest.mark.parametrize("name", ["__call__", "forward", "_target_q", "_mse_optimizer"])
def test_graph_refuses_overrides(name):
    own = type("Own", (Line,), {name: getattr(Line, name, lambda *_: None)})
    own()
    with pytest.raises(ValueError, match=r"^compile=True makes one graph of the algorithm's own methods, and Own"):
        own(compile=True)


class TestSequences:
    def processed(self, policy):
        buffer = chain(unit=Sequence(2, 0))
        batch, indices = buffer.sample(3)
        return policy.process_fn(batch, buffer, indices)

    @pytest.mark.parametrize("name", ["forward", "_target_q", "_mse_optimizer"])
    def test_overrides_that_they_do_not_go_through_are_refused(self, name):
        with pytest.raises(ValueError, match=r"^Own learns from sequences by its own methods, without a graph: leave"):
            self.processed(type("Own", (Remembering,), {name: lambda *_: None})())

    @pytest.mark.usefixtures("as_it_is")
    def test_graphs_are_refused(self):
        with pytest.raises(ValueError, match=r"^Remembering learns from sequences by its own methods, without a graph"):
            self.processed(Remembering(compile=True))

    def test_they_are_moved_to_the_networks(self):
        policy = Remembering().to("meta")
        batch = self.processed(policy)
        assert batch.returns.device.type == "meta"
        assert policy._as_sample(batch).obs.flat().device.type == "meta"


def test_columns_of_a_sample_have_the_dtype_of_the_algorithm():
    policy = Single()
    policy.learn(processed(policy))
    (sample,) = policy.samples
    assert (sample.act.dtype, sample.returns.dtype, sample.extras[0].tolist()) == (torch.float32,) * 2 + ([1.0] * 4,)


def test_both_names_of_n():
    policy = Line(n_step=2)
    assert policy.estimation_step == policy.n_step == 2
    policy.estimation_step = 3
    assert policy.n_step == 3


def test_observations_of_any_kind_are_rows_of_both():
    one, two = np.zeros((2, 3)), np.ones((1, 3))
    assert rows_of_both(one, two).tolist() == [[0.0] * 3] * 2 + [[1.0] * 3]
    assert torch.equal(rows_of_both(torch.tensor(one), torch.tensor(two)), torch.tensor(rows_of_both(one, two)))
    batch = rows_of_both(Batch(place=one, speed=one[:, 0]), Batch(place=two, speed=two[:, 0]))
    assert (batch.place.tolist(), batch.speed.tolist()) == (rows_of_both(one, two).tolist(), [0.0, 0.0, 1.0])


class TestRunningNorms:
    """Networks that normalize observations by the statistics of samples."""

    def test_each_sample_moves_them_once(self):
        policy, buffer = make_policy("simba"), rows("simba")
        seen = []
        for step in range(3):
            indices = np.random.default_rng(step).integers(100, size=16)
            seen.append(torch.as_tensor(buffer[indices].obs))
            policy.learn(policy.process_fn(buffer[indices], buffer, indices))
        every = torch.cat(seen)
        for network in (policy.actor, policy.critic, policy.critic2, policy.critic_old, policy.critic2_old):
            norm = network.preprocess.norm
            assert norm.count == 3
            torch.testing.assert_close(norm.mean, every.mean(dim=0))
            torch.testing.assert_close(norm.var, every.var(dim=0, correction=0))

    def test_they_move_before_targets_are_computed(self):
        policy, buffer = make_policy("simba"), rows("simba")
        counts = []
        for network in (policy.actor, policy.critic_old, policy.critic2_old):
            network.preprocess.register_forward_pre_hook(lambda net, _: counts.append(int(net.norm.count)))
        policy.update(16, buffer)
        assert counts == [1, 1, 1, 1]

    def test_acting_moves_nothing(self):
        policy = make_policy("simba").train()
        policy(Batch(obs=np.ones((5, 4), np.float32), info={}))
        assert policy.actor.preprocess.norm.count == 0

    def test_the_buffer_keeps_observations(self):
        policy, buffer = make_policy("simba"), rows("simba")
        before = buffer.obs.copy()
        policy.update(16, buffer)
        assert (buffer.obs == before).all()

    def test_sequences_are_refused(self):
        policy, buffer = make_policy("simba"), rows("simba", unit=Sequence(4))
        with pytest.raises(ValueError, match="learn from transitions: give the buffer another unit"):
            policy.update(4, buffer)
