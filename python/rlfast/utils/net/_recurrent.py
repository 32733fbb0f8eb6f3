from collections.abc import Mapping, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.utils.net._layers import NetBase, TActionShape, TRecurrentState, placed_like, size_of

State = Mapping[str, Any]


def lstm_features(
    lstm: nn.LSTM, obs: torch.Tensor, state: State | None
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Run over the steps of each row, and give the features of the last.

    :param lstm: with ``batch_first``.
    :param obs: ``[B, size]`` for one step, ``[B, steps, size]`` for several.
    :param state: ``hidden`` and ``cell`` before the first step, each ``[B, layers, hidden_size]``, arrays or tensors;
        None for zeros.
    :return: features ``[B, hidden_size]``, and the state after the last step, without gradient.
    :raises ValueError: if the state has not these two parts.
    """
    steps = obs[:, None] if obs.dim() == 2 else obs
    if state is None:
        out, (hidden, cell) = lstm(steps)
    else:
        missing = {"hidden", "cell"} - set(state.keys())
        if missing:
            raise ValueError(f"the state of a recurrent network needs hidden and cell, got {sorted(state.keys())}")
        before = tuple(
            torch.as_tensor(state[name], dtype=steps.dtype, device=steps.device).transpose(0, 1).contiguous()
            for name in ("hidden", "cell")
        )
        out, (hidden, cell) = lstm(steps, before)
    after = {"hidden": hidden.transpose(0, 1).detach(), "cell": cell.transpose(0, 1).detach()}
    return out[:, -1], after


class Recurrent(NetBase[TRecurrentState]):
    """Long short-term memory (Hochreiter and Schmidhuber 1997) between two linear layers.

    Its state is a dict of tensors with the batch first, which collectors keep for each environment, store with each
    transition under ``policy.hidden_state`` and reset at the start of an episode.

    :param layer_num: layers of memory.
    :param state_shape: of one observation; its elements are flattened.
    :param action_shape: of one action, or the number of discrete actions: the output's size.
    :param device: where the parameters are made. They may move later: the input follows them.
    :param hidden_layer_size: size of each layer of memory. Default: 128.

    >>> net = Recurrent(layer_num=1, state_shape=4, action_shape=2, hidden_layer_size=8)
    >>> logits, state = net(torch.zeros(3, 5, 4))  # 5 steps
    >>> logits.shape, state["hidden"].shape
    (torch.Size([3, 2]), torch.Size([3, 1, 8]))
    """

    def __init__(
        self,
        layer_num: int,
        state_shape: int | Sequence[int],
        action_shape: TActionShape,
        device: str | int | torch.device = "cpu",
        hidden_layer_size: int = 128,
    ) -> None:
        super().__init__()
        self.nn = nn.LSTM(hidden_layer_size, hidden_layer_size, num_layers=layer_num, batch_first=True)
        self.fc1 = nn.Linear(size_of(state_shape), hidden_layer_size)
        self.fc2 = nn.Linear(hidden_layer_size, size_of(action_shape))
        self.output_dim = size_of(action_shape)
        self.to(device)

    def forward(
        self,
        obs: NDArray[Any] | torch.Tensor,
        state: State | None = None,
        **kwargs: Any,  # noqa: ARG002 (the policies' interface; there is nothing here to use)
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute the output after the last step.

        :param obs: ``[batch, size]`` for one step, as while acting; ``[batch, steps, size]`` for a stack of frames.
        :param state: see :func:`lstm_features`.
        :return: ``[batch, actions]``, and the next state.
        """
        x = self.fc1(placed_like(self.fc1, obs))
        features, after = lstm_features(self.nn, x, state)
        return self.fc2(features), after
