"""The part of a collector that tells hooks and statistics of the user's own what happens."""

# ruff: noqa: SLF001 (the whole columns of a buffer have Tianshou's name)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.fields import set_fields
from rlfast.data.collect.stepping import Stepping
from rlfast.data.stats import CollectStats
from rlfast.utils.checks import check_function

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rlfast.data.collect.checks import Tally

    Ids = NDArray[np.int64]
    StepFunction: TypeAlias = Callable[[Any, Any], None]
    EpisodeFunction: TypeAlias = Callable[[Any], dict[str, NDArray[Any]] | None]


class WithDist(Batch):
    """A batch with a distribution, or None, beside its fields; it has no rows of its own, and is not stored."""

    __slots__ = ("dist",)


def _with_dist(fields: dict[str, Any], dist: Any) -> WithDist:
    batch: WithDist = object.__new__(WithDist)
    set_fields(batch, fields)
    WithDist.__dict__["dist"].__set__(batch, dist)
    return batch


class HookCalls(Stepping):
    """Calls hooks after steps and episodes."""

    def set_on_step_hook(self, hook: StepFunction | None) -> None:
        """Says what is called after every step; None: nothing."""
        check_function("on_step_hook", hook, optional=True)
        self._on_step_hook = hook

    def get_on_step_hook(self) -> StepFunction | None:
        """What is called after every step."""
        return self._on_step_hook

    def set_on_episode_done_hook(self, hook: EpisodeFunction | None) -> None:
        """Says what is called at the end of every episode; None: nothing."""
        check_function("on_episode_done_hook", hook, optional=True)
        self._on_episode_done_hook = hook

    def get_on_episode_done_hook(self) -> EpisodeFunction | None:
        """What is called at the end of every episode."""
        return self._on_episode_done_hook

    def run_on_step_hook(self, action_batch: Any, rollout_batch: Any) -> None:
        """Calls the hook; a subclass may do here what a hook would."""
        if self._on_step_hook is not None:
            self._on_step_hook(action_batch, rollout_batch)

    def run_on_episode_done(self, episode_batch: Any) -> dict[str, NDArray[Any]] | None:
        """Calls the hook; a subclass may do here what a hook would."""
        return None if self._on_episode_done_hook is None else self._on_episode_done_hook(episode_batch)

    def _begin(self) -> None:
        super()._begin()
        kind = type(self)
        self._own_step = kind.run_on_step_hook is not HookCalls.run_on_step_hook
        self._own_episode = kind.run_on_episode_done is not HookCalls.run_on_episode_done

    def _watch(self) -> None:
        """Finds out whether somebody is to be told of each step and episode of this collect."""
        own_stats = self.collect_stats_class is not CollectStats
        self._shows_steps = own_stats or self._own_step or self._on_step_hook is not None
        self._shows_episodes = own_stats or self._own_episode or self._on_episode_done_hook is not None

    def _shown(self, transition: Batch, tally: Tally) -> Batch:
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
        if tally.own is not None:
            tally.own.update_at_step_batch(step)
        return wrap(
            {
                key: value
                for key, value in step.__dict__.items()
                if key != "done" and not isinstance(value, torch.distributions.Distribution)
            }
        )

    def _tell_of_episodes(self, last: Ids, returns: NDArray[Any], lens: NDArray[Any], tally: Tally) -> None:
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
            if tally.own is not None:
                tally.own.update_at_episode_done(episode, value)


def _set_rows(buffer: Any, key: str, values: NDArray[Any], rows: Ids) -> None:
    """Puts ``values`` into the ``rows`` of a field; what is new is NaN (None among objects) in the others."""
    if len(values) != len(rows):
        raise ValueError(f"on_episode_done_hook gave {len(values)} values of {key} for an episode of {len(rows)} rows")
    if key in buffer._meta:
        column = np.array(buffer._meta[key])
    else:
        shape, is_number = (buffer.maxsize, *values.shape[1:]), values.dtype.kind in "biuf"
        dtype = np.result_type(values, np.float32) if is_number else object
        column = np.full(shape, np.nan if is_number else None, dtype)
    column[rows] = values
    buffer._meta[key] = column
