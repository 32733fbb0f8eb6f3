"""What a policy computes, in words that need no torch: the nodes of its network, and how actions come from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import nn

from rlfast.data.forms import Form
from rlfast.policy.native.lowering import lowered_network
from rlfast.policy.native.values import Node
from rlfast.utils.runtime.native import NotNativeError


class Discrete(NamedTuple):
    """Actions that are numbers from 0: for each group of numbers of a slot the place of the greatest, or a draw."""

    slot: int
    sizes: tuple[int, ...]
    """The numbers of each group."""
    logits: bool
    """Whether the numbers are logits, from which actions may be drawn."""


class Continuous(NamedTuple):
    """Actions that are real numbers: means, or draws from normal distributions."""

    mean: int
    """The slot of the means."""
    deviation: int | None
    """The slot of the standard deviations; None for actions that are never drawn."""
    squashed: bool
    """Whether actions are the hyperbolic tangents."""


class Described(NamedTuple):
    """How a policy computes its actions from the observations that its network sees."""

    inputs: int
    """The numbers of an observation and of a hidden state."""
    nodes: list[Node]
    """As :class:`rlfast._core.Network` takes them. Weights are not copied."""
    decision: Discrete | Continuous
    random: bool
    """Whether the policy draws its actions in the mode in which it is."""
    state: int | None = None
    """The slot of the next hidden state, whose numbers follow those of the observation; None if there is none."""


def described_groups(
    network: nn.Module, shape: tuple[int, ...] | Form, sizes: Sequence[int], *, random: bool | None = None
) -> Described:
    """Describe a policy that chooses several numbers, each from a group of outputs of its network.

    :param network: the policy's ``acting_network``.
    :param shape: the form of one observation, or the shape of an array of floats.
    :param sizes: how many outputs each group has. The groups of a network that returns ``[B, D, choices]`` have all
        the same room, and the outputs after so many of a group are left out.
    :param random: whether the policy draws actions; None (default) if the outputs are no logits, from which it could.
    :raises NotNativeError: torch must compute the network, for the reason in the text.
    """
    lowered = lowered_network(network, Form.given(shape))
    if len(lowered.outputs) != 1:
        raise NotNativeError("the network does not return one tensor of numbers")
    slot, (outputs, *room) = lowered.outputs[0], lowered.shapes[0]
    fits = outputs == len(sizes) and len(room) == 1 and room[0] >= max(sizes) if room else outputs == sum(sizes)
    if not fits:
        raise NotNativeError(f"the network computes {lowered.shapes[0]} numbers for actions of {[*sizes]}")
    if room and outputs * room[0] != sum(sizes):
        places = [group * room[0] + choice for group, size in enumerate(sizes) for choice in range(size)]
        slot = lowered.add("pick", slot, np.array(places, np.int64))
    state = lowered.state_slot()
    _, (slot, *states) = lowered.network([slot] if state is None else [slot, state])
    decision = Discrete(slot, (*sizes,), random is not None)
    return Described(lowered.inputs, lowered.nodes, decision, bool(random), *states)
