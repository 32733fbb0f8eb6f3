import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn

from distributional import Table
from policy.given import calls_of, overriding
from rlfast.data import Batch
from rlfast.policy import DQNPolicy
from rlfast.policy.modelfree.dqn import DQNTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam


def observations(obs, mask=None):
    return Batch(obs=np.asarray(obs) if mask is None else Batch(obs=np.asarray(obs), mask=np.asarray(mask)), info={})


def weights(module):
    return torch.cat([parameter.detach().flatten().clone() for parameter in module.parameters()])


class TestConstruction:
    def test_an_optimizer_or_what_makes_one(self, make_dqn):
        policy = make_dqn(optim=adam(0.1))
        assert policy.optim.defaults["fused"]
        assert policy.optim.param_groups[0]["params"] == list(policy.model.parameters())

    def test_names_of_parameters_are_those_of_saved_tianshou_policies(self, make_dqn):
        names = {name.split(".")[0] for name in make_dqn(target_update_freq=1).state_dict()}
        assert names == {"model", "model_old", "_extra_state"}
        assert {name.split(".")[0] for name in make_dqn().state_dict()} == {"model", "_extra_state"}


class TestForward:
    VALUES = [[1.0, 3.0, 2.0], [0.0, -1.0, 4.0]]

    def test_greedy_actions(self, make_dqn):
        result = make_dqn(Table(self.VALUES))(observations([0, 1, 1]), state="hidden")
        assert result.act.tolist() == [1, 2, 2]
        assert isinstance(result.act, np.ndarray)
        assert result.logits.tolist() == [self.VALUES[0], self.VALUES[1], self.VALUES[1]]
        assert result.state == "hidden"

    @pytest.mark.parametrize("dtype", [bool, np.int64, np.float32])
    def test_illegal_actions_are_not_taken(self, make_dqn, dtype):
        mask = np.array([[1, 0, 1], [1, 1, 0]], dtype)
        result = make_dqn(Table(self.VALUES))(observations([0, 1], mask))
        assert result.act.tolist() == [2, 0]
        assert result.logits.tolist() == self.VALUES

    @pytest.mark.parametrize("values", [[[1.0, 2.0]], [[0.0, 1.0, 2.0, 3.0]]])
    def test_a_model_of_another_width_says_how_many_actions_there_are(self, make_dqn, values):
        policy = make_dqn(Table(values))
        with pytest.warns(
            UserWarning, match=f"the model gives {len(values[0])} values, but there are 3 actions"
        ) as said:
            assert policy(observations([0])).act.tolist() == [len(values[0]) - 1]
        assert [warning.filename for warning in said] == [__file__]  # the line that called the policy
        policy(observations([0]))  # and says no more
        policy.set_eps(1.0)
        acts = policy.exploration_noise(np.zeros(500, np.int64), observations(np.zeros(500)))
        assert set(acts) == set(range(len(values[0])))

    def test_the_model_is_called_as_tianshou_calls_it(self, make_dqn, make_buffer):
        class Plain(nn.Module):  # no **kwargs
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, obs, state=None, info={}):  # noqa: B006
                return self.layer(torch.as_tensor(obs)), state

        policy = make_dqn(Plain(), target_update_freq=2)
        assert policy.update(8, make_buffer(50)).loss > 0
        assert policy.compute_action(np.zeros(4, np.float32)) in range(3)


class TestExploration:
    @pytest.mark.parametrize(("eps", "kind"), [(0.3, np.int64), (1.0, np.int32), (1e-300, np.int64)])
    @pytest.mark.parametrize("rows", [0, 1, 50])
    def test_the_stream_moves_by_two_numbers_for_each_action(self, make_dqn, eps, kind, rows):
        policy, twin = make_dqn(), np.random.default_rng(7)
        policy.seed(7)
        policy.set_eps(eps)
        for act in (np.arange(rows, dtype=kind) % 3, np.arange(2 * rows, dtype=kind)[::2] % 3):
            explore, which = twin.random((2, rows))
            noisy = policy.exploration_noise(act, observations(act))
            np.testing.assert_array_equal(noisy, np.where(explore < eps, (which * 3).astype(np.int64), act))
            assert noisy.dtype == np.int64
        assert policy.rng.random() == twin.random()

    @pytest.mark.parametrize("kind", [bool, np.int8, torch.bool, torch.int64])
    def test_masks_leave_the_stream_as_it_is(self, make_dqn, kind):
        policy, act = make_dqn(), np.arange(60) % 3
        policy.set_eps(0.7)
        mask = np.tile([[1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]], (15, 1))
        given = torch.as_tensor(mask, dtype=kind) if isinstance(kind, torch.dtype) else mask.astype(kind)
        obs = Batch(obs=Batch(obs=act, mask=given), info={})
        policy.seed(7)
        noisy, after = policy.exploration_noise(act, obs), policy.rng.random()
        explore, which = (twin := np.random.default_rng(7)).random((2, 60))
        choices = [np.flatnonzero(row) if row.any() else np.arange(1) for row in mask]
        drawn = [legal[int(share * len(legal))] for legal, share in zip(choices, which, strict=True)]
        np.testing.assert_array_equal(noisy, np.where(explore < 0.7, drawn, act))
        assert after == twin.random()

    def test_a_mask_of_other_rows_is_refused(self, make_dqn):
        policy = make_dqn()
        policy.set_eps(0.7)
        with pytest.raises(ValueError, match="mask of 6 numbers is not one of 3 actions for 3 rows"):
            policy.exploration_noise(np.zeros(3), observations(np.zeros(3), np.ones((2, 3))))

    @pytest.mark.pitfall("E9")
    def test_seeds_decide_and_numpy_global_generator_stays(self, make_dqn):
        def draws(seed):
            policy = make_dqn()
            policy.seed(seed)
            policy.set_eps(0.5)
            return policy.exploration_noise(np.zeros(50, np.int64), observations(np.zeros(50))).tolist()

        before = np.random.get_state()[1].copy()
        assert draws(1) == draws(1) != draws(2)
        assert np.array_equal(before, np.random.get_state()[1])


def one_row(make_buffer, *, prioritized=False, obs_next=1, terminated=False, rew=1.0):
    buffer = make_buffer(4, steps=0, prioritized=prioritized)
    buffer.add(obs=0, act=1, rew=rew, terminated=terminated, truncated=not terminated, obs_next=obs_next)
    return buffer


class TestTargets:
    ONLINE = [[0.0, 0.0, 0.0], [1.0, 5.0, 2.0]]
    TARGET = [[0.0, 0.0, 0.0], [9.0, 4.0, 7.0]]

    def returns(self, policy, buffer):
        if policy.model_old is not None:
            with torch.no_grad():
                policy.model_old.values.copy_(torch.tensor(self.TARGET))
        indices = np.array([0])
        return policy.process_fn(buffer.batch(indices), buffer, indices).returns.tolist()

    @pytest.mark.parametrize(
        ("options", "value"),
        [
            ({"target_update_freq": 10}, 4.0),
            ({"target_update_freq": 10, "is_double": False}, 9.0),
            ({"target_update_freq": 0}, 5.0),
            ({"target_update_freq": 0, "is_double": False}, 5.0),
        ],
    )
    def test_who_chooses_and_who_rates(self, make_dqn, make_buffer, options, value):
        policy = make_dqn(Table(self.ONLINE), discount_factor=0.5, **options)
        assert self.returns(policy, one_row(make_buffer)) == [[1.0 + 0.5 * value]]

    @pytest.mark.parametrize(("is_double", "value"), [(True, 7.0), (False, 7.0)])
    def test_the_next_action_is_legal(self, make_dqn, make_buffer, is_double, value):
        policy = make_dqn(Table(self.ONLINE), discount_factor=0.5, target_update_freq=10, is_double=is_double)
        buffer = one_row(make_buffer)
        plain = buffer.batch

        def with_mask(indices):
            batch = plain(indices)
            batch.obs_next = Batch(obs=batch.obs_next, mask=np.array([[False, False, True]]))
            return batch

        buffer.batch = with_mask
        assert self.returns(policy, buffer) == [[1.0 + 0.5 * value]]

    @pytest.mark.parametrize(("freq", "is_double", "value"), [(10, False, 9.0), (10, True, 7.0), (0, True, 2.0)])
    def test_a_choice_of_ones_own_is_that_of_the_trained_network(self, make_dqn, make_buffer, freq, is_double, value):
        options = {"target_update_freq": freq, "is_double": is_double}
        policy = make_dqn(Table(self.ONLINE), discount_factor=0.5, **options)
        overriding(policy, compute_q_value=lambda _, logits, mask: logits * torch.tensor([0.0, 0.0, 1.0]))
        assert self.returns(policy, one_row(make_buffer)) == [[1.0 + 0.5 * value]]

    def test_the_networks_are_given_the_hidden_state(self, make_dqn):
        policy, alone = make_dqn(Table(self.ONLINE), target_update_freq=2), make_dqn(Table(self.ONLINE))
        calls, later, only = (calls_of(one) for one in (policy.model, policy.model_old, alone.model))
        for one in (policy, alone):
            one.next_value(np.array([1]), "before")
        assert calls == later == only == [{"state": "before", "info": {}}]

    def test_no_legal_action_after_a_terminal_state(self, make_dqn, make_buffer):
        policy = make_dqn(Table(self.ONLINE), target_update_freq=10)
        buffer = one_row(make_buffer, terminated=True)
        batch = buffer.batch(np.array([0]))
        batch.obs_next = Batch(obs=batch.obs_next, mask=np.zeros((1, 3), bool))
        assert policy.process_fn(batch, buffer, np.array([0])).returns.tolist() == [[1.0]]

    @pytest.mark.pitfall("A5")
    def test_n_steps_bootstrap_from_the_last_observation(self, make_dqn, make_buffer):
        buffer = make_buffer(8, steps=0)
        for t in range(4):
            buffer.add(obs=t, act=0, rew=1.0, terminated=False, truncated=t == 2, obs_next=t + 1)
        values = [[float(10**t)] * 3 for t in range(5)]
        policy = make_dqn(Table(values), discount_factor=0.5, estimation_step=2)
        indices = np.array([0, 1, 2, 3])
        returns = policy.process_fn(buffer.batch(indices), buffer, indices).returns
        assert returns.flatten().tolist() == [1.5 + 100 / 4, 1.5 + 1000 / 4, 1.0 + 1000 / 2, 1.0 + 10_000 / 2]

    def test_a_unit_that_sums_rewards_brings_its_own_steps(self, make_dqn, make_buffer):
        def batch():
            fields = {"rew": np.array([7.0]), "discount": np.array([0.25]), "last_index": np.array([0])}
            return Batch(obs=np.array([0]), obs_next=np.array([1]), act=np.array([0]), info={}, **fields)

        buffer = one_row(make_buffer)
        policy = make_dqn(Table(self.ONLINE))
        assert policy.process_fn(batch(), buffer, np.array([0])).returns.tolist() == [[7.0 + 0.25 * 5.0]]
        with pytest.raises(ValueError, match="sums rewards already"):
            make_dqn(Table(self.ONLINE), estimation_step=3).process_fn(batch(), buffer, np.array([0]))


def sample(returns, *, act=(0, 1, 2, 1), weight=None):
    batch = observations(np.arange(4))
    batch.act, batch.returns = np.array(act), torch.tensor(returns)[:, None]
    if weight is not None:
        batch.weight = np.array(weight)
    return batch


class TestLearn:
    VALUES = [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 4.0, 0.0]]
    RETURNS = [1.5, 1.0, 6.0, 0.0]  # errors 0.5, -1, 3, -4
    WEIGHT = [1.0, 0.5, 0.25, 0.0]

    @pytest.mark.parametrize(
        ("clip", "weight", "loss", "gradient"),
        [
            (False, None, (0.25 + 1 + 9 + 16) / 4, [0.25, -0.5, 1.5, -2.0]),
            (False, WEIGHT, (0.25 + 0.5 + 2.25) / 4, [0.25, -0.25, 0.375, 0.0]),
            (True, None, (0.125 + 0.5 + 2.5 + 3.5) / 4, [0.125, -0.25, 0.25, -0.25]),
            # Tianshou's Huber loss has no importance weights
            (True, WEIGHT, (0.125 + 0.25 + 0.625) / 4, [0.125, -0.125, 0.0625, 0.0]),
        ],
    )
    def test_loss_and_step_by_hand(self, make_dqn, clip, weight, loss, gradient):
        table = Table(self.VALUES)
        policy = make_dqn(table, optim=torch.optim.SGD(table.parameters(), lr=1.0), clip_loss_grad=clip)
        batch = sample(self.RETURNS, weight=weight)
        stats = policy.learn(batch)
        assert isinstance(stats, DQNTrainingStats)
        assert stats.get_loss_stats_dict() == {"loss": pytest.approx(loss)}
        assert batch.td_error.tolist() == [0.5, -1.0, 3.0, -4.0]
        assert not batch.td_error.requires_grad
        moved = table.values.detach() - torch.tensor(self.VALUES)
        assert moved[np.arange(4), [0, 1, 2, 1]].tolist() == pytest.approx(gradient)
        assert moved.count_nonzero() == np.count_nonzero(gradient)

    def test_the_network_is_given_the_hidden_state_and_infos(self, make_dqn):
        policy, batch = make_dqn(Table(self.VALUES)), sample(self.RETURNS)
        batch.state, batch.info = torch.arange(4)[:, None], Batch(lives=np.arange(4))
        calls = calls_of(policy.model)
        policy.learn(batch)
        assert [(call["state"].tolist(), call["info"].lives.tolist()) for call in calls] == [
            ([[0], [1], [2], [3]], [0, 1, 2, 3])
        ]

    @pytest.mark.parametrize("clip", [False, True])
    def test_priorities_are_absolute_errors(self, make_dqn, make_buffer, clip):
        buffer = one_row(make_buffer, prioritized=True, rew=-3.0)
        policy = make_dqn(Table([[0.0, 1.0, 0.0], [2.0, 2.0, 2.0]]), discount_factor=0.5, clip_loss_grad=clip)
        policy.update(2, buffer)
        assert buffer.priorities[0].tolist() == [3.0, 3.0]  # |-3 + 0.5 * 2 - 1|

    @pytest.mark.pitfall("F5")
    @pytest.mark.parametrize("freq", [1, 3])
    def test_the_target_follows_every_so_many_steps(self, make_dqn, make_buffer, freq):
        policy = make_dqn(target_update_freq=freq)
        buffer = make_buffer(50)
        for step in range(7):
            before, target = weights(policy.model), weights(policy.model_old)
            policy.update(8, buffer)
            assert torch.equal(weights(policy.model_old), before if step % freq == 0 else target)
            assert not torch.equal(weights(policy.model), before)

    @pytest.mark.pitfall("F8")
    def test_the_target_network_learns_in_evaluation_mode(self, make_dqn, make_buffer):
        seen = set()

        class Recorded(Net):
            def forward(self, obs, state=None, **kwargs):
                seen.add(("target" if self is policy.model_old else "online", self.training))
                return super().forward(obs, state)

        policy = make_dqn(Recorded(4, 3, [8]), target_update_freq=1)
        policy.train()
        policy.update(8, make_buffer(50))
        assert seen == {("target", False), ("online", True)}

    def test_dict_observations_and_masks_through_a_whole_update(self, make_dqn, make_buffer):
        policy = make_dqn(target_update_freq=2, estimation_step=2)
        buffer = make_buffer(50)
        plain = buffer.batch

        def with_parts(indices):
            batch = plain(indices)
            mask = np.tile([True, True, False], (len(indices), 1))
            batch.obs, batch.obs_next = Batch(obs=batch.obs, mask=mask), Batch(obs=batch.obs_next, mask=mask)
            return batch

        buffer.batch = with_parts
        assert np.isfinite(policy.update(8, buffer).loss)


class TestResume:
    OPTIONS = {"target_update_freq": 3, "estimation_step": 2}

    def run(self, policy, buffer, steps):
        policy.set_eps(0.5)
        trace = []
        for _ in range(steps):
            trace.append(policy.update(8, buffer).loss)
            trace.append(policy.exploration_noise(np.zeros(8, np.int64), observations(np.zeros(8))).tolist())
        return trace

    @pytest.mark.pitfall("F10")
    def test_from_a_saved_state(self, make_dqn, make_buffer, tmp_path):
        policy, buffer = make_dqn(**self.OPTIONS), make_buffer(50)
        self.run(policy, buffer, 4)
        torch.save(policy.state_dict(), tmp_path / "policy.pth")
        twin = copy.deepcopy(buffer)
        expected = self.run(policy, buffer, 6)
        resumed = make_dqn(seed=9, **self.OPTIONS)
        resumed.load_state_dict(torch.load(tmp_path / "policy.pth", weights_only=True))
        assert self.run(resumed, twin, 6) == expected


def test_it_learns_a_chain(make_dqn, make_buffer):
    """Walk left or right over 5 cells, reward 1 for leaving on the right: the values are powers of gamma."""
    buffer = make_buffer(200, steps=0)
    rng = np.random.default_rng(0)
    cell = 2
    for _ in range(200):
        act = int(rng.integers(2))
        following = cell + (1 if act else -1)
        out = following in (-1, 5)
        buffer.add(
            obs=cell, act=act, rew=float(following == 5), terminated=out, truncated=False, obs_next=following % 5
        )
        cell = 2 if out else following
    table = Table(np.zeros((5, 2), np.float32).tolist())
    policy = DQNPolicy(
        model=table, optim=adam(0.05), action_space=Discrete(2), discount_factor=0.5, target_update_freq=20
    )
    for _ in range(600):
        policy.update(32, buffer)
    q = table.values.detach()
    assert q[:, 1].numpy() == pytest.approx([0.5**4, 0.5**3, 0.5**2, 0.5, 1.0], abs=0.03)
    assert (q[1:, 1] > q[1:, 0]).all()
