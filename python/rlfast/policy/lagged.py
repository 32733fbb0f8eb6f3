from copy import deepcopy
from typing import Self

import torch
from torch import nn


class LaggedNetworks(nn.Module):
    """Target networks: they follow the trained ones when told to, and never leave evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self._lagged: list[nn.Module] = []

    def lagged_copy(self, source: nn.Module) -> nn.Module:
        """Make a target network: a copy that follows only when told to, and stays in evaluation mode without gradients.

        :param source: the network that is trained.
        """
        target = deepcopy(source).eval().requires_grad_(False)
        self._lagged.append(target)
        return target

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for all but the target networks."""
        super().train(mode)
        for target in self._lagged:
            target.eval()
        return self

    @staticmethod
    @torch.no_grad()
    def soft_update(tgt: nn.Module, src: nn.Module, tau: float) -> None:
        r"""Move a target network a step towards its source (Lillicrap et al., arXiv:1509.02971, algorithm 1).

        .. math:: \theta^- \leftarrow \theta^- + \tau\,(\theta - \theta^-)

        Buffers, such as the statistics of batch normalization, are copied.

        :param tgt: the target network, of the same structure as ``src``.
        :param src: the trained network.
        :param tau: in [0, 1].
        :raises ValueError: for another ``tau``, or if the networks differ in structure or share a parameter that is
            trained.
        """
        if not 0 <= tau <= 1:
            raise ValueError(f"tau must be in [0, 1], got {tau}")
        targets: list[torch.Tensor] = [*tgt.parameters()]
        sources: list[torch.Tensor] = [*src.parameters()]
        for target, source in zip(targets, sources, strict=True):
            if torch.compiler.is_compiling() or not source.requires_grad:
                continue
            if target.numel() and target.data_ptr() == source.data_ptr():
                raise ValueError(
                    f"target and source share a parameter of shape {tuple(source.shape)}: copy the network first"
                )
        torch._foreach_lerp_(targets, sources, tau)  # one call for all parameters
        for target, source in zip(tgt.buffers(), src.buffers(), strict=True):
            target.copy_(source)
