"""The core of a collector: choosing actions, storing transitions, and beginning new episodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap, wrap_nested
from rlfast.data.collect.base import BaseCollector
from rlfast.data.collect.checks import CollectOptions, Tally, check_rewards, choice_error, row_capacities
from rlfast.data.collect.infos import LatestInfos, of_transitions
from rlfast.data.collect.observed import Before, policy_input
from rlfast.data.collect.pending_steps import PendingSteps
from rlfast.data.collect.preprocessing import Preprocessing, as_arrays
from rlfast.data.converter import to_numpy
from rlfast.data.random_actions import RandomActions, mask_of
from rlfast.env.backends.base import Rows
from rlfast.env.backends.rows import ordered
from rlfast.env.spaces.actions import check_shape
from rlfast.env.vector.arguments import as_seeds
from rlfast.utils import tree
from rlfast.utils.arguments.checks import check_function
from rlfast.utils.torch_utils import running_statistics

Ids = NDArray[np.int64]


class Stepping(BaseCollector):
    """Steps environments and stores transitions; :class:`~rlfast.data.Collector` adds limits, hooks and statistics."""

    _preprocessing: Preprocessing | None
    _checks_rewards = False  # within `finite_rewards`

    @property
    def preprocess_fn(self) -> Any:
        """The function that changes the results of the environments before they are used, or None."""
        return self._preprocess_fn

    @preprocess_fn.setter
    def preprocess_fn(self, function: Any) -> None:
        check_function("preprocess_fn", function, optional=True)
        self._preprocess_fn = function
        self._preprocessing = None if function is None else Preprocessing(function)

    def _begin(self) -> None:
        """Prepares for new environments: all of them must be reset before they are stepped."""
        self._random_actions = RandomActions(self._action_space, self.env_num, self._envs.single_action_space)
        self._resets_itself = self._envs.autoreset_mode not in (None, AutoresetMode.DISABLED)
        self._all_ids = np.arange(self.env_num)
        self._stale = np.ones(self.env_num, dtype=bool)  # environments to be reset before they are stepped
        self._unstepped = np.zeros(self.env_num, dtype=bool)  # environments that were reset and not stepped since
        self._unseeded: NDArray[np.bool_] | None = None  # environments whose next reset gets a seed
        self._pending_steps = PendingSteps(self.env_num)
        self._infos = LatestInfos(self.env_num)
        self._obs: Any = None
        self._state: Any = None  # the policy's hidden state
        self._before: Before | None = None  # the transitions of the previous step
        self._reports_steps = self._reports_episodes = False
        self._rows_left: NDArray[np.int64] | None = None  # rows that each ring buffer can take before it overwrites one
        self._chooser: Any = None  # chooses actions in Rust, in this collect
        self._dist: Any = None  # the policy's newest action distribution, if hooks are called
        self._dist_rows = 0

    # -- acting ------------------------------------------------------------------------------------------------------

    def _step(self, ids: Ids, options: CollectOptions) -> Rows:
        """Chooses actions for ``ids``, sends them to the environments, and waits for results.

        :return: the results of ``ids``; from an asynchronous environment, those of whichever finish first.
        """
        envs = self._envs
        if not len(ids):
            return self._receive()
        self._unstepped[ids] = False
        where = None if len(ids) == self.env_num else ids  # all environments: no row needs to be picked
        obs = tree.take(self._obs, where)
        if options.random:
            observed = wrap_nested(obs)
            act = self.policy.map_action_inverse(self._random_actions(ids, mask_of(observed)))
            fields = {"obs": observed, "act": wrap_nested(act)}
            if self._state is not None:  # the policy has not processed these observations
                self._state = tree.clear(self._state, ids)
            self._dist = None
        else:
            fields = self._choose(obs, ids, where, no_grad=options.no_grad)
        act = self._mapped(fields["act"])
        self._pending_steps.put(ids, fields)
        if not envs.is_async:
            return envs.exchange(act, where)
        envs.send(act, where)
        return self._receive()

    def _mapped(self, act: Any) -> Any:
        """Returns actions in the environment's form. Those of a user's own ``map_action`` may have any shape."""
        policy: Any = self.policy
        mapped = policy.map_action(act)
        shape = getattr(getattr(policy, "action_space", None), "shape", None)
        if shape and getattr(mapped, "ndim", None) == len(shape) and getattr(policy, "_maps_by_space", False):
            check_shape(mapped, policy.action_space, batch=True)  # there is no axis for the environments
        return mapped

    def _receive(self) -> Rows:
        """Waits for results of an asynchronous environment; those of all environments are put in order."""
        rows = self._envs.recv()
        return ordered(rows, self._all_ids) if len(rows.env_id) == self.env_num else rows

    def _choose(self, obs: Any, ids: Ids, where: Ids | None, *, no_grad: bool) -> dict[str, Any]:
        """Calls the policy.

        :return: the fields ``obs`` and ``act``, and ``policy`` if the policy gave something to store.
        """
        act = None if self._chooser is None else self._chooser.choose(obs)
        if act is not None and not self.exploration_noise:
            return {"obs": wrap_nested(obs), "act": act}
        seen = tree.writable(obs)  # networks and users may write to it
        known = {"obs": wrap_nested(seen), "info": wrap_nested(self._infos.columns(ids))}  # arrays need no parsing
        policy: Any = self.policy
        batch, before = policy_input(known, ids, self._before), tree.take(self._state, where)
        if act is not None:
            return {"obs": wrap_nested(obs), "act": policy.exploration_noise(act, batch)}
        try:
            with torch.set_grad_enabled(not no_grad and torch.is_grad_enabled()), running_statistics(policy):
                result: Any = policy(batch, before) if callable(policy) else policy.forward(batch, before)
        except Exception as error:
            if (better := choice_error(error, obs, ids, self._envs)) is error:
                raise
            raise better from error
        if isinstance(result, dict):
            result = Batch(result)
        act = to_numpy(result.act)
        if self.exploration_noise:
            act = policy.exploration_noise(act, batch)
        stored, state = result.get("policy"), result.get("state")
        extra = {} if stored is None else tree.storable(stored)
        self._state = tree.put(self._state, where, state, self.env_num)
        if state is not None:  # the network's initial state when it learns from this row
            extra["hidden_state"] = tree.zeros(tree.storable(state)) if before is None else tree.storable(before)
        if self._reports_steps:
            self._dist, self._dist_rows = result.get("dist"), len(ids)
        fields = {"obs": wrap_nested(obs), "act": act}
        return {**fields, "policy": wrap_nested(extra)} if extra else fields

    # -- recording ---------------------------------------------------------------------------------------------------

    def _record(self, rows: Rows, tally: Tally) -> Ids:
        """Stores transitions, and keeps the observations for the next actions.

        :return: the environments whose episode ended.
        """
        ids = rows.env_id
        ends = True in rows.terminated.tobytes() or True in rows.truncated.tobytes()  # the quickest test
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
            transition["obs_next"] = wrap_nested(tree.writable(as_arrays(rows.obs_next)))
            obs, info = self._preprocessing.of_rows(transition, rows)
        self._before = ids, transition
        if rows.valid is None:
            ended = self._store(wrap(transition), ids, rows.done if ends else None, rows.returns, tally)
        else:
            ended = self._store_valid(transition, rows, tally)
        where = None if len(ids) == self.env_num else ids
        self._obs = tree.put(self._obs, where, obs, self.env_num)
        self._infos.put(ids, info)
        if rows.valid is not None:
            fresh = rows.done | ~rows.valid
            self._start_episodes(ids[fresh], ids[rows.done])
            self._start_noise(fresh)
        elif ends:
            self._start_episodes(ended, ended)
            self._start_noise(rows.done)
        return ended

    def _start_noise(self, rows: NDArray[np.bool_]) -> None:
        """Tells a policy with noise which of the rows that it chose last are followed by the first of an episode.

        Rows of asynchronous environments come in another order than they were chosen in.
        """
        start = getattr(self.policy, "start_episodes", None)
        if start is not None and self.exploration_noise and not self._envs.is_async:
            start(rows)

    def _start_episodes(self, fresh: Ids, over: Ids) -> None:
        """Clears the hidden state of ``fresh``, and marks ``over`` for a reset if environments do not do it themselves.

        :param fresh: environments whose next step is the first of an episode.
        :param over: environments whose episode ended.
        """
        if self._state is not None:
            self._state = tree.clear(self._state, fresh)
        if not self._resets_itself:
            self._stale[over] = True

    def _store_valid(self, transition: dict[str, Any], rows: Rows, tally: Tally) -> Ids:
        """Stores the valid rows; where an environment failed, its episode is closed at the row before."""
        valid, done = rows.valid, rows.done
        assert valid is not None  # noqa: S101 (checked by the caller)
        broken = rows.env_id[done & ~valid]
        if len(broken):
            self._close_episodes(broken)
            tally.broken += len(broken)
        if not valid.any():
            return broken[:0]
        kept = np.flatnonzero(valid)
        returns = None if rows.returns is None else rows.returns[kept]
        return self._store(wrap(tree.take(transition, kept)), rows.env_id[kept], done[kept], returns, tally)

    def _store(
        self,
        transition: Batch,
        ids: Ids,
        done: NDArray[np.bool_] | None,
        returns: NDArray[Any] | None,
        tally: Tally,
    ) -> Ids:
        """Adds one row for each of ``ids`` to the buffer, and counts it.

        :param done: which episodes ended; None if none did.
        :param returns: the returns of the episodes so far; None for the sums of the rewards that are stored.
        :return: the environments whose episode ended.
        """
        if self._rows_left is not None:
            self._count_rows(ids)
        if self._reports_steps:
            transition = self._call_step_hooks(transition, tally)
        if self._checks_rewards:
            check_rewards(transition.rew, ids, self.collect_step + tally.steps)
        index, ep_return, ep_len, _ = self.buffer.add(transition, buffer_ids=ids)
        tally.steps += len(ids)
        if done is None:
            return ids[:0]
        ep_return = ep_return if returns is None else returns
        lens = ep_len[done]
        tally.returns.append(ep_return[done])
        tally.lens.append(lens)
        if self._reports_episodes:
            self._call_episode_hooks(index[done], ep_return[done], lens, tally)
        return ids[done]

    @contextmanager
    def finite_rewards(self) -> Iterator[None]:
        """Returns a context in which a reward of NaN or infinity raises NonFiniteError. Trainers collect in it."""
        self._checks_rewards = True
        try:
            yield
        finally:
            self._checks_rewards = False

    @contextmanager
    def without_overwriting(self) -> Iterator[None]:
        """Returns a context in which a step raises ValueError if its row would overwrite one that was added in it."""
        self._rows_left = row_capacities(self.buffer, self.env_num)
        try:
            yield
        finally:
            self._rows_left = None

    def _count_rows(self, ids: Ids) -> None:
        assert self._rows_left is not None  # noqa: S101 (checked by the caller)
        full = ids[self._rows_left[ids] == 0]
        if len(full):
            capacities = row_capacities(self.buffer, self.env_num)
            assert capacities is not None  # noqa: S101 (it was not None when the context began)
            raise ValueError(
                f"environment {full[0]} has filled the {capacities[full[0]]} rows that the buffer has for it, and rows "
                "would be lost before they are learned from: make the buffer larger, or collect less at a time"
            )
        self._rows_left[ids] -= 1

    def _call_step_hooks(self, transition: Batch, tally: Tally) -> Batch:
        """Calls the step hooks, and returns the transitions with the changes that they made."""
        raise NotImplementedError

    def _call_episode_hooks(self, last: Ids, returns: NDArray[Any], lens: NDArray[Any], tally: Tally) -> None:
        """Calls the episode hooks for the episodes whose last rows are ``last``."""
        raise NotImplementedError

    def _close_episodes(self, ids: Ids) -> None:
        close = getattr(self.buffer, "close_episodes", None)
        if close is not None:  # a buffer of the user's own class may not have this method
            close(ids)

    # -- new episodes ------------------------------------------------------------------------------------------------

    def _begin_first(self, gym_reset_kwargs: dict[str, Any] | None) -> None:
        """Does nothing: a collect resets the environments that take part in it."""

    def _reset_stale(self, ready: Ids, reset_kwargs: dict[str, Any]) -> None:
        """Resets those of ``ready`` that are marked for it; a seed is kept for environments that are reset later."""
        self._unseeded = np.ones(self.env_num, dtype=bool) if reset_kwargs.get("seed") is not None else None
        if True not in self._stale.tobytes():
            return
        if self._stale[self._pending_steps.waiting].any():
            self._discard_pending()
        fresh = ready[self._stale[ready]]
        if len(fresh):
            self._reset(fresh, reset_kwargs)

    def _reset(self, ids: Ids, reset_kwargs: dict[str, Any]) -> None:
        """Begins new episodes in ``ids``: clears hidden states, and closes the running episodes in the buffer."""
        where = None if len(ids) == self.env_num else ids
        self._stale[ids] = True  # until all of this is done
        obs, info = self._envs.reset_rows(where, **self._seeded_once(ids, reset_kwargs))
        obs = as_arrays(obs)
        if self._preprocessing is not None:
            obs, info = self._preprocessing.of_reset(tree.writable(obs), info, ids)
        self._close_episodes(ids)
        self._obs = tree.put(self._obs, where, obs, self.env_num)
        if self._state is not None:
            self._state = tree.clear(self._state, ids)
        self._unstepped[ids] = True
        self._infos.put(ids, info)
        if where is None:
            self._start_noise(np.ones(self.env_num, np.bool_))
        self._was_reset = True
        self._stale[ids] = False

    def _seeded_once(self, ids: Ids, reset_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a reset of ``ids``, with seeds only for environments that had none yet."""
        if self._unseeded is None:
            return reset_kwargs
        wanted = self._unseeded[ids].tolist()
        self._unseeded[ids] = False
        seeds = as_seeds(reset_kwargs["seed"], self._all_ids)
        return {**reset_kwargs, "seed": [seeds[i] if w else None for i, w in zip(ids.tolist(), wanted, strict=True)]}

    def _discard_pending(self) -> None:
        """Discards the results of pending steps, and marks their environments for a reset."""
        self._stale[self._pending_steps.waiting] = True
        if self._envs.waiting_id:
            self._envs._abandon()  # noqa: SLF001 (the next call waits for them)
        self._pending_steps.clear()
