import io
import math
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from algorithms import make_policy
from continuous import GivenNormal, Line
from rlfast.data import Batch
from rlfast.exploration import GaussianNoise
from rlfast.policy import AutoAlpha, FixedAlpha, SACPolicy
from rlfast.policy.modelfree.sac import SACTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb, Critic
from rlfast.utils.optim import adam

SPACE = Box(-2.0, 2.0, (2,))

make_sac = partial(make_policy, "sac", lr=1e-2)


@pytest.fixture
def make_rows(make_buffer):
    def make(*capacities, steps=50, **options):
        buffer = make_buffer(*capacities or (50,), steps=0, **options)
        rng = np.random.default_rng(0)
        for t in range(steps):
            obs, obs_next = rng.normal(size=(2, 4)).astype(np.float32)
            flags = {"terminated": t % 10 == 9, "truncated": t % 7 == 6}
            act = rng.uniform(-1, 1, 2).astype(np.float32)
            buffer.add(obs=obs, act=act, rew=float(rng.normal()), obs_next=obs_next, **flags)
        return buffer

    return make


def weights(module):
    return torch.cat([p.detach().flatten().clone() for p in module.parameters()])


class TestConstruction:
    def test_an_optimizer_for_a_critic_that_is_not_given(self):
        optim = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
        with pytest.raises(ValueError, match="critic2_optim holds no parameters of the critic2 that is made here"):
            make_sac(critic2_optim=optim)
        assert make_sac(critic2_optim=adam(0.5)).critic2_optim.defaults["lr"] == 0.5

    def test_a_second_critic_without_an_optimizer(self):
        critic2 = Critic(Net(4, 2, hidden_sizes=[5], concat=True))
        policy = make_sac(critic2=critic2, lr=0.125)
        assert policy.critic2_optim.defaults["lr"] == 0.125
        assert policy.critic2_optim.param_groups[0]["params"] == [*critic2.parameters()]

    def test_the_second_critic_is_no_twin_in_its_weights(self):
        # equal at the start, both would stay equal for ever, and the smaller of them would be no safer
        policy = make_sac(lr=0.125)
        assert not torch.equal(weights(policy.critic), weights(policy.critic2))
        assert policy.critic2_optim.defaults == policy.critic_optim.defaults
        assert policy.critic2_optim.param_groups[0]["params"] == [*policy.critic2.parameters()]
        assert torch.equal(weights(policy.critic2_old), weights(policy.critic2))

    def test_its_own_second_critic(self):
        critic2 = Critic(Net(4, 2, hidden_sizes=[5], concat=True))
        policy = make_sac(critic2=critic2, critic2_optim=adam(0.5))
        assert policy.critic2 is critic2
        assert policy.critic2_optim.defaults["lr"] == 0.5


class TestAlpha:
    @pytest.mark.parametrize("alpha", [1, 1.0, FixedAlpha(1.0)])
    def test_a_number_is_a_number(self, make_rows, alpha):
        # in Tianshou, alpha=1 was taken for a tuple
        policy = make_sac(alpha=alpha)
        stats = policy.update(16, make_rows())
        assert (policy.alpha, policy.is_auto_alpha) == (1.0, False)
        assert (stats.alpha, stats.alpha_loss) == (1.0, None)
        assert "alpha_loss" not in stats.get_loss_stats_dict()

    def test_a_triple_as_tianshou_takes_it(self, make_rows):
        log_alpha = torch.zeros(1, requires_grad=True)
        optim = torch.optim.SGD([log_alpha], lr=0.5)
        policy = make_sac(alpha=(-2.0, log_alpha, optim))
        assert policy.is_auto_alpha
        assert policy.alpha_optim is optim
        stats = policy.update(16, make_rows())
        assert stats.alpha_loss == 0.0  # log_alpha was 0
        assert log_alpha.item() != 0.0
        assert stats.alpha == pytest.approx(math.exp(log_alpha.item()))
        assert policy.alpha == pytest.approx(stats.alpha)

    def test_what_scripts_ask_of_a_learned_one(self):
        log_alpha = torch.full((1,), -1.0, requires_grad=True)
        policy = make_sac(alpha=[-2.0, log_alpha, torch.optim.SGD([log_alpha], lr=0.5)])
        assert policy.log_alpha is log_alpha
        assert torch.equal(policy.alpha, log_alpha.detach().exp())
        assert not policy.alpha.requires_grad
        policy.target_entropy = -3
        assert policy.target_entropy == policy.temperature.target_entropy == -3.0
        policy.alpha = policy.alpha  # as a learn written for Tianshou ends: changes nothing, not by rounding either
        assert log_alpha.item() == -1.0
        policy.alpha = torch.tensor([0.5])
        assert policy.alpha.item() == pytest.approx(0.5)
        assert policy.log_alpha is log_alpha
        with pytest.raises(ValueError, match=r"a learned alpha must be above 0, got 0\.0"):
            policy.alpha = 0.0

    def test_a_fixed_one_can_be_annealed(self, make_rows):
        policy = make_sac(alpha=0.5)
        policy.alpha = 0.25
        assert policy.alpha == 0.25
        assert policy.update(16, make_rows()).alpha == 0.25
        other = make_sac(alpha=0.5)
        other.load_state_dict(policy.state_dict())
        assert other.alpha == 0.25
        with pytest.raises(ValueError, match="alpha must be 0 or more, got -1"):
            policy.alpha = -1
        assert not hasattr(policy, "log_alpha")
        assert not hasattr(policy, "target_entropy")

    @pytest.mark.parametrize("kind", ["tensor", "parameter", "number"])
    def test_it_moves_with_the_policy_and_learns_on(self, make_rows, kind):
        made = {"tensor": torch.zeros(1, requires_grad=True), "parameter": nn.Parameter(torch.zeros(1)), "number": 0.0}
        log_alpha = made[kind]
        policy = make_sac(alpha=(-2.0, log_alpha, adam(0.1) if kind == "number" else adam(0.1)([log_alpha])))
        held = policy.log_alpha
        policy.update(16, make_rows())
        before = held.item()
        policy.double()
        assert policy.log_alpha is held
        assert held.dtype == torch.float64
        assert held.item() == before
        stats = policy.update(16, make_rows())
        assert held.item() != before
        assert stats.alpha == pytest.approx(math.exp(held.item()))
        assert "temperature.log_alpha" in policy.state_dict()

    def test_an_own_learn_as_it_is_written_for_tianshou(self, make_rows):
        """Its names are there, and it ends with the weights of ours."""

        class Own(SACPolicy):
            def learn(self, batch, *args, **kwargs):
                td1, critic1_loss = self._mse_optimizer(batch, self.critic, self.critic_optim)
                td2, critic2_loss = self._mse_optimizer(batch, self.critic2, self.critic2_optim)
                batch.weight = (td1 + td2) / 2.0
                result = self(batch)
                q = torch.min(self.critic(batch.obs, result.act), self.critic2(batch.obs, result.act)).flatten()
                actor_loss = (self.alpha * result.log_prob.flatten() - q).mean()
                self.actor_optim.zero_grad()
                actor_loss.backward()
                self.actor_optim.step()
                log_prob = result.log_prob.detach() + self.target_entropy
                alpha_loss = -(self.log_alpha * log_prob).mean()
                self.alpha_optim.zero_grad()
                alpha_loss.backward()
                self.alpha_optim.step()
                self.alpha = self.log_alpha.detach().exp()
                self.sync_weight()
                losses = {"critic1_loss": critic1_loss.item(), "critic2_loss": critic2_loss.item()}
                return SACTrainingStats(actor_loss=actor_loss.item(), **losses, alpha=self.alpha.item())

        def learned(kind):
            torch.manual_seed(0)
            log_alpha = torch.zeros(1, requires_grad=True)
            critics = [Critic(Net(4, 2, hidden_sizes=[8], concat=True)) for _ in range(2)]
            policy = kind(
                actor=ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True, conditioned_sigma=True),
                critic=critics[0],
                critic2=critics[1],
                **dict.fromkeys(("actor_optim", "critic_optim", "critic2_optim"), adam(0.01)),
                action_space=SPACE,
                alpha=(-2.0, log_alpha, torch.optim.Adam([log_alpha], lr=0.1)),
            )
            buffer = make_rows(prioritized=True)
            for _ in range(4):
                policy.update(16, buffer)
            return weights(policy), buffer.priorities

        (own, own_priorities), (ours, our_priorities) = learned(Own), learned(SACPolicy)
        torch.testing.assert_close(own, ours)
        np.testing.assert_allclose(own_priorities, our_priorities, rtol=1e-4)

    @pytest.mark.parametrize(("log_prob", "sign"), [(5.0, 1), (-5.0, -1)])
    def test_it_grows_while_there_is_too_little_entropy(self, log_prob, sign):
        alpha = AutoAlpha(-2.0, 0.0, lambda p: torch.optim.SGD(p, lr=0.1))
        loss = alpha.learn(torch.tensor([log_prob] * 3))
        assert loss.item() == 0.0
        assert math.log(alpha.value.item()) == pytest.approx(0.1 * (log_prob - 2.0))
        assert np.sign(math.log(alpha.value.item())) == sign

    def test_bad_temperatures(self):
        with pytest.raises(ValueError, match="must be one number that requires a gradient"):
            AutoAlpha(-1.0, torch.zeros(1), adam())
        with pytest.raises(ValueError, match="must be one number"):
            AutoAlpha(-1.0, torch.zeros(2, requires_grad=True), adam())
        other = torch.zeros(1, requires_grad=True)
        with pytest.raises(ValueError, match="does not hold log_alpha"):
            AutoAlpha(-1.0, torch.zeros(1, requires_grad=True), torch.optim.SGD([other], lr=0.1))
        with pytest.raises(ValueError, match="alpha must be a finite number, got nan"):
            FixedAlpha(float("nan"))


class TestForward:
    BATCH = Batch(obs=np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32), info={})

    def test_samples_while_training_and_the_mean_in_evaluation(self):
        policy = make_sac()
        result = policy(self.BATCH, state="carried")
        assert result.act.shape == (100, 2)
        assert result.log_prob.shape == (100, 1)
        assert result.state == "carried"
        assert result.act.abs().max() < 1
        mean = policy.actor(self.BATCH.obs)[0][0].tanh()
        assert not torch.allclose(result.act, mean)
        assert torch.allclose(policy.eval()(self.BATCH).act, mean)
        assert not torch.allclose(make_sac(deterministic_eval=False).eval()(self.BATCH).act, mean)

    def test_logits_are_means_and_deviations_in_one_tensor(self):
        policy = make_sac()
        mean, std = policy.actor(self.BATCH.obs)[0]
        assert torch.equal(policy(self.BATCH).logits, torch.stack([mean, std]))

    @pytest.mark.pitfall("E9")
    def test_seeds_repeat_actions_and_leave_torchs_generator_alone(self):
        policy = make_sac()

        def acts(seed):
            policy.seed(seed)
            return torch.stack([policy(self.BATCH).act for _ in range(3)])

        before = torch.get_rng_state()
        first = acts(0)
        assert torch.equal(acts(0), first)
        assert not torch.equal(acts(1), first)
        assert not torch.equal(first[0], first[1])
        assert torch.equal(torch.get_rng_state(), before)

    def test_the_log_probability_is_that_of_the_action(self):
        result = make_sac()(self.BATCH)
        assert torch.allclose(result.dist.log_prob(result.act), result.log_prob.flatten(), atol=1e-3)

    def test_actions_of_several_axes(self, make_rows):
        policy = make_sac(action_space=Box(-2, 2, (1, 2)))
        assert policy(self.BATCH).act.shape == (100, 1, 2)
        assert policy.compute_action(self.BATCH.obs[0]).shape == (1, 2)
        assert np.isfinite(policy.update(16, make_rows()).actor_loss)

    def test_noise_may_be_any_function_of_the_shape(self):
        policy = make_sac(exploration_noise=np.ones)
        assert policy.exploration_noise(np.zeros((3, 2), np.float32), self.BATCH).tolist() == [[1.0, 1.0]] * 3
        tensor = torch.zeros(3, 2)
        with pytest.warns(UserWarning, match="noise is added to arrays, not to a Tensor"):
            assert policy.exploration_noise(tensor, self.BATCH) is tensor

    def test_exploration_noise_only_where_it_is_set(self):
        act = np.zeros((1000, 2), np.float32)
        assert make_sac().exploration_noise(act, self.BATCH) is act
        noisy = make_sac(exploration_noise="default").exploration_noise(act, self.BATCH)
        assert noisy.std() == pytest.approx(0.1, rel=0.1)
        assert noisy.dtype == np.float32
        assert not act.any()
        policy = make_sac(exploration_noise=GaussianNoise(mu=3.0, sigma=0.0))
        assert policy.exploration_noise(act, self.BATCH).tolist() == [[3.0, 3.0]] * 1000
        policy.set_exp_noise(None)
        assert policy.exploration_noise(act, self.BATCH) is act


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


def by_hand(**options):
    """Give a policy of one action at 0, deviation 1, and critics ``2 a + 1`` and ``-a + 2``."""
    nets = {"actor": GivenNormal(0.0, 1.0), "critic": Line(2.0, 1.0), "critic2": Line(-1.0, 2.0)}
    optims = {"actor_optim": sgd, "critic_optim": sgd, "critic2_optim": sgd}
    return make_sac(**nets, **optims, action_space=Box(-1, 1, (1,)), **{"alpha": 0.5, "tau": 0.25} | options)


LOG_PROB = -0.125 - 0.5 * math.log(2 * math.pi) - math.log(1 - math.tanh(0.5) ** 2)  # of noise 0.5


class TestLearn:
    def step(self, policy, noise=0.5, weight=None):
        batch = Batch(obs=np.zeros((2, 1)), act=np.array([[0.5], [-0.5]], np.float32), info={})
        batch.returns = torch.tensor([[3.0], [1.0]])
        if weight is not None:
            batch.weight = np.array(weight)
        policy.draw_noise = lambda rows: torch.full((rows, 1), noise)
        return policy.learn(batch), batch

    def test_target_by_hand(self, make_buffer):
        policy = by_hand(gamma=0.5, estimation_step=2)
        policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
        buffer = make_buffer(8, steps=0)
        for t in range(3):
            flags = {"terminated": t == 2, "truncated": False}
            buffer.add(obs=np.zeros(1), act=np.zeros(1), rew=1.0, obs_next=np.zeros(1), **flags)
        indices = np.arange(3)
        act = math.tanh(0.5)
        value = min(2 * act + 1, -act + 2) - 0.5 * LOG_PROB
        returns = policy.process_fn(buffer.batch(indices), buffer, indices).returns
        assert returns.flatten().tolist() == pytest.approx([1.5 + 0.25 * value, 1.5, 1.0])

    @pytest.mark.pitfall("F5")
    def test_targets_come_from_the_target_critics(self, make_buffer):
        policy = by_hand(gamma=0.5)
        policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
        buffer = make_buffer(8, steps=0)
        buffer.add(obs=np.zeros(1), act=np.zeros(1), rew=1.0, obs_next=np.zeros(1), terminated=False, truncated=False)
        indices = np.arange(1)

        def value(critics):
            act = math.tanh(0.5)
            return min(critics[0] * act + 1, critics[1] * act + 2) - 0.5 * LOG_PROB

        def returns():
            return policy.process_fn(buffer.batch(indices), buffer, indices).returns.item()

        with torch.no_grad():
            policy.critic.slope.fill_(-100.0)
            policy.critic2.slope.fill_(-100.0)
        assert returns() == pytest.approx(1 + 0.5 * value([2.0, -1.0]))
        with torch.no_grad():
            policy.critic_old.slope.fill_(-3.0)
        assert returns() == pytest.approx(1 + 0.5 * value([-3.0, -1.0]))
        with torch.no_grad():
            policy.critic2_old.slope.fill_(-9.0)
        assert returns() == pytest.approx(1 + 0.5 * value([-3.0, -9.0]))

    def test_critics_by_hand(self):
        policy = by_hand()
        stats, batch = self.step(policy)
        # errors: 3 - 2, 1 - 0 and 3 - 1.5, 1 - 2.5
        assert isinstance(stats, SACTrainingStats)
        assert stats.critic1_loss == pytest.approx((1.0 + 1.0) / 2)
        assert stats.critic2_loss == pytest.approx((2.25 + 2.25) / 2)
        assert batch.td_error.tolist() == pytest.approx([1.25, -0.25])
        assert not batch.td_error.requires_grad
        assert policy.critic.slope.item() == pytest.approx(2.0 + (0.5 - 0.5))
        assert policy.critic.offset.item() == pytest.approx(1.0 + 2.0)
        assert policy.critic2.slope.item() == pytest.approx(-1.0 + 0.75 + 0.75)

    def test_importance_weights(self):
        stats, batch = self.step(by_hand(), weight=[0.5, 0.0])
        assert stats.critic1_loss == pytest.approx(0.25)
        assert stats.critic2_loss == pytest.approx(0.5 * 2.25 / 2)
        assert batch.td_error.tolist() == pytest.approx([1.25, -0.25])

    def test_actor_by_hand_against_the_critics_after_their_step(self):
        policy = by_hand()
        stats, _ = self.step(policy)
        act = math.tanh(0.5)
        q = min(2.0 * act + 3.0, 0.5 * act + 2.0)
        assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - q)
        # d(actor_loss)/d(mean): alpha * 2 tanh(u) - slope * (1 - tanh(u)^2)
        assert policy.actor.mean.item() == pytest.approx(-(0.5 * 2 * act - 0.5 * (1 - act**2)))
        assert policy.critic.slope.grad.item() == pytest.approx(0.0)  # of its own loss: the actor's leaves none

    @pytest.mark.pitfall("F5")
    def test_target_critics_move_once_by_tau(self):
        policy = by_hand()
        self.step(policy)
        assert policy.critic_old.offset.item() == pytest.approx(1.0 + 0.25 * 2.0)
        assert policy.critic2_old.slope.item() == pytest.approx(-1.0 + 0.25 * 1.5)

    @pytest.mark.pitfall("F8")
    def test_learning_in_evaluation_mode_is_still_random(self, make_rows):
        torch.manual_seed(0)
        first = make_sac().eval().update(16, make_rows()).actor_loss
        assert first != make_sac(seed=1).eval().update(16, make_rows()).actor_loss
        policy = make_sac()
        policy.train()
        assert policy.actor.training
        assert not policy.critic_old.training
        assert not any(p.requires_grad for p in policy.critic2_old.parameters())

    def test_priorities_are_the_mean_error_of_both_critics(self, make_rows):
        buffer = make_rows(prioritized=True)
        policy = make_sac()
        policy.update(16, buffer)
        assert buffer.priorities[0].shape == (16,)
        assert (buffer.priorities[0] > 0).all()


def test_resume_is_exact(make_rows):
    def options():
        return {"alpha": AutoAlpha(-2.0, 0.0, adam(0.1)), "exploration_noise": GaussianNoise(sigma=0.1, seed=1)}

    def run(policy, start, stop):
        buffer = make_rows()
        for step in range(start, stop):
            buffer.rng = np.random.default_rng(step)
            torch.manual_seed(step)
            policy.update(8, buffer)
        return torch.cat([weights(policy), torch.tensor([policy.alpha])])

    whole = run(make_sac(**options()), 0, 6)
    half = make_sac(**options())
    run(half, 0, 3)
    half.exploration_noise(np.zeros((3, 2), np.float32), None)
    file = io.BytesIO()
    torch.save(half.state_dict(), file)
    file.seek(0)
    resumed = make_sac(seed=5, **options())
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(run(resumed, 3, 6), whole)
    act = np.zeros((3, 2), np.float32)
    assert np.array_equal(resumed.exploration_noise(act, None), half.exploration_noise(act, None))
