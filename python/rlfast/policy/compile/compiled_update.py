from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from rlfast.policy.compile.captured_optimizer import capture, check_capturable
from rlfast.utils.progress_bar import progress_note
from rlfast.utils.torch_private import products
from rlfast.utils.torch_private.graph_gradients import allow_gradients_in_graphs


class CompiledUpdate:
    """A policy's update as one compiled graph: forward, loss, backward, steps of the optimizers and target networks.

    Parameters and the states of optimizers are updated in place, so the policy acts with the new weights at once, and
    checkpoints are the same as without compilation. The first update after construction is not compiled, as it creates
    the states of the optimizers; the second one takes the time to compile, which the progress bar shows.

    Modules that draw random numbers, such as dropout, draw other numbers than without compilation.

    :param update: a function of tensors that returns tensors, and calls :func:`rlfast.utils.optim.optim_step` to step.
    :param optimizers: returns the optimizers that ``update`` steps.
    :raises ValueError: for an optimizer whose step cannot be captured.
    :raises RuntimeError: if this version of PyTorch cannot compute gradients within a graph.
    """

    backend = "inductor"

    def __init__(self, update: Callable[..., Any], optimizers: Callable[[], Iterable[torch.optim.Optimizer]]) -> None:
        for optim in optimizers():
            check_capturable(optim)
        allow_gradients_in_graphs()
        self._update, self._optimizers = update, optimizers
        # isolate_recompiles gives each policy its own limit of recompilations; the overloads do not know it yet
        compiler: Any = torch.compile
        self._graph = compiler(
            update, fullgraph=True, backend=self.backend, isolate_recompiles=True, **pass_options(self.backend)
        )
        self._is_compiled = False

    def __call__(self, *args: Any) -> Any:
        ready = [capture(optim) for optim in self._optimizers()]
        if not all(ready):
            return self._update(*args)
        if self._is_compiled:
            return self._graph(*args)
        with progress_note("compiling the update"):
            result = self._graph(*args)
        self._is_compiled = True
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without the graph, which holds the networks that it was made of; a copy compiles its own."""
        return CompiledUpdate, (self._update, self._optimizers)


def pass_options(backend: str) -> dict[str, Any]:
    """Return arguments of ``torch.compile``: no checks of what the guards of the graph have checked, and the quicker
    products of matrices, where there are any.

    :param backend: the name of the compiler.
    """
    if backend != "inductor":
        return {}
    options: dict[str, Any] = {"size_asserts": False, "alignment_asserts": False}
    if products.is_quicker():
        from rlfast.utils.torch_private.graph_products import QuickProducts  # it takes a second to import

        options["post_grad_custom_post_pass"] = QuickProducts()
    return {"options": options}


def check_compilable(*networks: nn.Module) -> None:
    """Check that networks can be compiled.

    :param networks: the networks.
    :raises ValueError: if one of them is recurrent.
    """
    for network in networks:
        for module in network.modules():
            if isinstance(module, nn.RNNBase):
                raise ValueError(f"compile=True cannot take recurrent networks such as {type(module).__name__}")
