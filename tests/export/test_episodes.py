"""Trained policies play episodes as they do with torch, exported in all formats."""

import ctypes
import shutil
import subprocess

import gymnasium as gym
import numpy as np
import pytest
import torch

import rlfast
from rlfast.data import Batch
from rlfast.experiment import train
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.export import program_of_run, save
from rlfast.export.program import Choices

EPISODES = 100
FEW = {"num_envs": 4, "eval_interval": 100_000, "eval_episodes": 4, "eval_envs": 4, "progress": False}
REPLAY = {"start_steps": 500, "batch_size": 64, "collect_steps": 4, "updates_per_step": 0.5}
RUNS = {
    **dict.fromkeys(("ppo", "a2c", "pg"), ("CartPole-v1", 4000, {})),
    **dict.fromkeys(("dqn", "c51", "qrdqn", "discrete-sac"), ("CartPole-v1", 3000, REPLAY)),
    **dict.fromkeys(("sac", "td3", "ddpg", "tqc"), ("Pendulum-v1", 2000, REPLAY)),
    "ppo of Pendulum": ("Pendulum-v1", 8000, {"normalize_obs": True}),
    "dqn with an LSTM": ("CartPole-v1", 2000, {**REPLAY, "recurrent": True}),
}


def by_torch(folder):
    policy, state = rlfast.load(folder), None
    policy.eval()

    def act(obs):
        nonlocal state
        with torch.no_grad():
            result = policy(Batch(obs=obs, info={}), state)
        state = result.state
        return policy.map_action(result.act.numpy() if isinstance(result.act, torch.Tensor) else result.act)

    return act


def by_rlfast(program, folder):
    policy = rlfast.load_policy(save(program, folder / "policy.rlfast"))
    return lambda obs: policy(obs, deterministic=True)


def by_onnx(program, folder):
    runtime = pytest.importorskip("onnxruntime")
    model = runtime.InferenceSession(save(program, folder / "policy.onnx", "onnx"), providers=["CPUExecutionProvider"])
    inputs = [one.name for one in model.get_inputs()]
    size = program.state.size if program.state else 0
    state = np.zeros((EPISODES, size), np.float32)

    def act(obs):
        nonlocal state
        given = {"obs": obs.astype(np.float64 if program.scales else np.float32), "state": state}
        outputs = ["action", *["next_state"] * bool(size)]
        action, *after = model.run(outputs, {name: given[name] for name in inputs})
        state = after[0] if after else state
        return action

    return act


def by_c(program, folder):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    save(program, folder / "policy.h", "c")
    given = np.float64 if program.scales else np.float32
    kind = np.int32 if isinstance(program.action, Choices) else np.dtype(program.action.dtype)
    names = {np.float64: "double", np.float32: "float", np.int32: "int"}
    state = ["policy_state states[1000];\n", "&states[k], "] if program.state else ["", ""]
    more = state[1] + ("NULL, " if program.draws else "")
    code = f"""#include "policy.h"
#include <stddef.h>
{state[0]}void act(int rows, const {names[given]} *obs, {names[np.dtype(kind).type]} *action) {{
    int k;
    for (k = 0; k < rows; k++)
        policy_act(obs + k * policy_OBSERVATION, {more}action + k * policy_ACTION);
}}
"""
    (folder / "act.c").write_text(code)
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", "act.c", "-o", "act.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    library = ctypes.CDLL(str(folder / "act.so"))

    def act(obs):
        obs = np.ascontiguousarray(obs, given)
        actions = np.empty((len(obs), *program.action.shape), kind)
        library.act(len(obs), obs.ctypes.data_as(ctypes.c_void_p), actions.ctypes.data_as(ctypes.c_void_p))
        return actions

    return act


def returns(env_id, act):
    """The return of each of many episodes, from the seeds 0, 1, ..."""
    envs = gym.make_vec(env_id, EPISODES)
    obs, _ = envs.reset(seed=0)
    total, alive = np.zeros(EPISODES), np.ones(EPISODES, bool)
    while alive.any():
        obs, rewards, terminated, truncated, _ = envs.step(act(obs))
        total += rewards * alive
        alive &= ~(terminated | truncated)
    envs.close()
    return total


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_the_same_returns(name, run_dir, tmp_path):
    env_id, steps, settings = RUNS[name]
    config = ALGORITHMS[name.split()[0]].config(
        env=env_id, run_dir=run_dir, max_steps=steps, hidden_sizes=(32, 32), **FEW, **settings
    )
    folder = train(config).run_dir
    program = program_of_run(folder)
    wanted = returns(env_id, by_torch(folder))
    assert len(np.unique(wanted)) > 1
    for player in (by_rlfast, by_onnx, by_c):
        found = returns(env_id, player(program, tmp_path))
        if env_id == "CartPole-v1":  # where rounding decides between two actions, an episode changes
            assert (found == wanted).mean() >= 0.99
        else:
            assert np.abs(found - wanted).max() < 0.1
