"""Steps of target networks towards the trained ones."""

from typing import Self
from weakref import WeakKeyDictionary, ref

import torch
from torch import nn

from rlfast.utils.torch_private import fast_step


@torch.no_grad()
def soft_update(tgt: nn.Module, src: nn.Module, tau: float) -> None:
    r"""Move a target network a step towards its source (Lillicrap et al., arXiv:1509.02971, algorithm 1).

    .. math:: \theta^- \leftarrow \theta^- + \tau\,(\theta - \theta^-)

    Buffers, such as the statistics of batch normalization, are copied. Each network keeps its dtype.

    :param tgt: the target network, of the same structure as ``src``.
    :param src: the trained network.
    :param tau: size of the step, in [0, 1]; 1 copies the source.
    :raises ValueError: for another ``tau``, or if the networks differ in structure or share a trained parameter.
    """
    if not 0 <= tau <= 1:
        raise ValueError(f"tau must be in [0, 1], got {tau}")
    pair = _Pair(tgt, src) if torch.compiler.is_compiling() else _pair_of(tgt, src)
    both = zip(pair.sources, pair.targets, strict=True)
    sources = [source if source.dtype is target.dtype else source.to(target.dtype) for source, target in both]
    fast_step.lerp(pair.targets, sources, tau)
    for target, source in pair.buffers:
        target.copy_(source)


class _Pair:
    """The tensors of a target network and its source, kept in lists, as collecting them takes longer than the
    update.
    """

    def __init__(self, tgt: nn.Module, src: nn.Module) -> None:
        self.targets: list[torch.Tensor] = [*tgt.parameters()]
        self.sources: list[torch.Tensor] = [*src.parameters()]
        self.buffers = [*zip(tgt.buffers(), src.buffers(), strict=True)]
        for target, source in zip(self.targets, self.sources, strict=True):
            if torch.compiler.is_compiling() or not source.requires_grad:
                continue
            if target.numel() and target.data_ptr() == source.data_ptr():
                raise ValueError(
                    f"target and source share a parameter of shape {tuple(source.shape)}: copy the network first"
                )

    def record(self, tgt: nn.Module, src: nn.Module) -> Self:
        """Record the tensors and submodules of the networks, without references to the networks themselves."""
        self.source = ref(src)
        modules = [module for network in (tgt, src) for module in network.modules()]
        # references to the submodules keep their ids from being used again
        self.inner = [module for module in modules if module is not tgt and module is not src]
        self.holders = [held for m in modules for held in (m._parameters, m._buffers, m._modules)]  # noqa: SLF001
        self.ids = self.current_ids()
        return self

    def current_ids(self) -> list[int]:
        """Return the ids of all parameters, buffers and submodules, which change if one of them is replaced."""
        return [id(value) for holder in self.holders for value in holder.values()]


_pairs: WeakKeyDictionary[nn.Module, _Pair] = WeakKeyDictionary()


def _pair_of(tgt: nn.Module, src: nn.Module) -> _Pair:
    pair = _pairs.get(tgt)
    if pair is None or pair.source() is not src or pair.ids != pair.current_ids():
        pair = _pairs[tgt] = _Pair(tgt, src).record(tgt, src)
    return pair
