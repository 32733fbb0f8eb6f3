import json
import shutil
import sys

import gymnasium as gym
import huggingface_hub
import numpy as np
import pytest

import rlfast
from cli.test_train import SMALL
from hub_server import TOKEN, serving
from rlfast.cli import main
from rlfast.experiment.run_dir import read_config
from rlfast.experiment.sharing import folder as sharing

OWN = "owner/cart-pole"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    command = ["train", "dqn", "--env", "CartPole-v1", "--run-dir", str(folder), *SMALL, "--max-steps", "200"]
    assert main([*command, "--no-progress", "--normalize-obs", "--storage", "lz4"]) == 0
    return folder


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with serving() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield served


def share(run, *more):
    return main(["share", str(run), "--episodes", "3", "--no-video", *more])


def test_shared_folder_acts_as_the_run(run, tmp_path, capsys):
    assert share(run, "--out", str(tmp_path / "out")) == 0
    shown = capsys.readouterr().out
    assert main(["eval", str(run), "--episodes", "3"]) == 0
    assert shown.split("\n")[0] in capsys.readouterr().out
    assert main(["eval", str(tmp_path / "out"), "--episodes", "3"]) == 0
    assert shown.split("\n")[0] in capsys.readouterr().out
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    state = ("policy.safetensors", "training_state.json", "training_state.safetensors")
    checkpoint = {f"checkpoint/{name}" for name in ("checkpoint.json", *state)}
    assert files == checkpoint | {"config.json", "results.json", "README.md", "metrics.csv", "learning_curve.png"}
    for path in (tmp_path / "out").rglob("*.*"):
        assert path.is_dir() or str(run).encode() not in path.read_bytes(), path
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["episodes"] == len(results["returns"]) == 3
    assert results["mean"] == pytest.approx(np.mean(results["returns"]))


def test_best_policy_is_shared_on_request(run, tmp_path):
    assert share(run, "--out", str(tmp_path / "out"), "--best") == 0
    ours, best = (
        (folder / "policy.safetensors").read_bytes() for folder in (tmp_path / "out" / "checkpoint", run / "best")
    )
    assert ours == best
    assert json.loads((tmp_path / "out" / "results.json").read_text())["policy"] == "best"


def test_card_has_the_metadata_of_the_hub(run, tmp_path):
    assert share(run, "--out", str(tmp_path / "out")) == 0
    card = huggingface_hub.ModelCard.load(tmp_path / "out" / "README.md")
    data = card.data.to_dict()
    assert data["library_name"] == "rlfast"
    assert data["pipeline_tag"] == "reinforcement-learning"
    assert "CartPole-v1" in data["tags"]
    (result,) = card.data.eval_results
    assert (result.dataset_type, result.metric_type) == ("CartPole-v1", "mean_reward")
    assert (
        result.metric_value
        == f"{json.loads((tmp_path / 'out' / 'results.json').read_text())['mean']:.2f} +/- "
        + (result.metric_value.split(" +/- ")[1])
    )
    assert "| `normalize_obs` | `True` |" in card.text
    assert "This is a policy that rlfast trained for 200 environment steps, with seed 0 (rlfast " in card.text


def test_card_has_the_steps_of_a_run_that_stopped_early(run, tmp_path):
    stopped = shutil.copytree(run, tmp_path / "run")
    config = json.loads((stopped / "config.json").read_text())
    config["config"]["max_steps"] = 100_000
    (stopped / "config.json").write_text(json.dumps(config))
    assert share(stopped, "--out", str(tmp_path / "out")) == 0
    assert "trained for 200 environment steps" in (tmp_path / "out" / "README.md").read_text()


def test_pushed_run_is_played_from_the_hub(run, hub, tmp_path, capsys):
    assert share(run, "--out", str(tmp_path / "out"), "--push", OWN) == 0
    shown = capsys.readouterr().out
    assert f"{hub.address}/{OWN}\nrlfast eval hf://{OWN} plays it\n" in shown
    assert {"README.md", "config.json", "results.json", "checkpoint/policy.safetensors"} <= hub.repositories[OWN].keys()
    assert f'rlfast.load("hf://{OWN}")' in hub.repositories[OWN]["README.md"].decode()

    hub.repositories[OWN]["checkpoint/evil.pkl"] = hub.repositories[OWN]["policy.bin"] = b"cos\nsystem\n"
    assert main(["eval", f"hf://{OWN}", "--episodes", "3"]) == 0
    assert shown.split("\n")[0] in capsys.readouterr().out
    assert not any(
        "evil" in path or "policy.bin" in path or "README" in path for path in hub.requests if "resolve" in path
    )

    obs, _ = gym.make("CartPole-v1").reset(seed=3)
    ours, theirs = rlfast.load(run), rlfast.load(f"hf://{OWN}@main")
    assert ours.compute_action(obs) == theirs.compute_action(obs)


def test_failed_upload_is_tried_again(run, hub, tmp_path, capsys):
    hub.broken = True
    assert share(run, "--out", str(tmp_path / "out"), "--push", OWN) == 1
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert f"{OWN} cannot be uploaded" in shown
    assert f"rlfast share {tmp_path / 'out'} --push {OWN} tries again" in shown
    assert hub.repositories[OWN] == {}
    hub.broken = False
    assert main(["share", str(tmp_path / "out"), "--push", OWN]) == 0
    assert "config.json" in hub.repositories[OWN]


def test_missing_token_is_one_line(run, hub, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "wrong")
    assert share(run, "--out", str(tmp_path / "out"), "--push", OWN) == 1
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "hf auth login stores a token" in shown


def test_a_shared_folder_does_not_learn(run, tmp_path, capsys):
    assert share(run, "--out", str(tmp_path / "an out")) == 0
    assert "rlfast eval 'an out' --episodes 100" in (tmp_path / "an out" / "README.md").read_text()
    capsys.readouterr()
    assert main(["status", str(tmp_path / "an out")]) == 0
    assert "a policy alone, as of a shared or imported run" in capsys.readouterr().out
    assert main(["train", "--resume", str(tmp_path / "an out"), "--max-steps", "300"]) == 2
    assert (
        "holds a policy alone, as of a shared or imported run: it acts, and cannot be resumed"
        in capsys.readouterr().err
    )


@pytest.mark.usefixtures("hub")
def test_unknown_repository_is_one_line(capsys):
    assert main(["eval", "hf://nobody/nothing"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("rlfast: hf://nobody/nothing cannot be downloaded: ")
    assert shown.count("\n") == 1


def test_unreachable_hub_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    assert main(["eval", "hf://nobody/nothing"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("rlfast: ")
    assert shown.count("\n") == 1


WRONG = {
    "no repository": (["--push", "cartpole"], "a repository of the hub is OWNER/NAME, got 'cartpole'"),
    "private": (["--private"], "--private is for --push: leave it out"),
    "no episodes": (["--episodes", "0"], "episodes must be at least 1, got 0"),
}


@pytest.mark.parametrize(("arguments", "error"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_one_line(arguments, error, run, capsys):
    assert share(run, *arguments) == 2
    assert capsys.readouterr().err == f"rlfast: {error}\n"
    assert not (run / "shared").exists()


def test_wrong_folders_are_refused(run, tmp_path, capsys):
    assert share(tmp_path) == 2
    assert "is no run folder: it has no config.json" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert share(run, "--out", str(tmp_path)) == 2
    assert f"{tmp_path} is not empty: choose another folder" in capsys.readouterr().err
    assert main(["eval", "hf://nobody"]) == 2
    assert "a repository of the hub is OWNER/NAME, got 'nobody'" in capsys.readouterr().err


def test_paths_of_data_are_not_shared(tmp_path):
    from rlfast.experiment import ALGORITHMS

    (tmp_path / "expert.hdf5").touch()
    config = ALGORITHMS["iql"].config(data=str(tmp_path / "expert.hdf5"), run_dir=tmp_path / "run", ray="auto")
    shared = sharing._without_paths(config)
    assert (shared.data, shared.run_dir, shared.ray) == ("expert.hdf5", None, None)
    config = ALGORITHMS["dqn"].config(storage=str(tmp_path / "rows"))
    assert sharing._without_paths(config).storage == "ram"


def test_missing_film_is_said(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "moviepy", None)
    assert main(["share", str(run), "--episodes", "2", "--out", str(tmp_path / "out")]) == 0
    assert "rlfast: there is no film: a film needs libraries that are missing" in capsys.readouterr().err
    assert read_config(tmp_path / "out").run_dir is None


def test_missing_hub_names_the_extra(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert main(["eval", "hf://owner/name"]) == 1
    assert "hf://owner/name needs huggingface_hub, which cannot be imported; install it: " in capsys.readouterr().err
    assert share(run, "--push", OWN, "--out", str(run.parent / "pushed")) == 1
    assert "rlfast share --push needs huggingface_hub" in capsys.readouterr().err
