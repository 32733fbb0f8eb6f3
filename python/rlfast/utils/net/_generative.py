"""The networks of BCQ: an autoencoder that generates actions like those of the data, and one that moves actions."""

import torch
from torch import nn

from rlfast.utils.net._layers import Placed


class Perturbation(Placed):
    """A network that moves actions a little, within their bounds (arXiv:1812.02900, section 4.1).

    :param preprocess_net: called as ``preprocess_net(input)`` with observations and actions concatenated, ``[B, state +
        action]``; returns ``[B, action]``, alone or with a hidden state, which is not used.
    :param max_action: actions are in [-max_action, max_action].
    :param device: has no effect: the network stays where ``preprocess_net`` is.
    :param phi: the largest movement, as a part of ``max_action``. Default: 0.05.

    >>> from rlfast.utils.net.common import MLP, Net
    >>> net = Perturbation(Net(4 + 2, 2, hidden_sizes=[8]), max_action=1.0)
    >>> moved = net(torch.zeros(3, 4), torch.zeros(3, 2))
    >>> bool((moved.abs() <= 0.05).all())
    True
    """

    def __init__(
        self, preprocess_net: nn.Module, max_action: float, device: str | int | torch.device = "cpu", phi: float = 0.05
    ) -> None:
        super().__init__()
        self.preprocess_net, self.max_action, self.phi = preprocess_net, max_action, phi

    def forward(self, state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Return moved actions.

        :param state: observations, ``[B, state]``.
        :param action: actions, ``[B, action]``.
        :return: ``[B, action]``.
        """
        output = self.preprocess_net(torch.cat([state, action], -1))
        logits = output[0] if isinstance(output, tuple) else output
        moved = action + self.phi * self.max_action * torch.tanh(logits)
        return moved.clamp(-self.max_action, self.max_action)


class VAE(Placed):
    """A variational autoencoder of the actions at an observation (arXiv:1812.02900, section 4.1; arXiv:1312.6114).

    :param encoder: a network from ``state + action`` numbers to ``hidden_dim`` features.
    :param decoder: a network from ``state + latent_dim`` numbers to an action.
    :param hidden_dim: number of features.
    :param latent_dim: number of latent numbers.
    :param max_action: actions are in [-max_action, max_action].
    :param device: the initial device of the layers that are made here.

    >>> from rlfast.utils.net.common import MLP
    >>> vae = VAE(MLP(4 + 2, hidden_sizes=[8]), MLP(4 + 3, 2, [8]), hidden_dim=8, latent_dim=3, max_action=1.0)
    >>> reconstruction, mean, std = vae(torch.zeros(5, 4), torch.zeros(5, 2))
    >>> reconstruction.shape, mean.shape, vae.decode(torch.zeros(5, 4)).shape
    (torch.Size([5, 2]), torch.Size([5, 3]), torch.Size([5, 2]))
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        hidden_dim: int,
        latent_dim: int,
        max_action: float,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.mean = nn.Linear(hidden_dim, latent_dim, device=device)
        self.log_std = nn.Linear(hidden_dim, latent_dim, device=device)
        self.decoder, self.max_action, self.latent_dim = decoder, max_action, latent_dim

    def forward(
        self, state: torch.Tensor, action: torch.Tensor, noise: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Encode and decode actions.

        :param state: observations, ``[B, state]``.
        :param action: actions, ``[B, action]``.
        :param noise: standard normal numbers, ``[B, latent_dim]``; None (default) draws them.
        :return: reconstructed actions, and means and deviations of their latent numbers, ``[B, latent_dim]``.
        """
        features = self.encoder(torch.cat([state, action], -1))
        mean = self.mean(features)
        std = self.log_std(features).clamp(-4, 15).exp()  # as the paper's code bounds it
        latent = mean + std * (torch.randn_like(std) if noise is None else noise)
        return self.decode(state, latent), mean, std

    def decode(self, state: torch.Tensor, latent_z: torch.Tensor | None = None) -> torch.Tensor:
        """Generate actions.

        :param state: observations, ``[B, state]``.
        :param latent_z: latent numbers, ``[B, latent_dim]``; None (default) draws standard normal ones, clipped to
            [-0.5, 0.5].
        :return: actions, ``[B, action]``.
        """
        if latent_z is None:
            shape = (*state.shape[:-1], self.latent_dim)
            latent_z = torch.randn(shape, dtype=state.dtype, device=state.device).clamp(-0.5, 0.5)
        return self.max_action * torch.tanh(self.decoder(torch.cat([state, latent_z], -1)))
