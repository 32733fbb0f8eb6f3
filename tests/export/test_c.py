"""Exported headers: a C compiler accepts them without a warning, and they act as the trained policies."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

from export.trained import DRAWN, POLICIES, RANDOM, RECURRENT, SHAPE, SPACES, episode, made, sampled, spaced, wanted
from rlfast import load_policy
from rlfast.data.forms import Form
from rlfast.export import c, program_of, save
from rlfast.export.program import Scale

COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
NORMAL = Scale(mean=np.linspace(-1, 1, 4), deviation=np.linspace(0.5, 2, 4), limit=1.25)
ROWS = 200


def name_of(policy):
    return "p_" + "".join(letter if letter.isalnum() else "_" for letter in policy)


def programs():
    found = {name: program_of(made(name), SHAPE) for name in (*POLICIES, *RECURRENT)}
    tail = {"form": Form.given((2, 3)), "places": [5, 0, 3, 1, 2]}
    scales = [
        replace(NORMAL, mean=np.ones(5), deviation=np.full(5, 2.0)),
        Scale(mean=np.zeros(5), deviation=np.ones(5), limit=None),
    ]
    found |= {f"space {name}": program_of(spaced(name), space) for name, space in SPACES.items()}
    found["normalized"] = replace(found["PPO"], scales=scales, **tail)
    return found


@pytest.fixture(scope="module", params=[["-O2"], ["-O3", "-march=native"]], ids=lambda flags: flags[-1])
def compiled(request, tmp_path_factory):
    """One program that has all policies: ``acted(name, obs, draws)`` returns their actions."""
    folder = tmp_path_factory.mktemp("c")
    calls = []
    for name, program in programs().items():
        own = name_of(name)
        path = save(program, folder / f"{own}.h", "c")
        real = "double" if program.scales else "float"
        text = path.read_text()
        kind = text.split(f"{own}_act(")[1].split(" *action")[0].split()[-1]
        given = "random ? draws : NULL, " if program.draws else ""
        calls.append(f"""
    if (!strcmp(argv[1], "{own}")) {{
        {real} obs[{own}_OBSERVATION]; {kind} action[{own}_ACTION]; float draws[{own}_DRAWS + 1];
        {f"{own}_state state; {own}_reset(&state);" if program.state else ""}
        while (fread(obs, sizeof obs, 1, stdin) == 1) {{
            if (random && fread(draws, sizeof(float), {own}_DRAWS, stdin) != {own}_DRAWS) return 1;
            {own}_act(obs, {"&state, " if program.state else ""}{given}action);
            for (k = 0; k < {own}_ACTION; k++) {{ double y = action[k]; fwrite(&y, sizeof y, 1, stdout); }}
        }}
        return 0;
    }}""")
    includes = "".join(f'#include "{name_of(name)}.h"\n' * 2 for name in programs())
    main = "int main(int argc, char **argv) {\n    int k, random = argc > 2;" + "".join(calls) + "\n    return 1;\n}\n"
    (folder / "main.c").write_text("#include <stdio.h>\n#include <string.h>\n" + includes + main)
    command = [COMPILER, *STRICT, *request.param, "main.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)

    def acted(name, obs, draws=None):
        rows = [row.tobytes() + (b"" if draws is None else draws[k].tobytes()) for k, row in enumerate(obs)]
        command = [folder / "main", name_of(name), *["draw"] * (draws is not None)]
        ran = subprocess.run(command, input=b"".join(rows), capture_output=True, check=True)
        return np.frombuffer(ran.stdout).reshape(len(obs), -1)

    return acted


def observations(dtype=np.float32):
    return np.random.default_rng(1).normal(size=(ROWS, *SHAPE)).astype(dtype)


def same(found, expected, tolerance=1e-6):
    expected = np.asarray(expected)
    found = found.reshape(expected.shape)
    if expected.dtype.kind == "i":
        return (found == expected).mean() > 0.995
    return np.abs(found - expected).max() <= tolerance


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_actions(name, compiled):
    obs, policy = observations(), made(name)
    assert same(compiled(name, obs), wanted(policy, obs, deterministic=True))


@pytest.mark.parametrize("name", [name for name in RANDOM if "multi" not in name])
def test_draws_with_given_random_numbers(name, compiled, tmp_path):
    """The numbers are those of the loaded policy, whose draws other tests compare with the trained one's."""
    policy, obs = made(name), observations()
    program = program_of(policy, SHAPE)
    draws = torch.empty(ROWS, program.draws)
    stream = torch.Generator().manual_seed(int(np.random.SeedSequence([0, 1]).generate_state(1, np.uint64)[0]) >> 1)
    draws = (
        draws.exponential_(generator=stream) if hasattr(program.action, "sizes") else draws.normal_(generator=stream)
    )
    loaded = load_policy(save(program, tmp_path / "policy"))
    assert same(compiled(name, obs, draws.numpy()), loaded(obs, deterministic=False), DRAWN)


@pytest.mark.parametrize("name", RECURRENT)
def test_hidden_states_are_the_callers(name, compiled):
    obs, policy = observations(), made(name)
    assert same(compiled(name, obs), np.concatenate(episode(policy, obs[:, None], deterministic=True)))


@pytest.mark.parametrize("name", SPACES)
def test_observations_of_other_spaces(name, compiled):
    obs, policy = sampled(SPACES[name], ROWS), spaced(name)
    numbers = np.asarray(Form.of(obs, batched=True).flat(obs), np.float32).reshape(ROWS, -1)
    assert same(compiled(f"space {name}", numbers), wanted(policy, obs))


def test_the_order_of_arrays_is_in_the_header():
    text = c.written(program_of(spaced("nested"), SPACES["nested"])).decode()
    assert ": b.place [], b.x [2], a [1]" in text


def test_normalized_and_picked_observations(compiled, tmp_path):
    loaded = load_policy(save(programs()["normalized"], tmp_path / "policy"))
    obs = np.random.default_rng(2).normal(size=(ROWS, 2, 3)) * 5
    assert same(compiled("normalized", obs), loaded(obs, deterministic=True))


def test_another_policy_of_the_same_name_is_no_second_header():
    guards = [
        c.written(program_of(made(name), SHAPE), "policy").decode().split("#ifndef ")[1].split()[0]
        for name in ("DQN", "PPO")
    ]
    assert [guard[:7] for guard in guards] == ["POLICY_"] * 2
    assert guards[0] != guards[1]


def test_nodes_that_are_not_in_c_are_named(monkeypatch):
    monkeypatch.delitem(c._NODES, "linear")
    with pytest.raises(ValueError, match="node 'linear', which is not written in C yet"):
        c.written(program_of(made("DQN"), SHAPE))


def test_numbers_that_c_does_not_have():
    assert c.literal(float("inf")) == "INFINITY"
    with pytest.raises(ValueError, match="NaN"):
        c.literal(float("nan"))


def test_names_stay_in_the_comment():
    program = program_of(made("DQN"), SHAPE)
    text = c.written(replace(program, about={"env": "**//\nint x;", "rlfast": "1*/"}), "2*/x").decode()
    comment, rest = text.split("*/", 1)
    assert "int x;" in comment
    assert "needs libm" in comment
    assert "int x;" not in rest
    assert "policy_2__x_act" in rest
