"""Networks of torch as programs of the engine.

A network is run once on random observations (:mod:`~rlfast.policy.native.tracing`), and each call of torch becomes
nodes of a :class:`rlfast._core.Network`, whose weights are read where they are. Calls that only move numbers, such as
``view``, ``chunk`` or ``x[:, 1:]``, are done on the places of the numbers. The program is then compared with the
network on other observations.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlfast._core import Network
from rlfast.data.batch.batch import Batch
from rlfast.data.forms import Form
from rlfast.policy.native.host import HostCopy, is_elsewhere
from rlfast.policy.native.operations import OPERATIONS
from rlfast.policy.native.tracing import Example, called, trace
from rlfast.policy.native.values import Node, Program
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.torch_private.changes import is_compiled, undone
from rlfast.utils.tree import leaves, map_leaves

_logger = logging.getLogger(__name__)

ROWS = 3
"""The rows of the traced batch."""
TOLERANCE = 1e-4
"""How far a program's outputs may be from the network's, as a share of the largest: well above rounding, well below
what another computation gives."""


LAYERS = ("linear", "linear_turned", "conv")
"""The nodes whose last part says whether negative results become 0."""


def lowered_network(module: nn.Module, shape: tuple[int, ...] | Form, outputs: int | None = None) -> Lowered:
    """Return a network as a program, or log why it is none; see :class:`Lowered`.

    :param module: see :class:`Lowered`.
    :param shape: see :class:`Lowered`.
    :param outputs: see :class:`Lowered`.
    :raises NotNativeError: see :class:`Lowered`.
    """
    try:
        return Lowered(module, shape, outputs)
    except NotNativeError as error:
        _logger.info("%s acts by torch: %s", type(module).__name__, error)
        raise


class Lowered:
    """A network as a program of the engine.

    :param module: called as ``module(obs)``; returns an output, or a tuple of outputs, and the next hidden state.
    :param shape: the form of one observation, or the shape of an array of floats.
    :param outputs: how many outputs are needed, the first ones; None (default) for all.
    :raises NotNativeError: torch must compute them, for the reason in the text.
    """

    def __init__(self, module: nn.Module, shape: tuple[int, ...] | Form, outputs: int | None = None) -> None:
        self.modules = [*module.modules()]
        if any(is_compiled(part) for part in self.modules):
            raise NotNativeError("it contains a result of torch.compile")
        dtypes = {tensor.dtype for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point()}
        if wrong := dtypes - {torch.float32}:
            raise NotNativeError(f"its weights are {wrong.pop()}, not float32")
        self.host = HostCopy(module) if is_elsewhere(module) else None
        """The copy whose weights are read, of a network on another device."""
        self.module = module if self.host is None else self.host.network
        """The network on the CPU."""
        self._modules = [*self.module.modules()]
        self._owners = {
            id(tensor): (owner, name)
            for owner, part in zip(self.modules, self._modules, strict=True)
            for name, tensor in itertools.chain(part.named_parameters(recurse=False), part.named_buffers(recurse=False))
        }
        draws = torch.Generator().manual_seed(0)
        form = Form.given(shape)
        if not form.size:
            raise NotNativeError("observations are empty")
        self._examples = [Example.of(form, rows, draws) for rows in (ROWS, 1, 2)]
        self.state_form: Form | None = None
        """The form of the hidden state, whose numbers follow those of the observation; None if there is none."""
        (given, *_), self._states = self._examples, []
        with undone(self._modules):
            inputs, traced = given.tensors, trace(self.module, given.obs, None, OPERATIONS)
        if traced.state is not None:
            self.state_form = _form_of_state(traced.state, ROWS)
            self._states = [Example.of(self.state_form, rows, draws) for rows in (ROWS, 1, 2)]
            inputs = [*inputs, *self._states[0].tensors]
            with undone(self._modules):
                traced = trace(self.module, given.obs, self._states[0].obs, OPERATIONS)
        self._program = Program(inputs, tensors_of(self._modules))
        for call in traced.calls:
            try:
                OPERATIONS[call.name](self._program, call)
            except NotNativeError as error:
                self._program.refuse(call.result, error)
            except (TypeError, ValueError, AttributeError, RuntimeError, IndexError, ArithmeticError) as error:
                text = f"a call of torch's {call.name} was not understood: {error!r:.200}"
                self._program.refuse(call.result, NotNativeError(text))
        self.outputs = [self._program.rows(output) for output in traced.outputs[:outputs]]
        """The slots of the outputs that are needed."""
        self.shapes = [tuple(output.shape[1:]) for output in traced.outputs]
        """The shapes of the outputs of one row."""
        self.states = [self._program.rows(state) for state in leaves_of(traced.state)]
        """The slots of the next hidden state."""
        self.inputs = self._program.inputs
        """The numbers of an observation."""
        self.nodes: list[Node] = []
        """The nodes of the last :meth:`network`."""

    def weights(self, tensor: Tensor) -> Any:
        """Return the numbers of a tensor for a node; see :meth:`Program.weights`.

        :param tensor: the tensor.
        """
        return self._program.weights(tensor)

    @property
    def tensors(self) -> Iterator[tuple[nn.Module, str]]:
        """The parameters and buffers that the program reads, as modules and names."""
        return (self._owners[id(tensor)] for tensor in self._program.read if id(tensor) in self._owners)

    def state_slot(self) -> int | None:
        """Return the slot of all numbers of the next hidden state, one after the other; None if there is none."""
        return self._program.joined(self.states) if self.states else None

    def last(self, slot: int) -> int:
        """Return the last slot with the numbers of a slot, which are copied if another one is the last.

        :param slot: the slot.
        """
        return self._program.last(slot)

    def add(self, *node: Any) -> int:
        """Add a node.

        :param node: as :class:`rlfast._core.Network` takes it.
        :return: its slot.
        """
        return self._program.add(*node)

    def exponents(self, slot: int, size: int) -> int | None:
        """Return the slot of the exponents, if a slot is a softmax in groups.

        :param slot: the slot of the probabilities.
        :param size: the numbers of a group.
        :return: the slot; None if it is none.
        """
        name, *parts = self._program.node(slot)
        return int(parts[0]) if name == "softmax" and parts[1] == size else None

    def network(self, slots: Sequence[int]) -> tuple[Network, list[int]]:
        """Return the engine's network, with what ``slots`` need, and their new numbers.

        :param slots: the slots that are used. The greatest becomes the last one.
        :raises NotNativeError: it would be larger than the engine's networks may be, or computes other numbers than
            the module.
        """
        compared = [*self.outputs, *self.states]
        nodes, numbers = pruned(self._program.nodes, [*slots, *compared])
        network = _engine(self._program.inputs, nodes)
        self._compare(network, [numbers[slot] for slot in compared])
        self.nodes, numbers = pruned(self._program.nodes, slots)
        return _engine(self._program.inputs, self.nodes), [numbers[slot] for slot in slots]

    def _compare(self, network: Network, slots: list[int]) -> None:
        """Compare the outputs of a network of the engine with those of the module."""
        cases: list[tuple[NDArray[np.float32], object, object]] = []
        for k, given in enumerate(self._examples):
            if self._states:
                state = self._states[k]
                cases.append((np.concatenate([given.flat, state.flat], axis=1), given.obs, state.obs))
                zeros = np.zeros_like(state.flat)  # at the beginning of an episode
                cases.append((np.concatenate([given.flat, zeros], axis=1), given.obs, None))
            else:
                cases.append((given.flat, given.obs, None))
            cases.append((cases[-1][0], given.arrays, None))
        for numbers, obs, before in cases:
            try:
                with undone(self._modules):
                    output, after = called(self.module, obs, before)
            except (TypeError, AttributeError):
                if any(obs is given.arrays for given in self._examples):  # it takes tensors alone
                    continue
                raise
            of_obs = output if isinstance(output, tuple | list) else (output,)
            outputs = [*of_obs[: len(self.outputs)], *leaves_of(after)]
            for wanted, found in zip(outputs, network.forward(numbers, slots), strict=True):
                wanted_BN = wanted.reshape(len(found), -1).numpy()
                if not (abs(found - wanted_BN) <= TOLERANCE * abs(wanted_BN).max(initial=1.0)).all():
                    raise NotNativeError(
                        f"{type(self.module).__name__} computes other numbers than the operations that it calls: "
                        "its forward depends on the batch size, on what it did before, or on whether it gets arrays"
                    )


def leaves_of(state: object) -> list[Any]:
    """Return the tensors of a hidden state; none of None.

    :param state: the state.
    """
    return [] if state is None else [*leaves(state)]


def _form_of_state(state: Any, rows: int) -> Form:
    """Return the form of a hidden state.

    :raises NotNativeError: it is not a tensor of float32, or a dict of such tensors, with the batch first.
    """
    parts = leaves_of(state) if isinstance(state, dict | Batch | Tensor) else []
    if not parts or not all(
        isinstance(part, Tensor) and part.dtype == torch.float32 and part.dim() and len(part) == rows for part in parts
    ):
        raise NotNativeError("the hidden state is not a dict of tensors of float32 whose first axis is the batch")
    return Form.of(map_leaves(lambda part: part.detach().numpy(), state), batched=True)


def tensors_of(modules: Sequence[nn.Module]) -> list[Tensor]:
    """Return the parameters and buffers of modules, and other attributes of them that are tensors.

    :param modules: the modules.
    """
    found: list[Tensor] = []
    for module in modules:
        found += [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        found += [value for value in vars(module).values() if isinstance(value, Tensor)]
    return found


def _engine(inputs: int, nodes: list[Node]) -> Network:
    if not any(node[0] in LAYERS for node in nodes):
        raise NotNativeError("the network has no linear layer")
    try:
        return Network(inputs, nodes)
    except ValueError as error:
        raise NotNativeError(f"the network cannot be computed: {error}") from error


def pruned(nodes: Sequence[Node], slots: Sequence[int]) -> tuple[list[Node], dict[int, int]]:
    """Return the nodes that slots need, with each ReLU in the layer before it, and the new numbers of slots.

    :param nodes: node ``k`` computes slot ``k + 1``.
    :param slots: the slots that are needed.
    """
    uses = dict.fromkeys(slots, 2)  # what is read outside is never overwritten by a ReLU
    for slot in range(len(nodes), 0, -1):
        if slot in uses:
            for below in inputs_of(nodes[slot - 1]):
                uses[below] = uses.get(below, 0) + 1
    kept: list[Node] = []
    numbers = {0: 0}
    for slot, node in enumerate(nodes, 1):
        if slot not in uses:
            continue
        renumbered = with_inputs(node, [numbers[below] for below in inputs_of(node)])
        below = numbers.get(node[1], 0) if node[0] == "relu" else 0
        if below == len(kept) > 0 and kept[-1][0] in LAYERS and uses[node[1]] == 1:
            kept[-1] = (*kept[-1][:-1], True)
        else:
            kept.append(renumbered)
        numbers[slot] = len(kept)
    return kept, numbers


_PAIRS = {"add", "subtract", "multiply", "divide", "maximum", "minimum"}


def inputs_of(node: Node) -> list[int]:
    """Return the slots that a node reads.

    :param node: as :class:`rlfast._core.Network` takes it.
    """
    name = node[0]
    if name == "constant":
        return []
    if name == "join":
        return [int(slot) for slot in node[1]]
    return list(node[1:3] if name in _PAIRS else node[1:2])


def with_inputs(node: Node, slots: Sequence[int]) -> Node:
    """Return a node that reads other slots.

    :param node: the node.
    :param slots: as many slots as it reads.
    """
    if node[0] == "join":
        return ("join", np.array(slots, np.int64))
    return (node[0], *slots, *node[1 + len(slots) :])
