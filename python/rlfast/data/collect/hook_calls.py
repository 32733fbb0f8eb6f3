"""The part of a collector that calls the user's hooks and statistics."""

# ruff: noqa: SLF001 (the whole columns of a buffer have Tianshou's name)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.fields import set_fields
from rlfast.data.collect.checks import Tally
from rlfast.data.collect.stepping import Stepping
from rlfast.data.stats import CollectStats
from rlfast.utils.arguments.checks import check_function

Ids = NDArray[np.int64]
StepFunction: TypeAlias = Callable[[Any, Any], None]
EpisodeFunction: TypeAlias = Callable[[Any], dict[str, NDArray[Any]] | None]


class WithDist(Batch):
    """A batch with an attribute ``dist``, a distribution or None, that is not one of its fields."""

    __slots__ = ("dist",)


def _with_dist(fields: dict[str, Any], dist: Any) -> WithDist:
    batch: WithDist = object.__new__(WithDist)
    set_fields(batch, fields)
    WithDist.__dict__["dist"].__set__(batch, dist)
    return batch


class HookCalls(Stepping):
    """Calls hooks after steps and episodes."""

    def set_on_step_hook(self, hook: StepFunction | None) -> None:
        """Sets the function that is called after every step; None for none.

        :raises TypeError: ``hook`` cannot be called.
        """
        check_function("on_step_hook", hook, optional=True)
        self._on_step_hook = hook

    def get_on_step_hook(self) -> StepFunction | None:
        """Returns the function that is called after every step, or None."""
        return self._on_step_hook

    def set_on_episode_done_hook(self, hook: EpisodeFunction | None) -> None:
        """Sets the function that is called at the end of every episode; None for none.

        :raises TypeError: ``hook`` cannot be called.
        """
        check_function("on_episode_done_hook", hook, optional=True)
        self._on_episode_done_hook = hook

    def get_on_episode_done_hook(self) -> EpisodeFunction | None:
        """Returns the function that is called at the end of every episode, or None."""
        return self._on_episode_done_hook

    def run_on_step_hook(self, action_batch: Any, rollout_batch: Any) -> None:
        """Calls the step hook, if there is one. A subclass may override it instead of setting a hook.

        :param action_batch: the actions; see :class:`~rlfast.data.collector.CollectActionBatchProtocol`.
        :param rollout_batch: the transitions; changes to them are stored.
        """
        if self._on_step_hook is not None:
            self._on_step_hook(action_batch, rollout_batch)

    def run_on_episode_done(self, episode_batch: Any) -> dict[str, NDArray[Any]] | None:
        """Calls the episode hook, if there is one. A subclass may override it instead of setting a hook.

        :param episode_batch: the transitions of the episode.
        :return: fields to add to the rows of the episode; None for none.
        """
        return None if self._on_episode_done_hook is None else self._on_episode_done_hook(episode_batch)

    def _begin(self) -> None:
        super()._begin()
        kind = type(self)
        self._own_step = kind.run_on_step_hook is not HookCalls.run_on_step_hook
        self._own_episode = kind.run_on_episode_done is not HookCalls.run_on_episode_done

    def _choose_listeners(self) -> None:
        """Determines whether this collect must pass its steps and its episodes to hooks or statistics."""
        own_stats = self.collect_stats_class is not CollectStats
        self._reports_steps = own_stats or self._own_step or self._on_step_hook is not None
        self._reports_episodes = own_stats or self._own_episode or self._on_episode_done_hook is not None

    def _call_step_hooks(self, transition: Batch, tally: Tally) -> Batch:
        fields = transition.__dict__
        dist = self._dist if self._dist is not None and len(transition) == self._dist_rows else None
        stored = fields.get("policy", Batch())
        actions = {
            "act": fields["act"],
            "act_normalized": self.policy.map_action(fields["act"]),
            "policy_entry": stored,
            "hidden_state": stored.get("hidden_state"),
        }
        step = _with_dist({**fields, "done": fields["terminated"] | fields["truncated"]}, dist)
        self.run_on_step_hook(_with_dist(actions, dist), step)
        if tally.custom_stats is not None:
            tally.custom_stats.update_at_step_batch(step)
        return wrap(
            {
                key: value
                for key, value in step.__dict__.items()
                if key != "done" and not isinstance(value, torch.distributions.Distribution)
            }
        )

    def _call_episode_hooks(self, last: Ids, returns: NDArray[Any], lens: NDArray[Any], tally: Tally) -> None:
        for newest, value, length in zip(last.tolist(), returns, lens.tolist(), strict=True):
            rows = self.buffer.rows_until(newest, length)
            episode = self.buffer[rows]
            added = self.run_on_episode_done(episode)
            if added:
                if not tally.whole_episodes:
                    raise ValueError(
                        f"on_episode_done_hook adds {', '.join(added)} to the rows of an episode, and rows of episodes "
                        "that are running would have no such values: collect by n_episode"
                    )
                for key, column in added.items():
                    _set_rows(self.buffer, key, np.asarray(column), rows)
                    setattr(episode, key, column)
            if tally.custom_stats is not None:
                tally.custom_stats.update_at_episode_done(episode, value)


def _set_rows(buffer: Any, key: str, values: NDArray[Any], rows: Ids) -> None:
    """Writes ``values`` to the ``rows`` of a field. The other rows of a new field are NaN (None among objects)."""
    if len(values) != len(rows):
        raise ValueError(f"on_episode_done_hook gave {len(values)} values of {key} for an episode of {len(rows)} rows")
    if key in buffer._meta:
        column = np.array(buffer._meta[key])
    else:
        dtype = np.result_type(values, np.float32) if values.dtype.kind in "biuf" else object
        column = np.full((buffer.maxsize, *values.shape[1:]), None, dtype)  # which is NaN among numbers
    column[rows] = values
    buffer._meta[key] = column
