"""Our buffers in the interpreters of Tianshou 1.0, 1.2 and 2.0: ``tianshou_driver.py`` is what they are asked."""

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import rlfast

DRIVER = Path(__file__).with_name("tianshou_driver.py")
CHECKS = re.findall(r"^def (check_\w+)\(\)", DRIVER.read_text(), re.MULTILINE)
HOSTS = {"1.0": "RLFAST_TIANSHOU_PYTHON", "1.2": "RLFAST_TIANSHOU12_PYTHON", "2.0": "RLFAST_TIANSHOU2_PYTHON"}


@cache
def answers(version):
    python = os.environ.get(HOSTS[version])
    if not python:
        pytest.skip(f"{HOSTS[version]} names no interpreter with tianshou=={version}.*")
    environment = os.environ | {"PYTHONPATH": str(Path(rlfast.__file__).parents[1])}
    command = [python, "-W", "ignore", str(DRIVER)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=110, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.rindex('{"version"') :])
    assert found["version"].startswith(version)
    return found["failed"]


@pytest.mark.parametrize("version", HOSTS)
@pytest.mark.parametrize("check", CHECKS)
def test_tianshou(version, check):
    assert check not in answers(version), answers(version)[check]


def test_there_is_something_to_check():
    assert len(CHECKS) == 14
