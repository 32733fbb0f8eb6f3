import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.compiler import is_compiling

from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.torch_private.products import LEAST, sequential

if TYPE_CHECKING:  # the default is Any, so that subclasses need not name the type of their state
    from typing_extensions import TypeVar as _TypeVar

    TRecurrentState = _TypeVar("TRecurrentState", default=Any)
else:
    TRecurrentState = TypeVar("TRecurrentState")

ArrayOrTensor: TypeAlias = NDArray[Any] | torch.Tensor
ModuleType: TypeAlias = type[nn.Module]
ArgsType: TypeAlias = tuple[Any, ...] | dict[str, Any] | Sequence[tuple[Any, ...]] | Sequence[dict[str, Any]]
TActionShape: TypeAlias = Sequence[int] | int | np.int64 | NDArray[np.integer[Any]]
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
    """Make one layer: a linear module, then normalization and activation if they are given.

    :param input_size: the size of the input.
    :param output_size: the size of the output.
    :param norm_layer: the class of the normalization; None for none.
    :param norm_args: further arguments of ``norm_layer`` after the size: positional (a tuple) or by name (a dict).
    :param activation: the class of the activation; None for none.
    :param act_args: arguments of ``activation``, as ``norm_args``.
    :param linear_layer: makes a linear module from both sizes.
    :return: the modules, in order.
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


def _per_layer(name: str, value: object, layers: int, *, split: type | tuple[type, ...]) -> Any:
    """Repeat a single option for all layers, or check that a list has one option for each."""
    options: Any = value if isinstance(value, split) else [value] * layers
    if len(options) != layers:
        raise ArgumentError(
            f"{name} has {len(options)} entries for {layers} hidden layers; give one for each, or a single one"
        )
    return options


def _first_parameter(module: nn.Module) -> nn.Parameter | None:
    """Return a module's first parameter; ``next(module.parameters())`` takes ten times as long."""
    for parameter in module._parameters.values():  # noqa: SLF001
        if parameter is not None:
            return parameter
    for child in module._modules.values():  # noqa: SLF001
        parameter = None if child is None else _first_parameter(child)
        if parameter is not None:
            return parameter
    return None


def device_of(module: nn.Module) -> torch.device | None:
    """Return the device of a module's first parameter; None if it has no parameters."""
    parameter = _first_parameter(module)
    return None if parameter is None else parameter.device


def dtype_of(module: nn.Module) -> torch.dtype:
    """Return the dtype of a module's first parameter; float32 if there is none or if it is not a float."""
    parameter = _first_parameter(module)
    return parameter.dtype if parameter is not None and parameter.is_floating_point() else torch.float32


def without_mask(obs: object) -> Any:
    """Return observations without the mask of legal actions, if they are a batch of both; others as they are.

    :param obs: an array, a tensor, or a ``Batch`` with ``obs`` and ``mask``.
    """
    return obs if isinstance(obs, np.ndarray | torch.Tensor) else getattr(obs, "obs", obs)


def placed_like(module: nn.Module, values: object) -> torch.Tensor:
    """Convert values to a tensor with the dtype and the device of a module's first parameter.

    :param module: the module.
    :param values: an array or a tensor; or observations with a mask of legal actions, whose ``obs`` is converted.
    :return: the tensor; in float32 if the parameter is not a float.

    >>> placed_like(nn.Linear(1, 1).double(), np.zeros(2)).dtype
    torch.float64
    """
    values = without_mask(values)
    parameter = _first_parameter(module)
    if parameter is None or not parameter.is_floating_point():
        return torch.as_tensor(values, dtype=torch.float32, device=None if parameter is None else parameter.device)
    return torch.as_tensor(values, dtype=parameter.dtype, device=parameter.device)


class _Where:
    """The attribute ``device`` of networks; an instance may assign another value to it."""

    def __get__(self, module: nn.Module | None, owner: type[nn.Module]) -> Any:
        return self if module is None else device_of(module)


class Placed(nn.Module):
    """A module with the attribute ``device``."""

    device = _Where()
    """The device of the first parameter; None if there are no parameters."""


class MLP(Placed):
    """Fully connected layers.

    :param input_dim: the size of the flat input.
    :param output_dim: the size of the output; 0 to end with the last hidden layer.
    :param hidden_sizes: the sizes of the hidden layers.
    :param norm_layer: the class of the normalization before each activation, such as ``nn.LayerNorm``; a list or tuple
        has one entry for each hidden layer (None for no normalization).
    :param norm_args: further arguments of ``norm_layer``: a tuple or dict for all layers, or a list of them with one
        entry for each.
    :param activation: the class of the activation after each hidden layer; a list or tuple has one entry for each;
        None for none. Default: ReLU.
    :param act_args: arguments of ``activation``, as ``norm_args``.
    :param device: the initial device of the parameters. If they are moved, inputs are moved to their device.
    :param linear_layer: makes a linear module from both sizes. Default: ``nn.Linear``.
    :param flatten_input: whether all axes but the first are flattened. Default: True.
    :raises ValueError: a list has not one entry for each hidden layer.

    >>> MLP(4, 2, hidden_sizes=[8, 8])(np.zeros((3, 4))).shape
    torch.Size([3, 2])
    """

    _largest = 0
    """The number of weights of the largest layer."""

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
        self._largest = max((int(i) * int(o) for i, o in pairwise([*sizes, output_dim])), default=0)
        self.flatten_input = flatten_input
        if device is not None:
            self.to(device)

    def forward(self, obs: ArrayOrTensor) -> torch.Tensor:
        """Compute the output.

        :param obs: an array or tensor ``[batch, ...]`` of any dtype; converted to the dtype and device of the
            parameters.
        :return: ``[batch, output_dim]``.
        """
        x = placed_like(self.model, obs)
        if self.flatten_input and x.dim() != 2:
            x = x.flatten(1) if x.dim() > 1 else x[:, None]
        is_small = is_compiling() or x.size(0) * self._largest < LEAST
        out: torch.Tensor = self.model(x) if is_small else sequential(self.model, x)
        return out


def dueling_streams(
    params: tuple[dict[str, Any], dict[str, Any]] | None, input_dim: int, advantages: int, values: int
) -> tuple[MLP | None, MLP | None]:
    """Make the streams of a dueling network.

    :param params: the arguments of two :class:`MLP`; None for no streams.
    :param input_dim: the size of the features.
    :param advantages: the size of the output of the first stream; 0 to end with its last hidden layer.
    :param values: the size of the output of the second stream.
    """
    if params is None:
        return None, None
    first, second = (
        MLP(**param | {"input_dim": input_dim, "output_dim": size})
        for param, size in zip(params, (advantages, values), strict=True)
    )
    return first, second


def dueling_values(advantage: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return action values of a dueling network (Wang et al., arXiv:1511.06581, equation 9).

    :param advantage: ``[B, A, ...]``.
    :param value: ``[B, 1, ...]``.

    >>> dueling_values(torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0]])).tolist()
    [[4.0, 6.0]]
    """
    return value + advantage - advantage.mean(dim=1, keepdim=True)


class RunningNorm(nn.Module):
    r"""Scales each number of observations to mean 0 and variance 1, by moving averages over what is learned from.

    .. math:: y = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}}

    Only :meth:`update` changes the averages. Algorithms with a replay buffer call it with the observations of each
    sample, before anything is computed from it. So all networks, target networks too, normalize by the same
    statistics, those of the rows in the buffer, and also the rows that were stored long ago.

    :param size: how many numbers an observation has.
    :param momentum: how far the averages move in each sample; in the first ones, further, so that all samples so far
        count the same. Default: 0.001.
    :param eps: added to the variance. Default: 1e-5.

    >>> norm = RunningNorm(1)
    >>> norm.update(torch.tensor([[1.0], [3.0]]))
    >>> norm(torch.tensor([[4.0]])).round(decimals=3).item()
    2.0
    """

    mean: torch.Tensor
    var: torch.Tensor
    count: torch.Tensor

    def __init__(self, size: int, momentum: float = 1e-3, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.register_buffer("count", torch.zeros(()))

    def reset_parameters(self) -> None:
        """Forget all samples."""
        self.mean.zero_()
        self.var.fill_(1)
        self.count.zero_()

    @torch.no_grad()
    def update(self, obs: ArrayOrTensor) -> None:
        """Move the averages towards a sample.

        :param obs: ``[batch, ...]``.
        :raises TypeError: the observations are not one array.
        """
        if not isinstance(obs, np.ndarray | torch.Tensor):
            raise TypeError(f"a RunningNorm needs observations that are one array, got a {type(obs).__name__}")
        x = torch.as_tensor(obs, dtype=self.mean.dtype, device=self.mean.device).reshape(-1, len(self.mean))
        var, mean = torch.var_mean(x, dim=0, correction=0)
        share = (1 / self.count.add_(1)).clamp(min=self.momentum)
        step = mean - self.mean
        self.var.lerp_(var, share).add_(share * (1 - share) * step.square())
        self.mean.add_(share * step)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Normalize.

        :param obs: ``[batch, size]``.
        """
        return (obs - self.mean) * (self.var + self.eps).rsqrt()


class NetBase(Placed, ABC, Generic[TRecurrentState]):
    """The interface of the networks of policies. ``NetBase[T]`` names the type of the hidden state."""

    @abstractmethod
    def forward(self, obs: ArrayOrTensor, state: Any = None, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        """Compute the output and the next hidden state.

        :param obs: ``[batch, ...]``.
        :param state: the hidden state of a recurrent network; None at the start.
        :param kwargs: further arguments of the policy, such as ``info``.
        :return: the output ``[batch, ...]``, and the next hidden state.
        """


def size_of(shape: int | np.int64 | Sequence[int] | NDArray[np.integer[Any]]) -> int:
    """Return the number of elements of a shape, or a number itself.

    :param shape: a shape, as a sequence or an array ``[axes]``, or the number of elements.
    :raises ValueError: the shape has more than 64 axes.
    """
    if isinstance(shape, np.ndarray):
        shape = cast("int | list[int]", shape.tolist())
    if isinstance(shape, Sequence) and len(shape) > 64:
        raise ValueError(f"a shape has at most 64 axes, got {len(shape)}")
    return math.prod(shape) if isinstance(shape, Sequence) else int(shape)
