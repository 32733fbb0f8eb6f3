import math

import numpy as np
import pytest
import torch
from torch import nn

from rlfast.functional import DiagonalNormal
from rlfast.utils import tree
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.continuous import (
    SIGMA_MAX,
    SIGMA_MIN,
    Actor,
    ActorProb,
    Critic,
    CriticBase,
    RecurrentActorProb,
    RecurrentCritic,
    StateDependentNoise,
)


def zeroed(net, bias):
    """Give ``net``, whose last layers now give ``bias``."""
    for head in (net.mu, net.sigma) if getattr(net, "sigma", None) is not None else (net.mu,):
        layer = head.model[-1] if hasattr(head, "model") else head
        nn.init.zeros_(layer.weight)
        nn.init.constant_(layer.bias, bias)
    return net


def test_actor_keeps_within_its_bound():
    actor = Actor(Net(4, hidden_sizes=[8]), (2, 3), max_action=2.0)
    act, state = actor(1e4 * torch.randn(50, 4), state="carried")
    assert act.shape == (50, 6)
    assert act.abs().max() <= 2.0
    assert act.abs().max() > 1.9
    assert state == "carried"
    assert actor.get_output_dim() == 6


def test_critic_sees_observation_and_action():
    critic = Critic(Net(6, 2, hidden_sizes=[8], concat=True))
    obs, act = np.random.rand(5, 2, 3), np.random.rand(5, 2)
    value = critic(obs, act)
    assert value.shape == (5, 1)
    assert not torch.equal(value, critic(obs, act + 1))
    assert not torch.equal(value, critic(obs + 1, act))
    assert Critic(Net(6, hidden_sizes=[8]))(obs).shape == (5, 1)
    assert Critic(Net(6, hidden_sizes=[8]).to("meta")).to("meta")(obs).device.type == "meta"


class TestActorProb:
    def test_a_deviation_that_is_a_parameter(self):
        actor = ActorProb(Net(4, hidden_sizes=[8]), 2)
        assert actor.sigma_param.shape == (2, 1)
        with torch.no_grad():
            actor.sigma_param.copy_(torch.tensor([[0.0], [1.0]]))
        (_, std), _ = actor(torch.randn(3, 4))
        assert torch.allclose(std, torch.tensor([[1.0, np.e]] * 3, dtype=torch.float32))

    @pytest.mark.parametrize(("bias", "std"), [(0.5, np.exp(0.5)), (1e6, np.exp(SIGMA_MAX)), (-1e6, np.exp(SIGMA_MIN))])
    def test_conditioned_sigma_is_bounded(self, bias, std):
        (_, deviation), _ = zeroed(ActorProb(Net(4), 1, conditioned_sigma=True), bias)(torch.randn(3, 4))
        assert deviation.flatten().tolist() == pytest.approx([std] * 3)

    def test_means_are_bounded_unless_told_otherwise(self):
        (mean, _), _ = zeroed(ActorProb(Net(4), 1, max_action=2.0), 10.0)(torch.zeros(1, 4))
        assert mean.item() == pytest.approx(2 * np.tanh(10.0))
        (mean, _), _ = zeroed(ActorProb(Net(4), 1, unbounded=True), 10.0)(torch.zeros(1, 4))
        assert mean.item() == 10.0
        with pytest.warns(UserWarning, match="unbounded means have no max_action: 2.0"):
            ActorProb(Net(4), 1, max_action=2.0, unbounded=True)

    def test_the_state_of_its_backbone_is_handed_on(self):
        # Tianshou 1.0 gives the old state back, so that a recurrent backbone never remembers
        actor = ActorProb(Recurrent(1, 4, 6, hidden_layer_size=5), 2)
        obs = torch.randn(3, 4)
        (first, _), state = actor(obs)
        assert state["hidden"].shape == (3, 1, 5)
        assert not torch.equal(first, actor(obs, state=state)[0][0])

    def test_parameter_names_match_tianshou(self):
        names = [*ActorProb(Net(4, hidden_sizes=[8]), 2, conditioned_sigma=True).state_dict()]
        assert names[2:] == ["mu.model.0.weight", "mu.model.0.bias", "sigma.model.0.weight", "sigma.model.0.bias"]
        assert "sigma_param" in ActorProb(Net(4, hidden_sizes=[8]), 2).state_dict()


def noise_of(sigma, **options):
    """Noise with these deviations of its matrix."""
    noise = StateDependentNoise(len(sigma), 2, full_std=len(sigma[0]) == 2, **options)
    with torch.no_grad():
        noise.log_std.copy_(torch.tensor(sigma).log())
    return noise


def drawn(noise, steps, rollouts=(), begins=()):
    """Each environment's matrix at each of so many steps of two environments, numbered as they come.

    :param rollouts: steps before which a roll-out was learned from.
    :param begins: ``(step, environment)`` at which an episode begins.
    """
    state, stream, found, numbers = None, torch.Generator(), [], {}
    for step in range(steps):
        for environment in (one for at, one in begins if at == step):
            state = tree.clear(state, np.array([environment]))
        noise.rollout += step in rollouts
        state = noise.next_state(state, 2, stream)
        matrices = [tuple(matrix.flatten().tolist()) for matrix in state["exploration"]["matrix"]]
        found.append(tuple(numbers.setdefault(matrix, len(numbers) + 1) for matrix in matrices))
    return found


class TestStateDependentNoise:
    Z = torch.tensor([[3.0, 4.0], [0.0, 2.0]])

    @pytest.mark.parametrize(
        ("sigma", "variances"),
        [
            ([[1.0, 2.0], [0.5, 0.25]], [[9 + 16 / 4, 9 * 4 + 16 / 16], [4 / 4, 4 / 16]]),
            ([[2.0], [0.5]], [[9 * 4 + 16 / 4] * 2, [4 / 4] * 2]),  # one for all dimensions of actions
        ],
    )
    def test_the_variance_is_a_sum_over_features(self, sigma, variances):
        assert torch.allclose(noise_of(sigma)(self.Z).square(), torch.tensor(variances) + 1e-6)

    def test_noise_is_one_linear_function(self):
        noise, matrix = noise_of([[1.0, 2.0], [0.5, 0.25]]), torch.tensor([[[1.0, -1.0], [2.0, 4.0]]] * 2)
        # theta is [[1, -2], [1, 1]]
        assert torch.allclose(noise.explore(self.Z, matrix), torch.tensor([[7.0, -2.0], [2.0, 2.0]]))

    def test_noise_has_the_deviations_that_it_tells(self):
        noise, generator = noise_of([[1.0, 2.0], [0.5, 0.25]]), torch.Generator().manual_seed(0)
        matrix = torch.randn(20_000, 2, 2, generator=generator)
        units = noise.explore(self.Z[:1].expand(20_000, 2), matrix) / noise(self.Z[:1])
        assert units.mean(0).tolist() == pytest.approx([0, 0], abs=0.02)
        assert units.std(0).tolist() == pytest.approx([1, 1], abs=0.02)

    def test_the_derivative_of_the_log_likelihood(self):
        # arXiv:2005.05719, section 2: ((a - mu)^2 - s^2) / s^3 * z_i^2 sigma_ij / s; times sigma for its logarithm
        noise, act = noise_of([[1.0, 2.0], [0.5, 0.25]]), torch.tensor([[1.0, 2.0]])
        DiagonalNormal(torch.zeros(1, 2), noise(self.Z[:1])).log_prob(act).sum().backward()
        z, sigma, var = self.Z[0, :, None], noise.sigma().detach(), noise(self.Z[:1]).detach().square()
        wanted = (act.square() - var) / var.pow(1.5) * z.square() * sigma / var.sqrt() * sigma
        assert torch.allclose(noise.log_std.grad, wanted)

    @pytest.mark.parametrize("learn_features", [False, True])
    def test_gradients_reach_features_on_request(self, learn_features):
        z = self.Z.clone().requires_grad_()
        noise = noise_of([[1.0, 2.0], [0.5, 0.25]], learn_features=learn_features)
        noise(z).sum().backward()
        assert (z.grad is not None) is learn_features
        assert noise.log_std.grad.abs().min() > 0

    def test_expln(self):
        noise = StateDependentNoise(2, 2, use_expln=True)
        with torch.no_grad():
            noise.log_std.copy_(torch.tensor([[-100.0, -1.0], [0.0, 100.0]]))
        wanted = [0.0, math.exp(-1), 1.0, 1 + math.log(101)]
        assert noise.sigma().flatten().tolist() == pytest.approx(wanted)
        noise.sigma().sum().backward()
        assert noise.log_std.grad.flatten().tolist() == pytest.approx([0.0, math.exp(-1), 1.0, 1 / 101])

    @pytest.mark.parametrize(
        ("freq", "more", "matrices"),
        [
            (-1, {}, [(1, 2)] * 7),
            (1, {}, [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12), (13, 14)]),
            (3, {}, [(1, 2)] * 3 + [(3, 4)] * 3 + [(5, 6)]),
            (-1, {"begins": [(2, 1)]}, [(1, 2)] * 2 + [(1, 3)] * 5),
            (3, {"begins": [(2, 1)]}, [(1, 2)] * 2 + [(1, 3)] + [(4, 3)] * 2 + [(4, 5), (6, 5)]),
            (-1, {"rollouts": [4]}, [(1, 2)] * 4 + [(3, 4)] * 3),
            (3, {"rollouts": [4]}, [(1, 2)] * 3 + [(3, 4)] + [(5, 6)] * 3),
        ],
    )
    def test_when_matrices_are_drawn(self, freq, more, matrices):
        assert drawn(StateDependentNoise(2, 2, sample_freq=freq), 7, **more) == matrices

    def test_matrices_are_drawn_alike_by_collectors_of_parts(self):
        noise, streams = StateDependentNoise(2, 2), [torch.Generator().manual_seed(5) for _ in range(3)]
        whole = noise.next_state(None, 3, streams[0])
        again = noise.next_state(tree.clear(whole, np.array([2])), 3, streams[0])["exploration"]["matrix"]
        for stream, part in ((streams[1], [0, 0, 0]), (streams[2], [2, 2, 2])):  # those of others are copies
            own = noise.next_state(None, 3, stream)
            assert torch.equal(own["exploration"]["matrix"][part[0]], whole["exploration"]["matrix"][part[0]])
            own = tree.clear(tree.take(own, part), np.arange(3) if part[0] else np.array([], int))
            assert torch.equal(noise.next_state(own, 3, stream)["exploration"]["matrix"][part[0]], again[part[0]])
            assert torch.equal(stream.get_state(), streams[0].get_state())

    def test_matrices_are_standard_normal(self):
        matrix = StateDependentNoise(40, 5).next_state(None, 50, torch.Generator())["exploration"]["matrix"]
        assert matrix.mean().item() == pytest.approx(0, abs=0.03)
        assert matrix.std().item() == pytest.approx(1, abs=0.03)
        assert len(matrix.flatten(1).unique(dim=0)) == 50

    @pytest.mark.parametrize("freq", [0, -2])
    def test_a_frequency_out_of_range(self, freq):
        with pytest.raises(ValueError, match=f"sample_freq must be at least 1 step, or -1 .*, got {freq}"):
            StateDependentNoise(2, 2, sample_freq=freq)

    @pytest.mark.parametrize("options", [{"conditioned_sigma": True}, {"hidden_sizes": [3]}])
    def test_an_actor_with_other_deviations(self, options):
        with pytest.raises(ValueError, match="leave out conditioned_sigma, and give hidden layers to preprocess_net"):
            ActorProb(Net(4, hidden_sizes=[8]), 2, sde=StateDependentNoise, **options)

    def test_an_actor_that_explores(self):
        actor, obs = ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True, sde=StateDependentNoise), torch.randn(3, 4)
        (mean, std), state = actor(obs)
        assert state is None
        assert torch.equal(std, actor.sigma(actor.preprocess(obs)[0]))
        state = actor.sigma.next_state(None, 3, None)
        (again, _), after = actor(obs, state=state)
        assert torch.equal(again, mean)
        assert torch.equal(after["exploration"]["matrix"], state["exploration"]["matrix"])
        wanted = actor.sigma.explore(actor.preprocess(obs)[0], state["exploration"]["matrix"])
        assert torch.equal(after["exploration"]["noise"], wanted)

    def test_a_recurrent_actor_keeps_both_states(self):
        actor, obs = ActorProb(Recurrent(1, 4, 6, hidden_layer_size=5), 2, sde=StateDependentNoise), torch.randn(3, 4)
        _, plain = actor(obs)
        (mean, _), plain_after = actor(obs, state=plain)
        _, state = actor(obs, state=actor.sigma.next_state(None, 3, None))
        (own, _), after = actor(obs, state=actor.sigma.next_state(state, 3, None))
        assert torch.equal(own, mean)
        assert {*after} == {*plain_after, "exploration"}
        assert torch.equal(after["hidden"], plain_after["hidden"])

    def test_a_hidden_state_that_is_no_dict(self):
        with pytest.raises(ValueError, match="needs hidden states that are dicts, got a tuple"):
            StateDependentNoise(2, 2).next_state((torch.zeros(3),), 3, None)

    @pytest.mark.parametrize("sde", [None, StateDependentNoise])
    @pytest.mark.parametrize(("bias", "mean"), [(10.0, 2.0), (-10.0, -2.0), (1.5, 1.5)])
    def test_clipped_means(self, sde, bias, mean):
        actor = ActorProb(Net(4), 1, unbounded=True, clip_mean=2.0, sde=sde)
        nn.init.constant_(actor.mu.model[-1].bias, bias)
        assert actor(torch.zeros(1, 4))[0][0].item() == mean


class TestRecurrent:
    @pytest.mark.parametrize("conditioned", [False, True])
    def test_single_steps_equal_one_call(self, conditioned):
        actor = RecurrentActorProb(2, [4], [3], hidden_layer_size=5, conditioned_sigma=conditioned)
        steps, state = torch.randn(6, 7, 4), None
        for t in range(7):
            (mean, std), state = actor(steps[:, t], state)
        (mean_at_once, std_at_once), last = actor(steps)
        assert torch.allclose(mean, mean_at_once, atol=1e-6)
        assert torch.allclose(std, std_at_once, atol=1e-6)
        assert state["hidden"].shape == (6, 2, 5)
        for part in ("hidden", "cell"):
            assert torch.allclose(state[part], last[part], atol=1e-6)
            assert not state[part].requires_grad

    def test_bounds(self):
        (mean, std), _ = zeroed(RecurrentActorProb(1, [4], [2], conditioned_sigma=True), 50.0)(torch.zeros(1, 4))
        assert mean.tolist() == [[1.0, 1.0]]
        assert std.tolist() == [pytest.approx([np.exp(SIGMA_MAX)] * 2)]
        (mean, _), _ = zeroed(RecurrentActorProb(1, [4], [2], unbounded=True), 50.0)(torch.zeros(1, 4))
        assert mean.tolist() == [[50.0, 50.0]]

    def test_critic(self):
        critic = RecurrentCritic(1, [4], [2], hidden_layer_size=5)
        obs, act = np.random.rand(3, 6, 4), np.random.rand(3, 2)
        assert critic(obs, act).shape == (3, 1)
        assert not torch.equal(critic(obs, act), critic(obs, act + 1))
        assert not torch.equal(critic(obs, act), critic(obs[:, ::-1].copy(), act))
        assert RecurrentCritic(1, [4])(obs[:, 0]).shape == (3, 1)


def test_a_critic_on_the_features_of_an_actor():
    net = Net(4, hidden_sizes=[8])
    critic = Critic(net, preprocess_net_output_dim=8 + 2, apply_preprocess_net_to_obs_only=True)
    obs, act = torch.randn(3, 4), torch.randn(3, 2)
    assert torch.equal(critic(obs, act), critic.last(torch.cat([net(obs)[0], act], dim=1)))
    with pytest.raises(RuntimeError):
        Critic(net)(obs, act)  # this network knows of no actions
    values = Critic(net, apply_preprocess_net_to_obs_only=True)
    assert torch.equal(values(obs), values.last(net(obs)[0]))


def test_the_base_of_critics_has_no_values():
    with pytest.raises(TypeError):
        CriticBase()
    assert issubclass(Critic, CriticBase)


def test_a_recurrent_critic_says_its_shapes():
    critic = RecurrentCritic(1, [4], [2])
    assert (critic.state_shape, critic.action_shape) == ([4], [2])
