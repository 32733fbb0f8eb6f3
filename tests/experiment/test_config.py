import copy
import json
import pickle
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from rlfast.experiment import ALGORITHMS, DQNConfig
from rlfast.experiment.config import OLD_NAMES, OffPolicyConfig, settings
from rlfast.experiment.run import train


def test_json_repeats_every_field():
    config = DQNConfig(seed=7, hidden_sizes=(3, 4), run_dir=Path("runs/x"), stop_return=None, learning_rate=1e-4)
    assert DQNConfig.from_json(config.to_json()) == config
    assert DQNConfig.from_json(DQNConfig().to_json()) == DQNConfig()
    with pytest.raises(ValueError, match=r"unknown fields \['colour'\]"):
        DQNConfig.from_json('{"colour": "red"}')


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_steps": 0}, "--max-steps must be at least 1, got 0"),
        ({"num_envs": 0}, "--num-envs must be at least 1"),
        ({"seed": -1}, "--seed must not be negative, got -1"),
        ({"gamma": 1.5}, "--discount-factor must be within 0 and 1, got 1.5"),
        ({"discount_factor": 1.5}, "--discount-factor must be within 0 and 1, got 1.5"),
        ({"eps_end": -0.1}, "--eps-end must be within 0 and 1"),
        ({"hidden_sizes": (64, 0)}, "--hidden-sizes must be at least 1, got 0"),
        ({"updates_per_step": 0.0}, "--updates-per-step must be above 0, got 0.0"),
        ({"recurrent": True, "hidden_sizes": ()}, "--recurrent needs a size of its memory in --hidden-sizes"),
        ({"num_envs": 7, "collect_steps": 64}, "--collect-steps 64 must be a multiple of --num-envs 7"),
        ({"buffer_size": 7}, "--buffer-size 7 has no row for each of the --num-envs 8"),
        ({"require_stop_return": True}, "--require-stop-return needs a --stop-return"),
        ({"learning_rate": float("nan")}, "--learning-rate must be a finite number, got nan"),
        ({"beta": float("nan")}, "--beta must be a finite number"),
    ],
)
def test_values_out_of_range(changes, message):
    with pytest.raises(ValueError, match=message):
        DQNConfig(**changes)


@pytest.mark.parametrize("freq", [0, -2])
def test_a_frequency_of_noise_out_of_range(freq):
    with pytest.raises(ValueError, match=f"--sde-sample-freq must be at least 1, or -1 .*, got {freq}"):
        ALGORITHMS["ppo"].config(sde_sample_freq=freq)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_config_of_version_0_1_is_read(name):
    kind = ALGORITHMS[name].config
    content = json.loads(kind(seed=3).to_json())
    older = {old: content.pop(now) for old, now in OLD_NAMES.items() if now in content and old not in content}
    gone = {old: None for old in OLD_NAMES if old not in content | older}
    assert kind.from_json(json.dumps(content | older | gone)) == kind(seed=3)


def test_old_names_are_understood():
    config = DQNConfig(gamma=0.5, n_step=2)
    assert (config.discount_factor, config.estimation_step) == (config.gamma, config.n_step) == (0.5, 2)
    assert replace(config, gamma=0.25, is_double=False) == DQNConfig(discount_factor=0.25, n_step=2, double=False)
    sac = ALGORITHMS["sac"].config(gamma=0.5)  # where the policy has that name, it stays
    assert "discount_factor" not in json.loads(sac.to_json())
    for setting in ("colour", "tau", "samples"):
        with pytest.raises(AttributeError, match=f"^Config has no setting '{setting}'$"):
            getattr(config, setting)
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config


def test_misspelt_settings_are_guessed():
    with pytest.raises(TypeError, match=r"^there is no setting 'learnin_rate'; did you mean learning_rate\?$"):
        replace(ALGORITHMS["dqn"].config(), learnin_rate=1.0)
    with pytest.raises(TypeError, match=r"^there is no setting 'xyzzy'$"):
        ALGORITHMS["dqn"].config(xyzzy=1.0)


def test_setting_of_a_policy_is_declared_once():
    class Config(OffPolicyConfig):
        estimation_step: int = 1

    with pytest.raises(TypeError, match=r"test_config declares estimation_step again, which DQNPolicy declares$"):
        settings("DQNPolicy")(Config)


def test_defaults_are_class_attributes():
    @settings("DQNPolicy", without=["compile"])
    class Config(OffPolicyConfig):
        is_double = False
        batch_size = 3

    names = {one.name for one in fields(Config)}
    assert {"estimation_step", "is_double", "target_update_freq"} <= names
    assert not {"compile", "n_step", "reward_normalization", "action_scaling"} & names
    config = Config()
    assert (config.is_double, config.batch_size, config.estimation_step) == (False, 3, 1)
    with pytest.raises(ValueError, match="--estimation-step must be at least 1, got 0"):
        Config(estimation_step=0)
    with pytest.raises(TypeError, match=r"test_config has defaults of what is no setting: \['n_step'\]$"):
        settings("DQNPolicy")(type("Config", (OffPolicyConfig,), {"n_step": 7, "__module__": __name__}))


@pytest.mark.parametrize("name", ["ppo", "a2c", "gail"])
def test_an_actor_with_a_hidden_state_shares_no_features(name):
    with pytest.raises(ValueError, match=r"^--shared-features excludes --recurrent"):
        ALGORITHMS[name].config(shared_features=True, recurrent=True)


def test_natural_gradients_share_no_features():
    assert not any(
        "shared_features" in {field.name for field in fields(ALGORITHMS[name].config)} for name in ("npg", "trpo")
    )


@pytest.mark.parametrize("updates", [0.001, 1 / 3])
def test_a_small_share_of_updates_is_carried_on(tiny, updates):
    result = train(tiny(updates_per_step=updates, collect_steps=2, start_steps=20, max_steps=1020))
    assert result.info.gradient_step == int(updates * 1000)


def test_values_are_taken_in_the_type_of_their_field():
    config = DQNConfig(seed=np.int64(3), n_step=2.0, hidden_sizes=[16, 8], run_dir="runs/x")
    assert (config.n_step, config.hidden_sizes, config.run_dir) == (2, (16, 8), Path("runs/x"))
    assert DQNConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": "1"}, "--seed must be an integer, got '1'"),
        ({"compile": 1}, "--compile must be True or False, got 1"),
        ({"hidden_sizes": 64}, "--hidden-sizes must be a sequence, got 64"),
    ],
)
def test_values_of_another_type(changes, message):
    with pytest.raises(TypeError, match=message):
        DQNConfig(**changes)
