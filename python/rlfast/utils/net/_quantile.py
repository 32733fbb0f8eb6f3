"""Critics of discrete actions: of values, and of quantiles of returns at levels that are drawn or proposed."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from rlfast.utils.net._layers import MLP, ArrayOrTensor, Placed, TActionShape, dtype_of, size_of
from rlfast.utils.net._shared import features_of
from rlfast.utils.net.common import get_output_dim


class Fractions(NamedTuple):
    """Levels of quantiles that a :class:`FractionProposalNetwork` proposes."""

    taus: torch.Tensor
    """The ends of N intervals, rising from 0 to 1, ``[batch, N + 1]``."""
    tau_hats: torch.Tensor
    """Their middles, ``[batch, N]``, without gradient."""
    entropies: torch.Tensor
    """Of the widths as probabilities, ``[batch]``."""


class Critic(Placed):
    """A critic: it computes the value of an observation, or the values of all actions for it.

    :param preprocess_net: called as ``preprocess_net(obs, state)``; returns features ``[batch, size]`` and the next
        hidden state.
    :param hidden_sizes: the sizes of hidden layers between features and output. Default: none.
    :param last_size: the size of the output: 1 (default), or the number of actions.
    :param preprocess_net_output_dim: the size of the features, if ``preprocess_net`` has no ``output_dim``.
    :param device: the initial device of the head.

    >>> from rlfast.utils.net.common import Net
    >>> Critic(Net(4, hidden_sizes=[8]))(torch.zeros(3, 4)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        preprocess_net: nn.Module,
        hidden_sizes: Sequence[int] = (),
        last_size: int = 1,
        preprocess_net_output_dim: int | None = None,
        device: str | int | torch.device = "cpu",
    ) -> None:
        super().__init__()
        self.preprocess = preprocess_net
        self.output_dim = last_size
        self.last = MLP(
            get_output_dim(preprocess_net, preprocess_net_output_dim), last_size, hidden_sizes, device=device
        )

    def forward(self, obs: ArrayOrTensor, **kwargs: Any) -> torch.Tensor:
        """Compute values.

        :param obs: ``[batch, ...]``, array or tensor.
        :param kwargs: ``state``, the hidden state of ``preprocess_net``; others are ignored.
        :return: values ``[batch, last_size]``.
        """
        features, _ = features_of(self.preprocess, obs, kwargs.get("state"))
        value: torch.Tensor = self.last(features)
        return value


class CosineEmbeddingNetwork(nn.Module):
    r"""Makes features of a level of quantiles (Dabney et al., arXiv:1806.06923, equation 4).

    .. math:: \phi_j(\tau) = \mathrm{ReLU}\Bigl(\sum_i \cos(\pi i \tau)\, w_{ij} + b_j\Bigr)

    with i from 1 to ``num_cosines``; the paper begins with 0, whose cosine is always 1.

    :param num_cosines: the number of cosines.
    :param embedding_dim: the number of features.

    >>> CosineEmbeddingNetwork(64, 8)(torch.rand(3, 5)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, num_cosines: int, embedding_dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(num_cosines, embedding_dim), nn.ReLU())
        self.num_cosines = num_cosines
        self.embedding_dim = embedding_dim

    def forward(self, taus: torch.Tensor) -> torch.Tensor:
        """Compute the features.

        :param taus: levels in [0, 1], ``[batch, N]``.
        :return: ``[batch, N, embedding_dim]``.
        """
        numbers = torch.arange(1, self.num_cosines + 1, dtype=taus.dtype, device=taus.device)
        cosines = torch.cos(math.pi * numbers * taus[..., None])
        features: torch.Tensor = self.net(cosines.to(dtype_of(self.net)))  # levels may be more exact than the network
        return features


class ImplicitQuantileNetwork(Critic):
    """Gives the quantiles of the return of each action at levels that are drawn (arXiv:1806.06923).

    :param preprocess_net: called as ``preprocess_net(obs, state)``; returns features ``[batch, size]`` and the next
        hidden state.
    :param action_shape: the number of actions.
    :param hidden_sizes: the sizes of hidden layers between features and output. Default: none.
    :param num_cosines: see :class:`CosineEmbeddingNetwork`. Default: 64.
    :param preprocess_net_output_dim: the size of the features, if ``preprocess_net`` has no ``output_dim``.
    :param device: the initial device of the layers after ``preprocess_net``.

    >>> from rlfast.utils.net.common import Net
    >>> (quantiles, taus), state = ImplicitQuantileNetwork(Net(4, hidden_sizes=[8]), 2)(torch.zeros(3, 4), 5)
    >>> quantiles.shape, taus.shape
    (torch.Size([3, 2, 5]), torch.Size([3, 5]))
    """

    def __init__(
        self,
        preprocess_net: nn.Module,
        action_shape: TActionShape,
        hidden_sizes: Sequence[int] = (),
        num_cosines: int = 64,
        preprocess_net_output_dim: int | None = None,
        device: str | int | torch.device = "cpu",
    ) -> None:
        super().__init__(preprocess_net, hidden_sizes, size_of(action_shape), preprocess_net_output_dim, device)
        self.input_dim = get_output_dim(preprocess_net, preprocess_net_output_dim)
        self.embed_model = CosineEmbeddingNetwork(num_cosines, self.input_dim).to(device)

    def forward(  # type: ignore[override]
        self, obs: ArrayOrTensor, sample_size: int, **kwargs: Any
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], Any]:
        """Compute quantiles.

        :param obs: observations ``[batch, ...]``.
        :param sample_size: how many levels to draw, from torch's own stream.
        :param kwargs: ``state``, the hidden state of ``preprocess_net``; ``taus``, levels ``[batch, sample_size]`` to
            take in place of drawn ones; others are ignored.
        :return: the quantiles ``[batch, actions, sample_size]`` with their levels, and the next hidden state.
        """
        features, hidden = features_of(self.preprocess, obs, kwargs.get("state"))
        taus = kwargs.get("taus")
        if taus is None:
            taus = torch.rand(len(features), sample_size, dtype=features.dtype, device=features.device)
        return (self.quantiles(features, taus), taus), hidden

    def quantiles(self, features: torch.Tensor, taus: torch.Tensor) -> torch.Tensor:
        """Compute quantiles of returns at some levels.

        :param features: features of observations, ``[batch, size]``.
        :param taus: levels, each in [0, 1], ``[batch, N]``.
        :return: quantiles, ``[batch, actions, N]``.
        """
        embedded = features[:, None] * self.embed_model(taus)
        out: torch.Tensor = self.last(embedded.flatten(0, 1))
        return out.view(*taus.shape, -1).transpose(1, 2)


class FractionProposalNetwork(nn.Module):
    """Proposes the levels of quantiles of :class:`FullQuantileFunction` (Yang et al., arXiv:1911.02140, section 3.3).

    :param num_fractions: N, the number of intervals between the levels.
    :param embedding_dim: the number of features of an observation.

    >>> FractionProposalNetwork(4, 8)(torch.zeros(1, 8))[0].tolist()
    [[0.0, 0.25, 0.5, 0.75, 1.0]]
    """

    def __init__(self, num_fractions: int, embedding_dim: int) -> None:
        super().__init__()
        self.net = nn.Linear(embedding_dim, num_fractions)
        nn.init.xavier_uniform_(self.net.weight, gain=0.01)
        nn.init.zeros_(self.net.bias)
        self.num_fractions = num_fractions
        self.embedding_dim = embedding_dim

    def forward(self, obs_embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Propose levels.

        :param obs_embeddings: features ``[batch, embedding_dim]``.
        :return: see :class:`Fractions`.
        """
        log_width = self.net(obs_embeddings.to(dtype_of(self.net))).log_softmax(dim=1)
        width = log_width.exp()
        taus = functional.pad(width.cumsum(dim=1), (1, 0))
        tau_hats = (taus[:, :-1] + taus[:, 1:]).detach() / 2
        return taus, tau_hats, -(width * log_width).sum(dim=1)


class FullQuantileFunction(ImplicitQuantileNetwork):
    """Gives the quantiles of the return of each action at levels that are proposed (arXiv:1911.02140).

    Its parameters are those of :class:`ImplicitQuantileNetwork`.

    >>> from rlfast.utils.net.common import Net
    >>> network, proposals = FullQuantileFunction(Net(4, hidden_sizes=[8]), 2), FractionProposalNetwork(5, 8)
    >>> (quantiles, fractions, quantiles_tau), state = network(torch.zeros(3, 4), proposals)
    >>> quantiles.shape, fractions.taus.shape, quantiles_tau.shape
    (torch.Size([3, 2, 5]), torch.Size([3, 6]), torch.Size([3, 2, 4]))
    """

    def forward(  # type: ignore[override]
        self, obs: ArrayOrTensor, propose_model: nn.Module, fractions: Any = None, **kwargs: Any
    ) -> tuple[tuple[torch.Tensor, Any, torch.Tensor | None], Any]:
        """Compute quantiles.

        :param obs: observations ``[batch, ...]``.
        :param propose_model: a :class:`FractionProposalNetwork`, asked if ``fractions`` is None.
        :param fractions: has ``taus`` and ``tau_hats``, as :class:`Fractions`.
        :param kwargs: ``state``, the hidden state of ``preprocess_net``; others are ignored.
        :return: the quantiles at ``tau_hats``, ``[batch, actions, N]``; the fractions; in training mode the quantiles
            at the ``taus`` between 0 and 1, ``[batch, actions, N - 1]``, without gradient, else None; and the next
            hidden state.
        """
        features, hidden = features_of(self.preprocess, obs, kwargs.get("state"))
        if fractions is None:
            fractions = Fractions(*propose_model(features.detach()))
        inner = None
        if self.training:
            with torch.no_grad():
                inner = self.quantiles(features, fractions.taus[:, 1:-1])
        return (self.quantiles(features, fractions.tau_hats), fractions, inner), hidden
