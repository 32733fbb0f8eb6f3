from dataclasses import fields
from pathlib import Path

import pytest

from rlfast.experiment import DQNConfig
from rlfast.experiment.config import RunConfig


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
        ({"gamma": 1.5}, "--gamma must be within 0 and 1, got 1.5"),
        ({"eps_end": -0.1}, "--eps-end must be within 0 and 1"),
        ({"hidden_sizes": (64, 0)}, "--hidden-sizes must be positive"),
        ({"updates_per_step": 0.001, "collect_steps": 8}, "makes no update after 8 steps"),
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


def test_every_field_is_documented_for_the_command_line():
    source = (Path(__import__("rlfast").__file__).parent / "experiment" / "config.py").read_text()
    for field in fields(DQNConfig):
        body = source[source.index("class RunConfig" if hasattr(RunConfig, field.name) else "class DQNConfig") :]
        declaration = body.index(f"\n    {field.name}: ")
        assert body[body.index("\n", declaration + 1) :].lstrip().startswith('"""'), field.name
