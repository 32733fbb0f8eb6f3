"""The commands of docs/offline.md, run one after the other, with fewer steps."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from rlfast.cli.main import main
from rlfast.data.datasets.opening import open_source

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "offline.md"
SHARD = ROOT / "tests" / "data" / "datasets" / "shards" / "run_1-00000-of-00100"
FEWER = {"--steps": "400", "--size": "300", "--online-steps": "32"}
SHORT = ["--max-steps", "64", "--eval-interval", "64", "--eval-episodes", "2", "--hidden-sizes", "8", "--no-progress"]


def commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def shortened(line):
    """The arguments of a command with fewer steps, and pattern of shards as a shell expands it."""
    words = [name for word in shlex.split(line) for name in (sorted(map(str, Path().glob(word))) or [word])]
    for option, number in FEWER.items():
        if option in words:
            words[words.index(option) + 1] = number
    if words[1] == "train":
        words += SHORT + (["--start-steps", "16"] if words[2] in ("sac", "--resume") else [])
    return words


@pytest.mark.filterwarnings("ignore:.*is set to None:UserWarning", "ignore:.*env:UserWarning")
def test_the_commands_of_the_page_lead_from_nothing_to_a_trained_policy(tmp_path, monkeypatch, capsys):
    pytest.importorskip("minari")
    monkeypatch.chdir(tmp_path)
    shutil.copy(SHARD, tmp_path)
    ran = []
    for line in commands():
        words = shortened(line)
        assert words[0] == "rlfast", line
        assert main(words[1:]) == 0, (line, capsys.readouterr().err)
        ran.append(tuple(words[1:3]))
    assert {("data", name) for name in ("gather", "info", "convert", "merge", "split")} < {*ran}
    assert {"td3-bc", "sac"} <= {name for command, name in ran if command == "train"}
    assert ran.index(("train", "sac")) < ran.index(("data", "gather")) < ran.index(("train", "td3-bc"))
    assert (tmp_path / "returns.png").is_file()
    assert open_source("pong").length == 48
    assert open_source("both").length == 800
    assert "return" in capsys.readouterr().out
