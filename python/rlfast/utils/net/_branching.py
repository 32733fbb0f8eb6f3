from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from rlfast.utils.arguments.checks import bounded_count
from rlfast.utils.net._layers import MLP, ArgsType, ArrayOrTensor, ModuleType, NetBase, TRecurrentState, size_of

_MOST_BRANCHES = 10_000


class BranchingNet(NetBase[TRecurrentState]):
    r"""Values of actions of several dimensions, a branch for each (Tavakoli et al., arXiv:1711.08946).

    .. math:: Q_d(s, a_d) = V(s) + A_d(s, a_d) - \frac1n \sum_{a'} A_d(s, a')

    with n choices in each dimension. The gradient that reaches the shared layers is not divided by the number of
    branches plus one, as that of the paper is.

    :param state_shape: the shape of one observation; its elements are flattened.
    :param num_branches: the number of dimensions of an action. Default: 0.
    :param action_per_branch: the number of choices in each dimension. Default: 2.
    :param common_hidden_sizes: the sizes of the layers that all branches share. Default: None, none.
    :param value_hidden_sizes: the sizes of the hidden layers of the state's value. Default: None, none.
    :param action_hidden_sizes: the sizes of the hidden layers of each branch. Default: None, none.
    :param norm_layer: as in :class:`MLP`, for all layers.
    :param norm_args: as in :class:`MLP`, for all layers.
    :param activation: as in :class:`MLP`, for all layers.
    :param act_args: as in :class:`MLP`, for all layers.
    :param device: the initial device of the parameters. If they are moved, inputs are moved to their device.
    :raises ValueError: there are too many branches, which torch would make one by one.

    >>> BranchingNet(3, num_branches=2, action_per_branch=5, common_hidden_sizes=[8])(torch.zeros(4, 3))[0].shape
    torch.Size([4, 2, 5])
    """

    def __init__(
        self,
        state_shape: int | Sequence[int],
        num_branches: int = 0,
        action_per_branch: int = 2,
        common_hidden_sizes: list[int] | None = None,
        value_hidden_sizes: list[int] | None = None,
        action_hidden_sizes: list[int] | None = None,
        norm_layer: ModuleType | None = None,
        norm_args: ArgsType | None = None,
        activation: ModuleType | None = nn.ReLU,
        act_args: ArgsType | None = None,
        device: str | int | torch.device = "cpu",
    ) -> None:
        super().__init__()
        self.num_branches = bounded_count("num_branches", num_branches, _MOST_BRANCHES)
        self.action_per_branch = action_per_branch
        options = (norm_layer, norm_args, activation, act_args)
        self.common = MLP(size_of(state_shape), 0, common_hidden_sizes or (), *options)
        size = self.common.output_dim
        self.value = MLP(size, 1, value_hidden_sizes or (), *options)
        self.branches = nn.ModuleList(
            MLP(size, action_per_branch, action_hidden_sizes or (), *options) for _ in range(self.num_branches)
        )
        self.to(device)

    def forward(self, obs: ArrayOrTensor, state: object = None, **kwargs: Any) -> tuple[torch.Tensor, Any]:
        """Compute the values.

        :param obs: an array or tensor ``[batch, *state_shape]`` of any dtype.
        :param state: returned unchanged.
        :return: ``[batch, num_branches, action_per_branch]``, and ``state``.
        """
        features = self.common(obs)
        advantage = torch.stack([branch(features) for branch in self.branches], dim=1)
        return self.value(features)[:, None] + advantage - advantage.mean(dim=2, keepdim=True), state
