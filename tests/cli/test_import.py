import io
import json
import pickle
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from torch import nn

import rlfast
from rlfast.cli import main

AGENTS = {
    "PPO, discrete": (sb3.PPO, "CartPole-v1", {}),
    "PPO, continuous": (sb3.PPO, "Pendulum-v1", {"activation_fn": nn.ReLU, "net_arch": [48, 40], "log_std_init": -0.5}),
    "PPO, one layer": (sb3.PPO, "MountainCarContinuous-v0", {"net_arch": [9], "activation_fn": nn.ELU}),
    "PPO, places as numbers": (sb3.PPO, "FrozenLake-v1", {"net_arch": [16]}),
    "A2C": (sb3.A2C, "CartPole-v1", {}),
    "A2C, continuous": (sb3.A2C, "Pendulum-v1", {}),
    "DQN": (sb3.DQN, "CartPole-v1", {"net_arch": [32], "activation_fn": nn.SiLU}),
    "SAC": (sb3.SAC, "Pendulum-v1", {}),
    "SAC, another critic": (sb3.SAC, "Pendulum-v1", {"net_arch": {"pi": [16, 24], "qf": [32, 8]}}),
    "TD3": (sb3.TD3, "Pendulum-v1", {}),
    "TD3, one layer": (sb3.TD3, "MountainCarContinuous-v0", {"net_arch": [20]}),
}


def saved(tmp_path, kind, env, policy_kwargs, **more):
    torch.manual_seed(3)
    model = kind("MlpPolicy", env, policy_kwargs=policy_kwargs, device="cpu", **more)
    with torch.no_grad():
        for parameter in model.policy.parameters():  # of new agents, heads are nearly zero
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save(tmp_path / "model.zip")
    return model


def imported(tmp_path, env, *more):
    return main(["import", "sb3", str(tmp_path / "model.zip"), "--env", env, "--run-dir", str(tmp_path / "run"), *more])


@pytest.mark.parametrize(("kind", "env", "policy_kwargs"), AGENTS.values(), ids=AGENTS)
def test_imported_agents_act_alike(kind, env, policy_kwargs, tmp_path, capsys):
    model = saved(tmp_path, kind, env, policy_kwargs, **({"gamma": 0.97} if env == "Pendulum-v1" else {}))
    assert imported(tmp_path, env) == 0
    assert f"rlfast eval {tmp_path / 'run'} plays it\n" in capsys.readouterr().out
    policy = rlfast.load(tmp_path / "run")
    space = model.observation_space
    space.seed(0)
    observations = (
        [space.sample() for _ in range(50)] if env != "CartPole-v1" else np.random.default_rng(0).normal(size=(50, 4))
    )
    different = set()
    for obs in observations:
        wanted, _ = model.predict(np.asarray(obs), deterministic=True)
        found = policy.compute_action(np.asarray(obs, dtype=space.dtype))
        assert np.allclose(found, wanted, atol=2e-5), (found, wanted)
        different.add(str(np.round(wanted, 3)))
    assert len(different) > 1
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert config["gamma" if "gamma" in config else "discount_factor"] == model.gamma
    assert main(["eval", str(tmp_path / "run"), "--episodes", "1"]) == 0


@pytest.mark.parametrize("kind", [sb3.PPO, sb3.A2C])
def test_spread_and_values_are_theirs(kind, tmp_path):
    model = saved(tmp_path, kind, "Pendulum-v1", {})
    assert imported(tmp_path, "Pendulum-v1") == 0
    policy = rlfast.load(tmp_path / "run")
    obs = torch.randn(5, 3)
    with torch.no_grad():
        (mean, std), _ = policy.actor(obs)
        theirs = model.policy.get_distribution(obs).distribution
        assert torch.allclose(mean * 2, theirs.mean, atol=1e-5)  # torques are between -2 and 2
        assert torch.allclose(std * 2, theirs.stddev, atol=1e-5)
        assert torch.allclose(policy.critic(obs), model.policy.predict_values(obs), atol=1e-5)


@pytest.mark.parametrize("kind", [sb3.SAC, sb3.TD3])
def test_critics_are_theirs(kind, tmp_path):
    model = saved(tmp_path, kind, "Pendulum-v1", {"net_arch": {"pi": [16, 24], "qf": [32, 8]}})
    assert imported(tmp_path, "Pendulum-v1") == 0
    policy = rlfast.load(tmp_path / "run")
    obs, act = torch.randn(5, 3), torch.rand(5, 1)
    with torch.no_grad():
        for theirs, own in (
            (model.critic, ("critic", "critic2")),
            (model.critic_target, ("critic_old", "critic2_old")),
        ):
            for name, wanted in zip(own, theirs(obs, act), strict=True):
                assert torch.allclose(getattr(policy, name)(obs, act), wanted, atol=1e-5)


def test_critic_of_other_sizes_is_left_out(tmp_path, capsys):
    model = saved(tmp_path, sb3.PPO, "CartPole-v1", {"net_arch": {"pi": [8], "vf": [16, 16]}})
    assert imported(tmp_path, "CartPole-v1") == 0
    assert "its critic has other sizes than its actor, and is not read" in capsys.readouterr().err
    obs = np.ones(4, dtype=np.float32)
    assert rlfast.load(tmp_path / "run").compute_action(obs) == model.predict(obs, deterministic=True)[0]


def test_shared_agents_are_called_imported(tmp_path):
    saved(tmp_path, sb3.DQN, "CartPole-v1", {})
    assert imported(tmp_path, "CartPole-v1") == 0
    assert main(["share", str(tmp_path / "run"), "--episodes", "1", "--no-video", "--out", str(tmp_path / "out")]) == 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "This is a policy that was trained elsewhere, and imported by rlfast (rlfast " in card


def changed(path, **files):
    """Replaces files of a ZIP file, or removes them (None)."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (contents | files).items():
            if content is not None:
                archive.writestr(name, content)


class Evil:
    def __reduce__(self):
        return (print, ("this code ran",))


def pickled(*things):
    file = io.BytesIO()
    torch.save(*things, file)
    return file.getvalue()


DAMAGED = {
    "no weights": {"policy.pth": None},
    "no settings": {"data": None},
    "settings that are no JSON": {"data": b"{"},
    "settings that are a list": {"data": b"[]"},
    "deep settings": {"data": b"[" * 100_000},
    "settings without a policy": {"data": b"{}"},
    "settings of another kind": {"data": b'{"policy_class": 3, "policy_kwargs": [], "gamma": "x"}'},
    "weights that are code": {"policy.pth": pickled(Evil())},
    "a bare pickle": {"policy.pth": pickle.dumps(Evil())},
    "weights that are no tensors": {"policy.pth": pickled({"q_net.q_net.0.weight": 3})},
    "empty weights": {"policy.pth": b""},
}


@pytest.mark.parametrize("files", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_one_line(files, tmp_path, capsys):
    saved(tmp_path, sb3.DQN, "CartPole-v1", {})
    changed(tmp_path / "model.zip", **files)
    assert imported(tmp_path, "CartPole-v1") == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"rlfast: {tmp_path / 'model.zip'} is no agent that Stable-Baselines3 has saved: ")
    assert shown.err.count("\n") == 1
    assert "this code ran" not in shown.out + shown.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no ZIP file"])
def test_other_files_are_one_line(content, tmp_path, capsys):
    (tmp_path / "model.zip").write_bytes(content)
    assert imported(tmp_path, "CartPole-v1") == 2
    assert "is no agent that Stable-Baselines3 has saved" in capsys.readouterr().err
    (tmp_path / "model.zip").unlink()
    assert imported(tmp_path, "CartPole-v1") == 2
    assert capsys.readouterr().err == f"rlfast: {tmp_path / 'model.zip'}: No such file or directory\n"


REFUSED = {
    "another environment": (
        (sb3.DQN, "CartPole-v1", {}),
        "Acrobot-v1",
        "its model does not fit Acrobot-v1: its layers",
    ),
    "other actions": ((sb3.DQN, "CartPole-v1", {}), "Pendulum-v1", "DQN needs discrete actions"),
    "an activation": (
        (sb3.DQN, "CartPole-v1", {"activation_fn": nn.LeakyReLU}),
        "CartPole-v1",
        "its activation is LeakyReLU",
    ),
    "gSDE": ((sb3.PPO, "Pendulum-v1", {}, {"use_sde": True}), "Pendulum-v1", "its exploration depends on the state"),
    "no environment": ((sb3.DQN, "CartPole-v1", {}), "None-v0", "Environment `None` doesn't exist"),
}


@pytest.mark.parametrize(("agent", "env", "error"), REFUSED.values(), ids=REFUSED)
def test_other_agents_are_refused(agent, env, error, tmp_path, capsys):
    kind, own, policy_kwargs, *more = agent
    saved(tmp_path, kind, own, policy_kwargs, **(more[0] if more else {}))
    assert imported(tmp_path, env) == 2
    shown = capsys.readouterr().err
    assert error in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "run").exists()


class Pictures(gym.Env):
    observation_space, action_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8), gym.spaces.Discrete(6)


OF_PICTURES = {
    "DQN": (sb3.DQN, {}, (512,), None),
    "DQN, a smaller extractor": (sb3.DQN, {"features_extractor_kwargs": {"features_dim": 96}}, (96,), None),
    "DQN, another layer": (sb3.DQN, {"net_arch": [24]}, (512, 24), None),
    "PPO": (sb3.PPO, {}, (512,), True),
    "PPO, separate": (sb3.PPO, {"share_features_extractor": False}, (512,), False),
    "A2C": (sb3.A2C, {}, (512,), True),
}


@pytest.mark.parametrize(("kind", "policy_kwargs", "sizes", "is_shared"), OF_PICTURES.values(), ids=OF_PICTURES)
def test_agents_of_pictures_act_alike(kind, policy_kwargs, sizes, is_shared, tmp_path):
    torch.manual_seed(3)
    rng = np.random.default_rng(0)
    pictures = np.stack([rng.integers(0, rng.integers(2, 256), (4, 84, 84), np.uint8) for _ in range(20)])
    more = {"buffer_size": 10} if kind is sb3.DQN else {}
    model = kind("CnnPolicy", Pictures(), policy_kwargs=policy_kwargs, **more)
    net = model.policy
    head = net.q_net.q_net[-1] if kind is sb3.DQN else net.action_net
    with torch.no_grad():
        head.weight.normal_()
        obs = torch.as_tensor(pictures)
        scores = net.q_net(obs) if kind is sb3.DQN else net.get_distribution(obs).distribution.logits
        head.bias.sub_(scores.mean(0))  # else all pictures have the same best action
    model.save(tmp_path / "model.zip")
    assert imported(tmp_path, "ALE/Pong-v5") == 0
    policy = rlfast.load(tmp_path / "run")
    wanted, _ = model.predict(pictures, deterministic=True)
    assert [policy.compute_action(one) for one in pictures] == [*wanted]
    assert len({*wanted}) > 1
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (tuple(config["hidden_sizes"]), config.get("shared_features")) == (sizes, is_shared)
    if kind is not sb3.DQN:
        with torch.no_grad():
            values = model.policy.predict_values(torch.as_tensor(pictures))
            assert torch.allclose(policy.critic(pictures), values, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "policy_kwargs", "error"),
    [
        (sb3.PPO, {"net_arch": [8]}, "its extractor of pictures has ReLU and its layers tanh"),
        (sb3.TD3, {}, "it has actor.features_extractor.cnn.0.weight, which agents with MlpPolicy"),
    ],
)
def test_other_agents_of_pictures_are_refused(kind, policy_kwargs, error, tmp_path, capsys):
    env = Pictures()
    if kind is sb3.TD3:
        env.action_space = gym.spaces.Box(-2, 2, (1,))
    more = {"buffer_size": 10} if kind is sb3.TD3 else {}
    kind("CnnPolicy", env, policy_kwargs=policy_kwargs, **more).save(tmp_path / "model.zip")
    assert imported(tmp_path, "Pendulum-v1" if more else "ALE/Pong-v5") == 2
    shown = capsys.readouterr().err
    assert error in shown
    assert shown.count("\n") == 1


def test_folders_are_not_overwritten(tmp_path, capsys):
    saved(tmp_path, sb3.DQN, "CartPole-v1", {})
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()
    assert imported(tmp_path, "CartPole-v1") == 2
    assert str(tmp_path / "run") in capsys.readouterr().err
    assert main(["import", "tianshou", "x", "--env", "CartPole-v1"]) == 2
    assert "invalid choice: 'tianshou'" in capsys.readouterr().err
