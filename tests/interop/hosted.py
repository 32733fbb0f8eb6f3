"""Runs a driver in the interpreter that has the library it needs."""

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import rlfast
from machine import PATIENCE

HERE = Path(__file__).parent


def checks(driver: str) -> list[str]:
    """Returns the names of the driver's checks."""
    return re.findall(r"^def (check_\w+)\(\)", (HERE / driver).read_text(), re.MULTILINE)


@cache
def answers(driver: str, variable: str, version: str) -> dict[str, str]:
    """What went wrong, by check, in the interpreter that the environment variable names; skips where it names none."""
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no interpreter with version {version} of the host")
    environment = os.environ | {"PYTHONPATH": str(Path(rlfast.__file__).parents[1])}
    command = [python, "-W", "ignore", str(HERE / driver)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=PATIENCE, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.rindex('{"version"') :])
    assert found["version"].startswith(version)
    return found["failed"]
