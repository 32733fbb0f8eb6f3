"""One update of offline policies, computed by hand."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from algorithms import kind_of, make_policy, rows
from continuous import LOG_PROB, OBS, Given, GivenNormal, Line, transitions
from policy.given import forwarding
from rlfast.data import Batch, ReplayBuffer
from rlfast.policy.replay import Sample

ONE = Box(-1.0, 1.0, (1,))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


def of_lines(name, actor, **options):
    kind = kind_of(name)
    nets = {"actor": actor, "critic": Line(2.0, 1.0), "critic2": Line(-1.0, 2.0)} | options.pop("nets", {})
    return kind(**nets, **{f"{net}_optim": sgd for net in nets}, action_space=ONE, **options)


def sample(act, reward_sum, **fields):
    rows = len(act)
    given = {"batch": None, "state": None, "weight": 1.0, "is_due": True, "draws": (), "obs": torch.zeros(rows, 1)}
    given |= {"obs_next": torch.zeros(rows, 1), "act": torch.tensor(act), "reward_sum": torch.tensor(reward_sum)}
    return Sample(**given | {"discount": torch.full((rows,), 0.5)} | fields)


def test_td3_bc_moves_its_actor_between_value_and_data():
    policy = of_lines("td3-bc", Given(0.5), alpha=3.0)
    one = sample(
        [[0.5], [-0.5]], [0.0, 0.0], returns=torch.tensor([2.0, 0.0])
    )  # of these the first critic errs nowhere
    losses, _ = policy.gradient_step(one)
    # a value of 2 and a scale of 3 / 2; distances 0 and 1
    assert losses["actor_loss"].item() == pytest.approx(-1.5 * 2.0 + 0.5)
    assert policy.actor.act.item() == pytest.approx(0.5 + 1.5 * 2.0 - 2 * (0.5 + 0.5 - -0.0) / 2 * 1.0)


@pytest.mark.parametrize("name", ["td3-bc", "rebrac", "td3"])
def test_smoothed_actions_stay_among_those_of_data(name):
    noise, beyond = torch.tensor([[-9.0], [0.5], [9.0]]), [[0.25], [0.85], [1.25]]  # by 0.2 times it, up to 0.5
    limited = beyond if name != "rebrac" else [[0.25], [0.85], [1.0]]
    cases = [({}, limited), ({"action_scaling": False}, limited), ({"action_bound_method": None}, limited)]
    for options, expected in [*cases, ({"action_scaling": False, "action_bound_method": None}, beyond)]:
        policy = of_lines(name, Given(0.75), **options)
        found = policy.smoothed_actions(torch.zeros(3, 1), None, noise)
        assert torch.allclose(found, torch.tensor(expected)), options


def test_rebrac_penalizes_targets_and_the_actor():
    policy = of_lines("rebrac", Given(0.5), critic_penalty=2.0, actor_penalty=3.0, policy_noise=0.0)
    told = []
    policy._mse_optimizer = lambda one, *_: (told.append(one.returns) or one.returns, torch.zeros(()))
    extras = torch.tensor([[0.0], [0.0]]), torch.tensor([True, False])
    losses, _ = policy.gradient_step(
        sample([[0.5], [-0.5]], [1.0, 1.0], extras=extras, draws_next=(torch.zeros(2, 1),))
    )
    # the smaller of both values is 1.5; the next action of the second row is not known
    assert told[0].tolist() == pytest.approx([1 + 0.5 * (1.5 - 2.0 * 0.25), 1 + 0.5 * 1.5])
    assert losses["actor_loss"].item() == pytest.approx(3.0 * (0.0 + 1.0) / 2 - 1.0)  # the value by its size


def test_rebrac_finds_the_actions_that_follow():
    buffer, policy = transitions(), make_policy("rebrac")
    indices = np.arange(100)
    batch = policy.process_fn(buffer[indices], buffer, indices)
    following = buffer.next(indices)
    assert np.array_equal(batch.has_next, following != indices)
    assert 0 < batch.has_next.sum() < 100
    assert np.array_equal(batch.act_next, buffer.act[following])
    several = make_policy("rebrac", estimation_step=3)
    batch = several.process_fn(buffer[indices], buffer, indices)
    last = buffer.nstep(indices, 3, 0.99)[2]
    assert np.array_equal(batch.act_next, buffer.act[buffer.next(last)])


class Constant(nn.Module):
    """A value: the same everywhere."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, obs):
        return self.value.expand(len(obs), 1)


def test_iql_asks_for_no_other_action_than_that_of_the_data():
    nets = {"value": Constant(1.0)}
    policy = of_lines("iql", GivenNormal(0.0, 1.0), nets=nets, expectile=0.75, temperature=2.0)
    losses, error = policy.gradient_step(sample([[0.5]], [1.0]))
    # the smaller value of 0.5 is 1.5: u = 0.5; the value moves to 1 + 0.75 * 2 * 0.5
    assert losses["value_loss"].item() == pytest.approx(0.75 * 0.25)
    assert policy.value.value.item() == pytest.approx(1.75)
    weight, log_prob = math.exp(2.0 * (1.5 - 1.75)), -0.125 - 0.5 * math.log(2 * math.pi)
    assert losses["actor_loss"].item() == pytest.approx(-weight * log_prob)
    assert policy.actor.mean.item() == pytest.approx(weight * 0.5)
    # both critics learn 1 + 0.5 * 1.75 instead of 2 and 1.5
    assert losses["critic1_loss"].item() == pytest.approx(0.125**2)
    assert losses["critic2_loss"].item() == pytest.approx(0.375**2)
    assert error.item() == pytest.approx((-0.125 + 0.375) / 2)


def cql(**options):
    given = {"num_repeat_actions": 2, "with_lagrange": False, "calibrated": False, "clip_grad": 0.0, "alpha": 0.0}
    return of_lines("cql", GivenNormal(0.0, 1.0), **given | options)


class TestCQL:
    noise = torch.tensor([[0.5]])
    many = torch.tensor([[0.5], [0.5]])
    act = math.tanh(0.5)

    def draws(self):
        return (self.noise, self.noise, torch.tensor([[0.25], [-0.25]]), self.many, self.many)

    def test_the_penalty_is_over_all_kinds_of_actions(self):
        # (Tianshou's sum has one action of each kind)
        policy = cql()
        q1, q2 = policy.sampled_values(sample([[0.0]], [0.0]), *self.draws()[2:])
        rated = [2 * 0.25 + 1 + math.log(2), -2 * 0.25 + 1 + math.log(2), *[2 * self.act + 1 - LOG_PROB] * 4]
        assert q1[0].tolist() == pytest.approx(rated)
        assert q2.shape == (1, 6)

    @pytest.mark.parametrize("replaced", [False, True])
    def test_several_actions_at_an_observation_follow_each_other(self, replaced):
        policy, noise = make_policy("cql"), torch.randn(6, 2)
        obs = torch.tensor(OBS.obs[:3])
        many = obs[[0, 0, 1, 1, 2, 2]]
        if replaced:
            policy.draw_normal = lambda *_: noise
            forwarding(policy)
        few = policy.calc_pi_values(obs, many, noise)
        assert few[0].shape == few[1].shape == (6, 1)
        torch.testing.assert_close(few, policy.calc_pi_values(many, many, noise))

    def test_the_density_of_uniform_actions_is_that_of_their_bounds(self):
        policy = cql(min_action=-2.0, max_action=2.0)
        (uniform,) = policy.draw_step(5000)[2:3]
        assert uniform.shape == (10_000, 1)
        assert (uniform.min().item(), uniform.max().item()) == pytest.approx((-2.0, 2.0), abs=0.01)
        q1, _ = policy.calc_random_values(torch.zeros(1, 1), torch.tensor([[0.0]]))
        assert q1.item() == pytest.approx(1.0 + math.log(4.0))

    def test_a_critics_loss(self):
        policy = cql(cql_weight=3.0, temperature=2.0)
        q1, _ = cql().sampled_values(sample([[0.0]], [0.0]), *self.draws()[2:])
        policy.actor_optim = torch.optim.SGD(policy.actor.parameters(), lr=0.0)
        losses, _ = policy.gradient_step(sample([[0.0]], [1.0], draws=self.draws()))
        target = 1 + 0.5 * min(2 * self.act + 1, 2 - self.act)
        gap = 2 * torch.logsumexp(q1[0] / 2, 0).item() - 1.0
        assert losses["critic1_loss"].item() == pytest.approx((target - 1.0) ** 2 + 3 * gap, rel=1e-5)
        assert {*losses} == {"actor_loss", "critic1_loss", "critic2_loss", "alpha"}

    @pytest.mark.parametrize("backup_entropy", [True, False])
    def test_the_entropy_in_targets(self, backup_entropy):
        policy = cql(cql_weight=0.0, alpha=0.25, backup_entropy=backup_entropy)
        policy.actor_optim = torch.optim.SGD(policy.actor.parameters(), lr=0.0)
        losses, _ = policy.gradient_step(sample([[0.0]], [1.0], draws=self.draws()))
        entropy = -0.25 * LOG_PROB if backup_entropy else 0.0
        target = 1 + 0.5 * (min(2 * self.act + 1, 2 - self.act) + entropy)
        assert losses["critic1_loss"].item() == pytest.approx((target - 1.0) ** 2, rel=1e-5)

    @pytest.mark.parametrize(("threshold", "rises"), [(-100.0, True), (100.0, False)])
    def test_the_multiplier_rises_while_the_penalty_is_above_its_threshold(self, threshold, rises):
        policy = cql(with_lagrange=True, lagrange_threshold=threshold, cql_alpha_lr=0.5, alpha_max=1.25)
        told = [policy.gradient_step(sample([[0.0]], [1.0], draws=self.draws()))[0] for _ in range(2)]
        assert told[0]["cql_alpha"].item() == 1.0
        assert told[1]["cql_alpha"].item() == pytest.approx(1.25 if rises else math.exp(-0.5))  # not above alpha_max

    def test_at_first_its_actor_imitates_the_data(self):
        policy = cql(alpha=0.25, imitation_steps=1)
        data = math.tanh(0.75)
        losses, _ = policy.gradient_step(sample([[data]], [1.0], draws=self.draws(), is_due=True))
        density = -0.5 * 0.75**2 - 0.5 * math.log(2 * math.pi) - math.log(1 - data**2)
        assert losses["actor_loss"].item() == pytest.approx(0.25 * LOG_PROB - density, rel=1e-5)

    def test_its_actor_imitates_for_as_many_steps_as_asked(self, monkeypatch):
        policy, imitated = make_policy("cql", imitation_steps=2), []
        buffer, inner = policy.process_buffer(rows("cql")), policy.calc_imitation_loss
        monkeypatch.setattr(policy, "calc_imitation_loss", lambda *args: imitated.append(steps) or inner(*args))
        for steps in range(4):  # noqa: B007 (the function above reads it)
            policy.update(16, buffer)
        assert imitated == [0, 1]

    def test_values_of_the_policys_actions_are_no_less_than_returns(self):
        policy = cql(calibrated=True)
        q1, _ = policy.sampled_values(sample([[0.0]], [0.0], extras=(torch.tensor([7.0]),)), *self.draws()[2:])
        uniform, ours = q1[0, :2], q1[0, 2:]
        assert uniform.tolist() == pytest.approx([1.5 + math.log(2), 0.5 + math.log(2)])  # as they are
        assert ours.tolist() == pytest.approx([7.0 - LOG_PROB] * 4)

    def test_returns_of_the_data_are_added_once(self):
        policy, buffer = make_policy("cql", gamma=0.5), rows("cql")
        with pytest.raises(ValueError, match="calibrated=True needs the returns of the rows"):
            policy.update(8, buffer)
        assert policy.process_buffer(buffer) is buffer
        ends = buffer.terminated | buffer.truncated
        for index in range(100):
            following = int(buffer.next(np.array([index]))[0])
            rest = 0.0 if ends[index] or following == index else 0.5 * buffer.calibration_returns[following]
            assert buffer.calibration_returns[index] == pytest.approx(buffer.rew[index] + rest, abs=1e-6)
        batch, indices = buffer.sample(8)
        batch.to_torch()  # as samples that are drawn ahead for a GPU
        policy.process_fn(batch, buffer, indices)
        plain = make_policy("cql", calibrated=False)
        assert "calibration_returns" not in plain.process_buffer(rows("cql"))._meta

    def test_bounds_in_the_wrong_order(self):
        with pytest.raises(ValueError, match="bounds must rise"):
            cql(min_action=1.0, max_action=-1.0)


class TestBCQ:
    def test_actions_of_targets_are_moved(self):
        # (Tianshou keeps a target of the moving network, and asks it nothing)
        policy = make_policy("bcq")
        asked = []
        policy.actor_perturbation_target.register_forward_hook(lambda *parts: asked.append(parts[2]))
        policy.update(16, rows("bcq"))
        assert [one.shape for one in asked] == [(48, 2)]

    def test_the_best_of_several_actions_is_taken(self):
        policy = make_policy("bcq", forward_sampled_times=20)
        policy.critic = Sum()
        policy.seed(3)
        act = policy(OBS).act
        policy.seed(3)
        many = torch.as_tensor(OBS.obs).repeat_interleave(20, dim=0)
        latent = policy._draw(2000).clamp(-0.5, 0.5)
        moved = policy.actor_perturbation(many, policy.vae.decode(many, latent)).reshape(100, 20, 2)
        assert isinstance(act, np.ndarray)
        assert act.sum(axis=1) == pytest.approx(moved.sum(dim=2).amax(dim=1).detach().numpy(), rel=1e-5)


class Sum(nn.Module):
    """A critic that prefers large actions."""

    def forward(self, obs, act):
        return act.sum(dim=1, keepdim=True)


def test_discrete_bcq_acts_and_bootstraps_by_likely_actions():
    policy = make_policy("discrete-bcq", unlikely_action_threshold=0.5)
    result = policy(OBS)
    ratio = (result.imitation_logits - result.imitation_logits.amax(dim=1, keepdim=True)).exp()
    likely = result.q_value.masked_fill(ratio < 0.5, -torch.inf)
    assert torch.equal(result.act, likely.argmax(dim=1))
    assert not torch.equal(result.act, result.q_value.argmax(dim=1))
    with torch.no_grad():
        expected = policy.model_old(torch.as_tensor(OBS.obs))[0].gather(1, result.act[:, None]).squeeze(1)
        assert torch.allclose(policy.next_value(OBS.obs), expected)


@pytest.mark.parametrize("name", ["eval_eps", "unlikely_action_threshold"])
def test_discrete_bcq_refuses_ones(name):
    with pytest.raises(ValueError, match=f"{name} 1.0"):
        make_policy("discrete-bcq", **{name: 1.0})


def with_masks():
    """Transitions whose observations call one or two of three actions illegal."""
    rng, buffer = np.random.default_rng(0), ReplayBuffer(40)
    for t in range(40):
        act = int(rng.integers(3))
        mask = np.arange(3) != (act + 1 + t % 2) % 3
        mask[(act + 2) % 3] &= t % 3 > 0
        obs = {"obs": rng.normal(size=4).astype(np.float32), "mask": mask}
        buffer.add(Batch(obs=obs, act=act, rew=1.0, terminated=t % 10 == 9, truncated=False, obs_next=obs))
    return buffer


@pytest.mark.parametrize("name", ["discrete-bcq", "discrete-cql", "discrete-crr"])
def test_illegal_actions_have_no_part_in_losses(name):
    policy, buffer = make_policy(name, lr=0.0), with_masks()
    batch = buffer[:]
    obs, act, mask = torch.as_tensor(batch.obs.obs), torch.as_tensor(batch.act), torch.as_tensor(batch.obs.mask)
    with torch.no_grad():
        numbers = {
            "discrete-bcq": lambda: policy.imitator(obs)[0],
            "discrete-cql": lambda: policy.model(obs)[0].mean(dim=2),
            "discrete-crr": lambda: policy.critic(obs),
        }[name]()
    odds = (numbers.exp() * mask).sum(dim=1) / numbers.exp().gather(1, act[:, None]).squeeze(1)
    stats = policy.update(0, buffer)
    loss = stats.i_loss if name == "discrete-bcq" else stats.cql_loss
    assert loss == pytest.approx(odds.log().mean().item(), rel=1e-5)


def test_discrete_crr_takes_no_gradient_through_its_weights():
    policy = make_policy("discrete-crr", min_q_weight=0.0, beta=0.5, ratio_upper_bound=3.0)
    obs, act = torch.as_tensor(OBS.obs[:8]), torch.arange(8) % 3
    with torch.no_grad():
        q, probs = policy.critic(obs), policy.actor(obs)[0].softmax(dim=1)
        chosen = q.gather(1, act[:, None]).squeeze(1)
        weight = ((chosen - (q * probs).sum(dim=1)) / 0.5).exp().clamp(max=3.0)
        log_prob = probs.log().gather(1, act[:, None]).squeeze(1)
    one = sample([0.0] * 8, [0.0] * 8, obs=obs, is_due=False, returns=chosen)  # critics that err nowhere do not move
    before = policy.critic(obs)
    losses, _ = policy.gradient_step(one._replace(act=act))
    assert losses["actor_loss"].item() == pytest.approx(-(weight * log_prob).mean().item(), rel=1e-5)
    assert torch.allclose(policy.critic(obs), before, atol=1e-5)


def test_discrete_crr_expects_values_of_both_target_networks():
    policy = make_policy("discrete-crr")
    with torch.no_grad():
        for network in (policy.actor, policy.critic):
            for parameter in network.parameters():
                parameter.zero_()
        obs = torch.as_tensor(OBS.obs)
        expected = (policy.critic_old(obs) * policy.actor_old(obs)[0].softmax(dim=1)).sum(dim=1)
        assert torch.allclose(policy.next_value(OBS.obs), expected)


@pytest.mark.parametrize("freq", [1, 2, 3])
def test_discrete_crr_copies_to_target_networks_after_every_freq_steps(freq):
    policy, buffer, copied = make_policy("discrete-crr", target_update_freq=freq), rows("discrete-crr"), []
    for _ in range(6):
        policy.update(4, buffer)
        pairs = zip(policy.critic.parameters(), policy.critic_old.parameters(), strict=True)
        copied.append(all(torch.equal(one, lagged) for one, lagged in pairs))
    assert copied == [step % freq == 0 for step in range(1, 7)]


def test_discrete_crr_without_target_networks():
    policy = make_policy("discrete-crr", target_update_freq=0)
    assert policy.actor_old is policy.actor
    assert policy.critic_old is policy.critic
    with pytest.warns(UserWarning, match="reward_normalization has no effect"):
        make_policy("discrete-crr", reward_normalization=True)


def test_imitation_of_actions_by_hand():
    policy = of_lines_imitation()
    stats = policy.learn(Batch(obs=OBS.obs[:2, :1], act=np.array([[1.0], [0.0]]), info={}))
    assert stats.loss == pytest.approx(0.25)
    assert policy.actor.act.item() == pytest.approx(0.5)
    assert policy.update(4, transitions_of_one()).loss >= 0


def of_lines_imitation():
    return kind_of("imitation")(actor=Given(0.5), optim=sgd, action_space=ONE)


def transitions_of_one():
    buffer = transitions()
    buffer._meta.act = np.array(buffer.act)[:, :1]
    return buffer
