"""A builder's run is the run of the command line: equal to the bit, opened and resumed likewise."""

import math
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from rlfast.cli import main
from rlfast.experiment import ALGORITHMS
from rlfast.experiment.networks import Networks
from rlfast.experiment.run import train
from rlfast.experiment.run_dir import read_beyond, read_config
from rlfast.highlevel import experiment as builders
from rlfast.highlevel.env import EnvFactoryRegistered, VectorEnvType
from rlfast.highlevel.params import policy_params as params
from rlfast.highlevel.params.alpha import AutoAlphaFactoryDefault
from rlfast.highlevel.params.env_param import MaxActionScaled
from rlfast.highlevel.params.lr_scheduler import LRSchedulerFactoryLinear
from rlfast.highlevel.params.noise import MaxActionScaledGaussian
from rlfast.highlevel.trainer import (
    EpochStopCallbackRewardThreshold,
    EpochTestCallbackDQNSetEps,
    EpochTrainCallbackDQNEpsLinearDecay,
    EpochTrainCallbackDQNSetEps,
)


def pg(builder, sampling):
    builder.with_pg_params(params.PGParams(lr=2e-3, discount_factor=0.9, reward_normalization=True))
    return builder.with_actor_factory_default((16,), nn.Tanh)


def a2c(builder, sampling):
    options = {"vf_coef": 0.3, "ent_coef": 0.02, "max_grad_norm": 0.7, "gae_lambda": 0.9, "deterministic_eval": True}
    builder.with_a2c_params(params.A2CParams(**options)).with_optim_factory_default(eps=1e-5)
    return builder.with_actor_factory_default((64, 64))


def ppo(builder, sampling):
    schedule = LRSchedulerFactoryLinear(sampling)
    options = {"eps_clip": 0.1, "dual_clip": 2.0, "value_clip": True, "advantage_normalization": False}
    chosen = params.PPOParams(lr=2e-3, lr_scheduler_factory=schedule, recompute_advantage=True, **options)
    builder.with_ppo_params(chosen).with_epoch_stop_callback(EpochStopCallbackRewardThreshold(1e6))
    return builder.with_actor_factory_default((16,), nn.Tanh).with_critic_factory_default((16,), nn.Tanh)


def npg(builder, sampling):
    chosen = params.NPGParams(optim_critic_iters=3, actor_step_size=0.25, advantage_normalization=False)
    return builder.with_npg_params(chosen).with_actor_factory_default((64, 64))


def trpo(builder, sampling):
    chosen = params.TRPOParams(optim_critic_iters=2, max_kl=0.02, backtrack_coeff=0.5, max_backtracks=5)
    return builder.with_trpo_params(chosen).with_actor_factory_default((64, 64))


def dqn(builder, sampling):
    chosen = params.DQNParams(target_update_freq=5, clip_loss_grad=True, estimation_step=3, is_double=False)
    builder.with_dqn_params(chosen).with_model_factory_default((16,)).with_settings(prioritized=True)
    builder.with_epoch_train_callback(EpochTrainCallbackDQNEpsLinearDecay(1.0, 0.1, 50))
    return builder.with_epoch_test_callback(EpochTestCallbackDQNSetEps(0.0))


def iqn(builder, sampling):
    chosen = params.IQNParams(sample_size=16, online_sample_size=4, target_sample_size=6, hidden_sizes=(8,))
    return builder.with_iqn_params(chosen).with_epoch_train_callback(EpochTrainCallbackDQNSetEps(0.3))


def ddpg(builder, sampling):
    noise = MaxActionScaledGaussian(0.1)
    chosen = params.DDPGParams(actor_lr=1e-4, critic_lr=2e-3, tau=0.01, gamma=0.98, exploration_noise=noise)
    builder.with_ddpg_params(chosen).with_actor_factory_default((16,))
    return builder.with_critic_factory_default((16,))


def redq(builder, sampling):
    options = {"ensemble_size": 4, "subset_size": 3, "actor_delay": 5, "target_mode": "mean", "alpha": 0.1}
    builder.with_actor_factory_default((16,)).with_critic_ensemble_factory_default((16,))
    return builder.with_redq_params(params.REDQParams(**options))


def sac(builder, sampling):
    builder.with_actor_factory_default((16,), continuous_unbounded=True, continuous_conditioned_sigma=True)
    builder.with_common_critic_factory_default((16,)).with_settings(normalize_obs=True)
    return builder.with_sac_params(params.SACParams(alpha=AutoAlphaFactoryDefault(1e-3, -2.0), estimation_step=2))


def discrete_sac(builder, sampling):
    return builder.with_sac_params(params.DiscreteSACParams(alpha=0.05, tau=0.02))


def td3(builder, sampling):
    chosen = params.TD3Params(policy_noise=MaxActionScaled(0.2), noise_clip=MaxActionScaled(0.4), update_actor_freq=3)
    builder.with_td3_params(chosen).with_actor_factory_default((16,))
    return builder.with_common_critic_factory_default((16,))


ON_POLICY = {"num_envs": 2, "batch_size": 16, "collect_steps": 16, "max_steps": 64, "eval_interval": 32, "repeat": 2}
OFF_POLICY = {"buffer_size": 200, "start_steps": 10, "start_random": True, "updates_per_step": 0.25, "max_steps": 74}
SAID = {
    pg: {"learning_rate": 2e-3, "gamma": 0.9, "scale_returns": True, "hidden_sizes": (16,), "activation": "tanh"},
    a2c: {"vf_coef": 0.3, "ent_coef": 0.02, "max_grad_norm": 0.7, "gae_lambda": 0.9, "deterministic_eval": True}
    | {"adam_eps": 1e-5, "hidden_sizes": (64, 64), "activation": "relu", "scale_returns": False},
    ppo: {
        "eps_clip": 0.1,
        "dual_clip": 2.0,
        "value_clip": True,
        "normalize_advantage": False,
        "recompute_advantage": True,
    }
    | {"learning_rate": 2e-3, "lr_schedule": "linear", "max_grad_norm": None, "ent_coef": 0.01}
    | {"stop_return": 1e6, "adam_eps": 1e-8, "backend": "auto", "env": "CartPole-v1", "eval_episodes": 2, "seed": 3},
    npg: {"critic_iters": 3, "actor_step_size": 0.25, "normalize_advantage": False},
    trpo: {"critic_iters": 2, "max_kl": 0.02, "backtrack_coeff": 0.5, "max_backtracks": 5},
    dqn: {"target_update_freq": 5, "huber": True, "n_step": 3, "double": False, "prioritized": True}
    | {"eps_start": 1.0, "eps_end": 0.1, "eps_steps": 50, "hidden_sizes": (16,), "env_seeds": (7, 8)},
    iqn: {"samples": 16, "online_samples": 4, "target_samples": 6, "head_sizes": (8,), "cosines": 64}
    | {"eps_start": 0.3, "eps_end": 0.3, "eps_steps": 0},
    ddpg: {"actor_learning_rate": 1e-4, "learning_rate": 2e-3, "tau": 0.01, "gamma": 0.98, "noise": 0.2},
    redq: {"ensemble_size": 4, "subset_size": 3, "actor_delay": 5, "target_mode": "mean", "alpha": 0.1}
    | {"auto_alpha": False, "tau": 0.005, "bounded": True, "conditioned_sigma": False, "log_std": -0.5},
    sac: {"auto_alpha": True, "alpha": 1.0, "alpha_learning_rate": 1e-3, "target_entropy": -2.0, "n_step": 2}
    | {"normalize_obs": True, "backend": "in-process", "learning_rate": 1e-3}
    | {"bounded": False, "conditioned_sigma": True},
    discrete_sac: {"alpha": 0.05, "auto_alpha": False, "tau": 0.02, "hidden_sizes": (64, 64)},
    td3: {"policy_noise": 0.4, "noise_clip": 0.8, "update_actor_freq": 3, "noise": 0.0},
}
"""What declarations say in settings; the actions of Pendulum reach to 2."""
CONTINUOUS = (ddpg, redq, sac, td3)
BUILDERS = {discrete_sac: "DiscreteSAC"}


def experiment_of(declare, config, sampling, pendulum, *, continuous=False):
    env = EnvFactoryRegistered(task="CartPole-v1", venv_type=VectorEnvType.AUTO)
    if declare is dqn:
        env = EnvFactoryRegistered(task="CartPole-v1", venv_type=VectorEnvType.AUTO, train_seed=7, test_seed=8)
    sampling = replace(sampling, repeat_per_collect=2)
    if declare not in (pg, a2c, ppo, npg, trpo):
        sampling = replace(sampling, start_timesteps=10, start_timesteps_random=True)
    kind = getattr(builders, f"{BUILDERS.get(declare, declare.__name__.upper())}ExperimentBuilder")
    builder = kind(pendulum if continuous or declare in CONTINUOUS else env, config, sampling)
    return declare(builder, sampling).with_settings(progress=False).build()


@pytest.mark.parametrize("declare", SAID)
def test_a_declaration_in_settings(declare, config, sampling, pendulum):
    settings = experiment_of(declare, config, sampling, pendulum).run_config()
    wanted = SAID[declare] | (ON_POLICY if declare in (pg, a2c, ppo, npg, trpo) else OFF_POLICY)
    assert {name: getattr(settings, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("seeds", "wanted"), [({"train_seed": 7}, (7, 3)), ({"test_seed": 8}, (3, 8)), ({"seed": 9}, (9, 9)), ({}, None)]
)
def test_seeds_of_one_kind_of_environments_count(seeds, wanted, config, sampling):
    env = EnvFactoryRegistered(task="CartPole-v1", venv_type=VectorEnvType.AUTO, **seeds)
    assert builders.PPOExperimentBuilder(env, config, sampling).build().run_config().env_seeds == wanted


@pytest.mark.parametrize(("mode", "said"), [(None, True), ("rgb_array", False)])
def test_screens_of_training_and_tests_are_beyond_settings(mode, said, config, sampling):
    modes = {"render_mode_train": mode, "render_mode_test": mode}
    env = EnvFactoryRegistered(task="CartPole-v1", venv_type=VectorEnvType.DUMMY, **modes)
    beyond = builders.PPOExperimentBuilder(env, config, sampling).build().declaration().beyond
    assert [part.partition(":")[0] for part in beyond] == ([] if said else ["env_factory"])


@pytest.mark.parametrize("epochs", [2, 3])
def test_a_schedule_over_other_steps_than_those_of_the_run_is_beyond_settings(epochs, config, sampling, pendulum):
    chosen = params.A2CParams(lr_scheduler_factory=LRSchedulerFactoryLinear(replace(sampling, num_epochs=epochs)))
    experiment = builders.A2CExperimentBuilder(pendulum, config, sampling).with_a2c_params(chosen).build()
    said = epochs == sampling.num_epochs
    assert experiment.run_config().lr_schedule == ("linear" if said else "constant")
    assert [part.partition(":")[0] for part in experiment.declaration().beyond] == ([] if said else ["params"])


def command_line_arguments(config):
    """The options of ``rlfast train`` that say these settings."""
    arguments = []
    for name, value in vars(config).items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(option if value else f"--no-{option[2:]}")
        else:
            arguments += [option, *map(str, value if isinstance(value, tuple) else (value,))]
    return arguments


def weights(run_dir):
    return load_file(Path(run_dir) / "checkpoint" / "policy.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.filterwarnings("ignore:without effect")  # a translation writes all that builders say
@pytest.mark.parametrize(
    ("declare", "continuous"),
    [
        *((declare, declare in CONTINUOUS) for declare in SAID),
        *((declare, True) for declare in (pg, a2c, ppo, trpo)),  # the steps of NPG diverge with rewards of this size
    ],
)
def test_it_equals_the_command_line_to_the_bit(declare, continuous, config, sampling, pendulum, tmp_path, capsys):
    experiment = experiment_of(declare, config, sampling, pendulum, continuous=continuous)
    experiment.run("built")
    built = tmp_path / "log" / "built"
    settings = experiment.run_config(tmp_path / "typed")
    assert main(["train", experiment.agent_factory.algorithm, *command_line_arguments(settings)]) == 0
    assert read_beyond(built) == []
    assert replace(read_config(built), run_dir=None) == replace(settings, run_dir=None)
    assert same(weights(built), weights(tmp_path / "typed"))
    train(replace(experiment.run_config(tmp_path / "other"), seed=4))
    assert not same(weights(built), weights(tmp_path / "other"))


@pytest.mark.parametrize("name", ["sac", "redq"])
def test_actors_have_the_form_that_settings_say(name):
    observations = 1e4 * torch.randn(8, 3, generator=torch.Generator().manual_seed(0))

    def outputs(**said):
        config = ALGORITHMS[name].config(**said)
        networks = Networks(config, name, gym.spaces.Box(-1, 1, (3,)), gym.spaces.Box(-1, 1, (2,)))
        with torch.no_grad():
            return config.build(networks).actor(observations)[0]

    means, deviations = outputs()
    assert means.abs().max() > 1
    assert len(deviations.unique(dim=0)) > 1
    means, deviations = outputs(bounded=True, conditioned_sigma=False, log_std=-0.5)
    assert means.abs().max() <= 1
    assert torch.allclose(deviations, torch.full((8, 2), math.exp(-0.5)))


@pytest.mark.parametrize("declare", [declare for declare in SAID if declare is not ppo])  # its rates reach 0 at the end
def test_the_command_line_plays_and_resumes_it(declare, config, sampling, pendulum, tmp_path, capsys):
    experiment_of(declare, config, sampling, pendulum).run("whole")
    half = replace(sampling, num_epochs=1)
    experiment = experiment_of(declare, config, half, pendulum)
    experiment.run("half")
    folder = tmp_path / "log" / "half"
    assert main(["eval", str(folder), "--episodes", "2"]) == 0
    assert "2 episodes" in capsys.readouterr().out
    whole = read_config(tmp_path / "log" / "whole").max_steps
    assert not same(weights(folder), weights(tmp_path / "log" / "whole"))
    assert main(["train", "--resume", str(folder), "--max-steps", str(whole)]) == 0
    assert same(weights(folder), weights(tmp_path / "log" / "whole"))
