"""The result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.config import DataConfig
from rlfast.experiment.report.scores import described_score, task_of

if TYPE_CHECKING:
    from pathlib import Path

    from rlfast.data.stats import CollectStats, InfoStats
    from rlfast.experiment.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run."""

    config: RunConfig
    run_dir: Path
    info: InfoStats
    env_step: int
    """Number of training steps, with the random ones at the start."""
    test: CollectStats | None
    """Statistics of the last test."""
    interrupted: bool
    """Whether a signal ended the run."""
    best: dict[str, Any] | None = None
    """The best test, whose policy is in the folder ``best``: ``mean`` and ``std`` of its returns, ``env_step``,
    ``gradient_step`` and ``epoch``; None if there is none."""
    unsaved: str | None = None
    """The reason why there is no checkpoint of the last step; None if there is one."""

    @property
    def reached(self) -> bool:
        """Whether the mean return of the last test was at least ``stop_return``."""
        target, returns = self.config.stop_return, None if self.test is None else self.test.returns_stat
        return target is not None and returns is not None and returns.mean >= target

    def summary(self) -> str:
        """Returns a summary in a few lines."""
        config, timing = self.config, self.info.timing
        speed = self.env_step / timing.train_time if timing.train_time else 0.0
        seconds = (
            f"{timing.total_time:.1f} s: collecting {timing.train_time_collect:.1f}, "
            f"updating {timing.train_time_update:.1f}, testing {timing.test_time:.1f}"
        )
        lines = {
            "mean return": self._test_summary(),
            **self._best_summary(),
            **self._score(),
            "environment steps": f"{self.env_step:,} ({speed:,.0f} per second of training)",
            "gradient steps": f"{self.info.gradient_step:,}",
            "time": seconds,
            "run folder": str(self.run_dir),
        }
        if not config.collects:
            del lines["environment steps"]
        title = f"{algorithm_of(config).title} on {config.env}, seed {config.seed}" + (
            ", interrupted" if self.interrupted else ""
        )
        return "\n".join([title, *(f"  {name:<20}{text}" for name, text in lines.items())])

    def _best_summary(self) -> dict[str, str]:
        if self.best is None:
            return {}
        where = place(self.config, self.best["env_step"])
        return {
            "best test": f"{self.best['mean']:.1f} ± {self.best['std']:.1f} at {where}, kept in {self.run_dir / 'best'}"
        }

    def _score(self) -> dict[str, str]:
        """Returns a line with the normalized score of a run that learned from data, if there is one for its task."""
        task = scored_task(self.config)
        if task is None or self.test is None or self.test.returns_stat is None:
            return {}
        return {"normalized score": described_score(task, self.test.returns_stat.mean)}

    def _test_summary(self) -> str:
        if self.test is None or self.test.returns_stat is None:
            return "not tested"
        returns, target = self.test.returns_stat, self.config.stop_return
        verdict = "" if target is None else f", {'reached' if self.reached else 'below'} {target:g}"
        return f"{returns.mean:.1f} ± {returns.std:.1f} over {len(self.test.returns)} test episodes{verdict}"


def place(config: RunConfig, env_step: int) -> str:
    """Returns in words how far a run is: by its gradient steps if it learns from data alone, whose logs count rows.

    :param config: the settings of the run.
    :param env_step: the number of steps in its logs.
    """
    return f"step {env_step}" if config.collects else f"gradient step {env_step // config.batch_size}"


def scored_task(config: RunConfig) -> str | None:
    """Returns the task of D4RL that a run is scored by; None if it does not learn from data, or there is none.

    :param config: the settings of the run.
    """
    return task_of(config.env) if isinstance(config, DataConfig) else None
