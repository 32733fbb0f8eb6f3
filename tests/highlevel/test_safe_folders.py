"""Experiments and policies in folders of strangers: nothing that they name is run or imported without permission."""

import copy
import json
import pickle
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from faults.json_tree import variants
from rlfast.experiment import evaluate
from rlfast.experiment.run import ConfigError
from rlfast.highlevel import experiment as builders
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactory, EnvFactoryRegistered, EnvMode, VectorEnvType
from rlfast.highlevel.experiment import Experiment, ExperimentConfig
from rlfast.highlevel.experiment.description import describe, restore
from rlfast.highlevel.logger import LoggerFactoryDefault
from rlfast.highlevel.params.lr_scheduler import LRSchedulerFactoryLinear
from rlfast.highlevel.persistence import PolicyPersistence

NAMES = [name for name in dir(builders) if name.endswith("ExperimentBuilder") and name != "ExperimentBuilder"]


class Evil:
    """An object whose pickle writes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, "run")


class OwnEnvs(EnvFactory):
    """A factory of a script."""

    def create_env(self, mode):
        raise NotImplementedError


def declared(name="DQNExperimentBuilder", task="CartPole-v1", **changes):
    env = EnvFactoryRegistered(task=task, venv_type=VectorEnvType.DUMMY)
    config = ExperimentConfig(watch=False, **changes)
    return getattr(builders, name)(env, config, SamplingConfig(num_epochs=1))


def plain(value, seen=()):
    """What an object consists of, to compare two."""
    if isinstance(value, list | tuple):
        return [type(value), *(plain(one, seen) for one in value)]
    if isinstance(value, dict):
        return {key: plain(one, seen) for key, one in value.items()}
    if not hasattr(value, "__dict__") or isinstance(value, type) or id(value) in seen:
        return value if not hasattr(value, "__dict__") or isinstance(value, type) else type(value)
    return type(value), plain(vars(value), (*seen, id(value)))


@pytest.mark.parametrize("name", NAMES)
def test_experiments_come_back(name, tmp_path):
    for experiment in (
        declared(name).build(),
        declared(name).with_name("named").build(),
        declared(name).with_logger_factory(LoggerFactoryDefault("wandb", wandb_project="x")).build(),
    ):
        experiment.save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["experiment.json"]
        again = Experiment.from_directory(tmp_path, restore_policy=False)
        assert plain(again) == plain(experiment)
        assert describe(again) == describe(experiment)


def test_parts_that_are_the_same_object_stay_the_same():
    shared = declared("PPOExperimentBuilder").with_critic_factory_use_actor().build()
    again = restore(describe(shared))
    text = describe(shared)
    assert '"same"' in text
    assert describe(again) == text
    schedule = declared("PPOExperimentBuilder").build()
    schedule.agent_factory.params.lr_scheduler_factory = LRSchedulerFactoryLinear(schedule.sampling_config)
    again = restore(describe(schedule))
    assert again.agent_factory.params.lr_scheduler_factory.sampling_config is again.sampling_config


def test_values_of_all_kinds_come_back():
    experiment = declared().build()
    values = {
        1: (2, "x", None),
        "~": [True, 0.1, float("inf")],
        "layer": nn.Tanh,
        "mode": EnvMode.WATCH,
        "self": experiment,
    }
    experiment.config.extra = values
    again = restore(describe(experiment))
    assert again.config.extra == {**values, "self": again}


def test_a_folder_is_restored_from(tmp_path):
    declared().build().save(tmp_path)
    assert Experiment.from_directory(str(tmp_path)).config.policy_restore_directory == str(tmp_path)


def test_objects_of_a_script_are_pickled_and_loaded_by_permission(tmp_path):
    experiment = declared().build()
    experiment.env_factory = OwnEnvs(VectorEnvType.DUMMY)
    experiment.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.pkl"]
    with pytest.raises(ValueError, match=r"experiment.pkl is a pickle.*allow_pickle=True"):
        Experiment.from_directory(tmp_path)
    again = Experiment.from_directory(tmp_path, allow_pickle=True)
    assert type(again.env_factory) is OwnEnvs
    assert again.config.allow_pickle
    experiment.env_factory.created = lambda: 1
    with pytest.raises(ConfigError, match="cannot be saved"):
        experiment.save(tmp_path)


def test_a_hostile_pickle_is_not_run(tmp_path):
    (tmp_path / "experiment.pkl").write_bytes(pickle.dumps(Evil(tmp_path / "run")))
    with pytest.raises(ValueError, match="allow_pickle=True"):
        Experiment.from_directory(tmp_path)
    assert not (tmp_path / "run").exists()
    with pytest.raises(AttributeError):
        Experiment.from_directory(tmp_path, allow_pickle=True)
    assert (tmp_path / "run").exists()


def test_a_folder_without_an_experiment_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no experiment\.json and no experiment\.pkl"):
        Experiment.from_directory(tmp_path)


def changed(experiment, change):
    content = json.loads(describe(experiment))
    change(content["experiment"])
    return json.dumps(content)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "builtins:type",
        "pathlib:Path",
        "rlfast.data:ReplayBuffer",
        "rlfast.highlevel.env:gym",
        "rlfast.highlevel.env:ABC",
        "rlfast.highlevel.experiment.experiment:_Declared",
        "rlfast.highlevel.experiment.experiment:Experiment.run",
        "rlfast.highlevel.experiment.experiment:torch.nn.Module",
        "rlfast.highlevel.persistence:PolicyPersistence.Mode",
        "rlfast.highlevel.nothing:Thing",
        "rlfast.highlevel.:Thing",
        "rlfast.highlevel...utils:Thing",
        "torch.nn:Module",
        "torch:Tensor",
        "antigravity:fly",
        ":",
        "",
        None,
        5,
    ],
)
def test_objects_of_other_classes_are_not_made(tmp_path, name):
    before = {*sys.modules}

    def change(experiment):
        experiment["state"]["config"]["class"] = name

    (tmp_path / "experiment.json").write_text(changed(declared().build(), change))
    with pytest.raises(ValueError, match=r"experiment.json is damaged, or of another version"):
        Experiment.from_directory(tmp_path)
    assert {*sys.modules} - before <= {module for module in sys.modules if module.startswith("rlfast.")}


def test_methods_are_not_replaced(tmp_path):
    def change(experiment):
        experiment["state"]["env_factory"]["state"]["create_venv"] = {"~": "class", "class": "torch.nn:ReLU"}

    (tmp_path / "experiment.json").write_text(changed(declared().build(), change))
    with pytest.raises(ValueError, match="has a method create_venv"):
        Experiment.from_directory(tmp_path)


def test_what_a_file_says_of_permission_does_not_count(tmp_path):
    declared(allow_pickle=True).build().save(tmp_path)
    assert not Experiment.from_directory(tmp_path).config.allow_pickle


def test_modules_of_environments_are_imported_by_permission(tmp_path):
    declared(task="a_module_that_is_not_there:Env-v0").build().save(tmp_path)
    with pytest.raises(ValueError, match="'a_module_that_is_not_there' would be imported"):
        Experiment.from_directory(tmp_path)
    again = Experiment.from_directory(tmp_path, allow_pickle=True)
    assert again.env_factory.task == "a_module_that_is_not_there:Env-v0"


def attack(folder, cases, seed=0):
    """Reads changed descriptions, and returns how many were refused."""
    refused, tree = 0, json.loads(describe(declared("SACExperimentBuilder").build()))
    for text in variants(tree, cases, seed):
        (folder / "experiment.json").write_text(text)
        try:
            Experiment.from_directory(folder)
        except ValueError as error:
            assert str(folder) in str(error)  # noqa: PT017 (some are harmless)
            refused += 1
    return refused


def test_changed_descriptions_do_no_harm(tmp_path):
    assert 20 < attack(tmp_path, 200) < 200


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An experiment that ran, and its folder."""
    sampling = SamplingConfig(
        num_epochs=1,
        step_per_epoch=32,
        batch_size=8,
        num_train_envs=2,
        num_test_envs=2,
        buffer_size=64,
        step_per_collect=16,
        repeat_per_collect=1,
    )
    folder = tmp_path_factory.mktemp("whole")
    config = ExperimentConfig(watch=False, persistence_base_dir=str(folder), device="cpu")
    env = EnvFactoryRegistered(task="CartPole-v1", venv_type=VectorEnvType.DUMMY)
    experiment = builders.PPOExperimentBuilder(env, config, sampling).with_settings(progress=False).build()
    experiment.run("run")
    return experiment, folder / "run"


@pytest.fixture
def run(whole, tmp_path):
    """A copy of the experiment and of its folder."""
    experiment, folder = copy.deepcopy(whole[0]), tmp_path / "run"
    experiment.config.persistence_base_dir = str(tmp_path)
    shutil.copytree(whole[1], folder)
    return experiment, folder


def test_a_folder_holds_no_pickle(run):
    _, folder = run
    assert {path.name for path in folder.iterdir()} >= {"experiment.json", "policy.safetensors", "config.json"}
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pt", ".pth")]
    assert len(evaluate(folder, 1).returns) == 1


def test_the_state_of_optimizers_and_normalizers_comes_back(run, tmp_path):
    experiment, folder = run
    policy = experiment.create_experiment_world("other", reset_collectors=False).policy
    saved = PolicyPersistence()
    world = type("World", (), {"restore_path": lambda _, name: folder / name, "restore_directory": str(folder)})()
    world.persist_path = lambda name: tmp_path / name
    saved.restore(policy, world, "cpu")
    saved.persist(policy, world)
    assert (tmp_path / "policy.safetensors").read_bytes() == (folder / "policy.safetensors").read_bytes()
    assert policy.optim.state_dict()["state"]


@pytest.mark.parametrize("mode", PolicyPersistence.Mode)
def test_pickled_policies_are_restored_by_permission(run, mode, tmp_path):
    experiment, folder = run
    world = experiment.create_experiment_world("other", reset_collectors=False)
    policy = world.policy
    with torch.no_grad():
        next(policy.parameters()).fill_(0.25)
    whole = policy if mode is PolicyPersistence.Mode.POLICY else policy.state_dict()
    torch.save(whole, folder / f"{mode.value}.pt")
    (folder / "policy.safetensors").unlink()
    config = replace(experiment.config, policy_restore_directory=str(folder), policy_persistence_mode=mode, train=False)
    experiment.config = config
    with pytest.raises(ConfigError, match=rf"{mode.value}.pt is a pickle of an older version.*allow_pickle=True"):
        experiment.run("second")
    experiment.config = replace(config, allow_pickle=True)
    restored = experiment.run("third").world.policy
    assert (next(restored.parameters()) == 0.25).all()
    (folder / f"{mode.value}.pt").unlink()
    experiment.config = config
    assert not (next(experiment.run("fourth").world.policy.parameters()) == 0.25).all()  # the checkpoint's


def test_a_hostile_policy_is_not_run(run, tmp_path):
    experiment, folder = run
    (folder / "policy.safetensors").rename(folder / "elsewhere")
    torch.save(Evil(tmp_path / "was_run"), folder / "policy.pt")
    experiment.config = replace(experiment.config, policy_restore_directory=str(folder), train=False)
    with pytest.raises(ConfigError, match="is a pickle"):
        experiment.run("second")
    torch.save(Evil(tmp_path / "was_run"), folder / "policy.safetensors")  # under the new name
    with pytest.raises(ConfigError, match="is damaged, or holds no policy"):
        experiment.run("second")
    assert not (tmp_path / "was_run").exists()


def attack_policy(folder, cases, seed=0):
    """Reads changed files of a policy, and returns how many were refused."""
    from rlfast.highlevel.persistence import _read

    chance, whole, refused = random.Random(seed), (folder / "policy.safetensors").read_bytes(), 0
    length = int.from_bytes(whole[:8], "little")
    for _ in range(cases):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(chance.choice([16, length, len(data)]))
            match chance.randrange(4):
                case 0:
                    del data[at:]
                case 1:
                    data[at : at + 1] = bytes([chance.randrange(256)])
                case 2:
                    data[at:at] = b"9" * chance.randrange(1, 20)
                case _:
                    data[at : at + 8] = chance.randrange(2**64).to_bytes(8, "little")
            data = data or bytearray(b"\0")
        (folder / "changed").write_bytes(data)
        try:
            _read(folder / "changed")
        except ValueError as error:
            assert "changed is damaged" in str(error)  # noqa: PT017 (as above)
            refused += 1
    return refused


def test_changed_policies_do_no_harm(run):
    assert 100 < attack_policy(run[1], 300) <= 300
