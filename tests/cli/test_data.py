"""``rlfast data info``, ``convert``, ``merge`` and ``split``."""

import re
import sys

import numpy as np
import pytest

from rlfast.cli.data import main
from rlfast.data import ReplayBuffer
from rlfast.data.datasets.opening import open_source
from rlfast.experiment.report.histogram import counts_of, text_histogram

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def data(tmp_path):
    buffer = ReplayBuffer(60)
    for t in range(60):
        length = 3 if t < 30 else 6
        obs, obs_next = np.full((2, 3), t, np.float32) + np.float32([[0], [1]])
        row = {"obs": obs, "act": np.float32([0.5]), "rew": 1.0, "obs_next": obs_next}
        buffer.append(**row, terminated=t % length == length - 1, truncated=False)
    path = tmp_path / "data"
    buffer.save(path)
    return path


def test_info_draws_the_returns(data, tmp_path, capsys):
    assert main(["info", str(data), "--png", str(tmp_path / "returns.png")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "60 transitions, 15 episodes, return 4.00 ± 1.41 (from 3 to 6), length 4.0"
    assert lines[1:3] == ["  obs  float32 [3]", "  act  float32 [1]"]
    assert [re.sub(" *│█*[▏▎▍▌▋▊▉]? ", ": ", line.strip()) for line in lines[3:-1]] == [
        "3.0: 10",
        "3.8: 0",
        "4.5: 0",
        "5.2: 5",
    ]
    bars = [line.count("█") for line in lines[3:-1]]
    assert bars[0] == pytest.approx(2 * bars[3], abs=1)
    assert lines[-1] == str(tmp_path / "returns.png")
    assert (tmp_path / "returns.png").read_bytes().startswith(PNG)


def test_a_histogram_of_equal_returns_is_one_bar():
    assert list(text_histogram(np.full(5, -2.0), 20)) == ["-2.5 │" + "█" * 11 + " 5"]
    counts, edges = counts_of(np.arange(1000.0))
    assert counts.sum() == 1000
    assert len(counts) == 12
    assert edges[[0, -1]].tolist() == [0, 999]


def test_info_of_data_without_rows(tmp_path, capsys):
    ReplayBuffer(3).save(tmp_path / "empty")
    assert main(["info", str(tmp_path / "empty"), "--png", str(tmp_path / "a.png")]) == 0
    assert capsys.readouterr().out == "0 transitions, no episode\n"
    assert not (tmp_path / "a.png").exists()


def test_convert_merge_and_split(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("rlfast.utils.progress_bar._is_terminal", lambda: True)

    def run(*arguments):
        assert main([*arguments]) == 0
        streams = capsys.readouterr()
        return streams.out.splitlines(), streams.err

    d4rl, hdf5 = tmp_path / "d.hdf5", tmp_path / "h.hdf5"
    out, err = run("convert", str(data), "--to", "d4rl", "--env", "Pendulum-v1", "--out", str(d4rl))
    assert out == [str(d4rl)]
    assert "writing: 100%" in err
    with open_source(str(d4rl), "d4rl") as source:
        assert next(source.parts())["act"][0] == [1.0]  # half of the torque of Pendulum
    out, err = run("merge", str(data), str(d4rl), "--env", "Pendulum-v1", "--out", str(hdf5), "--no-progress")
    assert (out, err) == ([str(hdf5)], "")
    with open_source(str(hdf5), "hdf5") as source:
        assert source.length == 120
        assert (next(source.parts())["act"] == 0.5).all()
    out, _ = run("split", str(hdf5), "--size", "50", "--out", str(tmp_path / "part.hdf5"))
    assert out == [str(tmp_path / f"part-0000{k}-of-00003.hdf5") for k in range(3)]
    assert [open_source(path).length for path in out] == [50, 50, 20]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["convert", "DATA", "--to", "d4rl", "--out", "OUT"], "name the environment with --env"),
        (["convert", "DATA", "--to", "minari", "--out", "OUT"], "give --env"),
        (["convert", "DATA", "--from", "d4rl", "--out", "OUT"], "file signature not found"),
        (["convert", "gone.hdf5", "--out", "OUT"], "there is no file gone.hdf5"),
        (["convert", "DATA", "--out", "gone/OUT"], "there is no folder gone"),
        (["convert", "DATA", "--to", "d4rl", "--env", "Gone-v7", "--out", "OUT"], "Gone"),
        (["split", "DATA", "--size", "0", "--out", "OUT"], "--size must be at least 1, got 0"),
        (["merge", "DATA", "DATA/x", "--out", "OUT"], "there is no file"),
        (["rot"], "there is no command 'rot': choose from gather, info, convert, merge, split"),
    ],
)
def test_mistakes_are_one_line(data, tmp_path, capsys, arguments, match):
    where = {"DATA": str(data), "OUT": str(tmp_path / "out"), "DATA/x": str(data / "x")}
    assert main([where.get(one, one) for one in [*arguments, *(["--no-progress"] if len(arguments) > 1 else [])]]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert match in streams.err
    assert streams.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_help_names_all_commands(capsys):
    assert main(["--help"]) == 0
    assert re.findall(r"^  (\w+)", capsys.readouterr().out, re.MULTILINE) == [
        "gather",
        "info",
        "convert",
        "merge",
        "split",
    ]


def damaged(data, kind):
    content = bytearray(data.read_bytes())
    if kind == "truncated":
        return content[: len(content) * 2 // 3]
    if kind == "over-long":
        return content + b"more"
    content[len(content) // 2] ^= 1
    return content


@pytest.mark.parametrize("kind", ["d4rl", "minari"])
def test_no_bar_precedes_an_error(data, tmp_path, capsys, kind):
    assert main(["convert", str(data), "--to", kind, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_minari_a_misspelt_file_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "minari", None)
    assert main(["info", "pendulun"]) == 2
    message = "there is no file pendulun, and as the id of a dataset: Minari is needed: "
    message += "pip install '.[minari]' in the checkout of rlfast"
    assert capsys.readouterr().err == f"rlfast: {message}\n"
    assert main(["info", str(tmp_path)]) == 2
    assert "is a folder, but no Minari dataset" in capsys.readouterr().err


@pytest.mark.parametrize(("out", "match"), [("gone/data", "there is no folder"), ("", "is a folder: give the name")])
def test_nothing_is_played_for_a_file_that_cannot_be_written(tmp_path, capsys, out, match):
    assert main(["gather", "nowhere", "--steps", "9", "--out", str(tmp_path / out)]) == 2
    assert match in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["truncated", "over-long", "wrong checksum"])
def test_damaged_snapshots(data, tmp_path, capsys, kind):
    data.write_bytes(damaged(data, kind))
    assert main(["convert", str(data), "--out", str(tmp_path / "out"), "--no-progress"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert str(data) in err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
