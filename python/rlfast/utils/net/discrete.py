"""Actors and critics for discrete actions: heads on a network that makes features of observations."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from rlfast.utils.net._layers import Placed
from rlfast.utils.net._shared import features_of
from rlfast.utils.net.common import MLP, BaseActor, TActionShape, get_output_dim, size_of


class Actor(BaseActor):
    """A number for each action: its probability, or, without softmax, its logit or value.

    :param preprocess_net: called as ``preprocess_net(obs, state)``; gives features ``[batch, size]`` and the next
        hidden state.
    :param action_shape: the number of actions (for several choices, the sum of theirs).
    :param hidden_sizes: hidden layers between features and output. Default: none.
    :param softmax_output: whether to end with a softmax. Default: True.
    :param preprocess_net_output_dim: size of the features, where ``preprocess_net`` has no ``output_dim``.
    :param device: where the head is made.

    >>> from rlfast.utils.net.common import Net
    >>> probs, state = Actor(Net(4, hidden_sizes=[8]), 2)(torch.zeros(3, 4))
    >>> probs.sum(1).tolist()
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

    def forward(
        self,
        obs: NDArray[Any] | torch.Tensor,
        state: Any = None,
        info: Any = None,  # noqa: ARG002 (the policies' interface; there is nothing here to use)
    ) -> tuple[torch.Tensor, Any]:
        """Compute the output, ``[batch, actions]``, and the next hidden state."""
        features, hidden = features_of(self.preprocess, obs, state)
        logits = self.last(features)
        return (logits.softmax(-1) if self.softmax_output else logits), hidden


class Critic(Placed):
    """The value of an observation, or of each action there.

    :param preprocess_net: see :class:`Actor`.
    :param hidden_sizes: hidden layers between features and output. Default: none.
    :param last_size: size of the output. Default: 1.
    :param preprocess_net_output_dim: see :class:`Actor`.
    :param device: where the head is made.

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

    def forward(self, obs: NDArray[Any] | torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """Compute the output, ``[batch, last_size]``.

        :param kwargs: ``state``, the hidden state of ``preprocess_net``.
        """
        features, _ = features_of(self.preprocess, obs, kwargs.get("state"))
        value: torch.Tensor = self.last(features)
        return value


class IntrinsicCuriosityModule(Placed):
    """Predicts the features of the next observation, and the action that led there (arXiv:1705.05363).

    :param feature_net: makes features ``[batch, feature_dim]`` of observations.
    :param feature_dim: their number.
    :param action_dim: the number of actions.
    :param hidden_sizes: hidden layers of both predictions. Default: none.
    :param device: where the predictions are made.

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
        self,
        s1: NDArray[Any] | torch.Tensor,
        act: NDArray[Any] | torch.Tensor,
        s2: NDArray[Any] | torch.Tensor,
        **kwargs: Any,  # noqa: ARG002 (Tianshou's signature)
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute half the squared error of the features, ``[batch]``, and logits of the actions, ``[batch, actions]``.

        :param s1: observations.
        :param act: actions, whole numbers from 0.
        :param s2: the observations after them.
        """
        before, after = (
            self.feature_net(torch.as_tensor(obs, dtype=torch.float32, device=self.device)) for obs in (s1, s2)
        )
        actions = torch.as_tensor(act, dtype=torch.long, device=self.device).flatten()
        chosen = functional.one_hot(actions, num_classes=self.action_dim)
        predicted = self.forward_model(torch.cat([before, chosen], dim=1))
        error = 0.5 * (predicted - after).square().sum(1)
        return error, self.inverse_model(torch.cat([before, after], dim=1))
