"""Vector steps that are taken together in Rust: a network acts, environments step, and a buffer stores."""

# ruff: noqa: SLF001 (what Rust does in one call are steps of environments and rows of buffers)

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SchemaMismatch, collect
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.cached import CachedReplayBuffer
from rlfast.data.buffer.manager import ReplayBufferManager
from rlfast.data.collect.checks import reward_error
from rlfast.data.collect.episodes import Episodes
from rlfast.data.collect.limits import Limit, Tally
from rlfast.env import BaseVectorEnv, NativeVectorEnv
from rlfast.env.spaces.random_actions import RandomActions
from rlfast.utils.runtime.native import NotNativeError

if TYPE_CHECKING:
    from rlfast._core import NativeEnvs, Replay

_LONGEST = 1024
"""The most vector steps of one call with a limit of steps, as random numbers are drawn ahead for them."""
_ADD = (ReplayBuffer.add, ReplayBufferManager.add)


@dataclass(slots=True)
class NativeSteps:
    """Takes the vector steps of one collect, but those that need Python."""

    envs: NativeEnvs
    replay: Replay
    episodes: Episodes
    acting: dict[str, Any]
    """How actions are chosen, as :func:`rlfast._core.collect` takes it."""
    chooser: Any
    """Chooses the policy's actions; None for random ones."""
    room: NDArray[np.int64] | None
    """``[N]``: the rows that the buffer takes of each environment before it overwrites one that must not be lost."""
    steps_before: int | None
    """Steps before this collect, for the error of a reward that is not finite; None if rewards are not checked."""
    _one_by_one: bool = False  # whether the next vector step needs Python

    def take(self, limit: Limit, tally: Tally) -> bool:
        """Take vector steps, and count them.

        :return: whether any was taken. If not, the next one must be taken in Python.
        :raises NonFiniteError: a reward is NaN or infinite, and rewards are checked.
        """
        one_by_one, self._one_by_one = self._one_by_one, False
        whole, chooser = limit.whole_steps, self.chooser
        draws_ahead = chooser is not None and chooser.is_random
        if one_by_one or whole is None:
            return False
        if whole[0] == "steps":
            room = _LONGEST if self.room is None else int(self.room[limit.ready].min())
            whole = "steps", min(whole[1], room, _LONGEST)
            if not whole[1]:  # the next vector step in Python names the environment that has no row left
                return False
            if draws_ahead:
                self.acting["draws"] = chooser.draw_ahead(whole[1], self.episodes.env_num)
        elif self.room is not None or draws_ahead:
            return False
        try:
            answer = collect(
                self.envs, self.replay, obs=self.episodes.obs, ready=limit.ready, limit=whole, **self.acting
            )
        except SchemaMismatch:  # the buffer has no columns yet, or others
            return False
        return self._count(answer, limit, tally)

    def _count(self, answer: tuple[Any, ...], limit: Limit, tally: Tally) -> bool:
        """Record what a call of the engine has done, and return whether that is any vector step."""
        episodes = self.episodes
        episodes.obs, ready, left, vector_steps, rows, (returns, lens, stale), self._one_by_one, not_finite = answer
        episodes.unstepped[:] = False
        if self.chooser is not None:
            self.chooser.used(vector_steps)
        if not vector_steps:
            return False
        steps = int(rows.sum())
        limit.resume(ready, left, steps)
        tally.steps += steps
        tally.returns.append(returns)
        tally.lens.append(lens)
        episodes.before = None
        if self.room is not None:
            self.room -= rows
        if len(stale):
            episodes.stale[stale] = True
        if not_finite is not None and self.steps_before is not None:
            env, reward = not_finite
            raise reward_error(env, reward, self.steps_before + tally.steps)
        return True


def engines(envs: BaseVectorEnv, buffer: object) -> tuple[NativeEnvs, Replay]:
    """Return the engine of environments and that of a buffer.

    :raises NotNativeError: environments step, or rows are added, in Python.
    """
    if type(envs) is not NativeVectorEnv:
        raise NotNativeError("the environments are not native ones without wrappers")
    backend: Any = envs._backend
    if envs.single_observation_space.dtype != np.float32 or backend.info_fields:
        raise NotNativeError("the environments have infos, or observations that are not float32")
    if not isinstance(buffer, ReplayBuffer) or isinstance(buffer, CachedReplayBuffer):
        raise NotNativeError(f"rows of a {type(buffer).__name__} are added in Python")
    if type(buffer).add not in _ADD or "add" in vars(buffer) or not buffer._rows.whole or not buffer._store.quick:
        raise NotNativeError("rows are added in Python, as the buffer has a method of its own or stores objects")
    return backend.envs, buffer._core


def acting_of(policy: Any, chooser: Any, envs: BaseVectorEnv, *, noise: bool) -> dict[str, Any]:
    """Return how a policy acts.

    :param policy: the policy.
    :param chooser: what chooses its actions in Rust.
    :param envs: the environments.
    :param noise: whether its exploration noise is added.
    :raises NotNativeError: its noise is added, or its actions are mapped, in Python.
    """
    mapping, real = policy.native_map(), chooser.real_actions()
    if real is None and getattr(envs.single_action_space, "start", 1) != 0:
        raise NotNativeError("the environments do not count actions from 0")
    explore = policy.native_exploration() if noise else None
    return {"network": chooser.network, "explore": explore, "real": None if real is None else (*real, *mapping)}


def random_acting(policy: Any, actions: RandomActions) -> dict[str, Any]:
    """Return how random actions are drawn.

    :raises NotNativeError: they are not drawn alike for all environments, or the policy maps them.
    """
    streams = actions.streams()
    if streams is None:
        raise NotNativeError("random actions are drawn in Python")
    numbers = np.arange(streams[0])
    if not getattr(policy, "maps_no_action", False) or not np.array_equal(policy.map_action_inverse(numbers), numbers):
        raise NotNativeError("the policy maps actions")
    return {"network": None, "uniform": streams}
