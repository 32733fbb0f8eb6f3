"""Choosing actions in Rust: what all ways share, and discrete actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlfast._core import Network, SchemaMismatch
from rlfast.data.batch.batch import wrap_nested
from rlfast.data.forms import Form
from rlfast.functional.distributions import Categorical
from rlfast.policy.native.described import Continuous, Described, Discrete
from rlfast.policy.native.lowering import Lowered, lowered_network
from rlfast.policy.native.tracing import called
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.torch_private.changes import ChangingNetworkError, ModuleVersion


class Basis:
    """What a choice in Rust, or a refusal of one, rests on.

    Attributes of the policy other than its ``acting_facts`` are taken to stay, and what stands in containers.

    :param policy: the policy.
    :param form: the form of one observation.
    :param version: the state of the network's modules; None for a network that will always be refused.
    """

    def __init__(self, policy: nn.Module, form: Form, version: ModuleVersion | None) -> None:
        self._network, self._form, self._version = _network_of(policy), form, version
        self._facts = _facts_of(policy)

    def is_current(self, policy: nn.Module, form: Form) -> bool:
        """Return whether the policy still acts as it did when this object was made; weights may differ.

        :param policy: the policy.
        :param form: the form of one observation.
        """
        return (
            _network_of(policy) is self._network
            and (form is self._form or form == self._form)
            and (self._version is None or self._version.is_current())
            and _facts_of(policy) == self._facts
        )


def _network_of(policy: nn.Module) -> nn.Module | None:
    """Return the network of a policy; None of one that acts without."""
    return getattr(policy, "acting_network", None)


def _facts_of(policy: nn.Module) -> tuple[Any, ...]:
    return tuple(map(partial(getattr, policy), cast("tuple[str, ...]", policy.acting_facts)))


class Chooser:
    """Chooses the action with the greatest number, the same that the policy itself would choose.

    Torch rounds differently, so where two actions are nearly as good no choice is made here.

    :param policy: the policy, whose ``acting_network`` computes a number for each action.
    :param form: the form of one observation.
    :raises NotNativeError: torch must compute the network, for the reason in the text.
    """

    is_random = False
    """Whether choices need random numbers."""
    _outputs: int | None = None
    """How many outputs of the network choices need; None for all."""

    def __init__(self, policy: Any, form: Form) -> None:
        network: nn.Module = policy.acting_network
        self.form = form
        """The form of one observation."""
        self._ahead: list[torch.Tensor] = []
        if ModuleVersion([*network.modules()], [], policy).has_hooks:
            raise NotNativeError("the policy or a network has hooks")
        if torch.is_autocast_enabled("cpu"):
            raise NotNativeError("autocast is on")
        lowered = lowered_network(network, form, self._outputs)
        self._module, self._refresh = lowered.module, lowered.host.refresh if lowered.host else lambda: None
        self.state_form = lowered.state_form
        """The form of the network's hidden state; None if it has none."""
        numbers, state = self._numbers(lowered), lowered.state_slot()
        if state is not None:
            numbers = [*numbers[:-1], lowered.last(numbers[-1])]
        self._network, slots = lowered.network(numbers if state is None else [*numbers, state])
        self._slots = slots[: len(numbers)]
        self._state = None if state is None else slots[-1]
        self._inputs, self._nodes = lowered.inputs, lowered.nodes
        tensors = [*lowered.tensors, *self._own_tensors(policy)]
        self.basis = Basis(policy, form, ModuleVersion(lowered.modules, tensors, policy, attributes=True))
        """What the choice rests on; weights may differ."""

    @property
    def network(self) -> Network:
        """The engine's network, with the weights of now."""
        self._refresh()
        return self._network

    def _numbers(self, lowered: Lowered) -> list[int]:
        """Return the slots that actions are chosen from, of which the greatest has a number for each action."""
        shapes = lowered.shapes
        if len(shapes) != 1 or len(shapes[0]) != 1:
            raise NotNativeError(f"the network computes {shapes} numbers for each row, not one for each action")
        return lowered.outputs

    def _own_tensors(self, policy: Any) -> list[tuple[nn.Module, str]]:
        """Return the tensors of the policy that the choice reads, as modules and names."""
        return []

    def _input(self, obs: object, state: object) -> Any:
        """Return observations and hidden states as the engine reads them.

        :raises SchemaMismatch: they are of another form.
        """
        numbers = self.form.flat(obs)
        if self.state_form is None:
            return numbers
        numbers = np.asarray(numbers).reshape(len(numbers), -1)
        before = np.zeros((len(numbers), self.state_form.size)) if state is None else self.state_form.flat(state)
        return np.concatenate([numbers, before.reshape(len(before), -1)], axis=1, dtype=np.float32, casting="unsafe")

    def _nested(self, state: NDArray[np.float32]) -> Any:
        """Return the numbers of hidden states as the network returns them, tensors."""
        form: Any = self.state_form
        sizes = [math.prod(part.shape) for part in form.parts]
        parts = torch.split(torch.from_numpy(state), sizes, dim=1)
        return form.nested([part.reshape(-1, *known.shape) for part, known in zip(parts, form.parts, strict=True)])

    def choose(self, obs: object, state: object = None) -> NDArray[Any] | None:
        """Choose actions; see :meth:`step`."""
        return self.step(obs, state)[0]

    def step(self, obs: Any, state: object = None) -> tuple[NDArray[Any] | None, Any]:
        """Choose actions, and compute the hidden state after them.

        :param obs: observations, ``[B, ...]``.
        :param state: the hidden state before. Default: zeros.
        :return: actions in the policy's form, discrete ones int64 ``[B]``, or None where the policy itself must choose
            them; and the next hidden state, None for networks without one.
        """
        return self._picked(obs, state)

    def _picked(
        self, obs: object, state: object, clocks: NDArray[np.float32] | None = None
    ) -> tuple[NDArray[np.int64] | None, Any]:
        try:
            if self._state is None:
                return self.network.choose(self._input(obs, state), clocks), None
            stepped = self.network.step(self._input(obs, state), self._state, clocks)
        except SchemaMismatch:
            return None, None
        return (None, None) if stepped is None else (stepped[0], self._nested(stepped[1]))

    def choose_one(self, obs: Any) -> Any:
        """Choose the action for one observation.

        :param obs: the observation.
        :return: the action in the policy's form; None where the policy itself must choose it.
        """
        try:
            if self.state_form is not None or self.is_random:
                chosen = self.choose(self.form.row_of(obs))
                return None if chosen is None else int(chosen[0])
            return self.network.choose_one(self.form.flat(obs, batched=False))
        except SchemaMismatch:
            return None

    def real_actions(self) -> tuple[int, int | None, bool] | None:
        """Return how real actions come from the network: see ``real`` of :func:`rlfast._core.collect`.

        :return: the slots of means and of deviations, and whether actions are the hyperbolic tangents; None for
            actions that are numbers of their own.
        :raises NotNativeError: actions come in another way.
        """
        return None

    def described(self) -> Described:
        """Return how actions are computed.

        :raises NotNativeError: they come in another way than from the outputs of the network alone.
        """
        self._refresh()
        return Described(self._inputs, self._nodes, self._decision(), self.is_random, self._state)

    def _decision(self) -> Discrete | Continuous:
        return Discrete(self._slots[-1], (self._network.outputs,), logits=False)

    # -- random choices ------------------------------------------------------------------------------------------------

    def _draw_for(self, policy: Any) -> None:
        """Draw from the stream of a policy, unless ``deterministic_eval`` is set and it is in evaluation mode."""
        self.is_random = bool(policy.training or not policy.deterministic_eval)
        self._stream: torch.Generator | None = policy._torch_rng  # noqa: SLF001 (None for torch's global one)

    def _draw(self, rows: int) -> torch.Tensor:
        """Draw the numbers of one choice, ``[rows, ...]``."""
        raise NotImplementedError

    def _next(self, rows: int) -> torch.Tensor:
        """Return the numbers of the next choice, those that were drawn ahead if they are for as many rows."""
        self._drop_others(rows)
        return self._ahead.pop(0) if self._ahead else self._draw(rows)

    def _drop_others(self, rows: int) -> None:
        """Drop numbers for another number of rows, which a collect that raised has left."""
        if self._ahead and len(self._ahead[0]) != rows:
            self._ahead.clear()

    def draw_ahead(self, steps: int, rows: int) -> NDArray[np.float32] | None:
        """Draw the random numbers of the next choices, which the next calls of :meth:`choose` use as well.

        :param steps: vector steps.
        :param rows: environments.
        :return: ``[steps, rows, actions]``; None if no choice is random.
        """
        if not self.is_random:
            return None
        self._drop_others(rows)
        self._ahead += [self._draw(rows) for _ in range(steps - len(self._ahead))]
        return torch.stack(self._ahead[:steps]).numpy()

    def used(self, steps: int) -> None:
        """Record that the numbers of :meth:`draw_ahead` were used.

        :param steps: for so many vector steps.
        """
        del self._ahead[:steps]

    def forget(self) -> None:
        """Drop numbers of :meth:`draw_ahead` that were not used, as the collect that drew them has raised."""
        self._ahead.clear()


class ExpectationChooser(Chooser):
    """Chooses the action with the greatest expected return, where a module computes a distribution for each action.

    :param policy: the policy, whose ``acting_network`` computes probabilities or quantiles.
    :param form: see :class:`Chooser`.
    :param atoms: how many numbers the module computes for each action.
    :param values: name of the policy's tensor of returns, whose probabilities they are; None if they are quantiles.
    :raises NotNativeError: see :class:`Chooser`.
    """

    def __init__(self, policy: Any, form: Form, *, atoms: int, values: str | None) -> None:
        self._atoms: int = atoms
        self._values_name = values
        self._values: torch.Tensor | None = None if values is None else getattr(policy, values)
        super().__init__(policy, form)

    def _numbers(self, lowered: Lowered) -> list[int]:
        if len(lowered.shapes) != 1 or lowered.shapes[0][1:] != (self._atoms,):
            raise NotNativeError(f"the network computes {lowered.shapes} numbers, not {self._atoms} for each action")
        slot = lowered.outputs[0]
        if self._values is None:
            return [lowered.add("mean", slot, self._atoms)]
        if lowered.exponents(slot, self._atoms) is None:
            raise NotNativeError("the network has no softmax where probabilities are needed")
        return [lowered.add("expectation", slot, lowered.weights(self._values))]

    def _own_tensors(self, policy: Any) -> list[tuple[nn.Module, str]]:
        return [] if self._values_name is None else [(policy, self._values_name)]


class ClockChooser(Chooser):
    """Draws actions from the categorical distribution whose logits a module computes.

    The random numbers are those that the policy itself would draw, from the same stream: torch draws from a categorical
    distribution by one exponentially distributed number for each action, and so does
    :class:`rlfast.functional.distributions.Categorical`.

    :param policy: the policy, whose ``acting_network`` computes probabilities or logits.
    :param dist_fn: the policy's function that makes the distribution.
    :raises NotNativeError: see :class:`Chooser`, or the distribution is another one.
    """

    def __init__(self, policy: object, form: Form, dist_fn: object) -> None:
        self._takes_probabilities = dist_fn is torch.distributions.Categorical
        if not self._takes_probabilities and dist_fn is not Categorical:
            raise NotNativeError("dist_fn is not one of the classes Categorical of torch and rlfast")
        super().__init__(policy, form)
        self._draw_for(policy)

    def _numbers(self, lowered: Lowered) -> list[int]:
        slots = super()._numbers(lowered)
        if not self._takes_probabilities:
            return slots
        logits = lowered.exponents(slots[0], lowered.shapes[0][0])  # the same distribution
        if logits is None:
            raise NotNativeError("the Categorical of torch takes probabilities, and the actor has no softmax")
        return [logits]

    def step(self, obs: object, state: object = None) -> tuple[NDArray[Any] | None, Any]:
        if not self.is_random:
            return super().step(obs, state)
        rows = self.form.rows(obs)
        if rows is None:
            return None, None
        clocks = self._next(rows)
        chosen, after = self._picked(obs, state, clocks.numpy())
        return self._chosen_by_torch(obs, state, clocks) if chosen is None else (chosen, after)

    def _chosen_by_torch(self, obs: object, state: object, clocks: torch.Tensor) -> tuple[NDArray[np.int64], Any]:
        with torch.no_grad():
            logits, after = called(self._module, wrap_nested(obs), state)
            kind = torch.distributions.Categorical if self._takes_probabilities else Categorical
            actions: NDArray[np.int64] = (kind(logits).probs / clocks).argmax(-1).numpy()
        return actions, after

    def _decision(self) -> Discrete:
        return Discrete(self._slots[-1], (self._network.outputs,), logits=True)

    def _draw(self, rows: int) -> torch.Tensor:
        return torch.empty(rows, self._network.outputs).exponential_(generator=self._stream)


DRAWING_FACTS = ("deterministic_eval", "training", "_torch_rng")
"""The ``acting_facts`` of a policy that draws unless ``deterministic_eval`` is set and it is in evaluation mode."""

_known: WeakKeyDictionary[Any, tuple[Basis, Chooser | str]] = WeakKeyDictionary()


def current_chooser(policy: nn.Module, shape: tuple[int, ...] | Form, make: Callable[[Form], Chooser]) -> Chooser:
    """Return the chooser of a policy, or refuse one: as in the last call, unless the policy has changed since.

    What is known is not kept in the policy, whose attributes are saved and copied.

    :param policy: the policy.
    :param shape: the form of one observation, or the shape of an array of floats.
    :param make: makes a chooser for observations of a form.
    :raises NotNativeError: it cannot be made.
    """
    form, known = Form.given(shape), _known.get(policy)
    if known is None or not known[0].is_current(policy, form):
        known = _known[policy] = _made(policy, form, make)
    _, chooser = known
    if isinstance(chooser, str):
        raise NotNativeError(chooser)
    return chooser


def forget(policy: nn.Module) -> None:
    """Forget the chooser of a policy, which has changed."""
    _known.pop(policy, None)


def _made(policy: nn.Module, form: Form, make: Callable[[Form], Chooser]) -> tuple[Basis, Chooser | str]:
    """Return a chooser, or why there is none, and what that rests on."""
    try:
        chooser = make(form)
    except ChangingNetworkError as error:
        return Basis(policy, form, None), str(error)
    except NotNativeError as error:
        network = _network_of(policy)
        modules = [] if network is None else [*network.modules()]
        tensors = [
            (module, name)
            for module in modules
            for held in (module.named_parameters(recurse=False), module.named_buffers(recurse=False))
            for name, _ in held
        ]
        return Basis(policy, form, ModuleVersion(modules, tensors, policy)), str(error)
    return chooser.basis, chooser
