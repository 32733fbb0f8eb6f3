"""Choosing continuous actions in Rust."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import Distribution

from rlfast._core import Network, SchemaMismatch
from rlfast.data.forms import Form
from rlfast.functional.distributions import DiagonalNormal
from rlfast.policy.components.distributions import draw
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.native.described import Continuous
from rlfast.policy.native.lowering import Lowered
from rlfast.utils.net.continuous import state_dependent_noise
from rlfast.utils.runtime.native import NotNativeError


class ContinuousChooser(Chooser):
    """Takes the output of a deterministic actor as actions. They equal those of the policy but for rounding.

    :param policy: the policy.
    :param form: the form of one observation.
    :param act_shape: the shape of one action.
    :raises NotNativeError: see :class:`Chooser`.
    """

    def __init__(self, policy: object, form: Form, act_shape: tuple[int, ...]) -> None:
        super().__init__(policy, form)
        self._act_shape = act_shape

    def _numbers(self, lowered: Lowered) -> list[int]:
        if len(lowered.outputs) != 1:
            raise NotNativeError("the actor does not return one tensor of actions")
        return lowered.outputs

    def step(self, obs: Any, state: object = None) -> tuple[NDArray[Any] | None, Any]:
        slots = self._slots if self._state is None else [*self._slots, self._state]
        try:
            outputs = self.network.forward(self._input(obs, state), slots)
        except SchemaMismatch:
            return None, None
        after = None if self._state is None else self._nested(outputs.pop())
        act = self._actions(*outputs)
        return act.reshape(len(act), *self._act_shape), after

    def real_actions(self) -> tuple[int, int | None, bool]:
        return self._slots[0], None, False

    def _decision(self) -> Continuous:
        mean, deviation, squashed = self.real_actions()
        return Continuous(mean, deviation, squashed)

    def choose_one(self, obs: object) -> Any:
        actions = self.choose(self.form.row_of(obs))
        return None if actions is None else actions[0]

    def _actions(self, *outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return actions from the outputs of the actor, new arrays ``[B, size]``."""
        return outputs[0]


class NormalChooser(ContinuousChooser):
    """Draws actions from normal distributions, with the numbers that the policy itself would draw from its stream.

    :param policy: the policy, whose actor computes means and standard deviations. It draws unless
        ``deterministic_eval`` is set and it is in evaluation mode.
    :param form: the form of one observation.
    :param act_shape: the shape of one action.
    :param squashed: whether actions are the hyperbolic tangents of what is drawn. Default: False.
    :param dist: a method of the policy that makes the distribution from means and standard deviations; None (default)
        for :class:`rlfast.functional.distributions.DiagonalNormal`.
    :raises NotNativeError: see :class:`Chooser`.
    """

    def __init__(
        self,
        policy: Any,
        form: Form,
        act_shape: tuple[int, ...],
        *,
        squashed: bool = False,
        dist: Callable[[tuple[torch.Tensor, ...]], Distribution] | None = None,
    ) -> None:
        if state_dependent_noise(policy.acting_network) is not None:
            own = dist is not None and policy.dist_fn is not DiagonalNormal
            if policy.training or not policy.deterministic_eval or own:
                raise NotNativeError("state-dependent noise (sde) is drawn in Python")
            self._outputs = 1
        super().__init__(policy, form, act_shape)
        self._draw_for(policy)
        # The tangents of torch and of NumPy are rounded in other ways, and whole collects compute them in Rust.
        self._tangent = Network(self._size, [("tanh", 0)]) if squashed else None
        # The policy is a key of a weak dictionary, so its method must not keep it alive.
        self._dist = None if dist is None or policy.dist_fn is DiagonalNormal else WeakMethod(dist)

    def _numbers(self, lowered: Lowered) -> list[int]:
        if len(lowered.shapes) != 2 or len({*lowered.shapes}) != 1:
            raise NotNativeError("the actor does not return means and standard deviations")
        self._size = math.prod(lowered.shapes[0])
        return lowered.outputs

    def _actions(self, *outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        dist = None if self._dist is None else self._dist()
        if dist is not None:
            made = dist(tuple(map(torch.from_numpy, outputs)))
            drawn: NDArray[np.float32] = (draw(made, self._stream) if self.is_random else made.mode).numpy()
            return drawn
        act, *deviation = outputs
        if self.is_random:
            act += deviation[0] * self._next(len(act)).numpy()
        return act if self._tangent is None else self._tangent.forward(act, (1,))[0]

    def real_actions(self) -> tuple[int, int | None, bool]:
        if self._dist is not None:
            raise NotNativeError("dist_fn makes the distribution of actions")
        mean, *deviation = self._slots
        return mean, deviation[0] if self.is_random else None, self._tangent is not None

    def _decision(self) -> Continuous:
        return super()._decision()._replace(deviation=self._slots[1] if self._outputs is None else None)

    def _draw(self, rows: int) -> torch.Tensor:
        return torch.randn(rows, self._size, dtype=torch.float32, generator=self._stream)
