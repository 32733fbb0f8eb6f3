import copy
import pickle
import weakref
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR

from oracle.returns import gae
from rlfast.data import Batch, ReplayBuffer
from rlfast.functional import bootstrapped_return
from rlfast.policy import BasePolicy, DQNPolicy, TrainingStats
from rlfast.policy.base import TrainingStatsWrapper
from rlfast.policy.stats import figures_of
from rlfast.utils import MultipleLRSchedulers
from rlfast.utils.net.common import Net


@dataclass(kw_only=True)
class ProbeStats(TrainingStats):
    loss: float


class Probe(BasePolicy):
    """A policy that records its calls."""

    def __init__(self, leave=None, **options):
        super().__init__(action_space=Discrete(2), **options)
        self.calls = []
        self.leave = leave or (lambda batch: None)

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), np.int64), state=state)

    def process_fn(self, batch, buffer, indices):
        self.calls.append(("process", self.updating, len(indices)))
        return batch

    def learn(self, batch, *args, **kwargs):
        self.calls.append(("learn", self.updating, kwargs))
        self.leave(batch)
        return ProbeStats(loss=1.5)

    def post_process_fn(self, batch, buffer, indices):
        self.calls.append(("post", self.updating, len(indices)))
        super().post_process_fn(batch, buffer, indices)


class TestUpdate:
    def test_it_runs_sample_process_learn_post_process(self, make_buffer):
        policy = Probe()
        stats = policy.update(8, make_buffer(50), repeat=3)
        assert policy.calls == [("process", True, 8), ("learn", True, {"repeat": 3}), ("post", True, 8)]
        assert policy.updating is False
        assert stats.loss == 1.5
        assert stats.train_time > 0

    @pytest.mark.parametrize("size", [-1, np.int64(-3)])
    def test_a_negative_sample_size_is_refused(self, make_buffer, size):
        policy = Probe()
        with pytest.raises(ValueError, match=r"sample_size must not be negative, got -\d"):
            policy.update(size, make_buffer(50))
        assert policy.calls == []

    def test_the_times_are_those_of_the_whole_and_of_sampling(self, make_buffer, monkeypatch):
        clock = SimpleNamespace(perf_counter=iter([10.0, 11.0, 14.0]).__next__)
        monkeypatch.setattr("rlfast.policy.base.time", clock)
        stats = Probe().update(8, make_buffer(50))
        assert (stats.train_time, stats.sample_time) == (4.0, 1.0)

    def test_nothing_of_the_sample_is_kept(self, make_buffer):
        weights = []
        policy = Probe(leave=lambda batch: weights.append(weakref.ref(batch.weight)))
        with pytest.warns(UserWarning, match="sets no batch.td_error"):
            policy.update(8, make_buffer(50, prioritized=True))
        assert weights[0]() is None

    def test_zero_takes_all_rows_in_order(self, make_buffer):
        seen = []
        policy = Probe(leave=lambda batch: seen.append(batch.obs))
        buffer = make_buffer(30, steps=40)
        policy.update(0, buffer)
        assert np.array_equal(seen[0], buffer.batch(buffer.all()).obs)

    def test_a_failure_leaves_it_out_of_updating(self, make_buffer):
        def fail(batch):
            raise RuntimeError("no gradient today")

        policy = Probe(leave=fail)
        with pytest.raises(RuntimeError, match="no gradient today"):
            policy.update(8, make_buffer(50))
        assert not policy.updating

    def test_the_learning_rate_follows(self, make_buffer):
        optim = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        policy = Probe(leave=lambda batch: optim.step(), lr_scheduler=ExponentialLR(optim, 0.5))
        for _ in range(3):
            policy.update(8, make_buffer(50))
        assert optim.param_groups[0]["lr"] == 0.125


class TestPriorities:
    ERRORS = torch.linspace(-2.0, 2.0, 8)

    @pytest.mark.parametrize("field", ["td_error", "weight"])
    def test_absolute_errors_become_priorities(self, make_buffer, field):
        buffer = make_buffer(50, prioritized=True)
        policy = Probe(leave=lambda batch: setattr(batch, field, self.ERRORS.clone().requires_grad_()))
        policy.update(8, buffer)
        assert buffer.priorities[0].tolist() == self.ERRORS.abs().tolist()

    def test_errors_in_the_place_of_weights_that_were_taken_out(self, make_buffer):
        def leave(batch):
            del batch.weight
            batch.td_error = self.ERRORS

        buffer = make_buffer(50, prioritized=True)
        Probe(leave=leave).update(8, buffer)
        assert buffer.priorities[0].tolist() == self.ERRORS.abs().tolist()

    @pytest.mark.parametrize("leave", [None, lambda batch: batch.pop("weight")])
    def test_importance_weights_are_never_taken_for_errors(self, make_buffer, leave):
        # a learner that knows nothing of priorities: in Tianshou 1.0 its rows' weights became their priorities
        buffer = make_buffer(50, prioritized=True)
        with pytest.warns(UserWarning, match=r"Probe.learn sets no batch.td_error"):
            Probe(leave).update(8, buffer)
        assert buffer.priorities == []

    def test_nor_are_those_that_learning_has_scaled_in_place(self, make_buffer):
        buffer = make_buffer(50, prioritized=True)
        with pytest.warns(UserWarning, match=r"Probe.learn sets no batch.td_error"):
            Probe(leave=lambda batch: np.multiply(batch.weight, 0.5, out=batch.weight)).update(8, buffer)
        assert buffer.priorities == []

    def test_small_errors_are_told_from_small_weights(self, make_buffer):
        buffer = make_buffer(50, prioritized=True)
        buffer.batch = lambda indices: Batch(weight=np.full(len(indices), 1e-9))
        batch, indices = buffer.sample(8)
        batch.weight = torch.full((8,), 1.5e-9)
        Probe().post_process_fn(batch, buffer, indices)
        assert buffer.priorities[0].tolist() == [pytest.approx(1.5e-9)] * 8

    @pytest.mark.parametrize("as_tensor", [False, True])
    def test_nor_where_the_methods_are_called_one_by_one(self, make_buffer, as_tensor):
        buffer = make_buffer(50, prioritized=True)
        batch, indices = buffer.sample(8)
        if as_tensor:  # as n-step returns leave it
            batch.weight = torch.as_tensor(batch.weight, dtype=torch.float32)
        with pytest.warns(UserWarning, match=r"Probe.learn sets no batch.td_error"):
            Probe().post_process_fn(batch, buffer, indices)
        batch.weight = self.ERRORS
        Probe().post_process_fn(batch, buffer, indices)
        assert buffer.priorities[0].tolist() == self.ERRORS.abs().tolist()

    @pytest.mark.parametrize("field", ["td_error", "weight"])
    def test_a_uniform_buffer_is_told_nothing(self, make_buffer, field):
        buffer = make_buffer(50)
        Probe(leave=lambda batch: setattr(batch, field, self.ERRORS)).update(8, buffer)
        assert buffer.priorities == []


def test_names_that_scripts_use(make_buffer):
    policy = Probe()
    policy.set_agent_id(3)
    assert policy.agent_id == 3
    assert BasePolicy[ProbeStats] is BasePolicy
    buffer = make_buffer(10)
    assert policy.process_buffer(buffer) is buffer
    assert isinstance(policy, nn.Module)


class TestStats:
    def test_losses_are_the_fields_of_the_subclass(self):
        from rlfast.data.stats import SequenceSummaryStats

        @dataclass(kw_only=True)
        class Stats(ProbeStats):
            alpha: float | None = None
            grads: SequenceSummaryStats | None = None

        summary = SequenceSummaryStats(mean=2.0, std=0.0, max=2.0, min=2.0)
        stats = Stats(loss=1.0, grads=summary, train_time=3.0, smoothed_loss={"loss": 0.5})
        assert stats.get_loss_stats_dict() == {"loss": 1.0, "grads": 2.0}
        assert TrainingStats().get_loss_stats_dict() == {}

    def test_they_can_be_assigned_to(self):
        stats = ProbeStats(loss=1.0)
        stats.loss, stats.train_time, stats.grad_norm, stats._note = 2.0, 3.0, 0.5, "none of theirs"
        assert stats.train_time == 3.0
        assert stats.get_loss_stats_dict() == {"loss": 2.0, "grad_norm": 0.5}

    def test_a_subclass_with_a_constructor_of_its_own(self):
        class Stats(TrainingStats):
            def __init__(self, loss):
                super().__init__()
                self.loss = loss

        assert Stats(0.5).get_loss_stats_dict() == {"loss": 0.5}
        assert figures_of(Stats(0.5))["loss"] == 0.5

    def test_a_subclass_says_what_is_no_loss(self):
        class Stats(ProbeStats):
            _non_loss_fields = ("train_time", "smoothed_loss", "lr")

        stats = Stats(loss=1.0)
        stats.lr = 0.1
        assert stats.get_loss_stats_dict() == {"loss": 1.0}


class Around(TrainingStatsWrapper):
    def __init__(self, wrapped_stats, *, bonus):
        self.bonus = bonus
        super().__init__(wrapped_stats)


class TestWrappedStats:
    def test_what_is_wrapped_is_found(self):
        inner = ProbeStats(loss=1.0)
        stats = Around(inner, bonus=2.0)
        assert stats.wrapped_stats is inner
        assert (stats.loss, stats.bonus) == (1.0, 2.0)
        assert stats.get_loss_stats_dict() == {"loss": 1.0, "bonus": 2.0}
        assert figures_of(stats)["bonus"] == 2.0
        assert figures_of(stats)["loss"] == 1.0
        with pytest.raises(AttributeError, match="nothing"):
            _ = stats.nothing

    def test_assignments_land_where_the_attribute_is(self):
        inner = ProbeStats(loss=1.0)
        stats = Around(inner, bonus=2.0)
        stats.loss, stats.bonus, stats.train_time, stats.smoothed_loss = 3.0, 4.0, 5.0, {"loss": 6.0}
        assert (inner.loss, inner.train_time, inner.smoothed_loss) == (3.0, 5.0, {"loss": 6.0})
        assert not hasattr(inner, "bonus")
        inner.train_time = 7.0
        assert (stats.train_time, stats.bonus) == (7.0, 4.0)
        with pytest.raises(AttributeError, match=r"Around has no attribute 'extra' to set: set it in the constructor"):
            stats.extra = 1.0

    def test_copies_are_equal_and_apart(self):
        stats = Around(ProbeStats(loss=1.0), bonus=2.0)
        for other in (pickle.loads(pickle.dumps(stats)), copy.deepcopy(stats), copy.copy(stats)):
            assert other == stats
            other.loss = 2.0
            assert other != stats
        assert "loss=1.0" in repr(stats)
        assert "bonus=2.0" in repr(stats)

    def test_an_update_may_give_them(self, make_buffer):
        class Wrapping(Probe):
            def learn(self, batch, *args, **kwargs):
                return Around(super().learn(batch, *args, **kwargs), bonus=2.0)

        stats = Wrapping().update(8, make_buffer(50))
        assert stats.get_loss_stats_dict() == {"loss": 1.5, "bonus": 2.0}
        assert stats.train_time == stats.wrapped_stats.train_time > 0


class TestWhatLearnGives:
    @pytest.mark.parametrize(("given", "losses"), [({"loss/td": 1.5}, {"loss/td": 1.5}), (None, {})])
    def test_losses_by_name_or_nothing(self, make_buffer, given, losses):
        class Plain(Probe):
            def learn(self, batch, *args, **kwargs):
                return given

        stats = Plain().update(8, make_buffer(50))
        assert stats.get_loss_stats_dict() == losses
        assert stats.train_time > 0

    def test_the_object_itself_with_its_times(self, make_buffer):
        class Keeping(Probe):
            def learn(self, batch, *args, **kwargs):
                self.told = super().learn(batch)
                return self.told

        policy = Keeping()
        assert policy.update(8, make_buffer(50)) is policy.told
        assert policy.told.train_time > 0

    def test_anything_else_is_named(self, make_buffer):
        class Wrong(Probe):
            def learn(self, batch, *args, **kwargs):
                return 1.5

        with pytest.raises(TypeError, match=r"Wrong\.learn must return a TrainingStats, a dict of losses or None"):
            Wrong().update(8, make_buffer(50))


def test_without_a_buffer_nothing_is_learned():
    policy = Probe()
    assert policy.update(8, None).get_loss_stats_dict() == {}
    assert policy.calls == []


class Learner(Probe):
    """A policy with two optimizers, a scheduler and a random stream."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        super().__init__()
        self.net, self.head = nn.Linear(2, 2), nn.Linear(2, 1)
        self.optim = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.head_optim = torch.optim.SGD(self.head.parameters(), lr=0.1, momentum=0.9)
        self.lr_scheduler = MultipleLRSchedulers(ExponentialLR(self.optim, 0.9), ExponentialLR(self.head_optim, 0.8))

    def step(self):
        data = torch.as_tensor(self.rng.normal(size=(4, 2)), dtype=torch.float32)
        loss = self.head(self.net(data)).square().mean()
        for optim in (self.optim, self.head_optim):
            optim.zero_grad()
        loss.backward()
        for optim in (self.optim, self.head_optim):
            optim.step()
        self.lr_scheduler.step()
        return loss.item()


class TestState:
    def test_two_policies_share_nothing_after_one_took_the_others_state(self):
        policy, alone, other = Learner(0), Learner(0), Learner(1)
        policy.seed(0)
        alone.seed(0)
        assert [policy.step() for _ in range(5)] == [alone.step() for _ in range(5)]
        other.load_state_dict(policy.state_dict())
        assert [other.step() for _ in range(5)] == [policy.step() for _ in range(5)] == [alone.step() for _ in range(5)]

    def test_a_file_with_weights_alone_loads_with_a_warning(self):
        policy, other = Learner(0), Learner(1)
        weights = {name: value for name, value in policy.state_dict().items() if name != "_extra_state"}
        with pytest.warns(UserWarning, match="only weights were loaded into Learner"):
            other.load_state_dict(weights)
        assert torch.equal(other.net.weight, policy.net.weight)

    def test_missing_weights_are_still_missed(self):
        weights = Learner(0).state_dict()
        del weights["net.bias"]
        with pytest.raises(RuntimeError, match=r"net\.bias"):
            Learner(1).load_state_dict(weights)

    def test_a_scheduler_on_one_side_only_is_refused(self):
        other = Learner(1)
        other.lr_scheduler = None
        with pytest.raises(ValueError, match="lr_scheduler"):
            other.set_extra_state(Learner(0).get_extra_state())

    def test_the_state_of_other_parts_is_refused(self):
        state = Learner(0).get_extra_state()
        state["parts"]["noise"] = {}
        with pytest.raises(ValueError, match=r"^got the state of \['noise'\], this policy has \[\]$"):
            Learner(1).set_extra_state(state)

    def test_a_policy_without_a_seed_draws_from_torchs_generator_also_after_loading(self):
        policy = Learner(0)
        policy.seed(0)
        policy.load_state_dict(Learner(1).state_dict())
        torch.manual_seed(5)
        drawn = policy.draw_normal((3,), torch.float32, torch.device("cpu"))
        torch.manual_seed(5)
        assert torch.equal(drawn, torch.randn(3))

    def test_a_policy_may_be_moved_without_its_networks(self):
        policy = Learner(0)
        policy.to_empty(device="meta", recurse=False)
        assert policy.net.weight.device.type == "cpu"


@pytest.mark.parametrize("kind", ["int", "float", "column", "tensor"])
def test_value_mask_of_numbers(kind):
    flags = FLAGS[kind](np.array([False, True, False]))
    mask = BasePolicy.value_mask(SimpleNamespace(terminated=flags), np.array([1, 2]))
    assert mask.dtype == bool
    assert mask.flatten().tolist() == [False, True]


FLAGS = {
    "int": lambda flags: flags.astype(np.int64),
    "float": lambda flags: flags.astype(np.float32),
    "list": list,
    "numbers": lambda flags: [float(flag) for flag in flags],
    "column": lambda flags: flags[:, None],
    "column of numbers": lambda flags: flags[:, None].astype(np.uint8),
    "tensor": torch.as_tensor,
    "tensor of numbers": lambda flags: torch.as_tensor(flags).double(),
    "objects": lambda flags: flags.astype(object),
}


class TestEpisodicReturn:
    @pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.9, 0.8), (0.99, 1.0), (0.5, 0.0), (1.0, 0.95)])
    @pytest.mark.parametrize("capacities", [(50,), (20, 7, 30)])
    def test_it_is_gae_over_each_episode(self, make_buffer, capacities, gamma, gae_lambda):
        buffer = make_buffer(*capacities)
        indices = buffer.all()
        batch = buffer.batch(indices)
        rng = np.random.default_rng(1)
        v_s, v_s_ = rng.normal(size=(2, len(indices)))
        cut = batch.truncated | np.isin(indices, buffer.unfinished_index())
        expected = gae(batch.rew, v_s, v_s_, batch.terminated, cut, gamma, gae_lambda)
        for kind in (np.asarray, lambda v: v[:, None], lambda v: torch.tensor(v, requires_grad=True)):
            returns, advantage = BasePolicy.compute_episodic_return(
                batch, buffer, indices, kind(v_s_), kind(v_s), gamma, gae_lambda
            )
            assert advantage == pytest.approx(expected, abs=1e-10)
            assert returns == pytest.approx(expected + v_s, abs=1e-10)

    @pytest.mark.parametrize("kind", FLAGS)
    def test_flags_and_rewards_of_any_kind(self, make_buffer, kind):
        buffer = make_buffer(50)
        indices = buffer.all()
        batch = buffer.batch(indices)
        v_s = np.random.default_rng(1).normal(size=len(indices))
        expected = BasePolicy.compute_episodic_return(batch, buffer, indices, v_s, v_s)
        odd = {name: FLAGS[kind](batch[name]) for name in ("terminated", "truncated")}
        for rew in (batch.rew[:, None], torch.as_tensor(batch.rew), batch.rew.tolist()):
            given = SimpleNamespace(rew=rew, **odd)
            for rows in (indices, indices[:, None]) if kind == "column" else (indices,):
                answer = BasePolicy.compute_episodic_return(given, buffer, rows, v_s.tolist(), v_s[:, None])
                assert np.array_equal(answer, expected)

    @pytest.mark.pitfall("A1")
    @pytest.mark.pitfall("A2")
    @pytest.mark.parametrize(
        ("terminated", "next_value", "expected"),
        [(False, 10.0, [7.79, 9.5, 0.95]), (True, 1e9, [1.31, 0.5, 0.95]), (True, np.nan, [1.31, 0.5, 0.95])],
    )
    def test_truncation_bootstraps_and_termination_does_not(self, make_buffer, terminated, next_value, expected):
        buffer = make_buffer(8, steps=0)
        for t in range(3):
            end = t == 1
            buffer.add(
                obs=t, act=0, rew=1.0, terminated=end and terminated, truncated=end and not terminated, obs_next=t
            )
        indices = buffer.all()
        _, advantage = BasePolicy.compute_episodic_return(
            buffer.batch(indices), buffer, indices, np.array([0.5, next_value, 0.5]), np.full(3, 0.5), 0.9, 0.8
        )
        assert advantage == pytest.approx(expected)

    @pytest.mark.pitfall("A10")
    def test_values_left_out_are_not_taken_from_another_episode(self, make_buffer):
        buffer = make_buffer(20, 15)
        indices = buffer.all()
        batch = buffer.batch(indices)
        v_s_ = np.random.default_rng(1).normal(size=len(indices))
        end = batch.terminated | batch.truncated | np.isin(indices, buffer.unfinished_index())
        v_s, start = np.zeros(len(indices)), True
        for t in range(len(indices)):
            v_s[t] = 0.0 if start else v_s_[t - 1]
            start = end[t]
        given = BasePolicy.compute_episodic_return(batch, buffer, indices, v_s_, v_s, 0.9, 0.8)
        left_out = BasePolicy.compute_episodic_return(batch, buffer, indices, v_s_, None, 0.9, 0.8)
        assert np.array_equal(given, left_out)

    @pytest.mark.parametrize("order", ["backwards", "every other", "shuffled"])
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
    def test_rows_in_any_order_and_numbers_of_any_kind(self, make_buffer, order, dtype):
        buffer = make_buffer(20, 15)
        rows = np.arange(len(buffer.all()))
        chosen = {
            "backwards": rows[::-1],
            "every other": rows[::2],
            "shuffled": np.random.default_rng(0).permutation(rows),
        }
        indices = buffer.all()[chosen[order]]
        batch = buffer.batch(indices)
        v_s, v_s_ = (np.random.default_rng(1).normal(size=(2, len(indices))) * 10).astype(dtype)
        cut = batch.truncated | np.isin(indices, buffer.unfinished_index())
        wide = [array.astype(np.float64) for array in (batch.rew, v_s, v_s_)]
        expected = gae(*wide, batch.terminated, cut, 0.9, 0.8)
        batch.rew = batch.rew.astype(np.float32)
        returns, advantage = BasePolicy.compute_episodic_return(batch, buffer, indices, v_s_, v_s, 0.9, 0.8)
        assert advantage == pytest.approx(expected, abs=1e-5)
        assert returns == pytest.approx(expected + wide[1], abs=1e-5)

    @pytest.mark.parametrize("kind", [list, lambda indices: indices.astype(np.int32)])
    def test_indices_of_any_integers(self, make_buffer, kind):
        buffer = make_buffer(20)
        batch, indices = buffer.batch(buffer.all()), buffer.all()
        expected = BasePolicy.compute_episodic_return(batch, buffer, indices, gae_lambda=1.0)
        assert np.array_equal(
            BasePolicy.compute_episodic_return(batch, buffer, kind(indices), gae_lambda=1.0), expected
        )

    def test_bad_arguments(self, make_buffer):
        buffer = make_buffer(20)
        indices = buffer.all()
        with pytest.raises(ValueError, match="next_values: got shape"):
            BasePolicy.compute_episodic_return(buffer.batch(indices), buffer, indices, np.zeros(19), np.zeros(20))
        with pytest.raises(ValueError, match=r"gamma: got 1\.5"):
            BasePolicy.compute_episodic_return(buffer.batch(indices), buffer, indices, np.zeros(20), gamma=1.5)


def by_index(shape=()):
    """Returns a target function, whose value of a row is its index plus 100."""
    return lambda buffer, indices: torch.as_tensor(indices, dtype=torch.float32).reshape(-1, *shape) + 100


class TestNStepReturn:
    R = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)

    def a5(self, make_buffer):
        buffer = make_buffer(6, steps=0)
        for t, rew in enumerate(self.R):
            buffer.add(obs=t, act=0, rew=rew, terminated=t == 2, truncated=t == 4, obs_next=t)
        return buffer

    @pytest.mark.pitfall("A5")
    @pytest.mark.pitfall("A6")
    @pytest.mark.pitfall("A7")
    def test_boundaries_and_the_seam(self, make_buffer):
        buffer = self.a5(make_buffer)

        def returns():
            indices = np.arange(6)
            batch = buffer.batch(indices)
            result = BasePolicy.compute_nstep_return(batch, buffer, indices, by_index(), gamma=0.5, n_step=3)
            assert result is batch
            return batch.returns.flatten().tolist()

        q = [100.0 + slot for slot in range(6)]
        assert returns() == [3.0, 4.0, 4.0, 16 + q[4] / 4, 16 + q[4] / 2, 32 + q[5] / 2]
        buffer.add(obs=0, act=0, rew=64.0, terminated=False, truncated=False, obs_next=0)
        assert returns() == [64 + q[0] / 2, 4.0, 4.0, 16 + q[4] / 4, 16 + q[4] / 2, 64 + q[0] / 4]

    @pytest.mark.pitfall("A8")
    def test_a_part_filled_buffer_ends_at_its_newest_row(self, make_buffer):
        buffer = make_buffer(10_000, steps=0)
        for t in range(10):
            buffer.add(obs=t, act=0, rew=1.0, terminated=False, truncated=False, obs_next=t)
        batch = buffer.batch([8])
        BasePolicy.compute_nstep_return(batch, buffer, np.array([8]), by_index(), gamma=0.5, n_step=5)
        assert batch.returns.tolist() == [[1.5 + 0.25 * 109]]

    @pytest.mark.pitfall("A2")
    def test_the_value_after_a_terminal_state_does_not_matter(self, make_buffer):
        buffer = self.a5(make_buffer)
        batch = buffer.batch([1])
        nan = lambda buffer, indices: torch.full((len(indices),), torch.nan)  # noqa: E731
        BasePolicy.compute_nstep_return(batch, buffer, np.array([1]), nan, gamma=0.5, n_step=3)
        assert batch.returns.tolist() == [[4.0]]

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("width", [1, 3])
    def test_the_engine_rounds_as_the_formula_does(self, width, dtype):
        rng, buffer = np.random.default_rng(0), ReplayBuffer(400)
        for row in rng.normal(size=500):
            buffer.add(Batch(obs=0, act=0, rew=row, terminated=row > 1, truncated=row < -1, obs_next=1))
        indices = np.arange(len(buffer))
        reward_sum, discount, last = buffer.nstep(indices, 3, 0.97)
        value = torch.randn(len(indices), width, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 1e3
        value[torch.from_numpy(discount == 0)] = torch.nan
        batch = buffer[indices]
        target = lambda buffer, rows: value.T.contiguous().T  # noqa: E731 (in another order in memory)
        BasePolicy.compute_nstep_return(batch, buffer, indices, target, gamma=0.97, n_step=3)
        sums, discounts = (torch.as_tensor(part, dtype=dtype)[:, None] for part in (reward_sum, discount))
        assert (discount == 0).any()
        assert (last != indices).any()
        assert torch.equal(batch.returns, bootstrapped_return(sums, discounts, value))

    def test_a_field_of_the_users_may_be_called_discount(self, make_buffer):
        """As environments of dm_env name it; only with ``last_index`` it is the buffer's own."""
        buffer = self.a5(make_buffer)
        batch = buffer.batch([3])
        batch.discount = np.array([0.0])
        BasePolicy.compute_nstep_return(batch, buffer, np.array([3]), by_index(), gamma=0.5, n_step=1)
        assert batch.returns.tolist() == [[8 + 103 / 2]]

    def test_each_agent_keeps_its_rewards(self, make_buffer):
        buffer = make_buffer(6, steps=0)
        for t in range(3):
            buffer.add(obs=t, act=0, rew=np.array([1.0, 10.0]), terminated=False, truncated=t == 1, obs_next=t)
        batch = buffer.batch([0])
        values = lambda buffer, indices: torch.tensor([[4.0, 8.0]])  # noqa: E731
        BasePolicy.compute_nstep_return(batch, buffer, np.array([0]), values, gamma=0.5, n_step=2)
        assert batch.returns.tolist() == [[2.5, 17.0]]


def test_constructors_take_arguments_of_any_name():
    class Wrapped(Probe):
        def __init__(self, *, policy, construct=None, **options):
            super().__init__(**options)
            self.inner = policy

    assert Wrapped(policy="inside", construct=1).inner == "inside"


def test_an_empty_container_is_restored_as_empty():
    class Noting(Probe):
        def __init__(self, **options):
            super().__init__(**options)
            self.notes, self.steps = {}, []

    policy = Noting()
    before = policy.state_dict()
    policy.notes["loss"] = 1.0
    policy.steps.append(3)
    policy.load_state_dict(before)
    assert (policy.notes, policy.steps) == ({}, [])


class Waiting(torch.optim.lr_scheduler.ReduceLROnPlateau):
    """Steps by a metric of its own."""

    def step(self):
        super().step(1.0)


@pytest.mark.parametrize("several", [False, True])
def test_a_schedule_that_needs_a_metric_is_refused_before_anything_changes(several):
    net = Net(1, 2, [8])
    optim = torch.optim.SGD(net.parameters(), lr=0.1)

    def policy(kind):
        schedule = kind(optim)
        schedule = MultipleLRSchedulers(schedule) if several else schedule
        return DQNPolicy(model=net, optim=optim, action_space=Discrete(2), lr_scheduler=schedule)

    with pytest.raises(TypeError, match=r"ReduceLROnPlateau\.step needs metrics, but a policy steps"):
        policy(torch.optim.lr_scheduler.ReduceLROnPlateau)
    assert policy(Waiting).lr_scheduler is not None
    assert policy(partial(ExponentialLR, gamma=0.5)).lr_scheduler is not None


def test_an_assigned_schedule_is_checked():
    optim = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    policy = Probe(lr_scheduler=(before := ExponentialLR(optim, 0.5)))
    for wrong in (torch.optim.lr_scheduler.ReduceLROnPlateau(optim), object(), lambda: None):
        with pytest.raises(TypeError, match=r"lr_scheduler"):
            policy.lr_scheduler = wrong
        assert policy.lr_scheduler is before
    policy.lr_scheduler = None
    policy.lr_scheduler = after = Waiting(optim)
    assert policy.lr_scheduler is after
