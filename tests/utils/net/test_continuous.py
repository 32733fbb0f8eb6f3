import numpy as np
import pytest
import torch
from torch import nn

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
