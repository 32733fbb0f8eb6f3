from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

from rlfast.utils.arguments.checks import bounded_count
from rlfast.utils.net._layers import (
    ArrayOrTensor,
    NetBase,
    TActionShape,
    TRecurrentState,
    dueling_streams,
    dueling_values,
    placed_like,
    size_of,
)
from rlfast.utils.tree import leaves, map_leaves

State = Mapping[str, Any]
_MOST_LAYERS = 10_000


class Steps:
    """Steps of sequences whose outputs a recurrent network computes.

    :param rows: the sequence of each step, int64 ``[N]``.
    :param columns: the number of the step in it, int64 ``[N]``.
    """

    def __init__(self, rows: torch.Tensor, columns: torch.Tensor) -> None:
        self.rows, self.columns = rows, columns
        self.used = False
        """Whether a network has used them."""

    def of(self, values: Any) -> Any:
        """Return the values of these steps.

        :param values: values ``[B, T, ...]``.
        :return: ``[N, ...]``.
        """
        self.used = True
        return values[self.rows, self.columns]


_steps: ContextVar[Steps | None] = ContextVar("steps", default=None)


@contextmanager
def outputs_of(steps: Steps) -> Iterator[None]:
    """Return a context in which recurrent networks compute the outputs of some steps, ``[N, ...]``, not of the last.

    :param steps: the steps.

    >>> net = Recurrent(layer_num=1, state_shape=4, action_shape=2, hidden_layer_size=8)
    >>> with outputs_of(Steps(rows=torch.tensor([0, 0, 2]), columns=torch.tensor([0, 1, 4]))):
    ...     net(torch.zeros(3, 5, 4))[0].shape
    torch.Size([3, 2])
    """
    before = _steps.get()
    try:  # at once: an interrupt leaves nothing behind
        _steps.set(steps)
        yield
    finally:
        _steps.set(before)


def each_step(encoder: Callable[[Any], torch.Tensor], obs: object) -> torch.Tensor:
    """Encode observations of one step, or in the context of :func:`outputs_of` those of each step of sequences.

    :param encoder: a function of observations ``[B, ...]`` that returns features ``[B, size]``.
    :param obs: observations ``[B, ...]``, or ``[B, T, ...]`` in that context: an array, a tensor, or a dict of these.
    :return: ``[B, size]`` or ``[B, T, size]``.
    """
    if torch.compiler.is_compiling() or _steps.get() is None:
        return encoder(obs)
    rows, steps = next(leaves(obs)).shape[:2]
    return encoder(map_leaves(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), obs)).reshape(rows, steps, -1)


def make_lstm(input_size: int, hidden_size: int, layer_num: int) -> nn.LSTM:
    """Make layers of long short-term memory that take the batch first.

    :raises TypeError: ``layer_num`` is no integer.
    :raises ValueError: there are too many layers, which torch would make one by one, or none.
    """
    layers = bounded_count("layer_num", layer_num, _MOST_LAYERS)
    return nn.LSTM(input_size, hidden_size, num_layers=layers, batch_first=True)


def lstm_features(
    lstm: nn.LSTM, obs: torch.Tensor, state: State | None
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Run an LSTM over the steps of each row.

    :param lstm: the LSTM, with ``batch_first``.
    :param obs: ``[B, size]`` for one step, ``[B, steps, size]`` for several.
    :param state: ``hidden`` and ``cell`` before the first step, arrays or tensors ``[B, layers, hidden_size]``; None
        for zeros.
    :return: the features of the last step, ``[B, hidden_size]``, or those of the steps of :func:`outputs_of`, ``[N,
        hidden_size]``; and the state after the last step, without gradient.
    :raises ValueError: ``state`` lacks ``hidden`` or ``cell``.
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
    chosen = _steps.get()
    return (out[:, -1] if chosen is None else chosen.of(out)), after


class Recurrent(NetBase[TRecurrentState]):
    """A long short-term memory (LSTM; Hochreiter and Schmidhuber 1997) between two linear layers.

    Its state is a dict of tensors whose first axis is the batch. Collectors keep it for each environment, store it with
    each transition under ``policy.hidden_state``, and reset it at the start of an episode.

    :param layer_num: the number of LSTM layers.
    :param state_shape: the shape of one observation; its elements are flattened.
    :param action_shape: the shape of one action, or the number of discrete actions: the size of the output.
    :param device: the initial device of the parameters. If they are moved, inputs are moved to their device.
    :param hidden_layer_size: the size of each LSTM layer. Default: 128.
    :param dueling_param: the arguments of two :class:`rlfast.utils.net.common.MLP` on the LSTM in place of the last
        linear layer, of the advantages (attribute ``Q``) and of the value (``V``); see
        :class:`rlfast.utils.net.common.Net`. Default: None, no dueling.

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
        dueling_param: tuple[dict[str, Any], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.nn = make_lstm(hidden_layer_size, hidden_layer_size, layer_num)
        self.fc1 = nn.Linear(size_of(state_shape), hidden_layer_size)
        self.output_dim = size_of(action_shape)
        if dueling_param is None:
            self.fc2 = nn.Linear(hidden_layer_size, self.output_dim)
        self.Q, self.V = dueling_streams(dueling_param, hidden_layer_size, self.output_dim, 1)
        self.to(device)

    def forward(
        self, obs: ArrayOrTensor, state: State | None = None, **kwargs: Any
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute the output after the last step.

        :param obs: ``[batch, size]`` for one step, as when acting; ``[batch, steps, size]`` for a stack of frames.
        :param state: see :func:`lstm_features`.
        :return: the output ``[batch, actions]``, and the next state.
        """
        x = self.fc1(placed_like(self.fc1, obs))
        features, after = lstm_features(self.nn, x, state)
        if self.Q is None or self.V is None:
            return self.fc2(features), after
        return dueling_values(self.Q(features), self.V(features)), after
