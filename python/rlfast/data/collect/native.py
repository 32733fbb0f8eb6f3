"""The part of a collector that lets policies act, and native environments step, in Rust."""

# ruff: noqa: SLF001 (what Rust does in one call are steps of environments and rows of buffers)

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from rlfast._core import SchemaMismatch, collect
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.cached import CachedReplayBuffer
from rlfast.data.buffer.manager import ReplayBufferManager
from rlfast.data.collect.checks import CollectOptions, Tally, reward_error
from rlfast.data.collect.hook_calls import HookCalls
from rlfast.data.collect.limits import Limit
from rlfast.data.collect.stepping import Stepping
from rlfast.env import NativeVectorEnv
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.runtime.native import NotNativeError

_MODES = (True, False, "auto")
_LONGEST = 1024
"""The most vector steps of one call with a limit of steps, as random numbers are drawn ahead for them."""
_METHODS = ("_step", "_choose", "_record", "_store", "_reset")
"""Methods in whose place vector steps are taken in Rust."""
_ADD = (ReplayBuffer.add, ReplayBufferManager.add)


class NativeCollecting(HookCalls):
    """Chooses actions in Rust where they are the policy's own, and collects there from native environments."""

    _native_acting: bool | Literal["auto"]

    @property
    def native_acting(self) -> bool | Literal["auto"]:
        """Whether actions are chosen in Rust: True, False or ``"auto"``."""
        return self._native_acting

    @native_acting.setter
    def native_acting(self, value: bool | Literal["auto"]) -> None:
        if not any(value is mode or (isinstance(value, str) and value == mode) for mode in _MODES):
            raise ArgumentError(f'native_acting must be "auto", True or False, got {value!r:.50}')
        self._native_acting = value

    def __repr__(self) -> str:
        policy, envs = type(self.policy).__name__, self.env_num
        return f"{type(self).__name__}({policy}, {envs} environments, {self._how()})"

    def _how(self) -> str:
        """Returns in words how a collect without options would choose actions and step environments now."""
        self._choose_listeners()
        try:
            chooser = self._native_chooser(CollectOptions(random=False, no_grad=True, render=None))
        except NotNativeError as error:
            return f"acting by torch: {error}"
        try:
            self._acting(chooser)
        except NotNativeError as error:
            return f"acting in Rust, one vector step at a time: {error}"
        return "collecting in Rust"

    # -- choosing ----------------------------------------------------------------------------------------------------

    def _choose_chooser(self, options: CollectOptions) -> None:
        """Determines what chooses the actions of a collect.

        :raises ValueError: ``native_acting`` is True, and the policy cannot act in Rust.
        """
        self._chooser = None
        try:
            if not options.random:
                self._chooser = self._native_chooser(options)
        except NotNativeError as error:
            if self._native_acting is True:
                raise ArgumentError(f'native_acting is True, but {error}: give "auto" or False') from error

    def _native_chooser(self, options: CollectOptions) -> Any:
        make = getattr(type(self.policy), "native_chooser", None)
        if self._native_acting is False:
            raise NotNativeError("native_acting is False")
        if make is None:
            raise NotNativeError(f"{type(self.policy).__name__} has no native_chooser")
        if not options.no_grad:
            raise NotNativeError("no_grad is False")
        if self._reports_steps:
            raise NotNativeError("hooks and statistics of one's own are given the policy's distribution")
        if self._state is not None:
            raise NotNativeError("there are hidden states")
        return make(self.policy)

    # -- whole collects ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        super()._begin()
        self._one_by_one = False  # whether the next vector step is made outside of Rust

    def _collect_whole_steps(
        self, limit: Limit, tally: Tally, options: CollectOptions, reset_kwargs: dict[str, Any]
    ) -> bool:
        """Takes vector steps in Rust, where policy, environments and buffer allow that.

        :return: whether any was taken. If not, the next one must be taken by :meth:`Stepping._step`.
        """
        one_by_one, self._one_by_one = self._one_by_one, False
        chooser, whole = self._chooser, limit.whole_steps
        if one_by_one or options.render is not None or reset_kwargs or whole is None:
            return False
        draws_ahead = chooser is not None and chooser.is_random
        if whole[0] != "steps" and (self._rows_left is not None or draws_ahead):
            return False
        try:
            acting = self._random_acting() if options.random else self._acting(chooser)
            if whole[0] == "steps":
                whole = "steps", min(whole[1], self._room(limit), _LONGEST)
                if not whole[1]:  # the next vector step tells which environment has no row left
                    return False
                if draws_ahead:
                    acting["draws"] = chooser.draw_ahead(whole[1], self.env_num)
            return self._collect_in_rust(limit, tally, whole, acting)
        except (NotNativeError, SchemaMismatch):
            return False

    def _room(self, limit: Limit) -> int:
        """Returns how many vector steps the buffer takes before it overwrites a row that must not be lost."""
        return _LONGEST if self._rows_left is None else int(self._rows_left[limit.ready].min())

    def _check_whole_steps(self) -> None:
        """Checks that vector steps can be taken in Rust, however actions are chosen.

        :raises NotNativeError: they cannot.
        """
        if any(getattr(type(self), name) is not getattr(Stepping, name) for name in _METHODS):
            raise NotNativeError(f"{type(self).__name__} has methods of its own")
        if self._reports_episodes or self._preprocessing is not None:
            raise NotNativeError("there are hooks, statistics of one's own, or a preprocess_fn")
        envs: Any = self._envs
        if type(envs) is not NativeVectorEnv:
            raise NotNativeError("the environments are not native ones without wrappers")
        space = envs.single_observation_space
        if space.dtype != np.float32 or envs._backend.info_fields:
            raise NotNativeError("the environments have infos, or observations that are not float32")
        buffer: Any = self.buffer
        if not isinstance(buffer, ReplayBuffer) or isinstance(buffer, CachedReplayBuffer):
            raise NotNativeError(f"rows of a {type(buffer).__name__} are added in Python")
        if type(buffer).add not in _ADD or "add" in vars(buffer) or not buffer._rows.whole or not buffer._store.quick:
            raise NotNativeError("rows are added in Python, as the buffer has a method of its own or stores objects")

    def _acting(self, chooser: Any) -> dict[str, Any]:
        """Returns how the policy acts, as :func:`rlfast._core.collect` takes it.

        :param chooser: what chooses the policy's actions; None for the policy itself.
        :raises NotNativeError: vector steps, or the choices, cannot be made in Rust.
        """
        if chooser is None:
            raise NotNativeError("the policy chooses in Python")
        self._check_whole_steps()
        policy: Any = self.policy
        mapping = policy.native_map()
        real = chooser.real_actions()
        if real is None and getattr(cast("Any", self._envs).single_action_space, "start", 1) != 0:
            raise NotNativeError("the environments do not count actions from 0")
        explore = policy.native_exploration() if self.exploration_noise else None
        real = None if real is None else (*real, *mapping)
        return {"network": chooser.network, "explore": explore, "real": real}

    def _random_acting(self) -> dict[str, Any]:
        """Returns how random actions are drawn, as :func:`rlfast._core.collect` takes it.

        :raises NotNativeError: vector steps, or the draws, cannot be made in Rust.
        """
        streams = self._random_actions.streams()
        if self._native_acting is False or self._state is not None or self._reports_steps or streams is None:
            raise NotNativeError("random actions are drawn in Python")
        policy: Any = self.policy
        if not getattr(policy, "maps_no_action", False):
            raise NotNativeError("the policy maps actions")
        self._check_whole_steps()
        return {"network": None, "uniform": streams}

    def _collect_in_rust(self, limit: Limit, tally: Tally, whole: tuple[str, Any], acting: dict[str, Any]) -> bool:
        envs, store = cast("NativeVectorEnv", self._envs)._backend.envs, self.buffer._core
        answer = collect(envs, store, obs=self._obs, ready=limit.ready, limit=whole, **acting)
        self._obs, after, left, vector_steps, rows, (returns, lens, stale), undecided, not_finite = answer
        if self._chooser is not None:
            self._chooser.used(vector_steps)
        self._one_by_one = undecided
        self._unstepped[:] = False
        if not vector_steps:
            return False
        steps = int(rows.sum())
        limit.resume(after, left, steps)
        tally.steps += steps
        tally.returns.append(returns)
        tally.lens.append(lens)
        self._before = None
        if self._rows_left is not None:
            self._rows_left -= rows
        if len(stale):
            self._stale[stale] = True
        if not_finite is not None and self._checks_rewards:
            raise reward_error(*not_finite, self.collect_step + tally.steps)
        return True
