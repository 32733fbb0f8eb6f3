import json
import os
import signal
import subprocess
import sys

import pytest

import rlfast
from rlfast.cli import main
from rlfast.experiment import ALGORITHMS


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_the_commands(flag, capsys):
    assert main([flag]) == 0
    shown = capsys.readouterr()
    assert "train" in shown.out
    assert "Exit status" in shown.out
    assert shown.err == ""


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rlfast {rlfast.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "no command was given"), (["fly"], "there is no command 'fly'"), (["--fly"], "there is no command '--fly'")],
)
def test_bad_commands(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rlfast: {message}: choose from train")
    assert error.count("\n") == 1


def test_a_misspelt_command(capsys):
    assert main(["trian"]) == 2
    assert capsys.readouterr().err == "rlfast: there is no command 'trian'; did you mean train? (rlfast --help)\n"


def test_ctrl_c_before_a_run_is_one_line(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("rlfast.cli.train.main", interrupted)
    assert main(["train", "dqn"]) == 130
    assert capsys.readouterr().err == "rlfast: interrupted\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
def test_so_is_sigterm(monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("rlfast.cli.train.main", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert main(["train", "dqn"]) == 130
    assert capsys.readouterr().err == "rlfast: interrupted\n"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sh")
def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m rlfast train dqn --help | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert "usage: rlfast train dqn" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["trian"], 2),
        (["train", "--help"], 0),
        (["train", "ppo", "--help"], 0),
        (["train", "pppo"], 2),
        (["train", "dqn", "--no-such-option", "3"], 2),
        (["train", "dqn", "--max-steps", "many"], 2),
        (["train", "dqn", "--gamma", "3"], 2),
        (["train", "--resume", "nowhere"], 2),
        (["train", "--resume", "nowhere", "--no-such-option"], 2),
        (["eval", "nowhere"], 2),
        (["eval", "--no-such-option"], 2),
        (["status", "nowhere"], 2),
        (["status", "RUN"], 0),
        (["plot", "nowhere"], 2),
        (["data", "gather", "--no-such-option"], 2),
    ],
)
def test_help_errors_and_status_come_without_torch(arguments, status, tmp_path):
    (tmp_path / "RUN").mkdir()
    config = {"algorithm": "dqn", "config": json.loads(ALGORITHMS["dqn"].config().to_json())}
    (tmp_path / "RUN" / "config.json").write_text(json.dumps(config))
    row = {"scope": "test", "axis": "env_step", "step": 100, "time": 1.0, "test/returns_stat/mean": 9.0}
    (tmp_path / "RUN" / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    code = f"""
import sys
from rlfast.cli import main
from rlfast.experiment import ALGORITHMS
assert main({arguments!r}) == {status}
slow = ("torch", "gymnasium", "matplotlib", "scipy")
print(*(name for name in slow if name in sys.modules), file=sys.stderr)
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.splitlines()[status // 2 :] == [""]


def test_it_is_a_module_as_well():
    done = subprocess.run([sys.executable, "-m", "rlfast", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"rlfast {rlfast.__version__}\n")
