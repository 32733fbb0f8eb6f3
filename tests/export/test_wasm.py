"""Exported headers compile to WebAssembly without a standard library, and act there as in Python."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from export.trained import SHAPE, episode, made, wanted
from rlfast.export import program_of, save

TOOLS = [tool for tool in ("clang", "wasm-ld", "node") if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(TOOLS), reason=f"needs {', '.join(TOOLS)}: apt install clang lld nodejs")

FUNCTIONS = ("tanh", "exp", "expm1", "log", "log1p", "sqrt", "erfc")
MATH = "#define INFINITY __builtin_inff()\n#define NULL ((void *)0)\nfloat fabsf(float);\n" + "".join(
    f"float {name}f(float);\ndouble {name}(double);\n" for name in FUNCTIONS
)
"""What a header needs of ``math.h``; the machine around it has the functions."""
CODE = """
#include "policy.h"
float obs[policy_OBSERVATION];
{kind} action[policy_ACTION];
{state}
void act(void) {{ policy_act(obs, {arguments}action); }}
"""
RUN = """
const fs = require("fs"), rows = JSON.parse(fs.readFileSync(0)), env = {}, view = () => instance.exports.memory.buffer;
Math.erfc = x => { throw new Error("unused"); };
for (const name of %s) { env[name] = Math[name]; env[name + "f"] = x => Math.fround(Math[name](x)); }
env.memset = (at, value, size) => { new Uint8Array(view(), at, size).fill(value); return at; };
env.memcpy = (to, from, size) => { new Uint8Array(view()).copyWithin(to, from, from + size); return to; };
const instance = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync("policy.wasm")), {env});
const {obs, action, act} = instance.exports;
console.log(JSON.stringify(rows.map(row => {
    new Float32Array(view(), obs.value, row.length).set(row);
    act();
    return Array.from(new %s(view(), action.value, %d));
})));
"""


LONG = ("DQN", "PPO", "SAC, float64")
NAMES = ["DQN, images", "SAC, LSTM", *(pytest.param(name, marks=pytest.mark.long) for name in LONG)]


@pytest.mark.parametrize("name", NAMES)
def test_webassembly_acts_as_the_policy(name, tmp_path):
    policy = made(name)
    program = program_of(policy, SHAPE)
    save(program, tmp_path / "policy.h", "c")
    kind, array = {"Choices": ("int", "Int32Array")}.get(
        type(program.action).__name__,
        ("double", "Float64Array") if getattr(program.action, "dtype", "") == "float64" else ("float", "Float32Array"),
    )
    state, arguments = ("policy_state state;", "&state, ") if program.state else ("", "")
    arguments += "NULL, " if program.draws else ""
    (tmp_path / "math.h").write_text(MATH)
    (tmp_path / "policy.c").write_text(CODE.format(kind=kind, state=state, arguments=arguments))
    command = ["clang", "--target=wasm32", "-std=c99", "-O2", "-ffreestanding", "-nostdlib", "-I.", "policy.c", "-o"]
    exported = [f"-Wl,--export={one}" for one in ("act", "obs", "action")]
    command += ["policy.wasm", "-Wl,--no-entry", "-Wl,--allow-undefined", *exported]
    subprocess.run([*command, "-Wall", "-Wextra", "-Werror"], cwd=tmp_path, check=True, capture_output=True)
    obs = np.random.default_rng(0).normal(size=(100, *SHAPE)).astype(np.float32)
    script = RUN % (json.dumps(FUNCTIONS), array, max(int(np.prod(program.action.shape)), 1))
    ran = subprocess.run(
        ["node", "-e", script], cwd=tmp_path, input=json.dumps(obs.tolist()), capture_output=True, text=True, check=True
    )
    found = np.array(json.loads(ran.stdout))
    if program.state:
        expected = np.concatenate(episode(policy, obs[:, None], deterministic=True))
    else:
        expected = wanted(policy, obs, deterministic=True)
    assert np.abs(found.reshape(expected.shape) - expected).max() <= 1e-6
