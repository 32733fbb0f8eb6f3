"""An adapter for vector environments with Gymnasium's interface: Gymnasium's own and those of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from rlfast.env.adapters.base import Wrapped
from rlfast.env.backends.base import Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.backends.rows import take
from rlfast.env.spaces.collation import collate_as
from rlfast.env.vector.arguments import as_autoreset_mode
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.gymnasium_protocol import batched, unbatched
from rlfast.utils import tree

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


class GymnasiumBackend(Wrapped):
    """A backend over a vector environment that always steps all of its environments together.

    If a subset is to be stepped or reset, and the vector environment supports this only for all environments, the
    others are stepped or reset as well. Their episodes are lost, so they must be reset before their next step.

    :param env: a vector environment with the interface of :class:`gymnasium.vector.VectorEnv`.
    :raises ValueError: it steps environments in groups (``batch_size``), or its autoreset mode is unknown.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        kind = type(env.unwrapped)
        super().__init__(env, env.num_envs, metadata=dict(env.metadata), spec=env.spec or _spec_of_first(env))
        self.placement = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        self._of_ale = kind.__module__.startswith("ale_py")
        if getattr(env.unwrapped, "batch_size", self.num_envs) != self.num_envs:
            raise ValueError(
                f"{self.placement} answers in groups of {getattr(env.unwrapped, 'batch_size', None)} of "
                f"{self.num_envs} environments, and cannot step given ones: leave out its batch_size"
            )
        self.autoreset_mode = self._mode()
        own = env.unwrapped
        self._resets_some = self._of_ale or isinstance(own, SyncVectorEnv | AsyncVectorEnv | BaseVectorEnv)
        self._fresh = self._of_ale or (isinstance(own, SyncVectorEnv | AsyncVectorEnv) and own.copy)
        self._all = np.arange(self.num_envs)
        self._all.setflags(write=False)
        self._ended = np.zeros(self.num_envs, dtype=bool)  # the episode has ended
        self._lost = np.zeros(self.num_envs, dtype=bool)  # stepped or reset together with others
        self._pending_step: tuple[Tree, Ids] | None = None  # actions and environments
        self._last: Tree | None = None  # the last action of each environment
        self._is_calling = False  # an AsyncVectorEnv: whether a call of it was interrupted

    def _mode(self) -> AutoresetMode:
        # The attribute comes first, because some classes write the mode into a metadata dict that all instances share.
        given = getattr(self.env.unwrapped, "autoreset_mode", None) or self.env.metadata.get("autoreset_mode")
        if given is None:
            self._warn(
                f"{self.placement} does not declare its autoreset mode (metadata['autoreset_mode']): assuming "
                "NEXT_STEP, in which the step after the end of an episode only resets"
            )
        return as_autoreset_mode(given) or AutoresetMode.NEXT_STEP

    def reset(self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`."""
        some = len(ids) < self.num_envs
        whole = self._all
        given: list[int | None] = [None] * self.num_envs
        for i, seed in zip(ids.tolist(), seeds, strict=True):
            given[i] = seed
        if some and self._resets_some:
            mask = np.zeros(self.num_envs, dtype=bool)
            mask[ids] = True
            whole = np.flatnonzero(mask)
            options = {**(options or {}), "reset_mask": mask}
        elif some:
            self._lost[:] = True
        seed = self._seeds(given, whole)
        arguments = {name: value for name, value in (("seed", seed), ("options", options)) if value is not None}
        obs, infos = self._call(self.env.reset, **arguments)
        self._ended[whole] = False
        self._lost[ids] = False
        shown, info = self._own(obs), Info(self.num_envs, columns=tree.copied(dict(infos)))
        if not some:
            return shown, info
        dicts = info.dicts()
        return tree.take(shown, ids), Info.of([dicts[i] for i in ids.tolist()])

    def _seeds(self, seeds: list[int | None], ids: Ids) -> Any:
        given = [seeds[i] for i in ids.tolist()]
        if all(seed is None for seed in given):
            return None
        first = given[0]
        if first is not None and len(ids) == self.num_envs and given == list(range(first, first + len(given))):
            return first
        if self._of_ale:
            return np.array([-1 if seed is None else seed for seed in given])  # -1: ALE chooses a seed
        return seeds

    def send(self, actions: Tree, ids: Ids) -> None:
        """As :meth:`Backend.send`.

        :raises RuntimeError: a step is pending, or one of the environments was stepped or reset together with others.
        """
        if self._pending_step is not None:
            raise RuntimeError(f"{self.placement} steps all its environments together: call recv() before send()")
        if self._lost[ids].any():
            raise RuntimeError(
                f"environments {ids[self._lost[ids]].tolist()} were stepped along with others, as "
                f"{self.placement} steps all together: call reset() for them first"
            )
        if len(ids) < self.num_envs:
            if self._last is None:  # the others need some action of the space; its effect is discarded
                self._last = tree.map_leaves(lambda leaf: np.repeat(leaf[:1], self.num_envs, axis=0), actions)
            actions = tree.put(self._last, ids, actions)
            others = np.ones(self.num_envs, dtype=bool)
            others[ids] = False
            self._lost |= others
            if self._resets_some and self.autoreset_mode is AutoresetMode.DISABLED and (others & self._ended).any():
                self.env.reset(options={"reset_mask": others & self._ended})  # they are stepped as well
        elif not np.array_equal(ids, self._all):
            actions = tree.take(actions, np.argsort(ids))
        self._last = actions
        if isinstance(self.env, AsyncVectorEnv):
            self._call(self.env.step_async, self._batched(actions))
        self._pending_step = actions, ids

    def _batched(self, actions: Tree) -> Any:
        return batched(self.single_action_space, actions)

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:  # noqa: ARG002
        """As :meth:`Backend.recv`; the results of all environments arrive together."""
        assert self._pending_step is not None  # noqa: S101 (BaseVectorEnv.recv checks it)
        (actions, ids), self._pending_step = self._pending_step, None
        if isinstance(self.env, AsyncVectorEnv):
            rows = self._rows(*self._call(self.env.step_wait))
        else:
            rows = self._rows(*self.env.step(self._batched(actions)))
        return rows if np.array_equal(ids, rows.env_id) else take(rows, ids)

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Calls a method of the vector environment, and notes whether the call was interrupted."""
        self._is_calling = isinstance(self.env, AsyncVectorEnv)
        try:
            result = function(*arguments, **options)
        except Exception:
            self._is_calling = False
            raise
        self._is_calling = False
        return result

    def drop(self) -> None:
        """As :meth:`Backend.drop`.

        :raises RuntimeError: a call of an ``AsyncVectorEnv`` was interrupted. Results of it may still arrive, and this
            class would take them for those of later calls.
        """
        if self._is_calling:
            raise RuntimeError(
                f"{self.placement} was interrupted while it exchanged results with its processes, and may mistake "
                "old results for new ones: make a new one, or use SubprocVectorEnv, which recovers"
            )
        if isinstance(self.env, AsyncVectorEnv):
            with suppress(Exception):  # also if nothing is pending
                self._call(self.env.step_wait)
        self._pending_step = None

    def _rows(self, obs: object, rewards: object, ends: object, cuts: object, infos: dict[str, Any]) -> Rows:
        infos = tree.copied(dict(infos))
        obs = self._own(obs)
        rows = Rows(
            self._all,
            obs,
            obs,
            np.array(rewards, dtype=np.float64),
            np.array(ends, dtype=bool),
            np.array(cuts, dtype=bool),
            Info(self.num_envs, columns=infos),
        )
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            if self._ended.any():
                rows.valid = ~self._ended
            self._ended = rows.done & ~self._ended
        elif self.autoreset_mode is AutoresetMode.DISABLED:
            self._ended = rows.done
        elif np.count_nonzero(done := rows.done):
            self._add_final(rows, done, infos)
        return rows

    def _add_final(self, rows: Rows, done: Flags, infos: dict[str, Any]) -> None:
        """For SAME_STEP: moves the final observations and infos of episodes that ended from the infos to ``rows``."""
        final = next((infos.pop(key) for key in ("final_obs", "final_observation") if key in infos), None)
        info = infos.pop("final_info", None)
        for key in ("_final_obs", "_final_observation", "_final_info"):
            infos.pop(key, None)
        if isinstance(info, dict):
            rows.final_info = Info(len(done), columns=info)
        elif info is not None:  # an array of dicts, as in Gymnasium 0.29
            rows.final_info = Info(len(done), {k: info[k] for k in np.flatnonzero(done).tolist() if info[k]})
        if final is None:
            self._warn(
                f"{self.placement} does not give the final observations of episodes (infos['final_obs']): steps in "
                "which an episode is truncated are left out, because their next observation is not known"
            )
            if (lost := rows.truncated & ~rows.terminated).any():
                rows.valid = ~lost
            return
        at = np.flatnonzero(done)
        if isinstance(final, np.ndarray) and final.dtype == object and len(final) == len(done):
            ended = collate_as(self.single_observation_space, [final[k] for k in at])
        else:  # arrays with a row for each environment
            ended = tree.take(np.asarray(final) if isinstance(final, list) else final, at)
        rows.obs_next = tree.put(rows.obs, at, ended)

    def _own(self, obs: object) -> Tree:
        """Copies observations unless ``env`` returns new arrays; tuples of elements become arrays of objects."""
        return unbatched(self.single_observation_space, obs, copy=not self._fresh)


def _spec_of_first(env: VectorEnv[Any, Any, Any]) -> Any:
    """Returns the registration of the first environment, which Gymnasium's own classes leave out of their ``spec``."""
    own = env.unwrapped
    return own.get_attr("spec")[0] if isinstance(own, SyncVectorEnv | AsyncVectorEnv) else None
