"""Every column of a run is described, and that once."""

import csv
import dataclasses
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pytest

from rlfast.experiment import ALGORITHMS, metrics
from rlfast.experiment.run import train
from rlfast.policy import TrainingStats

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
RUNS = {
    "dqn": ("CartPole-v1", {"collect_steps": 8, "start_steps": 24, "updates_per_step": 0.5}),
    "ppo": ("CartPole-v1", {"collect_steps": 32}),
    "sac": ("Pendulum-v1", {"collect_steps": 8, "start_steps": 24, "updates_per_step": 0.5}),
}
OF_PPO = {"approx_kl", "clip_fraction", "explained_variance", "learning_rate"}


def rows_of(run_dir):
    with (run_dir / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", RUNS)
def test_every_column_of_a_run_is_described(name, tmp_path):
    env, options = RUNS[name]
    size = {"num_envs": 2, "eval_episodes": 2, "eval_envs": 2, "eval_interval": 64, "hidden_sizes": (8,)}
    config = ALGORITHMS[name].config(
        env=env, run_dir=tmp_path / "run", max_steps=256, batch_size=8, progress=False, **size, **options
    )
    train(config)
    rows = rows_of(tmp_path / "run")
    assert [column for column in rows[0] if metrics.meaning_of(column) is None] == []
    updates = [row for row in rows if row["scope"] == "update"]
    own = {column.removeprefix("update/") for column in rows[0] if column.startswith("update/")}
    assert own
    assert updates
    if name == "ppo":
        assert own == {"loss", "clip_loss", "vf_loss", "ent_loss", "train_time", "sample_time"} | OF_PPO
        last = {column: float(updates[-1][f"update/{column}"]) for column in OF_PPO}
        assert np.isfinite([*last.values()]).all()
        assert last["approx_kl"] > 0
        assert 0 <= last["clip_fraction"] <= 1
        assert last["explained_variance"] <= 1
        assert last["learning_rate"] == pytest.approx(config.learning_rate)
    if name == "sac":
        assert {column for column in own if column.startswith("learning_rate/")} >= {
            "learning_rate/actor_optim",
            "learning_rate/critic_optim",
        }
    assert len(own) <= 12


def statistics(kind):
    for one in kind.__subclasses__():
        yield one
        yield from statistics(one)


def test_the_statistics_of_every_algorithm_are_described():
    for folder in ("modelfree", "imitation", "modelbased", "multiagent"):
        package = import_module(f"rlfast.policy.{folder}")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    known = {field.name for field in dataclasses.fields(TrainingStats)}
    names = {
        field.name
        for one in statistics(TrainingStats)
        if dataclasses.is_dataclass(one) and one.__module__.startswith("rlfast.")
        for field in dataclasses.fields(one)
    }
    assert [name for name in sorted(names - known) if f"update/{name}" not in metrics.METRICS] == []


@pytest.mark.parametrize(
    ("part", "prefix"),
    [
        (metrics.ROWS, ""),
        (metrics.COLLECTS, ""),
        (metrics.UPDATES, "update/"),
        (metrics.SAVES, "save/"),
        (metrics.TOTALS, "info/"),
    ],
)
def test_the_page_has_the_tables(part, prefix):
    assert metrics.table(part, prefix) in PAGE


def test_columns_of_others_have_no_meaning_here():
    assert metrics.meaning_of("update/mine") is None
    assert metrics.meaning_of("test/lens_stat/max").startswith("Steps of the episodes")
