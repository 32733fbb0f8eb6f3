"""Every notebook runs from top to bottom, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from machine import PATIENCE

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
RESULTS = {
    "first_agent": lambda shown: float(shown.splitlines()[-1]) >= 300,  # the return of an episode
    "your_environment": lambda shown: float(shown.split("mean return ")[1].split(";")[0]) > -30,
    "your_algorithm": lambda shown: max(json.loads(shown.splitlines()[0])) > 100 and shown.endswith("True\n"),
}


def cells(name, kind):
    content = json.loads((FOLDER / f"{name}.ipynb").read_text())
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind]


def test_each_has_a_result():
    assert sorted(RESULTS) == NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs(name, tmp_path):
    code = "import matplotlib\nmatplotlib.use('Agg')\n" + "\n".join(cells(name, "code"))
    command = [sys.executable, "-W", "error", "-W", "ignore:FigureCanvasAgg", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert RESULTS[name](done.stdout), done.stdout


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_has_no_outputs(name):
    content = json.loads((FOLDER / f"{name}.ipynb").read_text())
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in content["cells"])
    assert max(len(line) for code in cells(name, "code") for line in code.splitlines()) <= 92
