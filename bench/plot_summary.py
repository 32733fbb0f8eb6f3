"""The overview of the benchmarks, a dozen cases, and its picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.labels import TITLES
from bench.libraries import RLFAST

PEERS = ("tianshou1", "sb3", "torchrl")
ROWS = {
    "add 16 envs f32[17]/f32[6]": "store a step of 16 environments",
    "sample f32[4] 100k x256": "sample 256 of 100,000 transitions",
    "sample Atari 8 envs 100k x256": "sample 256 Atari transitions",
    "prioritized sample+update x256 f32[4] 100k": "sample 256 by priority, then update",
    "sample + n-step 3 x256, 16 envs 100k": "sample 256 with 3-step returns",
    "GAE 2048x16, library call": "advantages (GAE) of 2048 x 16 steps",
    "collect CartPole x16, MLP, Python environments": "collect a step of 16 CartPoles",
    "collect images x8, NatureCNN": "collect a step of 8 image environments",
    "DQN CartPole, 10 steps + 1 update, eager, Python environments": "train DQN: 10 steps, 1 update",
    "PPO CartPole, 2000 steps + 310 minibatches, eager, Python environments": "train PPO: 2000 steps, 310 minibatches",
    "SAC Pendulum, 1 step + 1 update, eager, Python environments": "train SAC: 1 step, 1 update",
    "memory Atari 8 envs, 4-stacks in and out": "memory of an Atari transition",
}
"""The cases of the overview, with names that need no explanation."""


@dataclass(frozen=True)
class Row:
    """A case of the overview.

    :ivar label: its name in the overview.
    :ivar case: the recorded case.
    :ivar recording: the file of the recording.
    """

    label: str
    case: dict[str, Any]
    recording: Path

    @property
    def peers(self) -> dict[str, float | None]:
        """The time (or memory) of each library as a multiple of rlfast's; None if it cannot do the operation."""
        results = self.case["results"]
        ours = results[RLFAST]["median"]
        return {name: results[name]["median"] / ours if name in results else None for name in PEERS}

    @property
    def best(self) -> tuple[str, float]:
        """The library with the smallest factor, and the factor."""
        return min(((n, ratio) for n, ratio in self.peers.items() if ratio is not None), key=lambda found: found[1])


def summary(runs: dict[str, tuple[Path, dict[str, Any]]]) -> list[Row]:
    """Returns the rows of the overview.

    :param runs: the recordings by topic.
    :raises ValueError: if a row is in no recording.
    """
    cases = {case["name"]: (case, path) for path, run in runs.values() for case in run["cases"]}
    if absent := [name for name in ROWS if name not in cases]:
        raise ValueError(
            f"no recording has the cases {absent}: record them, or change the rows in bench/plot_summary.py"
        )
    return [Row(label, *cases[name]) for name, label in ROWS.items()]


def draw_summary(rows: list[Row], path: Path) -> None:
    """Draws a bar for each row, the factor by which rlfast is faster (smaller) than the best other library."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "rlfast"  # the same file from the same recordings
    rows = sorted(rows, key=lambda row: -row.best[1])
    figure, axes = plt.subplots(figsize=(9.5, 0.9 + 0.33 * len(rows)), layout="constrained")
    factors = [row.best[1] for row in rows]
    colors = ["#2a7f62" if factor >= 1 else "#c0504d" for factor in factors]
    axes.barh(range(len(rows)), factors, color=colors, height=0.72)
    for place, row in enumerate(rows):
        name, factor = row.best
        axes.text(max(factor, 1) + 0.2, place, f"{factor:.2g}x {TITLES[name]}", va="center", fontsize=9)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, max(factors) * 1.3)
    axes.set_xticks([1], ["equal"])
    axes.tick_params(length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    figure.suptitle(
        "How many times as fast as the best of Tianshou 1.0, Stable-Baselines3 and TorchRL (longer is better)",
        fontsize=10,
    )
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
