"""Modules as the nodes of a network in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rlfast._core import Network
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.common import MLP, Net
from rlfast.utils.runtime.native import NotNativeError


class Layers:
    """The nodes of a network that computes what modules compute, and the modules and tensors it rests on.

    Slots are numbered as in :class:`rlfast._core.Network`: slot 0 is the observation.
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self.modules: list[nn.Module] = []
        self.tensors: list[tuple[nn.Module, str]] = []
        self.inputs: int | None = None
        self.shared: set[int] = set()
        """Slots that several modules read."""
        self.atoms = 1
        """Numbers for each action that a network shall compute."""

    def add(self, *node: Any) -> int:
        """Add a node.

        :param node: as :class:`rlfast._core.Network` takes it.
        :return: its slot.
        """
        self.nodes.append(node)
        return len(self.nodes)

    def call_network(self, module: nn.Module, slot: int) -> int:
        """Add the nodes of a module that takes an observation and a state, and returns both.

        :param module: the module.
        :param slot: the slot of the observation.
        :return: the slot of the output.
        :raises NotNativeError: see :meth:`call`.
        """
        if not isinstance(module, Net | discrete.Actor | continuous.Actor):
            raise NotNativeError(f"{_name(module)} is not one of the networks of rlfast.utils.net")
        return self.call(module, slot)

    def call_atoms(self, module: nn.Module, slot: int, atoms: int, values: tuple[nn.Module, str] | None) -> int:
        """Add the nodes of a module that computes several numbers for each action, and of what they stand for.

        :param module: the module, which takes an observation and a state, and returns both.
        :param slot: the slot of the observation.
        :param atoms: how many numbers there are for each action.
        :param values: a module and the name of its tensor of returns, whose probabilities the numbers are; None if they
            are quantiles.
        :return: the slot of the expected returns, one for each action.
        :raises NotNativeError: see :meth:`call`.
        """
        self.atoms = atoms
        slot = self.call_network(module, slot)
        self.atoms = 1
        is_softmax = slot == len(self.nodes) and self.nodes[-1][0] == "softmax"
        if is_softmax != (values is not None):
            raise NotNativeError("the network has a softmax where quantiles, or none where probabilities are needed")
        if values is None:
            return self.add("mean", slot, atoms)
        return self.add("expectation", slot, self.tensor(*values))

    def call_normal(self, module: nn.Module, slot: int) -> tuple[int, int]:
        """Add the nodes of a module that takes an observation and a state, and returns means and deviations.

        :param module: the module.
        :param slot: the slot of the observation.
        :return: the slots of the means and of the standard deviations.
        :raises NotNativeError: see :meth:`call`.
        """
        kind = continuous.ActorProb
        if not isinstance(module, kind) or not same_forward(type(module), kind):
            raise NotNativeError(f"{_name(module)} is not the ActorProb of rlfast.utils.net")
        if isinstance(module.sigma, continuous.StateDependentNoise):
            raise NotNativeError("state-dependent noise (sde) is drawn in Python")
        self._rest_on(module)
        features = self.call_network(module.preprocess, slot)
        self.shared.add(features)
        mean = self.call(module.mu, features)
        if not module._unbounded:  # noqa: SLF001 (of this library)
            mean = _stretched(self, module, self.add("tanh", mean))
        elif module.clip_mean is not None:
            mean = self.add("clamp", mean, -module.clip_mean, module.clip_mean)
        if module.sigma is None:
            return mean, self.add("exp", self.add("constant", self.tensor(module, "sigma_param").reshape(-1)))
        log_std = self.add("clamp", self.call(module.sigma, features), continuous.SIGMA_MIN, continuous.SIGMA_MAX)
        return mean, self.add("exp", log_std)

    def call(self, module: nn.Module, slot: int) -> int:
        """Add the nodes of a module.

        :param module: a module that takes and returns one tensor, apart from a hidden state that is not used.
        :param slot: the slot of its input.
        :return: the slot of its output.
        :raises NotNativeError: it is of another kind than this class knows, or what it computes cannot be read.
        """
        own = type(module)
        kind = own if own in _KINDS else next((known for known in own.__mro__ if known in _OPEN_KINDS), None)
        if kind is None or not same_forward(own, kind):
            raise NotNativeError(f"{_name(module)} is not made of Linear layers and usual activations alone")
        self._rest_on(module)
        return _KINDS[kind](self, module, slot)

    def _rest_on(self, module: nn.Module) -> None:
        if "forward" in vars(module):
            raise NotNativeError(f"{_name(module)} has a forward of its own")
        self.modules.append(module)

    def tensor(self, owner: nn.Module, name: str) -> Any:
        """Return the numbers of a parameter, which are not copied.

        :param owner: the module that has it.
        :param name: its name.
        :return: an array; None if there is no such parameter.
        :raises NotNativeError: it is not a contiguous tensor of float32 on the CPU.
        """
        tensor: Any = getattr(owner, name)
        if tensor is None:
            return None
        if type(tensor) not in (nn.Parameter, torch.Tensor) or tensor.layout is not torch.strided:
            raise NotNativeError(f"a {name} of {_name(owner)} is a {type(tensor).__name__}")
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise NotNativeError(f"a {name} of {_name(owner)} is {tensor.dtype} on {tensor.device}, not float32 on cpu")
        self.tensors.append((owner, name))
        return tensor.detach().numpy()

    def takes(self, slot: int, inputs: int) -> None:
        """Record how many numbers a layer takes.

        :param slot: the slot of its input.
        :param inputs: the number.
        :raises NotNativeError: it takes observations, and another layer takes observations of another size.
        """
        if slot == 0:
            if self.inputs not in (None, inputs):
                raise NotNativeError("its first layers take observations of different sizes")
            self.inputs = inputs

    def network(self) -> Network:
        """Return the network of the nodes.

        :raises NotNativeError: it would be larger than networks in Rust may be, or it has no layer.
        """
        if self.inputs is None:
            raise NotNativeError("the network has no Linear layer")
        try:
            return Network(self.inputs, self.nodes)
        except ValueError as error:
            raise NotNativeError(f"the network cannot be computed: {error}") from error


def same_forward(kind: type, known: type) -> bool:
    """Return whether instances of a class are computed as those of a base class are.

    :param kind: the class.
    :param known: the base class.
    """
    names = ("forward", "__call__", "_call_impl", "_wrapped_call_impl", "__getattr__", "_atoms")
    return all(getattr(kind, name, None) is getattr(known, name, None) for name in names)


def _name(module: nn.Module) -> str:
    return type(module).__name__


def _linear(layers: Layers, module: nn.Module, slot: int) -> int:
    weight = layers.tensor(module, "weight")
    layers.takes(slot, weight.shape[1])
    return layers.add("linear", slot, weight, layers.tensor(module, "bias"), False)


def _noisy(layers: Layers, module: discrete.NoisyLinear, slot: int) -> int:
    names = ("mu_W", "sigma_W", "mu_bias", "sigma_bias", "eps_p", "eps_q")
    weight, deviation, bias, bias_deviation, noise_in, noise_out = (layers.tensor(module, name) for name in names)
    layers.takes(slot, weight.shape[1])
    mean = layers.add("linear", slot, weight, bias, False)
    if not module.training:
        return mean
    noise = layers.add("linear", layers.add("product", slot, noise_in), deviation, bias_deviation, False)
    return layers.add("sum", mean, layers.add("product", noise, noise_out))


def _relu(layers: Layers, _: nn.Module, slot: int) -> int:
    last = layers.nodes[-1] if layers.nodes and slot == len(layers.nodes) else ()
    if last and last[0] == "linear" and slot not in layers.shared:  # one pass over the outputs for both
        layers.nodes[-1] = (*last[:-1], True)
        return slot
    return layers.add("relu", slot)


def _function(name: str, *attributes: str) -> Callable[[Layers, Any, int], int]:
    """Return what adds an activation, whose numbers are attributes of the module."""

    def add(layers: Layers, module: object, slot: int) -> int:
        numbers = [getattr(module, attribute) for attribute in attributes]
        return layers.add(name, slot, *map(float, numbers))

    return add


def _sequence(layers: Layers, module: Any, slot: int) -> int:
    for part in module:
        slot = layers.call(part, slot)
    return slot


def _nothing(_: Layers, __: nn.Module, slot: int) -> int:
    return slot


def _dropout(_: Layers, module: nn.Module, slot: int) -> int:
    if module.training:
        raise NotNativeError("a Dropout is in training mode")
    return slot


def _mlp(layers: Layers, module: MLP, slot: int) -> int:
    if not module.flatten_input:
        raise NotNativeError("an MLP does not flatten its input")
    return layers.call(module.model, slot)


def _net(layers: Layers, module: Net[Any], slot: int) -> int:
    if (atoms := module.num_atoms) != layers.atoms:
        raise NotNativeError(f"the network computes {atoms} numbers for each action, not {layers.atoms}")
    slot = layers.call(module.model, slot)
    if module.Q is not None and module.V is not None:
        layers.shared.add(slot)
        advantage, value = (layers.call(part, slot) for part in (module.Q, module.V))
        slot = layers.add("dueling", advantage, value)
    if not module.softmax:
        return slot
    return layers.add("softmax", slot, *([atoms] if atoms > 1 else []))


def _discrete_actor(layers: Layers, module: discrete.Actor, slot: int) -> int:
    slot = layers.call(module.last, layers.call_network(module.preprocess, slot))
    return layers.add("softmax", slot) if module.softmax_output else slot


def _stretched(layers: Layers, module: Any, slot: int) -> int:
    return layers.add("scale", slot, float(module.max_action))


def _continuous_actor(layers: Layers, module: continuous.Actor, slot: int) -> int:
    slot = layers.call(module.last, layers.call_network(module.preprocess, slot))
    return _stretched(layers, module, layers.add("tanh", slot))


_KINDS: dict[type, Callable[[Layers, Any, int], int]] = {
    nn.Linear: _linear,
    discrete.NoisyLinear: _noisy,
    nn.Sequential: _sequence,
    nn.Identity: _nothing,
    nn.Dropout: _dropout,
    nn.ReLU: _relu,
    nn.LeakyReLU: _function("leaky_relu", "negative_slope"),
    nn.Tanh: _function("tanh"),
    nn.Sigmoid: _function("sigmoid"),
    nn.SiLU: _function("silu"),
    nn.ELU: _function("elu", "alpha"),
    MLP: _mlp,
    Net: _net,
    discrete.Actor: _discrete_actor,
    continuous.Actor: _continuous_actor,
}
_OPEN_KINDS = (MLP, Net, discrete.Actor, continuous.Actor)
"""Those of which subclasses are taken that do not override what computes the output."""
