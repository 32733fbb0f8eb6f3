"""Scripts as users of Tianshou write them answer the same here, once ``tianshou`` is replaced by ``rlfast``.

``answers.json`` holds what Tianshou 1.0 answers. Where ``RLFAST_TIANSHOU_PYTHON`` names an interpreter that has
it, the scripts run there as well, and the file is compared with its answers (``record.py`` writes it anew).
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from corpus.driver import run

FOLDER = Path(__file__).parent
SCRIPTS = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.glob("*/*.py"))}
ANSWERS = json.loads((FOLDER / "answers.json").read_text())
TIANSHOU = os.environ.get("RLFAST_TIANSHOU_PYTHON")


def nearly(answer):
    """Give something that equals what differs from an answer by rounding only."""
    if isinstance(answer, dict):
        return {key: nearly(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [nearly(value) for value in answer]
    if isinstance(answer, float):
        return pytest.approx(answer, rel=1e-4, abs=1e-5, nan_ok=True)
    return answer


def test_there_is_an_answer_for_each_script():
    assert sorted(ANSWERS) == sorted(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_answer(name, monkeypatch, tmp_path):
    made = []

    class Folder(tempfile.TemporaryDirectory):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(Path(self.name))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(tempfile, "TemporaryDirectory", Folder)
    assert run(SCRIPTS[name], "rlfast") == nearly(ANSWERS[name])
    assert not [folder for folder in made if folder.exists()], "it would go, with a warning, while another test runs"


@pytest.fixture(scope="module")
def theirs():
    command = [TIANSHOU, FOLDER / "driver.py", "tianshou", *SCRIPTS.values()]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


@pytest.mark.skipif(TIANSHOU is None, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with Tianshou 1.0")
def test_the_recorded_answers_are_those_of_tianshou(theirs):
    for name, path in SCRIPTS.items():
        assert theirs[str(path)] == nearly(ANSWERS[name]), name
