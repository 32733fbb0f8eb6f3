"""Decisions of one policy, the action with the greatest output, in several ways."""

from __future__ import annotations

import ctypes
import importlib
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

VARIANT = ""
PICTURE = (4, 84, 84)
Act = Callable[[Any], Any]


def versions() -> dict[str, str]:
    names = {"sb3": "stable_baselines3", "onnxruntime": "onnxruntime", "jit": "torch", "by hand": "numpy"}
    module = importlib.import_module(names.get(VARIANT, "rlfast"))
    return {module.__name__: module.__version__}


def network(inputs: int, actions: int) -> Any:
    """Returns a policy's network: of two hidden layers, or for 0 inputs a NatureCNN of stacks of frames."""
    import torch

    from rlfast.utils.net.atari import NatureCNN

    torch.manual_seed(0)
    if not inputs:
        return NatureCNN(*PICTURE, actions, scale=1 / 255).eval()
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    return torch.nn.Sequential(linear(inputs, 64), relu(), linear(64, 64), relu(), linear(64, actions)).eval()


def exported(inputs: int, actions: int, to: str, folder: str) -> Path:
    import torch
    from gymnasium.spaces import Discrete

    from rlfast.export import program_of, save
    from rlfast.policy import DQNPolicy
    from rlfast.utils.optim import adam

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network(inputs, actions)

        def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:  # noqa: ARG002
            return self.net(torch.as_tensor(obs)), state

    model = Model() if inputs else network(inputs, actions)
    policy = DQNPolicy(model=model, optim=adam(1e-3), action_space=Discrete(actions)).eval()
    program = program_of(policy, (inputs,) if inputs else PICTURE, is_bytes=not inputs)
    return save(program, Path(folder, f"policy.{to}"), to)


def rlfast(inputs: int, actions: int) -> Act:
    from rlfast.export.load import load_policy

    with tempfile.TemporaryDirectory() as folder:
        return load_policy(exported(inputs, actions, "rlfast", folder))


def onnx(inputs: int, actions: int) -> Act:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        session = onnxruntime.InferenceSession(exported(inputs, actions, "onnx", folder), options)
    several = 2 if inputs else 4
    return lambda obs: session.run(["action"], {"obs": obs if obs.ndim == several else obs[None]})


def jit(inputs: int, actions: int) -> Act:
    import torch

    net = network(inputs, actions)
    net = torch.jit.freeze(torch.jit.script(net) if inputs else torch.jit.trace(net.net, torch.zeros(1, *PICTURE)))

    @torch.inference_mode()
    def act(obs: Any) -> Any:
        return net(torch.from_numpy(obs if inputs else obs[None])).argmax(-1).numpy()

    return act


def products(inputs: int, actions: int) -> Act:
    """Returns the matrix products alone, which is what BLAS needs of the time."""
    draws = np.random.default_rng(0)
    (w1, w2, w3) = (draws.normal(size=size).astype(np.float32) for size in [(inputs, 64), (64, 64), (64, actions)])
    return lambda obs: obs @ w1 @ w2 @ w3


def by_hand(inputs: int, actions: int) -> Act:
    draws = np.random.default_rng(0)
    sizes = [(inputs, 64), (64, 64), (64, actions)]
    (w1, w2, w3) = (draws.normal(size=size).astype(np.float32) for size in sizes)
    b1, b2, b3 = (np.zeros(size[1], np.float32) for size in sizes)
    return lambda obs: (np.maximum(np.maximum(obs @ w1 + b1, 0) @ w2 + b2, 0) @ w3 + b3).argmax(-1)


def sb3(inputs: int, actions: int) -> Act:
    import gymnasium as gym
    from stable_baselines3.common.policies import ActorCriticPolicy

    box, discrete = gym.spaces.Box(-np.inf, np.inf, (inputs,), np.float32), gym.spaces.Discrete(actions)
    policy = ActorCriticPolicy(box, discrete, lambda _: 3e-4)
    return lambda obs: policy.predict(obs, deterministic=True)


def in_c(inputs: int, actions: int) -> Callable[[int], float]:
    """Returns an operation that repeats a decision in C."""
    main = """
#include "policy.h"
int repeat(int count, const float *obs) {
    int sum = 0, action[policy_ACTION];
    while (count--) { policy_act(obs, action); sum += action[0]; }
    return sum;
}
"""
    with tempfile.TemporaryDirectory() as folder:
        exported(inputs, actions, "c", folder).rename(Path(folder, "policy.h"))
        Path(folder, "policy.c").write_text(main)
        command = ["cc", "-O3", "-march=native", "-std=c99", "-shared", "-fPIC", "policy.c", "-o", "policy.so", "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        library = ctypes.CDLL(str(Path(folder, "policy.so")))
    obs = np.ones(inputs or math.prod(PICTURE), np.float32)
    return lambda count: library.repeat(count, obs.ctypes.data_as(ctypes.c_void_p)) * 0.0 or None  # type: ignore[return-value]


MAKERS = {"rlfast": rlfast, "onnxruntime": onnx, "jit": jit, "by hand": by_hand, "sb3": sb3, "products": products}


def decide(inputs: int, actions: int, rows: int) -> dict[str, Any]:
    """Prepares decisions of a policy.

    :param inputs: the numbers of an observation, 0 for a stack of frames.
    :param actions: how many actions there are.
    :param rows: the observations of a call.
    """
    if VARIANT == "c":
        return {"act": in_c(inputs, actions)}
    act = MAKERS[VARIANT](inputs, actions)
    shape = (inputs,) if inputs else PICTURE
    obs = np.random.default_rng(1).normal(size=(rows, *shape) if rows > 1 else shape).astype(np.float32)

    def run(count: int) -> None:
        for _ in range(count):
            act(obs)

    return {"act": run}


STARTS = {
    "rlfast": "import rlfast; rlfast.load_policy(path)(obs)",
    "onnxruntime": "import onnxruntime; onnxruntime.InferenceSession(path).run(['action'], {'obs': obs[None]})",
}


def begin(inputs: int, actions: int) -> dict[str, Any]:
    """Prepares new interpreters that load a policy and act once. Their own start is not counted, but NumPy's import."""
    folder = tempfile.TemporaryDirectory()
    path = exported(inputs, actions, {"onnxruntime": "onnx"}.get(VARIANT, VARIANT), folder.name)
    program = (
        f"import time; start = time.perf_counter(); import numpy as np; path = {str(path)!r}; "
        f"obs = np.ones({inputs}, np.float32); {STARTS[VARIANT]}; print(time.perf_counter() - start)"
    )

    def run(count: int, kept: object = folder) -> float:  # noqa: ARG001 (the folder lives as long as the operation)
        return sum(float(subprocess.check_output([sys.executable, "-c", program], text=True)) for _ in range(count))

    return {"act": run}
