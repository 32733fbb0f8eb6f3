from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import nn

from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.net._branching import BranchingNet
from rlfast.utils.net._dict_state import get_dict_state_decorator
from rlfast.utils.net._layers import (
    MLP,
    ArgsType,
    ArrayOrTensor,
    ModuleType,
    NetBase,
    Placed,
    RunningNorm,
    TActionShape,
    TLinearLayer,
    TRecurrentState,
    device_of,
    dtype_of,
    dueling_streams,
    dueling_values,
    miniblock,
    placed_like,
    size_of,
    without_mask,
)
from rlfast.utils.net._recurrent import Recurrent
from rlfast.utils.net.ensemble import EnsembleLinear
from rlfast.utils.space_info import ActionSpaceInfo

__all__ = [
    "MLP",
    "ActorCritic",
    "ArgsType",
    "BaseActor",
    "BranchingNet",
    "DataParallelNet",
    "EnsembleLinear",
    "ModuleType",
    "Net",
    "NetBase",
    "RandomActor",
    "Recurrent",
    "RunningNorm",
    "SimbaNet",
    "TActionShape",
    "TLinearLayer",
    "TRecurrentState",
    "device_of",
    "dtype_of",
    "get_dict_state_decorator",
    "get_output_dim",
    "getattr_with_matching_alt_value",
    "miniblock",
    "size_of",
]

T = TypeVar("T")


class Net(NetBase[TRecurrentState]):
    r"""An :class:`MLP` with options for value-based learning.

    With ``dueling_param``, the features are the input of two networks (Wang et al., arXiv:1511.06581, equation 9):

    .. math::
        Q(s, a) = V(s) + A(s, a) - \frac{1}{|\mathcal A|} \sum_{a'} A(s, a')

    :param state_shape: the shape of one observation; its elements are flattened.
    :param action_shape: the shape of one action, or the number of discrete actions: the size of the output, unless
        ``concat`` is set.
    :param hidden_sizes: as in :class:`MLP`.
    :param device: the initial device of the parameters. If they are moved, inputs are moved to their device.
    :param softmax: whether to end with a softmax over the last axis. Default: False.
    :param concat: whether the input is observation and action concatenated: ``action_shape`` enlarges the input, and
        the output is the last hidden layer. Default: False.
    :param num_atoms: the number of values for each action, for distributional learning. Default: 1.
    :param dueling_param: the arguments of two :class:`MLP`, of the advantages (attribute ``Q``) and of the value
        (``V``), except their input and output sizes. Default: None, no dueling.
    :param norm_layer: as in :class:`MLP`.
    :param norm_args: as in :class:`MLP`.
    :param activation: as in :class:`MLP`.
    :param act_args: as in :class:`MLP`.
    :param linear_layer: as in :class:`MLP`.

    >>> net = Net((4,), 2, hidden_sizes=[16], dueling_param=({"hidden_sizes": [8]}, {"hidden_sizes": [8]}))
    >>> logits, state = net(torch.zeros(3, 4))
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
        action_dim = size_of(action_shape) * num_atoms
        self.model = MLP(
            size_of(state_shape) + (action_dim if concat else 0),
            0 if concat or self.use_dueling else action_dim,
            hidden_sizes,
            norm_layer,
            norm_args,
            activation,
            act_args,
            linear_layer=linear_layer,
        )
        self.output_dim = self.model.output_dim
        sizes = (0, 0) if concat else (action_dim, num_atoms)
        self.Q, self.V = dueling_streams(dueling_param, self.model.output_dim, *sizes)
        if self.Q is not None:
            self.output_dim = self.Q.output_dim
        self.to(device)

    def forward(self, obs: ArrayOrTensor, state: object = None, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        """Compute the output.

        :param obs: an array or tensor ``[batch, *state_shape]`` of any dtype.
        :param state: returned unchanged.
        :return: the output ``[batch, actions]``, or ``[batch, actions, num_atoms]`` with several atoms; and ``state``.
        """
        logits = self.model(obs)
        if self.Q is not None and self.V is not None:
            logits = dueling_values(self._atoms(self.Q(logits)), self._atoms(self.V(logits)))
        else:
            logits = self._atoms(logits)
        return (torch.softmax(logits, dim=-1) if self.softmax else logits), state

    def _atoms(self, logits: torch.Tensor) -> torch.Tensor:
        return (
            logits.view(len(logits), logits.shape[1] // self.num_atoms, self.num_atoms)
            if self.num_atoms > 1
            else logits
        )


class SimbaNet(NetBase[TRecurrentState]):
    r"""Features by residual blocks with layer normalization (SimBa: Lee et al., arXiv:2410.09754, section 4).

    .. math::
        x_0 = W o + b, \qquad x_{l+1} = x_l + \mathrm{MLP}_l(\mathrm{LN}_l(x_l)), \qquad y = \mathrm{LN}(x_L)

    where o is the observation, normalized by a :class:`RunningNorm`, and each MLP has one hidden layer of four times
    the width. Weights begin as those of ``linear_layer`` do; the paper's are orthogonal, and He's in the blocks.

    :param state_shape: the shape of one observation; its elements are flattened.
    :param action_shape: the shape of one action, with ``concat``.
    :param hidden_sizes: the width, once for each residual block: ``[512, 512]`` for two of 512, the paper's critic;
        ``[128]`` is its actor.
    :param concat: whether the input is observation and action concatenated; actions are not normalized. Default: False.
    :param activation: the class of the activation in the blocks. Default: ReLU.
    :param linear_layer: makes a linear module from its two sizes. Default: ``nn.Linear``.
    :param norm_layer: makes a normalization from its size. Default: ``nn.LayerNorm``.
    :param device: the initial device of the parameters. If they are moved, inputs are moved to their device.
    :raises ValueError: there is no block, or they differ in width.

    >>> features, state = SimbaNet(4, hidden_sizes=[8, 8])(torch.zeros(3, 4))
    >>> features.shape, state
    (torch.Size([3, 8]), None)
    """

    def __init__(
        self,
        state_shape: int | Sequence[int],
        action_shape: TActionShape = 0,
        hidden_sizes: Sequence[int] = (),
        concat: bool = False,
        activation: ModuleType = nn.ReLU,
        linear_layer: TLinearLayer = nn.Linear,
        norm_layer: Callable[[int], nn.Module] = nn.LayerNorm,
        device: str | int | torch.device = "cpu",
    ) -> None:
        super().__init__()
        widths = [*hidden_sizes]
        if len({*widths}) != 1:
            raise ArgumentError(f"hidden_sizes of SimbaNet are one width, once a block, got {widths}")
        self.output_dim = width = widths[0]
        self.norm = RunningNorm(size_of(state_shape))
        inputs = size_of(state_shape) + (size_of(action_shape) if concat else 0)
        self.first = linear_layer(inputs, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                norm_layer(width), linear_layer(width, 4 * width), activation(), linear_layer(4 * width, width)
            )
            for _ in widths
        )
        self.last = norm_layer(width)
        self.to(device)

    def forward(self, obs: ArrayOrTensor, state: object = None, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        """Compute features.

        :param obs: an array or tensor ``[batch, *state_shape]`` of any dtype; with ``concat``, ``[batch, size]`` of
            observation and action.
        :param state: returned unchanged.
        :return: the features ``[batch, width]``, or ``[m, batch, width]`` of an ensemble; and ``state``.
        """
        x = placed_like(self.first, obs).flatten(1)
        size = len(self.norm.mean)
        x = self.first(torch.cat([self.norm(x[:, :size]), x[:, size:]], dim=1))
        for block in self.blocks:
            x = x + block(x)
        return self.last(x), state


class BaseActor(Placed):
    """The interface of actors: a head on a network that computes features of observations."""

    preprocess: nn.Module
    """The network that computes the features."""
    output_dim: int
    """The size of one action."""

    def get_preprocess_net(self) -> nn.Module:
        """Return the network that computes the features."""
        return self.preprocess

    def get_output_dim(self) -> int:
        """Return the size of one action."""
        return self.output_dim


class RandomActor(BaseActor):
    """An actor whose actions are random and do not depend on the observations.

    :param action_space: the action space of the environment.

    >>> RandomActor(spaces.Discrete(4))(torch.zeros(2, 3))[0].tolist()
    [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """

    def __init__(self, action_space: spaces.Box | spaces.Discrete) -> None:
        super().__init__()
        self.action_space = action_space
        self.space_info = ActionSpaceInfo.from_space(action_space)
        self.output_dim = self.space_info.action_dim
        self.preprocess = nn.Identity()

    @property
    def is_discrete(self) -> bool:
        """Whether the action space is ``Discrete``."""
        return isinstance(self.action_space, spaces.Discrete)

    def forward(self, obs: Any, state: Any = None, info: object = None) -> tuple[NDArray[Any], Any]:
        """Return actions or probabilities.

        :param obs: ``[batch, ...]``; only the batch size is used.
        :param state: returned unchanged.
        :param info: ignored.
        :return: random actions ``[batch, ...]``, or equal probabilities ``[batch, actions]`` of discrete ones; and
            ``state``.
        """
        if isinstance(self.action_space, spaces.Box):
            return np.stack([self.action_space.sample() for _ in range(len(obs))]), state
        return np.full((len(obs), self.output_dim), 1 / self.output_dim), state

    def compute_action_batch(self, obs: Any) -> NDArray[Any]:
        """Return one random action for each observation.

        :param obs: ``[batch, ...]``; only the batch size is used.
        """
        if self.is_discrete:
            return np.random.randint(self.output_dim, size=len(obs))
        actions: NDArray[Any] = self(obs)[0]
        return actions


class ActorCritic(nn.Module):
    """A module of an actor and a critic, for an optimizer of both: shared parameters are listed once.

    :param actor: the actor of a policy.
    :param critic: the critic of the same policy.

    >>> net = Net(4, hidden_sizes=[8])
    >>> len([*ActorCritic(nn.Sequential(net, nn.Linear(8, 2)), nn.Sequential(net, nn.Linear(8, 1))).parameters()])
    6
    """

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        super().__init__()
        self.actor = actor
        self.critic = critic


class DataParallelNet(nn.Module):
    """A network that is replicated on all CUDA devices, each of which computes a part of the batch.

    :param net: the network, which takes observations as a tensor.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = nn.DataParallel(net)

    def forward(self, obs: ArrayOrTensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Compute the output of the network.

        :param obs: an array or tensor ``[batch, ...]``; moved to the first device, in the dtype of the parameters.
        :param args: further arguments of the network, as ``kwargs``.
        :return: the output of the network.
        """
        device = "cuda" if self.net.device_ids else None
        x = torch.as_tensor(without_mask(obs), dtype=dtype_of(self.net), device=device)
        result: tuple[Any, Any] = self.net(x, *args, **kwargs)
        return result


def get_output_dim(module: nn.Module, alt_value: int | None) -> int:
    """Return the size of a network's output: its ``output_dim``, or ``alt_value`` if it has no such attribute.

    :param module: the network.
    :param alt_value: the size, for a network without ``output_dim``; else None, or the same number.
    :raises ValueError: there is neither, or they differ.

    >>> get_output_dim(Net(4, hidden_sizes=[8]), None), get_output_dim(nn.Flatten(), 4)
    (8, 4)
    """
    own: int | None = getattr(module, "output_dim", None)
    kind = type(module).__name__
    if own is None:
        if alt_value is None:
            raise ValueError(f"{kind} has no output_dim: give preprocess_net_output_dim")
        return alt_value
    if alt_value is not None and own != alt_value:
        raise ValueError(f"preprocess_net_output_dim is {alt_value}, but {kind} has {own} outputs")
    return own


def getattr_with_matching_alt_value(obj: object, attr_name: str, alt_value: T | None) -> T:
    """Return an attribute, or ``alt_value`` if the attribute is None.

    :param obj: the object.
    :param attr_name: the name of the attribute.
    :param alt_value: the value if the attribute is None; else None, or the same value.
    :raises ValueError: both are None, or they differ.
    """
    own: T | None = getattr(obj, attr_name)
    if own is None and alt_value is None:
        raise ValueError(f"{type(obj).__name__}.{attr_name} is None, and no default was given")
    if own is not None and alt_value is not None and own != alt_value:
        raise ValueError(f"{type(obj).__name__}.{attr_name} is {own}, which is not {alt_value}")
    value = alt_value if own is None else own
    assert value is not None  # noqa: S101 (for type checkers)
    return value
