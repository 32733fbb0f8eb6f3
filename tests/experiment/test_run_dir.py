import json
import sys
from types import SimpleNamespace

import pytest

from rlfast.experiment.run_dir import make_run_dir, read_config, read_versions, write_config


def test_the_folder_asked_for_must_be_new_or_empty(tiny, run_dir):
    assert make_run_dir(tiny(), "dqn") == run_dir
    assert make_run_dir(tiny(), "dqn") == run_dir  # still empty
    (run_dir / "config.json").write_text("{}")
    with pytest.raises(FileExistsError, match=r"is not empty: choose another --run-dir, .*; rlfast train --resume "):
        make_run_dir(tiny(), "dqn")
    with pytest.raises(FileExistsError, match=r"is not empty: choose another --run-dir, or delete it$"):
        make_run_dir(tiny(run_dir=run_dir / "config.json"), "dqn")
    assert (run_dir / "config.json").read_text() == "{}"


def test_default_folders_are_numbered(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tiny(run_dir=None, env="ALE/Pong-v5", seed=3)
    names = [make_run_dir(config, "dqn").as_posix() for _ in range(3)]
    assert names == ["runs/dqn-ALE-Pong-v5-seed3", "runs/dqn-ALE-Pong-v5-seed3-2", "runs/dqn-ALE-Pong-v5-seed3-3"]


def test_default_folders_have_no_colon_of_a_module(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = make_run_dir(tiny(run_dir=None, env="games:Atlas/Maze-v0"), "dqn")
    assert made.name == "dqn-games-Atlas-Maze-v0-seed0"  # TensorBoard reads a colon as its own


def test_the_configuration_is_resolved_and_enough_to_repeat(tiny, run_dir):
    run_dir.mkdir()
    config = tiny(seed=5, hidden_sizes=(3, 4))
    write_config(run_dir, config, "dqn")
    content = json.loads((run_dir / "config.json").read_text())
    assert content["algorithm"] == "dqn"
    assert content["config"]["seed"] == 5
    assert {"python", "rlfast", "torch", "numpy", "gymnasium"} <= content["versions"].keys()
    assert read_config(run_dir) == config


@pytest.mark.parametrize(
    ("env", "library"), [("Hopper-v5", "mujoco"), ("LunarLander-v3", "Box2D"), ("ALE/Pong-v5", "ale_py")]
)
def test_the_version_of_the_simulator_is_written(env, library, tiny, run_dir, monkeypatch):
    for name in ("mujoco", "Box2D", "ale_py"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__name__=name, __version__=f"1.2-{name}"))
    run_dir.mkdir()
    write_config(run_dir, tiny(env=env), "dqn")
    versions, processor = read_versions(run_dir)
    assert {name: one for name, one in versions.items() if one.startswith("1.2-")} == {library: f"1.2-{library}"}
    assert processor == json.loads((run_dir / "config.json").read_text())["processor"]
