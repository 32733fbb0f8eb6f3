"""The breakdown of a training loop finds the calls that it measures."""

import subprocess
import sys
from pathlib import Path


def test_the_parts_of_a_loop_take_their_shares():
    command = sys.executable, "-m", "bench.breakdown", "dqn"
    shown = subprocess.check_output(command, cwd=Path(__file__).parents[2], text=True)
    shares = {line[:28].strip(): line[38:].strip() for line in shown.splitlines()}
    assert all(shares[part] != "0%" for part in ("learn: backward", "learn: optimizer", "learn: networks", "collect"))
