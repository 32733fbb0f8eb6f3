"""A backend that runs a part of the environments elsewhere, and steps the others itself meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Backend, IsAllEnvs, Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.backends.rows import joined
from rlfast.utils import tree

Ids = NDArray[np.int64]
T = TypeVar("T")


class Split(Backend):
    """Runs the first environments in worker processes and the last ones in this process.

    This process steps its own share while the workers step theirs, so it does not sleep in between: to wake it again
    would take as long as a short step. Each part stacks its own observations, so the spaces of all environments must
    have the same nesting, shapes and dtypes.

    :param there: runs the environments ``0 .. M - 1`` in worker processes.
    :param here: runs the environments ``M .. N - 1`` in this process, in its method ``recv``. Its ``first_id`` is
        ``M``, so that its exceptions name the right environments.
    """

    placement = "split"
    takes_anything = True

    def __init__(self, there: Backend, here: Backend) -> None:
        self._there, self._here, self._first = there, here, there.num_envs
        self.num_envs = there.num_envs + here.num_envs
        self.autoreset_mode = there.autoreset_mode
        self.observation_spaces = [*(there.observation_spaces or ()), *(here.observation_spaces or ())]
        self.action_spaces = [*(there.action_spaces or ()), *(here.action_spaces or ())]
        self.single_observation_space = there.single_observation_space
        self.single_action_space = there.single_action_space
        self.metadata, self.spec, self.render_mode = there.metadata, there.spec, there.render_mode
        self._all = np.arange(self.num_envs)
        self._all.setflags(write=False)
        self._are_all = IsAllEnvs(self._all)
        self._stepping = np.zeros(self.num_envs, dtype=bool)
        self._received: list[Rows] = []  # results that have not been returned, as another part failed
        self._has_begun = False  # a reset, by begin_reset()

    def _ids_of_parts(self, ids: Ids) -> tuple[Ids, Ids]:
        """Returns the environments ``ids`` of the workers and of this process, each counted from 0."""
        if self._are_all(ids):
            return self._all[: self._first], self._all[: self._here.num_envs]
        is_there = ids < self._first
        return ids[is_there], ids[~is_there] - self._first

    def _parted(self, ids: Ids, values: Iterable[T]) -> tuple[list[T], list[T]]:
        """Returns the values of the workers' and of this process' environments; there is one for each of ``ids``."""
        pairs = list(zip(ids.tolist(), values, strict=True))
        return [one for i, one in pairs if i < self._first], [one for i, one in pairs if i >= self._first]

    def _merged(self, ids: Ids, there: Iterable[T], here: Iterable[T]) -> list[T]:
        """Reverses :meth:`_parted`."""
        own, other = iter(there), iter(here)
        return [next(own) if i < self._first else next(other) for i in ids.tolist()]

    # -- episodes ----------------------------------------------------------------------------------------------------

    def begin_reset(self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None) -> None:
        """As :meth:`Backend.begin_reset`."""
        for part, own, own_seeds in zip(
            (self._there, self._here), self._ids_of_parts(ids), self._parted(ids, seeds), strict=True
        ):
            if len(own):
                part.begin_reset(own, own_seeds, options)
        self._has_begun = True

    def reset(
        self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None, **more: Any
    ) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`."""
        (there, here), (seeds_there, seeds_here) = self._ids_of_parts(ids), self._parted(ids, seeds)
        if len(there) and not self._has_begun and not more:
            self._there.begin_reset(there, seeds_there, options)
        self._has_begun = False
        if not len(here):
            return self._there.reset(there, seeds_there, options, **more)
        try:
            obs, info = self._here.reset(here, seeds_here, options, **more)
        finally:  # the workers have begun, whatever happened here
            first = self._there.reset(there, seeds_there, options, **more) if len(there) else None
        if first is None:
            return obs, info
        obs = tree.joined([first[0], obs])
        if not self._are_all(ids):
            obs = tree.take(obs, np.argsort(np.argsort(ids >= self._first, kind="stable")))
        return obs, Info.of(self._merged(ids, first[1].dicts(), info.dicts()))

    def ready(self, count: int, timeout: float) -> bool:
        """As :meth:`Backend.ready`; this process does its own share in :meth:`recv`."""
        others = self._here.num_envs if self._has_begun else int(np.count_nonzero(self._stepping[self._first :]))
        return count <= others or self._there.ready(count - others, timeout)

    def seed(self, ids: Ids, seeds: Sequence[int | None]) -> None:
        """As :meth:`Backend.seed`."""
        (there, here), (seeds_there, seeds_here) = self._ids_of_parts(ids), self._parted(ids, seeds)
        if len(there):
            self._there.seed(there, seeds_there)
        if len(here):
            self._here.seed(here, seeds_here)

    def send(self, actions: Tree, ids: Ids) -> None:
        """As :meth:`Backend.send`."""
        if self._are_all(ids):
            places: tuple[Any, Any] = slice(self._first), slice(self._first, None)
        else:
            places = ids < self._first, ids >= self._first
        for part, own, place in zip((self._there, self._here), self._ids_of_parts(ids), places, strict=True):
            if len(own):
                part.send(tree.take(actions, place), own)
        self._stepping[ids] = True

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:
        """As :meth:`Backend.recv`. This process steps its own share first."""
        if here := int(np.count_nonzero(self._stepping[self._first :])):
            self._take(self._here, here, None)
        done = sum(len(rows.env_id) for rows in self._received)
        if there := int(np.count_nonzero(self._stepping[: self._first])):
            missing = max(0, min(there, min_ready - done))
            if missing and (timeout is None or not done):
                self._take(self._there, missing, timeout)
            else:
                self._there.ready(missing, timeout or 0.0)
                if self._there.ready(1, 0.0):
                    self._take(self._there, 1, None)
        received, self._received = self._received, []
        rows = received[0]
        for more in received[1:]:
            rows = joined(rows, more)
        return rows

    def _take(self, part: Backend, count: int, timeout: float | None) -> None:
        """Receives results of a part, the workers' in front of those of this process."""
        try:
            rows = part.recv(count, timeout)
        except Exception:
            if part.lost:
                first = self._first if part is self._here else 0
                self.lost, part.lost = [first + i for i in part.lost], ()
                self._stepping[self.lost] = False
            raise
        if part is self._here:
            rows.env_id = rows.env_id + self._first
        self._stepping[rows.env_id] = False
        self._received.insert(0 if part is self._there else len(self._received), rows)

    def drop(self) -> None:
        """As :meth:`Backend.drop`."""
        self._there.drop()
        self._here.drop()
        self._received, self._has_begun = [], False
        self._stepping.fill(False)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def get_attr(self, name: str, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_attr`."""
        there, here = self._ids_of_parts(ids)
        return self._merged(ids, self._there.get_attr(name, there), self._here.get_attr(name, here))

    def call(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        ids: Ids,
        timeout: float | None = None,
    ) -> list[Any]:
        """As :meth:`Backend.call`; the environments in worker processes come first."""
        there, here = self._ids_of_parts(ids)
        first = self._there.call(name, args, kwargs, there, timeout)
        return self._merged(ids, first, self._here.call(name, args, kwargs, here, timeout))

    def set_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_attr`."""
        (there, here), (first, second) = self._ids_of_parts(ids), self._parted(ids, values)
        self._there.set_attr(name, first, there)
        self._here.set_attr(name, second, here)

    def set_wrapper_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_wrapper_attr`."""
        (there, here), (first, second) = self._ids_of_parts(ids), self._parted(ids, values)
        self._there.set_wrapper_attr(name, first, there)
        self._here.set_wrapper_attr(name, second, here)

    def render(self, ids: Ids, **kwargs: Any) -> list[Any]:
        """As :meth:`Backend.render`."""
        there, here = self._ids_of_parts(ids)
        return self._merged(ids, self._there.render(there, **kwargs), self._here.render(here, **kwargs))

    def get_state(self, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_state`."""
        there, here = self._ids_of_parts(ids)
        return self._merged(ids, self._there.get_state(there), self._here.get_state(here))

    def set_state(self, states: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_state`."""
        (there, here), (first, second) = self._ids_of_parts(ids), self._parted(ids, states)
        self._there.set_state(first, there)
        self._here.set_state(second, here)

    def close(self) -> None:
        """As :meth:`Backend.close`."""
        try:
            self._here.close()
        finally:
            self._there.close()
