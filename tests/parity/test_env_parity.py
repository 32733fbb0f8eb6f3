"""The same environments in the vector environments of Tianshou 1.0 and of rlfast."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine import PATIENCE

PYTHON = os.environ.get("RLFAST_TIANSHOU_PYTHON")
DRIVER = Path(__file__).with_name("env_driver.py")


@pytest.mark.skipif(
    not PYTHON, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0 to compare with"
)
def test_both_say_the_same():
    def said(python, library):
        command = [python, "-W", "ignore", DRIVER, library]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout)

    theirs, ours = said(PYTHON, "tianshou"), said(sys.executable, "rlfast")
    assert len(ours) == 6
    for name, one in theirs.items():
        assert ours[name] == one, name
