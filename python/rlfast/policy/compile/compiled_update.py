from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count
from types import FunctionType
from typing import Any

import torch
from torch import nn

from rlfast.policy.compile.captured_optimizer import capture, check_capturable
from rlfast.policy.compile.recordings import RecordedFunction
from rlfast.utils.optim import captured_steps
from rlfast.utils.progress_bar import progress_note
from rlfast.utils.torch_private import graph_gradients, products
from rlfast.utils.torch_private.changes import registrations
from rlfast.utils.warning import warn_user

_SETTINGS = frozenset({bool, int, float, str, type(None)})
_OF_ACTING = frozenset({"eps", "updating"})
"""Attributes that change all the time, and that no update reads within its graph."""
_count = count(1)


class CompiledUpdate:
    """A policy's update as one compiled graph: forward, loss, backward, steps of the optimizers and target networks.

    Parameters and the states of optimizers are updated in place, so the policy acts with the new weights at once, and
    checkpoints are the same as without compilation. The first update after construction is not compiled, as it creates
    the states of the optimizers; the second one takes the time to compile, which the progress bar shows.

    On CUDA devices, the work of the compiled update is then recorded as a CUDA graph
    (:class:`~rlfast.policy.compile.recordings.RecordedFunction`), so that an update takes one launch. It is recorded
    again after changes of what a recording has fixed: the shapes of samples, the policy's numbers, the mode of its
    networks, the optimizers' options. Learning rates may change. Where an update cannot be compiled, as by PyTorch
    2.10, the recording is of the update itself.

    Modules that draw random numbers, such as dropout, draw other numbers than without compilation.

    :param update: a function of tensors that returns tensors, and calls :func:`rlfast.utils.optim.descend` to step.
    :param optimizers: returns the optimizers that ``update`` steps.
    :param policy: the policy whose numbers and networks ``update`` reads; None for none.
    :raises ValueError: for an optimizer whose step cannot be captured.
    :raises RuntimeError: if this version of PyTorch cannot compute gradients within a graph, and the parameters are not
        on a CUDA device.
    """

    backend = "inductor"
    recorded_devices = frozenset({"cuda"})

    def __init__(
        self,
        update: Callable[..., Any],
        optimizers: Callable[[], Iterable[torch.optim.Optimizer]],
        policy: nn.Module | None = None,
    ) -> None:
        for optim in optimizers():
            check_capturable(optim)
        devices = {*_devices(optimizers())}
        self._update, self._optimizers, self._policy = update, optimizers, policy
        self._graph: Any = None
        if graph_gradients.has_gradients_in_graphs():
            options = pass_options(self.backend, devices)
            self._graph = torch.compile(_own_code(update), fullgraph=True, backend=self.backend, **options)
        elif not devices <= self.recorded_devices:
            raise RuntimeError(
                "on the CPU, compile=True needs a PyTorch that takes gradients within a graph, 2.11 or later, got "
                f"{torch.__version__}; on CUDA, move the networks there before the policy is made"
            )
        self._recorded = RecordedFunction(self._of_recordings)
        self._is_compiled, self._registrations = False, -1
        self._fixed: list[Any] = []

    def __call__(self, *args: Any) -> Any:
        optims = [*self._optimizers()]
        if not all(capture(optim) for optim in optims):
            return self._update(*args)
        if next(_devices(optims), "cpu") in self.recorded_devices:
            self._forget_old_recordings(optims)
            return self._recorded(*args)
        return self._compiled(*args)

    def _compiled(self, *args: Any) -> Any:
        """Do the compiled update."""
        if self._is_compiled:
            try:
                return self._graph(*args)
            except graph_gradients.compiler_error():
                pass  # it has to be compiled for other arguments
        with progress_note("compiling the update"), graph_gradients.gradients_in_graphs():
            result = self._graph(*args)
        self._is_compiled = True
        return result

    def _of_recordings(self, *args: Any) -> Any:
        """Do the update that is recorded: the compiled one, or itself if it cannot be compiled."""
        if self._graph is not None:
            try:
                return self._compiled(*args)
            except graph_gradients.compiler_error() as error:
                self._graph = None
                warn_user(
                    "compile=True records the update as a CUDA graph, but does not compile it before, which would be "
                    f"faster, as torch.compile failed: {type(error).__name__}: {error}"
                )
        with captured_steps():
            return self._update(*args)

    def _forget_old_recordings(self, optims: list[Any]) -> None:
        """Forget recordings if something has changed that they have fixed."""
        if self._registrations != registrations():
            self._find_fixed()
        values = [held.get(name) for held, name in self._numbers]
        fixed = [value if type(value) in _SETTINGS else None for value in values]
        fixed += [p.requires_grad for p in self._parameters]
        fixed += [self._addresses, *[optim.captured for optim in optims]]
        if fixed != self._fixed:
            self._recorded.forget()
            self._fixed = fixed

    def _find_fixed(self) -> None:
        """Find the numbers of the policy and its networks, their parameters, and where their tensors are."""
        self._registrations = registrations()
        modules = [] if self._policy is None else [*self._policy.modules()]
        attributes = ((vars(module), name, value) for module in modules for name, value in vars(module).items())
        public = (one for one in attributes if type(one[2]) in _SETTINGS and not one[1].startswith("_"))
        self._numbers = [(held, name) for held, name, _ in public if name not in _OF_ACTING]
        self._parameters = [p for module in modules for p in module.parameters(recurse=False)]
        buffers = [tensor for module in modules for tensor in module.buffers(recurse=False)]
        self._addresses = [tensor.data_ptr() for tensor in (*self._parameters, *buffers)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without the graph, which holds the networks that it was made of; a copy compiles its own."""
        return CompiledUpdate, (self._update, self._optimizers, self._policy)


def _devices(optims: Iterable[torch.optim.Optimizer]) -> Iterator[str]:
    return (p.device.type for optim in optims for group in optim.param_groups for p in group["params"])


def _own_code(update: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one, and has code and a name of its own: each code has a limit of
    recompilations, and the compiler takes dimensions for variable that have differed in functions of one name.
    """
    allowed = torch.compiler.assume_constant_result(graph_gradients.are_allowed)  # type: ignore[no-untyped-call]

    def whole(*args: Any) -> Any:
        if torch.compiler.is_compiling() and not allowed():
            raise RuntimeError("without this, a trace would end at the first gradient, in vain")
        return update(*args)

    name = f"whole_{next(_count)}"
    return FunctionType(whole.__code__.replace(co_name=name), globals(), name, None, whole.__closure__)


def pass_options(backend: str, devices: Collection[str] = ()) -> dict[str, Any]:
    """Return arguments of ``torch.compile``: no checks of what the guards of the graph have checked, and the quicker
    products of matrices, where there are any. On CUDA, convolutions keep their layout: the compiler takes a graph with
    gradients in it for one without, where channels last would be quicker.

    :param backend: the name of the compiler.
    :param devices: the types of the devices of the parameters.
    """
    if backend != "inductor":
        return {}
    options: dict[str, Any] = {"size_asserts": False, "alignment_asserts": False}
    if "cuda" in devices:  # the second one fails in PyTorch 2.11 where one kernel steps several parameters
        options |= {"layout_optimization": False, "loop_ordering_after_fusion": False}
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
