"""The inside of a collector: acting, storing what came of it, and beginning new episodes."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from rlfast.data import row_trees
from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer._columns import wrap_nested
from rlfast.data.collect.base import BaseCollector
from rlfast.data.collect.checks import rooms_of
from rlfast.data.collect.infos import LatestInfos, of_transitions
from rlfast.data.collect.observed import seen
from rlfast.data.collect.pending_steps import PendingSteps
from rlfast.data.collect.preprocessing import Preprocessing, as_arrays
from rlfast.data.converter import to_numpy
from rlfast.data.random_actions import RandomActions
from rlfast.env.vector.arguments import as_seeds
from rlfast.utils.checks import check_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rlfast.data.collect.checks import CollectOptions, Tally
    from rlfast.data.collect.observed import Before
    from rlfast.env.backends.base import Rows

    Ids = NDArray[np.int64]


class Stepping(BaseCollector):
    """Steps environments: :class:`~rlfast.data.Collector` says for how long, and whom it tells."""

    _preprocessing: Preprocessing | None

    @property
    def preprocess_fn(self) -> Any:
        """What changes the environments' answers before anything sees them, or None."""
        return self._preprocess_fn

    @preprocess_fn.setter
    def preprocess_fn(self, function: Any) -> None:
        check_function("preprocess_fn", function, optional=True)
        self._preprocess_fn = function
        self._preprocessing = None if function is None else Preprocessing(function)

    def _begin(self) -> None:
        """Knows nothing of the environments yet: all must be reset."""
        self._random_actions = RandomActions(self._action_space, self.env_num)
        self._resets_itself = self._envs.autoreset_mode not in (None, AutoresetMode.DISABLED)
        self._everyone = np.arange(self.env_num)
        self._stale = np.ones(self.env_num, dtype=bool)  # environments to be reset before they are stepped
        self._unseeded: NDArray[np.bool_] | None = None  # environments whose next reset is given a seed
        self._pending_steps = PendingSteps(self.env_num)
        self._infos = LatestInfos(self.env_num)
        self._obs: Any = None
        self._state: Any = None  # the policy's hidden state
        self._before: Before | None = None  # the newest transitions
        self._shows_steps = self._shows_episodes = False
        self._left: NDArray[np.int64] | None = None  # rows that each ring can take, where none may be lost
        self._dist: Any = None  # the policy's newest distribution of actions, where steps are shown
        self._dist_rows = 0

    # -- acting ------------------------------------------------------------------------------------------------------

    def _step(self, ids: Ids, options: CollectOptions) -> Rows:
        """Chooses the actions of ``ids``, sends them off, and waits for answers: theirs, unless the environment is
        asynchronous.
        """
        envs = self._envs
        if not len(ids):
            return envs.recv()
        where = None if len(ids) == self.env_num else ids  # all environments: no row needs to be picked
        obs = row_trees.take(self._obs, where)
        if options.random:
            act = self.policy.map_action_inverse(self._random_actions(ids))
            fields = {"obs": wrap_nested(obs), "act": wrap_nested(act)}
            if self._state is not None:  # it knows nothing of these steps
                self._state = row_trees.clear(self._state, ids)
            self._dist = None
        else:
            fields = self._choose(obs, ids, where, no_grad=options.no_grad)
        act = self.policy.map_action(fields["act"])
        self._pending_steps.put(ids, fields)
        if not envs.is_async:
            return envs.exchange(act, where)
        envs.send(act, where)
        return envs.recv()

    def _choose(self, obs: Any, ids: Ids, where: Ids | None, *, no_grad: bool) -> dict[str, Any]:
        """What the policy acted on, its action, and what is stored under ``policy``."""
        known = {"obs": wrap_nested(obs), "info": wrap_nested(self._infos.columns(ids))}  # all arrays: not parsed
        policy: Any = self.policy
        batch, before = seen(known, ids, self._before), row_trees.take(self._state, where)
        with torch.set_grad_enabled(not no_grad and torch.is_grad_enabled()):
            result: Any = policy(batch, before) if callable(policy) else policy.forward(batch, before)
        if isinstance(result, dict):
            result = Batch(result)
        act = to_numpy(result.act)
        if self.exploration_noise:
            act = policy.exploration_noise(act, batch)
        stored, state = result.get("policy"), result.get("state")
        extra = {} if stored is None else row_trees.storable(stored)
        self._state = row_trees.put(self._state, where, state, self.env_num)
        if state is not None:  # what the network starts from when it sees this observation again
            extra["hidden_state"] = (
                row_trees.zeros(row_trees.storable(state)) if before is None else row_trees.storable(before)
            )
        if self._shows_steps:
            self._dist, self._dist_rows = result.get("dist"), len(ids)
        fields = {"obs": wrap_nested(obs), "act": act}
        return {**fields, "policy": wrap_nested(extra)} if extra else fields

    # -- recording ---------------------------------------------------------------------------------------------------

    def _record(self, rows: Rows, tally: Tally) -> Ids:
        """Stores the transitions, and remembers where the next actions start; which environments' episodes ended."""
        ids = rows.env_id
        ends = True in rows.terminated.tobytes() or True in rows.truncated.tobytes()  # the quickest way to ask
        transition = {
            **self._pending_steps.take(ids),
            "rew": rows.rew,
            "terminated": rows.terminated,
            "truncated": rows.truncated,
            "obs_next": wrap_nested(as_arrays(rows.obs_next)),
            "info": wrap_nested(of_transitions(rows)),
        }
        if self._preprocessing is None:
            obs, info = as_arrays(rows.obs), rows.info
        else:
            obs, info = self._preprocessing.of_rows(transition, rows)
        self._before = ids, transition
        if rows.valid is None:
            ended = self._store(wrap(transition), ids, rows.done if ends else None, tally)
        else:
            ended = self._store_valid(transition, rows, tally)
        where = None if len(ids) == self.env_num else ids
        self._obs = row_trees.put(self._obs, where, obs, self.env_num)
        self._infos.put(ids, info)
        if rows.valid is not None:
            self._begin_anew(ids[rows.done | ~rows.valid], ids[rows.done])
        elif ends:
            self._begin_anew(ended, ended)
        return ended

    def _begin_anew(self, fresh: Ids, over: Ids) -> None:
        """In the environments ``fresh`` an episode begins, or will when those are reset whose last one is ``over``."""
        if self._state is not None:
            self._state = row_trees.clear(self._state, fresh)
        if not self._resets_itself:
            self._stale[over] = True

    def _store_valid(self, transition: dict[str, Any], rows: Rows, tally: Tally) -> Ids:
        """Stores those rows that are transitions; episodes that broke off end with the row before."""
        valid, done = rows.valid, rows.done
        assert valid is not None  # noqa: S101 (the caller saw to it)
        broken = rows.env_id[done & ~valid]
        if len(broken):
            self._close_episodes(broken)
            tally.broken += len(broken)
        if not valid.any():
            return broken[:0]
        kept = np.flatnonzero(valid)
        return self._store(wrap(row_trees.take(transition, kept)), rows.env_id[kept], done[kept], tally)

    def _store(self, transition: Batch, ids: Ids, done: NDArray[np.bool_] | None, tally: Tally) -> Ids:
        """One row for each of ``ids``; ``done`` is None where no episode ended."""
        if self._left is not None:
            self._take_room(ids)
        if self._shows_steps:
            transition = self._shown(transition, tally)
        index, ep_return, ep_len, _ = self.buffer.add(transition, buffer_ids=ids)
        tally.steps += len(ids)
        if done is None:
            return ids[:0]
        lens = ep_len[done]
        tally.returns.append(ep_return[done])
        tally.lens.append(lens)
        if self._shows_episodes:
            self._tell_of_episodes(index[done], ep_return[done], lens, tally)
        return ids[done]

    @contextmanager
    def losing_nothing(self) -> Iterator[None]:
        """While this lasts, a step whose row would take the place of one that was collected meanwhile is an error."""
        self._left = rooms_of(self.buffer, self.env_num)
        try:
            yield
        finally:
            self._left = None

    def _take_room(self, ids: Ids) -> None:
        assert self._left is not None  # noqa: S101 (the caller saw to it)
        full = ids[self._left[ids] == 0]
        if len(full):
            rooms = rooms_of(self.buffer, self.env_num)
            assert rooms is not None  # noqa: S101 (so it was at first)
            raise ValueError(
                f"environment {full[0]} has filled the {rooms[full[0]]} rows that the buffer has for it, and rows "
                "would be lost before they are learned from: make the buffer larger, or collect less at a time"
            )
        self._left[ids] -= 1

    def _shown(self, transition: Batch, tally: Tally) -> Batch:
        """The transitions after hooks have seen them."""
        raise NotImplementedError

    def _tell_of_episodes(self, last: Ids, returns: NDArray[Any], lens: NDArray[Any], tally: Tally) -> None:
        """Tells hooks of the episodes that ended in the rows ``last``."""
        raise NotImplementedError

    def _close_episodes(self, ids: Ids) -> None:
        close = getattr(self.buffer, "close_episodes", None)
        if close is not None:  # a buffer of the user's own may not know of it
            close(ids)

    # -- new episodes ------------------------------------------------------------------------------------------------

    def _begin_first(self, gym_reset_kwargs: dict[str, Any] | None) -> None:
        """Nothing: those that take part in a collect are reset in it."""

    def _reset_stale(self, ready: Ids, reset_kwargs: dict[str, Any]) -> None:
        """Resets those of ``ready`` that must be; a seed is kept for those that need it later."""
        self._unseeded = np.ones(self.env_num, dtype=bool) if reset_kwargs.get("seed") is not None else None
        if True not in self._stale.tobytes():
            return
        if self._stale[self._pending_steps.waiting].any():
            self._drop_answers()
        fresh = ready[self._stale[ready]]
        if len(fresh):
            self._reset(fresh, reset_kwargs)

    def _reset(self, ids: Ids, reset_kwargs: dict[str, Any]) -> None:
        """New episodes in ``ids``: observation, info and hidden state start anew; what ran in the buffer is closed."""
        where = None if len(ids) == self.env_num else ids
        obs, info = self._envs.reset_rows(where, **self._seeded_once(ids, reset_kwargs))
        obs = as_arrays(obs)
        if self._preprocessing is not None:
            obs, info = self._preprocessing.of_reset(obs, info, ids)
        self._close_episodes(ids)
        self._obs = row_trees.put(self._obs, where, obs, self.env_num)
        if self._state is not None:
            self._state = row_trees.clear(self._state, ids)
        self._stale[ids] = False
        self._was_reset = True
        self._infos.put(ids, info)

    def _seeded_once(self, ids: Ids, reset_kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a reset of ``ids``: a seed for those alone that have not had theirs."""
        if self._unseeded is None:
            return reset_kwargs
        wanted = self._unseeded[ids].tolist()
        self._unseeded[ids] = False
        seeds = as_seeds(reset_kwargs["seed"], self._everyone)
        return {**reset_kwargs, "seed": [seeds[i] if w else None for i, w in zip(ids.tolist(), wanted, strict=True)]}

    def _drop_answers(self) -> None:
        """Waits for the environments that are stepping; what they answer is for nobody, so they must start afresh."""
        self._stale[self._pending_steps.waiting] = True
        while self._envs.waiting_id:
            with suppress(Exception):  # they are reset, whatever state they are in
                self._envs.recv()
        self._pending_steps.clear()
