"""Names of measurements that readers understand, and pictures whose labels do not collide."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from bench.labels import described, verdict

from bench import plot

RECORDINGS = sorted(Path(__file__).parents[2].glob("bench/results/????-??-??-*.json"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("add 16 envs f32[17]/f32[6]", "store a step of 16 environments"),
        ("add 1 env f32[4], empty info", "store a step of 1 environment, empty info"),
        ("add 8 envs Atari in SB3", "store a step of 8 Atari environments in Stable-Baselines3"),
        ("sample f32[4] 1M x4096", "sample 4,096 of 1,000,000 rows"),
        (
            "sample Atari 8 envs 100k x256, single frames stored",
            "sample 256 of 100,000 Atari rows, single frames stored",
        ),
        ("sample f32[376]/a17 1M x256, 2 threads", "sample 256 of 1,000,000 wide rows, 2 threads"),
        ("prioritized sample+update x256 f32[4] 100k", "sample 256 of 100,000 by priority, update them"),
        ("sample + n-step 3 x256, 16 envs 100k", "sample 256 of 100,000 rows, 3-step returns"),
        ("GAE 2048x16, kernel", "advantages (GAE) of 2,048 x 16 steps, kernel"),
        ("collect images x8, random", "collect a step of 8 image environments, random"),
        ("EnvPool's CartPole-v1 x 1024, adapted", "step 1,024 CartPole-v1 of EnvPool, adapted"),
        ("a name that says all", "a name that says all"),
    ],
)
def test_names_in_words(name, words):
    assert described(name) == words


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_described_names_are_plain_and_distinct(path):
    names = {case["name"] for case in json.loads(path.read_text())["cases"]}
    words = {described(name) for name in names}
    assert len(words) == len(names)
    assert [one for one in words if re.search(r"f32|f64|\benvs?\b|\d[kM]\b|\bx\d|\bSB3\b", one)] == []


@pytest.mark.parametrize(
    ("bar", "words"),
    [
        ("10.5x, >= 15x tianshou1: MISSED", "10.5x, >= 15x Tianshou 1.0: MISSED"),
        ("5x, >= 5x best of 5: met", "5x, >= 5x best of 5: met"),
        (">= 2x sb3: not measured", ">= 2x Stable-Baselines3: not measured"),
        ("<= 7,200 B: met", "<= 7,200 B: met"),
    ],
)
def test_goals_name_libraries(bar, words):
    assert verdict(bar) == words


@pytest.mark.parametrize("factors", [(0.35, 400.0), (0.9, 1.3), (0.01, 1.0), (1.1, 9.0)])
def test_ticks_do_not_collide(factors):
    cases = [
        {"name": f"case {row}", "unit": "s", "results": {"rlfast": {"median": 1.0}, "sb3": {"median": factor}}}
        for row, factor in enumerate(factors)
    ]
    run = {"cases": cases, "limits": [], "machine": {"processor": "A Processor"}, "date": "2026-01-02T03:04:05+00:00"}
    figure = plot.figure_of(run)
    try:
        figure.canvas.draw()
        (axes,) = figure.axes
        low, high = axes.get_xlim()
        places = [label for label in axes.get_xticklabels(which="both") if low <= label.get_position()[0] <= high]
        boxes = [label.get_window_extent() for label in places if label.get_text()]
        assert len(boxes) >= 2
        assert [(one.x1, other.x0) for one, other in pairwise(boxes) if one.x1 >= other.x0] == []
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Stable-Baselines3"]
    finally:
        from matplotlib import pyplot

        pyplot.close(figure)
