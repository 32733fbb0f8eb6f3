"""Folders of runs that older versions made can be read, evaluated and resumed."""

import json
import zipfile
from pathlib import Path

import pytest
from safetensors.torch import load_file

from rlfast.experiment import evaluate
from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import load_policy
from rlfast.experiment.run import resume
from rlfast.experiment.run_dir import read_config

FOLDERS = Path(__file__).parent / "run_folders"


@pytest.fixture(params=sorted(path.stem for path in FOLDERS.glob("*.zip")))
def run(request, tmp_path):
    with zipfile.ZipFile(FOLDERS / f"{request.param}.zip") as archive:
        archive.extractall(tmp_path / "run")
    return tmp_path / "run"


def test_there_is_one_of_each_algorithm_of_the_first_version():
    assert {path.stem for path in FOLDERS.glob("*.zip")} >= {"dqn-0.1", "ppo-0.1", "sac-0.1"}


def test_settings_mean_what_they_meant(run):
    content = json.loads((run / "config.json").read_text())["config"]
    config = read_config(run)
    assert json.loads(json.dumps({name: getattr(config, name) for name in content}, default=str)) == content


def test_weights_are_those_that_were_written(run):
    parts = build(read_config(run))
    load_policy(run / "checkpoint", parts.policy)
    ours, written = parts.policy.state_dict(), load_file(run / "checkpoint" / "policy.safetensors")
    parts.close()
    assert ours.keys() - {"_extra_state"} == written.keys()
    assert all(ours[name].equal(written[name]) for name in written)


def test_they_can_be_played_and_gone_on_with(run):
    assert len(evaluate(run, 2).returns) == 2
    steps = json.loads((run / "checkpoint" / "checkpoint.json").read_text())["env_step"]
    result = resume(run, max_steps=steps + 32)
    assert result.env_step == steps + 32
