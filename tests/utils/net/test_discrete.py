import pytest
import torch
from torch import nn

from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.discrete import Actor, Critic, NoisyLinear


def test_the_actor_is_a_head_on_a_backbone():
    backbone = Net(4, hidden_sizes=[8])
    actor = Actor(backbone, 3, hidden_sizes=[5])
    probs, state = actor(torch.randn(6, 4), state="carried", info={})
    assert probs.sum(1).tolist() == pytest.approx([1.0] * 6)
    assert state == "carried"
    assert actor.get_preprocess_net() is backbone
    assert actor.get_output_dim() == 3
    logits = Actor(backbone, 3, softmax_output=False)
    assert torch.allclose(logits(torch.zeros(1, 4))[0], logits.last(backbone(torch.zeros(1, 4))[0]))


def test_backbones_can_be_shared():
    backbone = Net(4, hidden_sizes=[8])
    actor, critic = Actor(backbone, 3), Critic(backbone)
    critic(torch.ones(2, 4)).sum().backward()
    assert actor.preprocess.model.model[0].weight.grad is not None


def test_a_recurrent_backbone_hands_its_state_on():
    actor = Actor(Recurrent(1, 4, 6, hidden_layer_size=5), 3)
    _, state = actor(torch.randn(2, 4))
    assert state["hidden"].shape == (2, 1, 5)
    critic = Critic(Recurrent(1, 4, 6, hidden_layer_size=5))
    obs = torch.randn(2, 4)
    assert not torch.equal(critic(obs), critic(obs, state=state))


def test_critic_output_shapes():
    assert Critic(Net(4, hidden_sizes=[8]))(torch.zeros(6, 4)).shape == (6, 1)
    assert Critic(Net(4, hidden_sizes=[8]), last_size=3, hidden_sizes=[7])(torch.zeros(6, 4)).shape == (6, 3)


@pytest.mark.parametrize("head", [lambda *a, **k: Actor(a[0], 2, **k), Critic])
def test_the_size_of_the_features(head):
    with pytest.raises(ValueError, match="Flatten has no output_dim: give preprocess_net_output_dim"):
        head(nn.Flatten())
    with pytest.raises(ValueError, match="preprocess_net_output_dim is 9, but Net has 8 outputs"):
        head(Net(4, hidden_sizes=[8]), preprocess_net_output_dim=9)


def test_parameter_names_match_tianshou():
    backbone = ["preprocess.model.model.0.weight", "preprocess.model.model.0.bias"]
    head = ["last.model.0.weight", "last.model.0.bias"]
    assert [*Actor(Net(4, hidden_sizes=[8]), 2).state_dict()] == backbone + head
    assert [*Critic(Net(4, hidden_sizes=[8])).state_dict()] == backbone + head


def test_noise_by_hand():
    layer = NoisyLinear(2, 1)
    with torch.no_grad():
        layer.mu_W.copy_(torch.tensor([[1.0, 2.0]]))
        layer.sigma_W.copy_(torch.tensor([[10.0, 100.0]]))
        layer.mu_bias.fill_(3.0)
        layer.sigma_bias.fill_(1000.0)
    layer.eps_p.copy_(torch.tensor([0.5, -1.0]))
    layer.eps_q.fill_(2.0)
    x = torch.tensor([[1.0, 1.0]])
    assert layer(x).item() == (1 + 10 * 1) + (2 + 100 * -2) + (3 + 1000 * 2)
    assert layer.eval()(x).item() == 6.0


def test_how_noise_begins():
    layer = NoisyLinear(16, 400, noisy_std=0.2)
    assert layer.sigma_W.unique().tolist() == layer.sigma_bias.unique().tolist() == pytest.approx([0.2 / 4])
    for mu in (layer.mu_W, layer.mu_bias):
        assert 0.2 < mu.abs().max() <= 0.25
        assert abs(mu.mean()) < 0.05
    torch.manual_seed(0)
    p, q = torch.randn(16), torch.randn(400)
    torch.manual_seed(0)
    layer.sample()
    assert layer.eps_p.tolist() == pytest.approx((p.sign() * p.abs() ** 0.5).tolist())
    assert layer.eps_q.tolist() == pytest.approx((q.sign() * q.abs() ** 0.5).tolist())
    with torch.no_grad():
        layer.sigma_W.fill_(9.0)
    layer.reset()
    assert layer.sigma_W.unique().item() == pytest.approx(0.05)
    assert [*layer.state_dict()] == ["mu_W", "sigma_W", "mu_bias", "sigma_bias", "eps_p", "eps_q"]
