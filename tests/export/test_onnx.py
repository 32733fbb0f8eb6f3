"""Exported ONNX models act as the trained policies."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from export.trained import POLICIES, RECURRENT, SHAPE, SPACES, episode, made, sampled, spaced, wanted
from rlfast import load_policy
from rlfast.data.forms import Form
from rlfast.export import program_of, save
from rlfast.export.program import Scale

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
SHORT = ("DQN, all nodes", "DDPG", "PPO, multi-discrete", "SAC, LSTM", "nested")


def mostly_long(names):
    return [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in names]


def session(program, folder):
    path = save(program, folder / "policy.onnx", "onnx")
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def same(found, expected):
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "i":
        return (found == expected).mean() > 0.995
    return np.abs(found - expected).max() <= 1e-6


@pytest.mark.parametrize("name", mostly_long(POLICIES))
def test_the_same_actions(name, tmp_path):
    policy = made(name)
    model = session(program_of(policy, SHAPE), tmp_path)
    for rows in (1, 300):
        obs = np.random.default_rng(rows).normal(size=(rows, *SHAPE)).astype(np.float32)
        assert same(model.run(["action"], {"obs": obs})[0], wanted(policy, obs, deterministic=True))


@pytest.mark.parametrize("name", mostly_long(RECURRENT))
def test_hidden_states_are_inputs_and_outputs(name, tmp_path):
    policy = made(name)
    model = session(program_of(policy, SHAPE), tmp_path)
    obs = np.random.default_rng(0).normal(size=(6, 9, *SHAPE)).astype(np.float32)
    state = np.zeros((9, model.get_inputs()[1].shape[1]), np.float32)
    for step, expected in zip(obs, episode(policy, obs, deterministic=True), strict=True):
        action, state = model.run(["action", "next_state"], {"obs": step, "state": state})
        assert same(action, expected)


@pytest.mark.parametrize("name", mostly_long(SPACES))
def test_observations_of_other_spaces(name, tmp_path):
    policy, space = spaced(name), SPACES[name]
    model, obs = session(program_of(policy, space), tmp_path), sampled(space, 50)
    arrays = {}
    for part in Form.of(obs, batched=True).parts:
        array = obs
        for key in part.keys:
            array = array[key]
        arrays[".".join(("obs", *part.keys))] = array.astype(np.float32)
    assert same(model.run(["action"], arrays)[0], wanted(policy, obs))


def test_observations_are_prepared_and_the_model_is_described(tmp_path):
    scale = Scale(mean=np.linspace(-1, 1, 5), deviation=np.linspace(0.5, 2, 5), limit=1.25)
    program = replace(program_of(made("PPO"), SHAPE), scales=[scale], form=Form.given((2, 3)), places=[5, 0, 3, 1, 2])
    model = session(program, tmp_path)
    obs = np.random.default_rng(0).normal(size=(50, 2, 3))
    loaded = load_policy(save(program, tmp_path / "policy"))
    action, mean, deviation = model.run(None, {"obs": obs})
    assert same(action, loaded(obs, deterministic=True))
    assert mean.shape == deviation.shape == (50, 3)
    known = model.get_modelmeta().custom_metadata_map
    assert known["policy"] == "PPOPolicy"
    assert known["action_space"].startswith("Box(")
    assert known["rlfast"]


def test_a_missing_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.delitem(sys.modules, "rlfast.export.onnx", raising=False)
    with pytest.raises(ImportError, match=r"needs onnxscript.* pip install '\.\[onnx\]'"):
        save(program_of(made("DQN"), SHAPE), tmp_path / "x.onnx", "onnx")
