from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

import torch
from torch import nn

from rlfast.utils.capture import capture, check_capturable


class CompiledUpdate:
    """A policy's update as one graph: forward, loss, backward, the optimizers' steps and the target networks'.

    Parameters and the optimizers' states are changed where they are, so the policy acts with the new weights at once,
    and a checkpoint is the same as without. The first update after construction runs as it is written, for the state
    of the optimizers begins with it; the second takes the time to compile.

    What draws random numbers inside, such as dropout, draws others than it does without.

    :param update: takes and gives tensors, and calls :func:`rlfast.utils.optim.optim_step` to step.
    :param optimizers: gives the optimizers that it steps.
    :param backend: of ``torch.compile``.
    :raises ValueError: for an optimizer whose step cannot be captured.
    :raises RuntimeError: if this PyTorch cannot take gradients within a graph.
    """

    backend = "inductor"

    def __init__(self, update: Callable[..., Any], optimizers: Callable[[], Iterable[torch.optim.Optimizer]]) -> None:
        for optim in optimizers():
            check_capturable(optim)
        _allow_gradients()
        self._update, self._optimizers = update, optimizers
        compiler: Any = (
            torch.compile
        )  # its overloads do not know isolate_recompiles: a limit for each policy of its own
        self._graph = compiler(update, fullgraph=True, backend=self.backend, isolate_recompiles=True)

    def __call__(self, *args: Any) -> Any:
        ready = [capture(optim) for optim in self._optimizers()]
        return self._graph(*args) if all(ready) else self._update(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies compile for themselves: a graph knows the networks it was made of."""
        return CompiledUpdate, (self._update, self._optimizers)


def _allow_gradients() -> None:
    from torch._dynamo import config

    if not (hasattr(config, "trace_autograd_ops") and "isolate_recompiles" in signature(torch.compile).parameters):
        raise RuntimeError(f"compile=True needs a PyTorch that takes gradients within a graph, got {torch.__version__}")
    config.trace_autograd_ops = True


def check_compilable(*networks: nn.Module) -> None:
    """Refuse networks that no graph can hold.

    :raises ValueError: one of them is recurrent.
    """
    for network in networks:
        for module in network.modules():
            if isinstance(module, nn.RNNBase):
                raise ValueError(f"compile=True cannot take recurrent networks such as {type(module).__name__}")
