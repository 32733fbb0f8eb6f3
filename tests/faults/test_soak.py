"""Hours of adds, samples, kills and reopens, compressed: nothing is lost, and nothing piles up."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from machine import PATIENCE

if not Path("/proc/self/maps").exists():
    pytest.skip("the test reads /proc", allow_module_level=True)


@pytest.mark.timeout(2 * 1800 + PATIENCE)
@pytest.mark.parametrize("seconds", [0, pytest.param(1800, marks=pytest.mark.long)], ids=["quick", "long"])
def test_what_the_process_holds_stays_the_same(tmp_path, seconds):
    command = [sys.executable, "-m", "faults.soak", str(seconds), str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1], timeout=seconds + PATIENCE
    )
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) >= 8
    warm, last = rounds[len(rounds) // 4], rounds[-1]
    for name in ("files", "threads", "children"):
        assert last[name] == warm[name], f"{name}: {[one[name] for one in rounds]}"
    assert last["mappings"] <= warm["mappings"] + 16
    assert last["memory"] <= warm["memory"] + (8 << 20)
