"""The figures of reports, by hand."""

import re

import pytest

from rlfast.experiment.report.curves import grouped, labels_of
from rlfast.experiment.report.plot import draw_profiles, normalized_scores
from rlfast.experiment.report.table import in_order, last_and_best, markdown_table, spans, write_report


@pytest.fixture
def hopper(make_curve):
    """Five seeds of SAC, whose last tests are 1 to 100, and two of PPO."""
    last = (2.0, 100.0, 1.0, 3.0, 4.0)
    runs = [make_curve("sac", "Hopper-v5", seed, (0, 200, one), seconds=60 * seed) for seed, one in enumerate(last)]
    return [*runs, *(make_curve("ppo", "Hopper-v5", seed, (0, one), max_steps=3_000) for seed, one in ((0, 5), (2, 7)))]


def table_of(runs):
    groups = in_order(grouped(runs))
    lines = markdown_table(groups, labels_of([*groups])).splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_a_row_has_the_figures_of_its_runs(hopper):
    ppo, sac = table_of(reversed(hopper))
    assert (ppo["task"], ppo["algorithm"], sac["algorithm"]) == ("Hopper-v5", "PPO", "SAC")
    assert sac["last tests, mean"] == "22.0"  # of 1, 2, 3, 4, 100
    assert sac["best tests, mean"] == "200.0"
    assert re.fullmatch(r"3\.0 \(1\.\d to \d\d\.\d\)", sac["last tests, IQM (95 % interval)"])  # of 2, 3, 4
    assert ppo["last tests, IQM (95 % interval)"] == "6.0 (5.0 to 7.0)"
    assert (sac["seeds"], ppo["seeds"]) == ("0-4", "0, 2")
    assert (sac["steps"], ppo["steps"]) == ("1,000", "3,000")
    assert sac["wall clock, mean"] == "2 min 00 s"
    assert sac["processor"] == "A Processor"
    assert sac["versions"] == "mujoco 7.8, gymnasium 5.6, torch 3.4, rlfast 1.2"


def test_a_best_test_is_that_of_each_run(make_curve):
    runs = [make_curve("sac", "Hopper-v5", seed, mean) for seed, mean in enumerate([(9, 1, 2), (0, 5, 4)])]
    assert last_and_best(runs) == (3.0, 7.0)


def test_unfinished_runs_are_named(make_curve):
    runs = [make_curve("sac", "Hopper-v5", seed, (0, 1), ended=seed == 0, max_steps=900 + seed) for seed in range(2)]
    (row, other) = table_of(runs)
    assert (row["seeds"], other["seeds"]) == ("0", "1; unfinished: 1")
    assert (row["algorithm"], other["algorithm"]) == ("SAC, max steps 900", "SAC, max steps 901")


def test_runs_of_different_lengths_and_machines(make_curve):
    from dataclasses import replace

    runs = [make_curve("sac", "Hopper-v5", seed, (0, 1, 2)) for seed in range(3)]
    runs[1] = replace(runs[1], steps=(0, 500, 700), processor="Another", versions={"rlfast": "2"})
    runs[2] = replace(runs[2], processor="")
    (row,) = table_of(runs)
    assert row["steps"] == "700 to 1,000"
    assert row["processor"] == "A Processor; Another; unknown"
    assert row["versions"] == "mujoco 7.8, gymnasium 5.6, torch 3.4, rlfast 1.2; rlfast 2"


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([2, 0, 1], "0-2"), ([0, 1, 5, 7, 8], "0-1, 5, 7-8")]
)
def test_spans_of_seeds(numbers, text):
    assert spans(numbers) == text


def scores_of(runs):
    groups = in_order(grouped(runs))
    return normalized_scores(groups, labels_of([*groups]))


def test_scores_are_between_the_untrained_and_the_best_algorithm(make_curve):
    runs = [
        make_curve("sac", "Hopper-v5", 0, (0, 8)),
        make_curve("sac", "Hopper-v5", 1, (2, 14)),
        make_curve("ppo", "Hopper-v5", 0, (1, 6)),
        make_curve("ppo", "Ant-v5", 0, (4, 2)),  # which nobody learns
    ]
    assert scores_of(runs) == {"SAC": {"Hopper-v5": [0.7, 1.3]}, "PPO": {"Hopper-v5": [0.5]}}


def test_profiles_are_of_common_tasks(make_curve, tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn = {}
    plot = Axes.plot
    monkeypatch.setattr(
        Axes, "plot", lambda self, x, y, **how: drawn.update({how["label"]: (x, y)}) or plot(self, x, y, **how)
    )
    runs = [
        *(make_curve("sac", "Hopper-v5", seed, (0, last)) for seed, last in enumerate((0, 10))),  # scores 0 and 2
        make_curve("sac", "Ant-v5", 0, (0, 1)),  # score 1
        make_curve("ppo", "Hopper-v5", 0, (0, 5)),
        make_curve("ppo", "Ant-v5", 0, (0, 1)),
        make_curve("ppo", "Walker2d-v5", 0, (0, 1)),
    ]
    groups = in_order(grouped(runs))
    assert draw_profiles(groups, labels_of([*groups]), tmp_path / "x.png") == ["Ant-v5", "Hopper-v5"]
    thresholds, above = drawn["SAC"]
    assert (thresholds[0], thresholds[-1]) == (0.0, 2.0)
    at = {round(float(mark), 2): float(value) for mark, value in zip(thresholds, above, strict=True)}
    assert (at[0.5], at[1.5], at[2.0]) == (0.75, 0.25, 0.0)  # half of one task and all, or nothing, of the other
    assert (tmp_path / "x.png").exists()
    alone = in_order(grouped([make_curve("sac", "Ant-v5", 0, (0, 1)), make_curve("ppo", "Hopper-v5", 0, (0, 1))]))
    assert draw_profiles(alone, labels_of([*alone]), tmp_path / "y.png") == []
    assert not (tmp_path / "y.png").exists()


def test_a_report_has_a_picture_for_each_task(hopper, make_curve, tmp_path):
    runs = [*hopper, make_curve("sac", "ALE/Pong-v5", 0, (0, 1)), make_curve("ppo", "ALE/Pong-v5", 0, (0, 1))]
    table = write_report(runs, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert f"\n{table}\n" in text
    pictures = re.findall(r"\]\(([^)]+)\)", text)
    assert pictures == ["learning-ALE-Pong-v5.png", "learning-Hopper-v5.png", "profiles.png"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.md", *pictures}
    assert "`rlfast train sac --env Hopper-v5 --seed 0 --max-steps 1000`" in text
