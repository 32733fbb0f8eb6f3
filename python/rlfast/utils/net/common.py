import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

ModuleType: TypeAlias = type[nn.Module]
ArgsType: TypeAlias = tuple[Any, ...] | dict[str, Any] | Sequence[tuple[Any, ...]] | Sequence[dict[str, Any]]
TActionShape: TypeAlias = Sequence[int] | int | np.int64
TLinearLayer: TypeAlias = Callable[[int, int], nn.Module]


def miniblock(
    input_size: int,
    output_size: int = 0,
    norm_layer: ModuleType | None = None,
    norm_args: tuple[Any, ...] | dict[str, Any] | None = None,
    activation: ModuleType | None = None,
    act_args: tuple[Any, ...] | dict[str, Any] | None = None,
    linear_layer: TLinearLayer = nn.Linear,
) -> list[nn.Module]:
    """Make one layer: linear, then normalization and activation where given.

    :param norm_args: further arguments of ``norm_layer`` after the size, by place (tuple) or by name (dict).
    :param act_args: arguments of ``activation``, likewise.
    """
    layers: list[nn.Module] = [linear_layer(input_size, output_size)]
    if norm_layer is not None:
        layers.append(_construct(norm_layer, (output_size,), norm_args))
    if activation is not None:
        layers.append(_construct(activation, (), act_args))
    return layers


def _construct(kind: ModuleType, first: tuple[int, ...], args: tuple[Any, ...] | dict[str, Any] | None) -> nn.Module:
    if isinstance(args, dict):
        return kind(*first, **args)
    return kind(*first, *(args or ()))


def _per_layer(name: str, value: Any, layers: int, *, split: type | tuple[type, ...]) -> Any:
    """Spread one option over all layers, or check that there is one for each."""
    options: Any = value if isinstance(value, split) else [value] * layers
    if len(options) != layers:
        raise ValueError(
            f"{name} has {len(options)} entries for {layers} hidden layers; give one for each, or a single one"
        )
    return options


def _device(module: nn.Module) -> torch.device | None:
    """Give where a module computes; None if it holds no parameter and so computes anywhere.

    It is asked at every step, and ``next(module.parameters())`` takes ten times as long.
    """
    for parameter in module._parameters.values():  # noqa: SLF001
        if parameter is not None:
            return parameter.device
    for child in module._modules.values():  # noqa: SLF001
        device = None if child is None else _device(child)
        if device is not None:
            return device
    return None


class MLP(nn.Module):
    """Fully connected layers.

    :param input_dim: size of the flat input.
    :param output_dim: size of the output; 0 to end with the last hidden layer.
    :param hidden_sizes: sizes of the hidden layers.
    :param norm_layer: normalization ahead of each activation, for example ``nn.LayerNorm``; a list or tuple has one for
        each hidden layer (None for no normalization).
    :param norm_args: further arguments of ``norm_layer``: a tuple or dict for all layers, a list with one for each.
    :param activation: follows each hidden layer; a list or tuple has one for each; None for none. Default: ReLU.
    :param act_args: arguments of ``activation``, as ``norm_args``.
    :param device: where the parameters are made. They may move later: the input follows them.
    :param linear_layer: makes a layer of its two sizes. Default: ``nn.Linear``.
    :param flatten_input: whether to flatten all but the first dimension. Default: True.
    :raises ValueError: if a list has not one entry for each hidden layer.

    >>> MLP(4, 2, hidden_sizes=[8, 8])(np.zeros((3, 4))).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int = 0,
        hidden_sizes: Sequence[int] = (),
        norm_layer: ModuleType | Sequence[ModuleType] | None = None,
        norm_args: ArgsType | None = None,
        activation: ModuleType | Sequence[ModuleType] | None = nn.ReLU,
        act_args: ArgsType | None = None,
        device: str | int | torch.device | None = None,
        linear_layer: TLinearLayer = nn.Linear,
        flatten_input: bool = True,
    ) -> None:
        super().__init__()
        sizes = [input_dim, *hidden_sizes]
        layers: list[nn.Module] = []
        for input_size, output_size, norm, norm_arg, act, act_arg in zip(
            sizes[:-1],
            sizes[1:],
            _per_layer("norm_layer", norm_layer, len(hidden_sizes), split=(list, tuple)),
            _per_layer("norm_args", norm_args, len(hidden_sizes), split=list),
            _per_layer("activation", activation, len(hidden_sizes), split=(list, tuple)),
            _per_layer("act_args", act_args, len(hidden_sizes), split=list),
            strict=True,
        ):
            layers += miniblock(input_size, output_size, norm, norm_arg, act, act_arg, linear_layer)
        if output_dim > 0:
            layers.append(linear_layer(sizes[-1], output_dim))
        self.output_dim = output_dim or sizes[-1]
        self.model = nn.Sequential(*layers)
        self.flatten_input = flatten_input
        if device is not None:
            self.to(device)

    def forward(self, obs: NDArray[Any] | torch.Tensor) -> torch.Tensor:
        """Compute the output.

        :param obs: ``[batch, ...]``, any dtype, array or tensor; computed in float32 where the parameters are.
        :return: ``[batch, output_dim]``.
        """
        x = torch.as_tensor(obs, dtype=torch.float32, device=_device(self.model))
        if self.flatten_input:
            x = x.flatten(1) if x.dim() > 1 else x[:, None]
        out: torch.Tensor = self.model(x)
        return out


class NetBase(nn.Module, ABC):
    """The interface of networks inside policies."""

    @abstractmethod
    def forward(self, obs: NDArray[Any] | torch.Tensor, state: Any = None, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        """Compute the output and the next hidden state.

        :param obs: ``[batch, ...]``.
        :param state: hidden state of a recurrent network, None at the start.
        :param kwargs: what the policy adds, such as ``info``.
        """


class Net(NetBase):
    r"""An :class:`MLP` with the heads of value-based learning.

    With ``dueling_param`` the features feed two streams (Wang et al., arXiv:1511.06581, equation 9):

    .. math::
        Q(s, a) = V(s) + A(s, a) - \frac{1}{|\mathcal A|} \sum_{a'} A(s, a')

    :param state_shape: of one observation; its elements are flattened.
    :param action_shape: of one action, or the number of discrete actions: the output's size, unless ``concat``.
    :param hidden_sizes: as in :class:`MLP`; so are ``norm_layer``, ``norm_args``, ``activation``, ``act_args`` and
        ``linear_layer``.
    :param device: where the parameters are made. They may move later: the input follows them.
    :param softmax: whether to end with a softmax over the last dimension. Default: False.
    :param concat: the input is observation and action side by side: ``action_shape`` enlarges the input, and the output
        is the last hidden layer. Default: False.
    :param num_atoms: values for each action, for distributional learning. Default: 1.
    :param dueling_param: the arguments of the :class:`MLP` of the advantages (called Q) and of that of the value (V),
        but for their input and output size. Default: None, no dueling.

    >>> net = Net((4,), 2, hidden_sizes=[16], dueling_param=({"hidden_sizes": [8]}, {"hidden_sizes": [8]}))
    >>> logits, state = net(np.zeros((3, 4)))
    >>> logits.shape, state
    (torch.Size([3, 2]), None)
    """

    def __init__(
        self,
        state_shape: int | Sequence[int],
        action_shape: TActionShape = 0,
        hidden_sizes: Sequence[int] = (),
        norm_layer: ModuleType | Sequence[ModuleType] | None = None,
        norm_args: ArgsType | None = None,
        activation: ModuleType | Sequence[ModuleType] | None = nn.ReLU,
        act_args: ArgsType | None = None,
        device: str | int | torch.device = "cpu",
        softmax: bool = False,
        concat: bool = False,
        num_atoms: int = 1,
        dueling_param: tuple[dict[str, Any], dict[str, Any]] | None = None,
        linear_layer: TLinearLayer = nn.Linear,
    ) -> None:
        super().__init__()
        self.softmax = softmax
        self.num_atoms = num_atoms
        self.use_dueling = dueling_param is not None
        action_dim = _size(action_shape) * num_atoms
        self.model = MLP(
            _size(state_shape) + (action_dim if concat else 0),
            0 if concat or self.use_dueling else action_dim,
            hidden_sizes,
            norm_layer,
            norm_args,
            activation,
            act_args,
            linear_layer=linear_layer,
        )
        self.output_dim = self.model.output_dim
        self.Q: MLP | None = None
        self.V: MLP | None = None
        if dueling_param is not None:
            given = {"input_dim": self.model.output_dim}
            self.Q = MLP(**dueling_param[0] | given | {"output_dim": 0 if concat else action_dim})
            self.V = MLP(**dueling_param[1] | given | {"output_dim": 0 if concat else num_atoms})
            self.output_dim = self.Q.output_dim
        self.to(device)

    def forward(
        self,
        obs: NDArray[Any] | torch.Tensor,
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (the policies' interface; there is nothing here to use)
    ) -> tuple[torch.Tensor, Any]:
        """Compute the output.

        :param obs: ``[batch, *state_shape]``, any dtype, array or tensor.
        :param state: given back as it is.
        :return: ``[batch, actions]``, or ``[batch, actions, num_atoms]`` with several atoms; and ``state``.
        """
        logits = self.model(obs)
        if self.Q is not None and self.V is not None:
            advantage, value = self._atoms(self.Q(logits)), self._atoms(self.V(logits))
            logits = value + advantage - advantage.mean(dim=1, keepdim=True)
        else:
            logits = self._atoms(logits)
        return (torch.softmax(logits, dim=-1) if self.softmax else logits), state

    def _atoms(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.view(len(logits), -1, self.num_atoms) if self.num_atoms > 1 else logits


def _size(shape: int | np.int64 | Sequence[int]) -> int:
    """Give the number of elements; that of ``()`` is 1, and a plain number is its own."""
    return math.prod(shape) if isinstance(shape, Sequence) else int(shape)
