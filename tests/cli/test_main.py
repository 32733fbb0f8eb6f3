import os
import signal
import subprocess
import sys

import pytest

import rlfast
from rlfast.cli import main


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


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"]])
def test_help_comes_without_torch(arguments):
    code = f"""
import sys
from rlfast.cli import main
assert main({arguments!r}) == 0
print("torch" in sys.modules, "gymnasium" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False False\n"


def test_it_is_a_module_as_well():
    done = subprocess.run([sys.executable, "-m", "rlfast", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"rlfast {rlfast.__version__}\n")
