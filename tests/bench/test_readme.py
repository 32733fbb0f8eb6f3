"""Documents and pictures from recordings of benchmarks, also of those in which rlfast is slower."""

import json
from pathlib import Path

import pytest

from bench import plot, plot_summary, readme

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


def place(name):
    return f"<!-- bench:{name}:begin -->\nold\n<!-- bench:{name}:end -->"


def recorded(folder, name, date, cases):
    (folder / name).write_text(json.dumps(RUN | {"date": date, "cases": cases}))


def case(name, median, **others):
    results = {"rlfast": {"median": median}} | {peer: {"median": value} for peer, value in others.items()}
    return {"name": name, "unit": "s", "results": results, "bars": []}


def test_table():
    assert readme.table(RUN) == [
        "| | rlfast | peer |",
        "|---|---|---|",
        "| win | **1 us** | 4 us (4x) |",
        "| loss | **2 us** | 1 us (0.5x) |",
        "| inside | **10 B** | 30 B (3x) |",
        "| alone | **1 s** | - |",
    ]


@pytest.mark.parametrize(("ratio", "text"), [(0.968, "0.97x"), (1.5, "1.5x"), (29.6, "30x"), (254.4, "250x")])
def test_times_has_two_digits(ratio, text):
    assert readme.times(ratio) == text


def test_losses():
    assert readme.losses(RUN) == ["- loss: peer 0.5x"]
    only_win = RUN | {"cases": RUN["cases"][:1]}
    assert readme.losses(only_win) == ["- in no row"]


def test_goals_list_missed_ones_first():
    won, lost = RUN["cases"][:2]
    both = RUN | {"cases": [won | {"bars": ["4x, >= 2x sb3: met"]}, lost]}
    assert readme.goals(both) == [
        "| | measured, goal | |",
        "|---|---|---|",
        "| loss | 0.5x, >= 1x peer | MISSED |",
        "| win | 4x, >= 2x Stable-Baselines3 | met |",
    ]
    assert readme.goals(RUN | {"cases": [won]}) == []


def test_ratios():
    found = dict(plot.ratios(RUN))
    assert found == {"win": {"peer": 4.0}, "loss": {"peer": 0.5, "take": 0.05}, "inside": {"peer": 3.0}}


def test_draw_rejects_lone_library(tmp_path):
    with pytest.raises(ValueError, match="nothing to compare"):
        plot.draw(RUN | {"cases": RUN["cases"][3:]}, tmp_path / "x.png")


def test_recordings_keeps_newest(tmp_path):
    recorded(tmp_path, "2026-01-02-replay.json", "2026-01-02T01", [case("a", 1.0), case("b", 1.0)])
    recorded(tmp_path, "2026-01-01-replay.json", "2026-01-01T09", [case("a", 9.0)])
    recorded(tmp_path, "2026-01-02-returns.json", "2026-01-02T05", [case("b", 2.0)])
    (tmp_path / "guard.json").write_text("{}")
    runs = readme.recordings(tmp_path)
    assert {topic: path.name for topic, (path, _) in runs.items()} == {
        "replay": "2026-01-02-replay.json",
        "returns": "2026-01-02-returns.json",
    }
    found = {
        topic: [(one["name"], one["results"]["rlfast"]["median"]) for one in run["cases"]]
        for topic, (_, run) in runs.items()
    }
    assert found == {"replay": [("a", 1.0)], "returns": [("b", 2.0)]}


def test_overview_links_recordings():
    rows = [plot_summary.Row("label", case("a", 1.0, sb3=2.0, tianshou1=0.5), Path("2026-01-02-replay.json"))]
    assert rows[0].peers == {"tianshou1": 0.5, "sb3": 2.0, "torchrl": None}
    assert rows[0].best == ("tianshou1", 0.5)
    known = {name: case(name, 1.0, sb3=2.0) for name in plot_summary.ROWS}
    runs = {"all": (Path("2026-01-02-all.json"), RUN | {"cases": list(known.values())})}
    lines = readme.overview(runs, "results").splitlines()
    assert lines[0] == "| | rlfast | Tianshou 1.0 | Stable-Baselines3 | TorchRL | recording |"
    assert lines[2].endswith("| **1 s** | - | 2 s (2x) | - | [2026-01-02-all](results/2026-01-02-all.json) |")
    assert len(lines) == 2 + len(plot_summary.ROWS)
    absent, *_ = known
    del known[absent]
    with pytest.raises(ValueError, match="no recording has the cases"):
        plot_summary.summary({"all": (Path("x"), RUN | {"cases": list(known.values())})})


def test_fill_needs_markers():
    assert readme.fill(f"before\n{place('one')}\nafter", "one", "new").splitlines()[2:4] == [
        "new",
        "<!-- bench:one:end -->",
    ]
    with pytest.raises(ValueError, match="no place for two"):
        readme.fill(place("one"), "two", "new")


def test_main_writes_documents_and_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    (tmp_path / "bench" / "results").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    cases = [*RUN["cases"], *(case(name, 1.0, sb3=2.0) for name in plot_summary.ROWS)]
    recorded(tmp_path / "bench" / "results", "2026-01-02-replay.json", RUN["date"], cases)
    (tmp_path / "README.md").write_text(f"before\n{place('overview')}\nafter")
    (tmp_path / "docs" / "benchmarks.md").write_text(f"# Benchmarks\n{place('overview')}\ntext\n{place('replay')}")
    (tmp_path / "bench" / "GOALS.md").write_text(f"# Goals\n{place('goals')}\ntext")
    readme.main()
    documents = ("README.md", "docs/benchmarks.md", "bench/GOALS.md")
    text, page, goals = ((tmp_path / name).read_text() for name in documents)
    assert text.startswith("before")
    assert text.endswith("after")
    assert "MISSED" not in text + page
    assert "old" not in text + page + goals
    assert "### 2026-01-02-replay\n\n| | measured, goal | |" in goals
    assert "\n| loss | 0.5x, >= 1x peer | MISSED |" in goals
    assert "| win | **1 us** | 4 us (4x) |" in page
    assert "- loss: peer 0.5x" in page
    assert "peer 2.0" in page
    assert "\ntext\n" in page
    assert (tmp_path / "docs/pictures/benchmarks-replay.png").read_bytes().startswith(b"\x89PNG")
    picture = (tmp_path / "docs/pictures/speed.svg").read_bytes()
    assert b"<svg" in picture
    readme.main()
    assert (tmp_path / "docs/pictures/speed.svg").read_bytes() == picture
