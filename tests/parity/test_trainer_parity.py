"""The same scripted environments through the trainers of Tianshou 1.0 and of rlfast."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine import PATIENCE

PYTHON = os.environ.get("RLFAST_TIANSHOU_PYTHON")
DRIVER = Path(__file__).with_name("trainer_driver.py")


@pytest.mark.skipif(
    not PYTHON, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0 to compare with"
)
def test_both_call_the_same_hooks_and_learn_as_often():
    def done(python, library):
        command = [python, "-W", "ignore", DRIVER, library]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout)

    theirs, ours = done(PYTHON, "tianshou"), done(sys.executable, "rlfast")
    assert len(ours) == 7
    for run in (ours["off-policy, stopped within training"], theirs["off-policy, stopped within training"]):
        run["diary"] = [entry for entry in run["diary"] if entry != ["best"]]  # rlfast tells of the last test as well
    for name in ours:
        assert ours[name] == theirs[name], name
