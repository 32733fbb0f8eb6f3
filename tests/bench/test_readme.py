"""Recorded runs become documents and plots, losses included."""

import json
from pathlib import Path

import pytest

from bench import plot, readme

RUN = {
    "date": "2026-01-02T03:04:05+00:00",
    "revision": "abc",
    "machine": {"processor": "A Processor", "cores": 2, "system": "Linux"},
    "load": 0.5,
    "effort": {"quick": False},
    "versions": {"rlfast": {"rlfast": "1.0"}, "peer": {"peer": "2.0"}, "rlfast in host": {}, "take": {}},
    "limits": ["take"],
    "cases": [
        {"name": "win", "unit": "s", "results": {"rlfast": {"median": 1e-6}, "peer": {"median": 4e-6}}, "bars": []},
        {
            "name": "loss",
            "unit": "s",
            "results": {"rlfast": {"median": 2e-6}, "peer": {"median": 1e-6}, "take": {"median": 1e-7}},
            "bars": ["0.5x, >= 1x peer: MISSED"],
        },
        {
            "name": "inside",
            "ours": "rlfast in host",
            "unit": "B",
            "results": {"rlfast in host": {"median": 10.0}, "peer": {"median": 30.0}},
            "bars": [],
        },
        {"name": "alone", "unit": "s", "results": {"rlfast": {"median": 1.0}}, "bars": []},
        {"name": "absent", "unit": "s", "results": {"peer": {"median": 1.0}}, "bars": []},
    ],
}


def test_the_table():
    assert readme.table(RUN) == [
        "| | rlfast | peer | bar |",
        "|---|---|---|---|",
        "| win | **1 us** | 4 us (4x) |  |",
        "| loss | **2 us** | 1 us (0.5x) | 0.5x, >= 1x peer: MISSED |",
        "| inside | **10 B** | 30 B (3x) |  |",
        "| alone | **1 s** | - |  |",
    ]


def test_losses_are_told():
    assert readme.losses(RUN) == ["- loss: peer takes 0.5 of our time.", "- loss: 0.5x, >= 1x peer: MISSED."]
    only_win = RUN | {"cases": RUN["cases"][:1]}
    assert readme.losses(only_win) == ["- No library was quicker than rlfast in any row."]


def test_ratios():
    found = dict(plot.ratios(RUN))
    assert found == {"win": {"peer": 4.0}, "loss": {"peer": 0.5, "take": 0.05}, "inside": {"peer": 3.0}}


def test_the_page_and_its_plot(tmp_path):
    page = readme.page([(Path("2026-01-02.json"), RUN)], tmp_path)
    assert (tmp_path / "benchmarks-2026-01-02.png").read_bytes().startswith(b"\x89PNG")
    assert "![Each case a line, each library a dot](benchmarks-2026-01-02.png)" in page
    assert "- loss: peer takes 0.5 of our time." in page
    assert "peer 2.0" in page


def test_nothing_to_draw(tmp_path):
    with pytest.raises(ValueError, match="nothing to compare"):
        plot.draw(RUN | {"cases": RUN["cases"][3:]}, tmp_path / "x.png")


def test_both_documents_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "README.md").write_text("no markers")
    with pytest.raises(ValueError, match="no table"):
        readme.main([tmp_path / "run.json"])
    (tmp_path / "README.md").write_text(f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter")
    readme.main([tmp_path / "run.json"])
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("before")
    assert text.endswith("after")
    assert "\nold\n" not in text
    assert "| win | **1 us** | 4 us (4x) |" in text
    assert (tmp_path / "docs" / "benchmarks.md").read_text().startswith("# Benchmarks")
