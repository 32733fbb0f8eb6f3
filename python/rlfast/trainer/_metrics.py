"""Averages of the statistics of updates, for logs and the progress bar."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch

from rlfast.data.stats import SequenceSummaryStats
from rlfast.policy.stats import TrainingStats
from rlfast.utils import MovAvg


class UpdateMetrics:
    """Averages the statistics of updates, and keeps moving averages of the losses.

    :param size: how many updates a moving average covers.
    """

    def __init__(self, size: int = 100) -> None:
        self.moving: defaultdict[str, MovAvg] = defaultdict(lambda: MovAvg(size))

    def merge(self, updates: Sequence[TrainingStats]) -> TrainingStats:
        """Averages the statistics of several updates, and adds their losses to the moving averages.

        :param updates: the statistics, at least one, all of one class.
        :return: see :func:`average`; ``smoothed_loss`` holds the moving averages.
        """
        smoothed = {}
        for update in updates:
            for name, loss in update.get_loss_stats_dict().items():
                smoothed[name] = self.moving[name].add(loss)
        missing = {name: moving.get() for name, moving in self.moving.items() if name not in smoothed}
        return average(updates, smoothed_loss=smoothed | missing)

    def state(self) -> dict[str, list[float]]:
        """Returns the losses that the moving averages cover, by name."""
        return {name: list(moving.cache) for name, moving in self.moving.items()}

    def set_state(self, state: Mapping[str, Sequence[float]]) -> None:
        """Restores what :meth:`state` returned."""
        self.moving.clear()
        for name, losses in state.items():
            self.moving[name].add(losses)


def average(updates: Sequence[TrainingStats], **known: Any) -> TrainingStats:
    """Averages the statistics of several updates.

    :param updates: the statistics, at least one, all of one class.
    :param known: values that replace fields of the result.
    :return: a copy of the last one, in which numbers are averages over the updates, summaries are merged, times are
        sums, and ``loss_summary`` holds mean, standard deviation, maximum and minimum of each loss.
    """
    losses = [update.get_loss_stats_dict() for update in updates]
    merged = copy(updates[-1])
    if len(updates) > 1:  # off-policy training usually has one update, which needs no merging
        _merge_into(merged, updates)
    names = dict.fromkeys(name for own in losses for name in own)
    merged.loss_summary = {
        name: _summary(
            [_loss(update, name, own[name]) for update, own in zip(updates, losses, strict=True) if name in own]
        )
        for name in names
    }
    for name, value in known.items():
        setattr(merged, name, value)
    return merged


def learning_rates(policy: object) -> dict[str, Any]:
    """Returns the present learning rates of a policy's optimizers, for logs.

    :param policy: the policy.
    :return: ``learning_rate``: a number, or of several optimizers a dict by their names. Empty without optimizers.
    """
    own = vars(policy).items() if hasattr(policy, "__dict__") else ()
    rates = {name: float(one.param_groups[0]["lr"]) for name, one in own if isinstance(one, torch.optim.Optimizer)}
    if not rates:
        return {}
    return {"learning_rate": next(iter(rates.values())) if len(rates) == 1 else rates}


def _merge_into(merged: object, updates: Sequence[Any]) -> None:
    for name in vars(merged):
        values = [vars(update).get(name) for update in updates]
        if name in ("train_time", "sample_time"):
            vars(merged)[name] = sum(values)
        else:
            vars(merged)[name] = _merge(values)


def _loss(update: TrainingStats, name: str, loss: float) -> Any:
    """Returns the summary of a loss where the statistics have one, else its value."""
    known = getattr(update, "loss_summary", {}).get(name)
    value = getattr(update, name, None) if known is None else known
    return value if isinstance(value, SequenceSummaryStats) else loss


def _merge(values: list[Any]) -> Any:
    present = [_number(value) for value in values if value is not None]
    if present and all(isinstance(value, SequenceSummaryStats) for value in present):
        return _summary(present)
    if present and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return fmean(present)
    if present and all(isinstance(value, TrainingStats) for value in present):
        return average(present)
    return values[-1]


def _number(value: Any) -> Any:
    """Converts a tensor or an array of one number, or a NumPy number, to a Python number; returns others unchanged."""
    return value.item() if getattr(value, "ndim", None) in (0, 1) and math.prod(value.shape) == 1 else value


def _summary(values: list[Any]) -> SequenceSummaryStats:
    """Summarises numbers, or merges summaries of sequences of equal length."""
    if not all(isinstance(value, SequenceSummaryStats) for value in values):
        return SequenceSummaryStats.from_sequence(values)
    mean = fmean(value.mean for value in values)
    square = fmean(value.std**2 + (value.mean - mean) ** 2 for value in values)
    return SequenceSummaryStats(
        mean=mean, std=square**0.5, max=max(value.max for value in values), min=min(value.min for value in values)
    )


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The seconds that each kind of work has taken so far, and the number of updates."""

    seconds: float
    collecting: float
    sampling: float
    learning: float
    updates: int

    def since(self, before: Clock) -> dict[str, float | str]:
        """Returns updates per second and the share of each kind of work, between an earlier reading and this one.

        :param before: the earlier reading.
        :return: the figures, by the names that the progress bar shows.

        >>> start = Clock(seconds=0.0, collecting=0.0, sampling=0.0, learning=0.0, updates=0)
        >>> Clock(seconds=2.0, collecting=1.0, sampling=0.1, learning=0.5, updates=30).since(start)
        {'updates/s': 15.0, 'collect': '50%', 'sample': '5%', 'learn': '25%'}
        """
        seconds = max(self.seconds - before.seconds, 1e-9)

        def share(name: str) -> str:
            return f"{(getattr(self, name) - getattr(before, name)) / seconds:.0%}"

        return {
            "updates/s": (self.updates - before.updates) / seconds,
            "collect": share("collecting"),
            "sample": share("sampling"),
            "learn": share("learning"),
        }
