"""Actors and critics for discrete actions: heads on a network that computes features of observations."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from rlfast._core import BatchBase
from rlfast.utils.net._layers import ArrayOrTensor, Placed, without_mask
from rlfast.utils.net._quantile import (
    CosineEmbeddingNetwork,
    Critic,
    FractionProposalNetwork,
    Fractions,
    FullQuantileFunction,
    ImplicitQuantileNetwork,
)
from rlfast.utils.net._shared import features_of
from rlfast.utils.net.common import MLP, BaseActor, TActionShape, get_output_dim, size_of
from rlfast.utils.torch_private.products import linear

__all__ = [
    "MLP",
    "Actor",
    "CosineEmbeddingNetwork",
    "Critic",
    "FractionProposalNetwork",
    "Fractions",
    "FullQuantileFunction",
    "ImplicitQuantileNetwork",
    "IntrinsicCuriosityModule",
    "NoisyLinear",
    "scaled_noise",
]


class Actor(BaseActor):
    """An actor that computes one number for each action: a probability, or, without softmax, a logit or a value.

    :param preprocess_net: called as ``preprocess_net(obs, state)``; returns features ``[batch, size]`` and the next
        hidden state.
    :param action_shape: the number of actions; for a ``MultiDiscrete`` space, the sum over its choices.
    :param hidden_sizes: the sizes of hidden layers between features and output. Default: none.
    :param softmax_output: whether to end with a softmax. Default: True.
    :param preprocess_net_output_dim: the size of the features, if ``preprocess_net`` has no ``output_dim``.
    :param device: the initial device of the head.

    >>> from rlfast.utils.net.common import Net
    >>> probs, state = Actor(Net(4, hidden_sizes=[8]), 2)(torch.zeros(3, 4))
    >>> probs.sum(1).round(decimals=4).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        preprocess_net: nn.Module,
        action_shape: TActionShape,
        hidden_sizes: Sequence[int] = (),
        softmax_output: bool = True,
        preprocess_net_output_dim: int | None = None,
        device: str | int | torch.device = "cpu",
    ) -> None:
        super().__init__()
        self.preprocess = preprocess_net
        self.output_dim = size_of(action_shape)
        features = get_output_dim(preprocess_net, preprocess_net_output_dim)
        self.last = MLP(features, self.output_dim, hidden_sizes, device=device)
        self.softmax_output = softmax_output

    def forward(self, obs: ArrayOrTensor, state: object = None, info: object = None) -> tuple[torch.Tensor, Any]:
        """Compute the output.

        :param obs: ``[batch, ...]``, array or tensor.
        :param state: the hidden state of ``preprocess_net``.
        :param info: ignored.
        :return: the output ``[batch, actions]``, and the next hidden state.
        """
        features, hidden = features_of(self.preprocess, obs, state)
        logits = self.last(features)
        return (logits.softmax(-1) if self.softmax_output else logits), hidden


def scaled_noise(normal: torch.Tensor) -> torch.Tensor:
    r"""Scale normal numbers as the factors of noise are, :math:`\operatorname{sgn}(x) \sqrt{|x|}`.

    (Fortunato et al., arXiv:1706.10295, section 3.)

    :param normal: numbers of a standard normal distribution.
    :return: the scaled numbers, of the same shape.

    >>> scaled_noise(torch.tensor([-4.0, 0.25])).tolist()
    [-2.0, 0.5]
    """
    return normal.sign() * normal.abs().sqrt()


class NoisyLinear(nn.Module):
    r"""A linear layer with noise on its weights, which learns how much (Fortunato et al., arXiv:1706.10295).

    .. math::
        y = (\mu^w + \sigma^w \odot f(\epsilon^q) f(\epsilon^p)^\top)\, x + \mu^b + \sigma^b \odot f(\epsilon^q)

    with f of :func:`scaled_noise` and one number of noise for each input and output (equations 10 and 11). The noise
    stays until :meth:`sample` is called; in evaluation mode there is none.

    :param in_features: the number of inputs.
    :param out_features: the number of outputs.
    :param noisy_std: :math:`\sigma_0`: each :math:`\sigma` begins at this over the root of ``in_features``. Default:
        0.5.

    >>> layer = NoisyLinear(4, 2).eval()
    >>> torch.equal(layer(torch.ones(1, 4))[0], layer.mu_W.sum(1) + layer.mu_bias)
    True
    """

    eps_p: torch.Tensor
    eps_q: torch.Tensor

    def __init__(self, in_features: int, out_features: int, noisy_std: float = 0.5) -> None:
        super().__init__()
        self.mu_W = nn.Parameter(torch.empty(out_features, in_features))
        self.sigma_W = nn.Parameter(torch.empty(out_features, in_features))
        self.mu_bias = nn.Parameter(torch.empty(out_features))
        self.sigma_bias = nn.Parameter(torch.empty(out_features))
        self.register_buffer("eps_p", torch.empty(in_features))
        self.register_buffer("eps_q", torch.empty(out_features))
        self.in_features = in_features
        self.out_features = out_features
        self.sigma = noisy_std
        self.reset()
        self.sample()

    @torch.no_grad()
    def reset(self) -> None:
        """Draw new weights, and set how much noise there is back to what it was at the start (section 3.2)."""
        bound = self.in_features**-0.5
        for mu, sigma in ((self.mu_W, self.sigma_W), (self.mu_bias, self.sigma_bias)):
            mu.uniform_(-bound, bound)
            sigma.fill_(self.sigma * bound)

    def f(self, x: torch.Tensor) -> torch.Tensor:
        """Draw noise, as many numbers as ``x`` has, on its device.

        :param x: a vector, of which only the length, the dtype and the device count.
        :return: noise of the same shape.
        """
        return scaled_noise(torch.randn(x.size(0), device=x.device, dtype=x.dtype))

    def sample(self) -> None:
        """Draw new noise, from torch's own stream."""
        self.eps_p.copy_(self.f(self.eps_p))
        self.eps_q.copy_(self.f(self.eps_q))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the output.

        :param x: ``[batch, in_features]``.
        :return: ``[batch, out_features]``.
        """
        if not self.training:
            return linear(x, self.mu_W, self.mu_bias)
        weight = torch.addcmul(self.mu_W, self.sigma_W, torch.outer(self.eps_q, self.eps_p))
        return linear(x, weight, torch.addcmul(self.mu_bias, self.sigma_bias, self.eps_q))


class IntrinsicCuriosityModule(Placed):
    """Predicts the features of the next observation, and the action that led to it (arXiv:1705.05363).

    :param feature_net: computes features ``[batch, feature_dim]`` of observations.
    :param feature_dim: the number of features.
    :param action_dim: the number of actions.
    :param hidden_sizes: the sizes of hidden layers of both models. Default: none.
    :param device: the initial device of both models.

    >>> module = IntrinsicCuriosityModule(nn.Linear(4, 8), 8, 2)
    >>> error, logits = module(torch.zeros(3, 4), torch.ones(3), torch.zeros(3, 4))
    >>> error.shape, logits.shape
    (torch.Size([3]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        feature_net: nn.Module,
        feature_dim: int,
        action_dim: int,
        hidden_sizes: Sequence[int] = (),
        device: str | int | torch.device = "cpu",
    ) -> None:
        super().__init__()
        feature_dim, action_dim = int(feature_dim), int(action_dim)
        self.feature_net = feature_net
        self.forward_model = MLP(feature_dim + action_dim, feature_dim, hidden_sizes, device=device)
        self.inverse_model = MLP(feature_dim * 2, action_dim, hidden_sizes, device=device)
        self.feature_dim = feature_dim
        self.action_dim = action_dim

    def forward(
        self, s1: ArrayOrTensor, act: ArrayOrTensor, s2: ArrayOrTensor, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the prediction error of the features, and predict the actions.

        :param s1: observations ``[batch, ...]``; a batch of them, such as of a dict space, goes to the ``feature_net``
            as it is.
        :param act: actions ``[batch]``, integers from 0.
        :param s2: next observations ``[batch, ...]``.
        :return: half the squared error of the features, ``[batch]``, and logits of the actions, ``[batch, actions]``.
        """
        before, after = (self.feature_net(self._input(obs)) for obs in (s1, s2))
        actions = torch.as_tensor(act, dtype=torch.long, device=self.device).flatten()
        chosen = functional.one_hot(actions, num_classes=self.action_dim)
        predicted = self.forward_model(torch.cat([before, chosen], dim=1))
        error = 0.5 * (predicted - after).square().sum(1)  # equation 5
        return error, self.inverse_model(torch.cat([before, after], dim=1))

    def _input(self, obs: object) -> Any:
        obs = without_mask(obs)
        if isinstance(obs, BatchBase):
            return obs
        return torch.as_tensor(obs, dtype=torch.float32, device=self.device)
