"""The interpreter with Tianshou 1.0 that tests compare with, and programs that run in either library."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine import PATIENCE

TIANSHOU = os.environ.get("RLFAST_TIANSHOU_PYTHON")
needs_tianshou = pytest.mark.skipif(
    not TIANSHOU, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0 to compare with"
)


def answers(driver, library, given=None):
    """Give what ``DRIVER LIBRARY`` prints as JSON, after reading ``given`` as JSON."""
    python = sys.executable if library == "rlfast" else str(TIANSHOU)
    command = [python, "-W", "ignore", Path(__file__).with_name(driver), library]
    text = None if given is None else json.dumps(given)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
