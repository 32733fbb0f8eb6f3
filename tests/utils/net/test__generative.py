import pytest
import torch

from rlfast.utils.net.common import MLP, Net
from rlfast.utils.net.continuous import VAE, Perturbation


def autoencoder():
    torch.manual_seed(0)
    return VAE(MLP(4 + 2, hidden_sizes=[8]), MLP(4 + 3, 2, [8]), hidden_dim=8, latent_dim=3, max_action=2.0)


def test_actions_are_moved_by_a_part_of_their_bound():
    net = Perturbation(Net(4 + 2, 2, hidden_sizes=[8]), max_action=2.0, phi=0.1)
    with torch.no_grad():
        net.preprocess_net.model.model[-1].bias.fill_(100.0)  # the largest movement
    moved = net(torch.zeros(1, 4), torch.tensor([[0.5, 1.9]]))
    assert moved.tolist()[0] == pytest.approx([0.7, 2.0])  # and no further than the bound


def test_each_action_is_moved_by_its_own_output():
    torch.manual_seed(0)
    obs, act, net = torch.randn(5, 4), torch.zeros(5, 2), Perturbation(MLP(4 + 2, 2, [8]), max_action=1.0)
    alone = torch.cat([net(obs[k : k + 1], act[k : k + 1]) for k in range(5)])
    assert torch.allclose(net(obs, act), alone)
    assert not torch.allclose(alone[0], alone[1])


def test_vae_decodes_mean_and_noise():
    vae, obs, act = autoencoder(), torch.randn(5, 4), torch.randn(5, 2)
    noise = torch.randn(5, 3)
    reconstruction, mean, std = vae(obs, act, noise)
    assert mean.shape == std.shape == (5, 3)
    assert torch.equal(reconstruction, vae.decode(obs, mean + std * noise))
    assert (reconstruction.abs() <= 2.0).all()
    assert not torch.equal(vae(obs, act)[0], vae(obs, act)[0])  # noise of its own


def test_deviations_are_bounded():
    vae = autoencoder()
    for bias, bound in ((100.0, 15.0), (-100.0, -4.0)):
        torch.nn.init.constant_(vae.log_std.bias, bias)
        _, _, std = vae(torch.zeros(1, 4), torch.zeros(1, 2))
        assert std.log().tolist()[0] == pytest.approx([bound] * 3)


def test_generated_actions_are_of_clipped_numbers():
    vae, obs = autoencoder(), torch.zeros(1000, 4)
    torch.manual_seed(1)
    latent = torch.randn(1000, 3).clamp(-0.5, 0.5)
    torch.manual_seed(1)
    assert torch.equal(vae.decode(obs), vae.decode(obs, latent))
