"""Changed files do no harm to any reader: a small sample, and with ``-m long`` as many as fit into some minutes each.

``RLFAST_FUZZ_CASES`` is another number of cases of the long runs, such as 10000000.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("h5py")
pytest.importorskip("gymnasium")

READERS = {
    "snapshot": (300, 10**6),
    "sections of a snapshot": (300, 10**6),
    "folder of rows": (20, 20_000),
    "shared memory": (200, 300_000),
    "HDF5 values": (60, 50_000),
    "HDF5 buffer": (40, 20_000),
    "D4RL": (60, 50_000),
    "pickle": (2000, 10**7),
    "plain data": (2000, 10**7),
    "config.json": (100, 50_000),
    "metrics.csv": (300, 10**6),
    "metrics.jsonl": (300, 10**6),
    "policy": (300, 10**6),
    "experiment": (100, 300_000),
    "checkpoint": (30, 50_000),
}
"""The readers, with the numbers of cases of the two runs."""


def run(wanted, folder):
    """Reads changed files in another process. Some are refused, and some changes are harmless."""
    root = [path for path in sys.path if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "faults.readers", str(folder), "1", json.dumps(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    refused = json.loads(done.stdout.splitlines()[-1])
    assert {name: 0 < refused[name] <= cases for name, cases in wanted.items()} == dict.fromkeys(wanted, True)


def test_changed_files_do_no_harm(tmp_path):
    run({reader: few for reader, (few, _) in READERS.items()}, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("reader", READERS)
def test_many_changed_files_do_no_harm(reader, tmp_path):
    run({reader: int(os.environ.get("RLFAST_FUZZ_CASES", READERS[reader][1]))}, tmp_path)
