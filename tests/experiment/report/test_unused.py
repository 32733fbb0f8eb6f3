from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.report.unused import unused_settings

SMALL = {"num_envs": 2, "eval_envs": 1, "hidden_sizes": (8,), "collect_steps": 8, "batch_size": 8}


def sentences(algorithm, env, **changes):
    kind = ALGORITHMS[algorithm]
    config = replace(kind.preset(env), **SMALL, **changes)
    parts = build(config)
    parts.close()
    return list(unused_settings(config, parts.policy))


@pytest.mark.parametrize(
    ("algorithm", "env", "changes", "named"),
    [
        ("dqn", "CartPole-v1", {"chunk_steps": 32, "weights_every": 8}, "--chunk-steps, --weights-every (the run is"),
        ("dqn", "CartPole-v1", {"env_backend": "ale"}, "--env-backend (CartPole-v1 is no game of Atari)"),
        ("dqn", "CartPole-v1", {"orthogonal": True}, "--orthogonal (observations of CartPole-v1 are no pictures)"),
        ("dqn", "CartPole-v1", {"channels": (8, 8, 8), "dtype": "bfloat16"}, "--channels, --dtype (observations"),
        ("ppo", "CartPole-v1", {"log_std": 1.0, "bounded": True}, "--log-std, --bounded (actions of CartPole-v1"),
        ("ppo", "Pendulum-v1", {"log_std": 1.0, "conditioned_sigma": True}, "--log-std (--conditioned-sigma takes"),
        ("sac", "Pendulum-v1", {"log_std": 1.0}, "--log-std (--conditioned-sigma takes"),
        ("ppo", "CartPole-v1", {"sde": True, "sde_sample_freq": 4}, "--sde, --sde-sample-freq (actions of CartPole-v1"),
        ("ppo", "Pendulum-v1", {"sde": True, "log_std": 1.0}, "--log-std (--sde takes"),
        (
            "sac",
            "Pendulum-v1",
            {"sde_sample_freq": 4, "sde_log_std": 0.0},
            "--sde-sample-freq, --sde-log-std (the nois",
        ),
        ("dqn", "CartPole-v1", {"schedule_factor": 0.5, "lr_schedule": "linear"}, "--schedule-factor (no schedule is"),
        ("ppo", "CartPole-v1", {"schedule_factor": 0.5}, "--schedule-factor (no schedule is exponential)"),
        (
            "dqn",
            "CartPole-v1",
            {"start_random": False, "start_steps": 0},
            "--start-random (there are no --start-steps)",
        ),
        ("dqn", "CartPole-v1", {"beta_end": 0.5, "alpha": 0.5}, "--alpha, --beta-end (the buffer is not --priorit"),
        ("dqn", "CartPole-v1", {"activation": "elu", "recurrent": True}, "--activation (a recurrent network has no"),
        ("sac", "Pendulum-v1", {"auto_alpha": False, "target_entropy": -2.0}, "--target-entropy (the temperature"),
    ],
)
def test_settings_that_nothing_reads_are_named(algorithm, env, changes, named):
    (sentence,) = sentences(algorithm, env, **changes)
    assert sentence.startswith(f"without effect: {named}")


@pytest.mark.parametrize(
    ("algorithm", "env", "changes"),
    [
        ("dqn", "CartPole-v1", {"learning_rate": 0.1, "start_random": False}),
        ("dqn", "Catch-v0", {"channels": (8, 8, 8), "orthogonal": False, "dtype": "bfloat16"}),
        ("dqn", "CartPole-v1", {"prioritized": True, "alpha": 0.5, "beta": 0.5, "beta_end": 0.5, "beta_steps": 5}),
        ("dqn", "CartPole-v1", {"activation": "elu"}),
        ("ppo", "Pendulum-v1", {"log_std": 1.0, "bounded": True}),
        ("ppo", "Pendulum-v1", {"conditioned_sigma": True}),
        ("ppo", "CartPole-v1", {"schedule_factor": 0.5, "clip_schedule": "exponential"}),
        ("ppo", "CartPole-v1", {"schedule_factor": 0.5, "lr_schedule": "exponential"}),
        ("ppo", "CartPole-v1", {"recurrent": True, "activation": "elu"}),
        ("sac", "Pendulum-v1", {"alpha_learning_rate": 0.1, "target_entropy": -2.0}),
        ("sac", "Pendulum-v1", {"auto_alpha": False}),
        ("sac", "Pendulum-v1", {"conditioned_sigma": False, "log_std": 1.0}),
        ("sac", "Pendulum-v1", {"sde": True, "sde_sample_freq": 4, "sde_log_std": 0.0}),
    ],
)
def test_settings_that_are_read_are_not(algorithm, env, changes):
    assert sentences(algorithm, env, **changes) == []


def test_presets_are_read_whole():
    """What the settings of an environment name is no mistake of the user's."""
    assert sentences("c51", "CartPole-v1") == []
    assert sentences("rainbow", "CartPole-v1") == []


def test_a_run_that_ends_before_it_learns():
    assert sentences("dqn", "CartPole-v1", start_steps=500, max_steps=501) == []
    (sentence,) = sentences("dqn", "CartPole-v1", start_steps=500, max_steps=500)
    assert sentence == "nothing is learned: --start-steps 500 leave none of --max-steps 500"
