"""What arrives in the constructors of policies, for each algorithm, preset and setting, as in version 0.1."""

import json
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.config import OLD_NAMES
from rlfast.experiment.networks import Networks
from rlfast.utils.arguments.settings import settings_of

TABLE = json.loads((Path(__file__).parent / "arguments.json").read_text())
"""By algorithm: the arguments of its defaults, what presets change, and what one old setting changes."""

OBSERVATIONS = {"Catch-v0": Box(0, 1, (1, 84, 84)), "ALE/": Box(0, 255, (4, 84, 84), np.uint8)}
ACTIONS = {"LunarLander-v3": 4, "Acrobot-v1": 3, "Catch-v0": 3, "ALE/": 6, "CartPole-v1": 2}


SCALARS = (bool, int, float, str, type(None))


def plain(argument):
    """A number or text as it is, and what makes an optimizer as the options of Adam; None for other parts."""
    if isinstance(argument, SCALARS):
        return argument
    options = getattr(argument, "keywords", None) or {}
    return json.loads(json.dumps({key: value for key, value in options.items() if key != "fused"})) or None


@pytest.fixture
def arguments(monkeypatch):
    """Returns what the policy of settings is made with."""

    def of(name, config):
        given = {}
        monkeypatch.setattr(f"rlfast.policy.{config.policy}", lambda **parts: given.update(parts) or SimpleNamespace())
        act_space = Discrete(ACTIONS[config.env]) if config.env in ACTIONS else Box(-2, 2, (1,))
        config.build(Networks(config, name, OBSERVATIONS.get(config.env, Box(-1, 1, (4,))), act_space))
        return {key: plain(value) for key, value in given.items()}

    return of


def uncompiled(config):
    return replace(config, compile=False) if hasattr(config, "compile") else config


@pytest.mark.parametrize("name", ALGORITHMS)
def test_arguments_are_those_of_version_0_1(name, arguments):
    algorithm, known = ALGORITHMS[name], TABLE[name]
    assert algorithm.config.policy == known["policy"]
    assert algorithm.presets.keys() >= known["presets"].keys()
    constructor = {one.name: one.default for one in settings_of(f"rlfast.policy.{known['policy']}")}
    for env, changed in {None: {}, **known["presets"]}.items():
        config = algorithm.config() if env is None else replace(algorithm.presets[env], env=env)
        given = arguments(name, uncompiled(config))
        expected = known["defaults"] | changed
        assert {key: given.get(key, constructor.get(key, expected[key])) for key in expected} == expected


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_arrive_by_old_and_new_names(name, arguments):
    kind = ALGORITHMS[name].config
    usual = arguments(name, uncompiled(kind()))
    known = {field.name for field in fields(kind)}
    for old, (value, changed) in TABLE[name]["flags"].items():
        for setting in {old, old if old in known else OLD_NAMES[old]}:
            given = arguments(name, uncompiled(kind(**{setting: value})))
            assert {key: given[key] for key in changed} == changed, setting
            assert {key: given[key] for key in usual.keys() - changed} == {
                key: usual[key] for key in usual.keys() - changed
            }


def test_a_setting_of_a_policy_arrives_under_its_name(arguments):
    for name, algorithm in ALGORITHMS.items():
        given = arguments(name, uncompiled(algorithm.config()))
        assert algorithm.config.policy_settings
        assert {one.name for one in algorithm.config.policy_settings} <= given.keys()
        assert not {"action_scaling", "action_bound_method"} & {field.name for field in fields(algorithm.config)}
        takes = {one.name for one in settings_of(f"rlfast.policy.{algorithm.config.policy}")}
        scaled = algorithm.config().env not in ACTIONS if "action_scaling" in takes else None
        assert given.get("action_scaling") == scaled
