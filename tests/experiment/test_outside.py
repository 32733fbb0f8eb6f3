"""A run folder of a stranger leads nowhere outside unless the user asks for it."""

import json
import os
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rlfast
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.experiment import ALGORITHMS, evaluate
from rlfast.experiment.config.outside import check_cluster, check_outside, find_here, remember
from rlfast.experiment.environments import make_env, make_envs
from rlfast.experiment.gather import gather
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.experiment.run_dir import read_config
from rlfast.utils.arguments.checks import NonFiniteError

MODULE = """
import os, pathlib
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

pathlib.Path(__file__).with_name("imported").touch()

class Mine(CartPoleEnv):
    def __init__(self, force=10.0, **options):
        super().__init__(**options)
        self.force_mag = force

class Doubled(gym.RewardWrapper):
    def reward(self, reward):
        return 2.0 * reward

if "Mine-v0" not in gym.registry:
    gym.register("Mine-v0", Mine, max_episode_steps=20)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The file of a module that the user's own run names."""
    name = f"own_env_{abs(hash(str(tmp_path)))}"
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    yield folder / f"{name}.py"
    sys.modules.pop(name, None)
    gym.registry.pop("Mine-v0", None)


def edit(run_dir, **changes):
    content = json.loads((run_dir / "config.json").read_text())
    content["config"] |= changes
    (run_dir / "config.json").write_text(json.dumps(content))


def openings(run_dir):
    return {
        "eval": lambda **how: evaluate(run_dir, 1, **how),
        "load": lambda **how: rlfast.load(run_dir, **how),
        "gather": lambda **how: gather(run_dir, 4, run_dir / "rows", **how),
        "resume": lambda **how: resume(run_dir, max_steps=read_config(run_dir).max_steps + 20, **how),
    }


def forget(module):
    """As in a new process."""
    sys.modules.pop(module.stem)
    gym.registry.pop("Mine-v0")
    (module.parent / "imported").unlink()


@pytest.mark.parametrize("name", ["eval", "load", "gather", "resume"])
def test_a_run_of_yours_needs_no_permission_and_a_stranger_s_does(tiny, run_dir, module, monkeypatch, name):
    train(tiny(max_steps=40, env=f"{module.stem}:Mine-v0"))
    forget(module)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(module.parent)])
    openings(run_dir)[name]()  # the module is found where it was
    assert (module.parent / "imported").exists()
    forget(module)
    monkeypatch.setenv("XDG_STATE_HOME", str(run_dir.parent / "another user"))
    with pytest.raises(ValueError, match=rf"the module '{module.stem}' would be imported, .* say --allow-import"):
        openings(run_dir)[name]()
    assert not (module.parent / "imported").exists()
    monkeypatch.syspath_prepend(module.parent)
    openings(run_dir)[name](allow_import=True)


@pytest.mark.parametrize("name", ["eval", "load", "gather", "resume"])
def test_permission_finds_what_is_found_without_it(tiny, run_dir, module, monkeypatch, tmp_path, name):
    train(tiny(max_steps=40, env=f"{module.stem}:Mine-v0"))
    forget(module)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(module.parent)])
    monkeypatch.chdir(tmp_path)
    openings(run_dir)[name](allow_import=True)


def test_a_failure_with_an_environment_of_yours_names_its_check(tiny, run_dir, module):
    module.write_text(MODULE.replace("2.0 * reward", "float('nan')"))
    id = f"{module.stem}:Mine-v0"
    with pytest.raises(NonFiniteError) as caught:
        train(tiny(max_steps=40, env=id, wrappers=(f"{module.stem}:Doubled",)))
    assert any(f"(rlfast check-env {id} looks for" in note for note in caught.value.__notes__)


def test_a_module_of_the_same_name_beside_a_stranger_s_folder_is_not_imported(tiny, run_dir, module, monkeypatch):
    train(tiny(max_steps=40, env=f"{module.stem}:Mine-v0"))
    forget(module)
    evil = run_dir.parent / "evil"
    evil.mkdir()
    (evil / module.name).write_text("raise SystemExit('evil')")
    monkeypatch.setattr(sys, "path", [str(evil), *(path for path in sys.path if path != str(module.parent))])
    with pytest.raises(ValueError, match="would be imported"):
        evaluate(run_dir, 1)


@pytest.mark.parametrize(
    "changes",
    [{"env": "os:Mine-v0"}, {"env_kwargs": {"force": 3.0}}, {"wrappers": ["shutil:rmtree"]}, {"wrappers": []}],
)
def test_what_you_asked_for_permits_nothing_else(tiny, run_dir, module, changes):
    wrapper = f"{module.stem}:Doubled"
    train(tiny(max_steps=40, env=f"{module.stem}:Mine-v0", wrappers=(wrapper,), env_kwargs={"force": 9.0}))
    edit(run_dir, **changes)
    for opening in openings(run_dir).values():
        with pytest.raises(ValueError, match="say --allow-import"):
            opening()


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ({"env", "env_kwargs"}, True),
        ({"env"}, False),
        ({"env_kwargs"}, False),
        ({"wrappers"}, False),
        ({"env", "wrappers", "env_kwargs", "seed"}, True),
        ((), False),
    ],
)
def test_a_setting_that_you_name_permits_no_other(tiny, module, asked, allowed):
    config = tiny(env=f"{module.stem}:Mine-v0", env_kwargs={"force": 9.0})
    with nullcontext() if allowed else pytest.raises(ValueError, match="say --allow-import"):
        check_outside(Path(), config, allow=False, asked=asked)


def test_arguments_and_wrappers_reach_the_environment(tiny, run_dir, module):
    config = tiny(env=f"{module.stem}:Mine-v0", env_kwargs={"force": 3.0}, wrappers=(f"{module.stem}:Doubled",))
    env = make_env(config, training=False)
    assert env.unwrapped.force_mag == 3.0
    assert type(env).__name__ == "Doubled"
    for backend in ("auto", "in-process", "process"):
        envs = make_envs(replace(config, backend=backend), "train")
        envs.reset()
        rew = envs.step(np.zeros(2, int))[1]
        assert rew.tolist() == [2.0, 2.0]
        envs.close()
    assert read_config(train(replace(config, max_steps=40)).run_dir).env_kwargs == {"force": 3.0}
    assert len(evaluate(run_dir, 2).returns) == 2


def test_arguments_of_an_environment_in_rust(tiny):
    for backend in ("auto", "native", "in-process"):
        envs = make_envs(tiny(env="Pendulum-v1", env_kwargs={"g": 0.0}, backend=backend), "train")
        before, _ = envs.reset(seed=3)
        after = envs.step(np.zeros((2, 1), np.float32))[0]
        np.testing.assert_allclose(after[:, 2], before[:, 2], rtol=1e-6)  # without gravity, its speed stays
        envs.close()


def test_wrappers_take_arguments(tiny):
    calls = (
        "gymnasium.wrappers:TimeLimit(max_episode_steps=3)",
        "gymnasium.wrappers:FrameStackObservation(stack_size=2)",
    )
    env = make_env(tiny(wrappers=calls), training=True)
    assert env.reset()[0].shape == (2, 4)
    assert [env.step(k % 2)[3] for k in range(3)] == [False, False, True]


WRONG_CALLS = [
    ("", r"ResizeObservation cannot be put around .*CartPole.*missing 1 required positional argument: 'shape'"),
    ("(size=(40, 40))", "cannot be put around .*unexpected keyword argument 'size'"),
    *(
        (text, r"--wrappers takes MODULE:NAME\(argument=value, ...\), with .* got")
        for text in ("((40, 40))", "(shape=", "(shape=os)", "(**{'shape': (40, 40)})", "(shape=(40, 40)).env", "()()")
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wrappers": ("nothing",)}, "--wrappers takes MODULE:NAME, such as .*, got 'nothing'"),
        ({"wrappers": ("gymnasium.wrappers:Nothing",)}, "--wrappers gymnasium.wrappers:Nothing cannot be found"),
        ({"wrappers": ("no_such_module:A",)}, "--wrappers no_such_module:A cannot be found: No module named"),
        ({"wrappers": ("os:sep",)}, "--wrappers os:sep must be a class or a function"),
        *(({"wrappers": (f"gymnasium.wrappers:ResizeObservation{text}",)}, message) for text, message in WRONG_CALLS),
        ({"env_kwargs": {"no_such_argument": 1}}, "no_such_argument"),
        ({"env": "ALE/Pong-v5", "env_kwargs": {"frameskip": 1}}, "leave out --env-kwargs and --wrappers"),
    ],
)
def test_wrong_arguments_and_wrappers_are_named(tiny, run_dir, changes, message):
    with pytest.raises((ConfigError, TypeError), match=message):
        train(tiny(**changes))
    assert not run_dir.exists()


@pytest.mark.parametrize("value", [{"a": object()}, {1: 2}, {"a": float("nan")}, [1]])
def test_arguments_are_json(tiny, value):
    with pytest.raises(TypeError, match="--env-kwargs must"):
        tiny(env_kwargs=value)


def test_rows_outside_the_folder_are_asked_for(tiny, run_dir, tmp_path, monkeypatch):
    train(tiny(max_steps=40, storage=str(tmp_path / "rows")))
    assert resume(run_dir, max_steps=60).env_step == 60
    edit(run_dir, storage=str(tmp_path / "precious"))
    with pytest.raises(ConfigError, match=r"keeps rows in .*precious, which is outside the run's folder"):
        resume(run_dir, max_steps=80)
    evaluate(run_dir, 1)
    assert not (tmp_path / "precious").exists()
    assert resume(run_dir, max_steps=80, storage=str(tmp_path / "precious")).env_step == 80
    edit(run_dir, storage=str(run_dir / "rows"))
    assert resume(run_dir, max_steps=100).env_step == 100
    (run_dir / "link").symlink_to(tmp_path / "elsewhere")
    edit(run_dir, storage=str(run_dir / "link"))
    with pytest.raises(ConfigError, match="is outside the run's folder"):
        resume(run_dir, max_steps=120)


def test_data_outside_the_folder_are_asked_for(run_dir, tmp_path):
    buffer = VectorReplayBuffer(40, 1)
    for i in range(40):
        row = {"obs": np.full((1, 3), i, np.float32), "act": np.zeros((1, 1), np.float32), "rew": np.ones(1)}
        ends = {"terminated": np.array([i % 10 == 9]), "truncated": np.array([False])}
        buffer.add(Batch(**row, **ends, obs_next=row["obs"] + 1, info=Batch()))
    buffer.save(tmp_path / "rows")
    config = ALGORITHMS["td3-bc"].config(
        data=str(tmp_path / "rows"), run_dir=run_dir, max_steps=2, batch_size=4, eval_episodes=1, eval_envs=1,
        hidden_sizes=(8,), progress=False,
    )  # fmt: skip
    train(config)
    shutil.move(tmp_path / "rows", tmp_path / "moved")
    edit(run_dir, data=str(tmp_path / "moved"))
    with pytest.raises(
        ConfigError, match=r"learns from .*moved, which is outside the run's folder: name it again, --data"
    ):
        resume(run_dir, max_steps=3)
    assert len(evaluate(run_dir, 1).returns) == 1
    resume(run_dir, max_steps=3, data=str(tmp_path / "moved"))


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "ray://evil:10001"])
def test_a_cluster_is_asked_for(tiny, run_dir, monkeypatch, address):
    train(tiny(max_steps=40))
    edit(run_dir, ray=address)
    made = []
    with pytest.raises(ConfigError, match="to which a run connects only when it is asked for: --ray"):
        resume(run_dir, max_steps=60, allow_import=True, make_parts=lambda *parts: made.append(parts))
    assert made == []


@pytest.mark.parametrize("address", [None, "local", "in-process"])
def test_a_cluster_of_this_run_alone_is_not(tiny, address):
    check_cluster(Path(), replace(tiny(), ray=address), ())


def test_a_cluster_that_was_asked_for_is_connected_to(tiny):
    check_cluster(Path(), replace(tiny(), ray="auto"), {"ray"})


def test_a_record_that_others_can_write_is_not_believed(tiny, module):
    config = tiny(env=f"{module.stem}:Mine-v0")
    remember(config)
    check_outside(Path(), config, allow=False)
    (record,) = Path(os.environ["XDG_STATE_HOME"], "rlfast", "asked").glob("*.json")
    record.chmod(0o666)
    with pytest.raises(ValueError, match="would be imported"):
        check_outside(Path(), config, allow=False)
    record.chmod(0o600)
    for text in ("", "[]", "{}", '{"modules": {}}', json.dumps({"modules": {module.stem: None}})):
        record.write_text(text)
        with pytest.raises(ValueError, match="would be imported"):
            check_outside(Path(), config, allow=False)


def test_without_a_home_nothing_is_recorded(tiny, module, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    config = tiny(env=f"{module.stem}:Mine-v0")
    remember(config)
    with pytest.raises(ValueError, match="would be imported"):
        check_outside(Path(), config, allow=False)


def test_the_current_folder_is_searched_last(module, monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(module.parent)])
    monkeypatch.chdir(module.parent)
    before = [*sys.path]
    find_here("json:Mine-v0")
    assert sys.path == before
    find_here(f"{module.stem}:Mine-v0")
    assert sys.path == [*before, str(module.parent)]
    assert not (module.parent / "imported").exists()
