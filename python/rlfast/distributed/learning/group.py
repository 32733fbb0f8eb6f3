"""Several learners that share each batch, and average their gradients."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from datetime import timedelta

import torch
from torch import distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # documented there

from rlfast.policy import BasePolicy
from rlfast.policy.components import training_state

_SECONDS = 120.0
"""How long a learner waits for the others, before it takes them for lost."""


class Group:
    """The learners of a run, as ranks of ``torch.distributed``.

    :param rank: the number of this learner, from 0.
    :param size: number of learners.
    :param address: where rank 0 listens, ``HOST:PORT``.
    :param device: the device of the policy: gradients are averaged by NCCL on CUDA devices, and by gloo on others.
    """

    def __init__(self, rank: int, size: int, address: str, device: str = "cpu") -> None:
        self.rank, self.size = rank, size
        host, _, port = address.rpartition(":")
        wait = timedelta(seconds=_SECONDS)
        store = TCPStore(host, int(port), size, is_master=rank == 0, timeout=wait, wait_for_workers=False)
        backend = "nccl" if torch.device(device).type == "cuda" else "gloo"
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=wait)

    def average(self, parameters: Iterable[torch.Tensor]) -> None:
        """Replaces gradients by their mean over all learners, in one message for each dtype.

        The mean of the gradients of the parts of a batch, all of one size, is that of the batch, where a loss is a mean
        over rows (Li et al. 2020, *PyTorch Distributed*, arXiv:2006.15704, section 3.2).

        :param parameters: parameters with gradients; others have none in any learner.
        """
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
            own = [gradient for gradient in gradients if gradient.dtype == dtype]
            flat = torch.cat([gradient.reshape(-1) for gradient in own])
            distributed.all_reduce(flat)
            flat /= self.size
            start = 0
            for gradient in own:
                gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
                start += gradient.numel()

    def largest(self, value: float) -> float:
        """Returns the largest of the learners' values.

        :param value: this learner's.
        """
        tensor = torch.tensor(value, dtype=torch.float64)
        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX)
        return float(tensor)

    def close(self) -> None:
        """Leaves the group."""
        if distributed.is_initialized():
            distributed.destroy_process_group()


def free_address() -> str:
    """Returns an address of this machine, with a port that nothing listens at."""
    with socket.socket() as found:
        found.bind(("", 0))
        port = found.getsockname()[1]
    return f"{_own_host()}:{port}"


def _own_host() -> str:
    """Returns the address by which other machines reach this one; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # of documentation: it belongs to nobody
            return str(probe.getsockname()[0])
        except OSError:  # without a network
            return "127.0.0.1"


def share_gradients(policy: BasePolicy, group: Group | None) -> None:
    """Makes all optimizers of a policy average gradients before they clip them and step.

    :param policy: the policy.
    :param group: the learners; None for learning alone again.
    """
    for optimizer in training_state.find(policy).optimizers.values():
        if group is None:
            vars(optimizer).pop("reduce_gradients", None)
        else:
            vars(optimizer)["reduce_gradients"] = group.average
