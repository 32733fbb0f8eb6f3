"""Makes data for offline learning by an agent that is trained for it.

The sets are those of arXiv:2004.07219 (section 5): `random` actions; `medium`, by an agent that was stopped on the way
from random actions to the expert; `medium-replay`, all that it had seen until then; and `expert`. Where there is an
agent that random actions upset, `upset` has its episodes with one action in five random: they are short, though the
agent alone is as good as the expert. A file that is there already is not made again.

    python tests/learning/offline_sets.py Pendulum-v1 --out sets
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile
from typing import Any

from rlfast.data.datasets.opening import open_source
from rlfast.experiment import ALGORITHMS, evaluate
from rlfast.experiment.data import returns_of
from rlfast.experiment.gather import gather
from rlfast.experiment.run import train

SETS = ("random", "medium", "medium-replay", "expert")
EPISODES = 100
"""Test episodes that measure an agent, from states that are the same for all agents."""


@dataclass(frozen=True)
class Source:
    """How the data of an environment come about."""

    algorithm: str
    expert: dict[str, Any]
    """Settings of the expert, besides those of the preset."""
    medium_interval: int
    """Environment steps between two tests of the medium agent, which ends at the first that is good enough."""
    medium_explores: dict[str, float]
    """How the medium agent explores while it is watched, as the stochastic agents of the paper do: `eps` or `noise` of
    :func:`gather`."""
    medium_part: float = 1 / 3
    """How far the medium agent is from random actions to the expert, from 0 to 1."""
    steps: int = 100_000
    """Transitions of each set but medium-replay."""
    upset: dict[str, Any] | None = None
    """Settings of the agent that random actions upset, besides those of the preset; None for no such agent."""


SOURCES = {
    "CartPole-v1": Source(
        "dqn",
        {},
        medium_interval=128,
        medium_explores={"eps": 0.2},
        medium_part=0.25,
        upset={"gamma": 0.8, "n_step": 1, "eval_interval": 256},  # it looks a few steps ahead, and not to the edges
    ),
    "Pendulum-v1": Source("sac", {"stop_return": None}, medium_interval=128, medium_explores={"noise": 0.5}),
    "HalfCheetah-v5": Source("sac", {}, medium_interval=2_000, medium_explores={"noise": 0.1}),
    "InvertedPendulum-v5": Source("sac", {}, medium_interval=250, medium_explores={"noise": 0.2}),
}


def make_sets(env: str, folder: Path, *, seed: int = 0) -> dict[str, Path]:
    """Trains the agents of an environment and gathers their data.

    :param env: id of the environment.
    :param folder: for the runs `expert-run`, `medium-run` and `upset-run`, and the files.
    :param seed: of training and gathering.
    :return: the file of each set.
    """
    source, files = SOURCES[env], {name: folder / f"{name}.hdf5" for name in SETS}
    files["medium-replay"] = folder / "medium-replay.snapshot"
    preset = replace(ALGORITHMS[source.algorithm].preset(env), seed=seed, progress=False)
    expert_run, medium_run = folder / "expert-run", folder / "medium-run"
    if not expert_run.exists():
        train(replace(preset, run_dir=expert_run, **source.expert))
    if not files["expert"].exists():
        gather(expert_run, source.steps, files["expert"])
    if not files["random"].exists():
        gather(expert_run, source.steps, files["random"], eps=1.0)
    if not medium_run.exists():
        low, high = mean_return(files["random"]), mean_return(files["expert"])
        given = {"stop_return": low + source.medium_part * (high - low), "eval_interval": source.medium_interval}
        train(replace(preset, run_dir=medium_run, **given))
    if not files["medium"].exists():
        gather(medium_run, source.steps, files["medium"], **source.medium_explores)
    if not files["medium-replay"].exists():
        copyfile(medium_run / "checkpoint" / "buffer.snapshot", files["medium-replay"])
    if source.upset is not None:
        files["upset"], upset_run = folder / "upset.hdf5", folder / "upset-run"
        if not upset_run.exists():
            train(replace(preset, run_dir=upset_run, **source.upset))
        if not files["upset"].exists():
            gather(upset_run, source.steps, files["upset"], eps=0.2)
    return files


def mean_return(data: Path) -> float:
    """The mean return of the whole episodes of a set."""
    with open_source(str(data)) as source:
        return float(returns_of(source)[0].mean())


def played(run: Path) -> float:
    """The mean return of an agent, from states that are the same for all agents of an environment."""
    return float(evaluate(run, EPISODES, seed=0).returns.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes data for offline learning.")
    parser.add_argument("env", choices=SOURCES)
    parser.add_argument("--out", type=Path, default=Path("sets"), help="a folder; each environment has one in it")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = given.out / given.env
    for name, file in make_sets(given.env, folder, seed=given.seed).items():
        sys.stdout.write(f"{name:<14} {mean_return(file):9.1f}  {file}\n")
    for run in sorted(path.name for path in folder.glob("*-run")):
        sys.stdout.write(f"{run:<14} {played(folder / run):9.1f}  in {EPISODES} tests\n")


if __name__ == "__main__":
    main()
