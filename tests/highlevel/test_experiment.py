"""Experiments by builders are runs: they equal those of the command line, and their folders open likewise."""

import ast
import pickle
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from rlfast import highlevel
from rlfast.data import Batch
from rlfast.env import VectorEnvNormObs
from rlfast.evaluation.launcher import RegisteredExpLauncher
from rlfast.evaluation.rliable_evaluation_hl import RLiableExperimentResult
from rlfast.experiment import evaluate
from rlfast.experiment.config import RunWarning
from rlfast.experiment.run import ConfigError, resume
from rlfast.experiment.run_dir import read_beyond
from rlfast.highlevel import experiment as builders
from rlfast.highlevel.env import EnvFactory, EnvFactoryRegistered, EnvMode, EnvPoolFactory, VectorEnvType
from rlfast.highlevel.experiment import Experiment
from rlfast.highlevel.logger import LoggerFactoryDefault
from rlfast.highlevel.module.actor import ActorFactory, ActorFactoryDiscreteNet
from rlfast.highlevel.module.intermediate import IntermediateModule, IntermediateModuleFactory
from rlfast.highlevel.optim import OptimizerFactoryAdam, OptimizerFactoryRMSprop
from rlfast.highlevel.params.alpha import AutoAlphaFactoryDefault
from rlfast.highlevel.params.dist_fn import DistributionFunctionFactoryCategorical
from rlfast.highlevel.params.env_param import MaxActionScaled
from rlfast.highlevel.params.lr_scheduler import LRSchedulerFactoryLinear
from rlfast.highlevel.params.noise import MaxActionScaledGaussian
from rlfast.highlevel.params.policy_params import (
    A2CParams,
    DDPGParams,
    DiscreteSACParams,
    DQNParams,
    PPOParams,
    REDQParams,
    SACParams,
    TD3Params,
)
from rlfast.highlevel.params.policy_wrapper import PolicyWrapperFactoryIntrinsicCuriosity
from rlfast.highlevel.persistence import PolicyPersistence
from rlfast.highlevel.trainer import (
    EpochStopCallback,
    EpochStopCallbackRewardThreshold,
    EpochTestCallback,
    EpochTestCallbackDQNSetEps,
    EpochTrainCallback,
    EpochTrainCallbackDQNEpsLinearDecay,
)
from rlfast.policy import ICMPolicy
from rlfast.utils import RunningMeanStd
from rlfast.utils.net import discrete
from rlfast.utils.net.common import MLP, Net

HERE = Path(__file__).parent


def weights(run_dir):
    return load_file(Path(run_dir) / "checkpoint" / "policy.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def ppo(env, config, sampling):
    params = PPOParams(lr=1e-3, lr_scheduler_factory=LRSchedulerFactoryLinear(sampling), reward_normalization=True)
    builder = builders.PPOExperimentBuilder(env, config, sampling).with_ppo_params(params)
    options = {"hidden_sizes": (16,), "hidden_activation": nn.Tanh}
    return (
        builder.with_actor_factory_default(**options)
        .with_critic_factory_default(**options)
        .with_epoch_stop_callback(EpochStopCallbackRewardThreshold(1e6))
        .with_settings(progress=False)
    )


def dqn(env, config, sampling):
    sampling = replace(sampling, start_timesteps=10, start_timesteps_random=True)
    return (
        builders.DQNExperimentBuilder(env, config, sampling)
        .with_dqn_params(DQNParams(target_update_freq=5, clip_loss_grad=True, estimation_step=3))
        .with_model_factory_default((16,))
        .with_epoch_train_callback(EpochTrainCallbackDQNEpsLinearDecay(1.0, 0.1, 50))
        .with_epoch_test_callback(EpochTestCallbackDQNSetEps(0.0))
        .with_settings(progress=False, prioritized=True)
    )


class SmallActor(ActorFactory):
    def create_module(self, envs, device):
        net = Net(envs.get_observation_shape(), hidden_sizes=[8])
        return discrete.Actor(net, envs.get_action_shape()).to(device)


class Features(IntermediateModuleFactory):
    def create_intermediate_module(self, envs, device):
        return IntermediateModule(MLP(4, 8, [8]).to(device), 8)


class Eight(IntermediateModuleFactory):
    def create_intermediate_module(self, envs, device):
        return IntermediateModule(Net(4, 8).to(device), 8)


class Short(EnvFactory):
    def create_env(self, mode):
        return gym.make("CartPole-v1", max_episode_steps=20)


CALLS = []


class Counts(EpochTrainCallback):
    def callback(self, epoch, env_step, context):
        context.logger.write("train/env_step", env_step, {"train/calls": len(CALLS)})
        CALLS.append(("train", epoch, env_step, type(context.policy).__name__))


class CountsTests(EpochTestCallback):
    def callback(self, epoch, env_step, context):
        CALLS.append(("test", epoch, env_step, context.envs.get_action_shape()))


class StopsAtOnce(EpochStopCallback):
    def should_stop(self, mean_rewards, context):
        return mean_rewards > 0


def custom(config, sampling):
    return (
        builders.PPOExperimentBuilder(Short(VectorEnvType.DUMMY), config, sampling)
        .with_actor_factory(SmallActor())
        .with_critic_factory_use_actor()
        .with_optim_factory(OptimizerFactoryRMSprop())
        .with_settings(progress=False)
    )


def test_objects_that_settings_do_not_say_are_kept_beside_them(config, sampling, tmp_path):
    result = custom(config, sampling).build().run("custom")
    folder = tmp_path / "log" / "custom"
    assert result.world.policy.critic.preprocess is result.world.policy.actor.preprocess
    assert [name.partition(":")[0] for name in read_beyond(folder)] == [
        "params",
        "actor_factory",
        "critic_factory",
        "env_factory",
    ]
    with pytest.raises(ValueError, match=r"declared by Python objects .*SmallActor.*--allow-import"):
        evaluate(folder, 2)
    stats = evaluate(folder, 4, allow_import=True)
    assert max(stats.lens) <= 20
    (folder / "experiment.pkl").write_bytes(pickle.dumps(result.world.policy.actor.preprocess)[:-9])
    with pytest.raises(ValueError, match="cannot be opened"):
        evaluate(folder, 2, allow_import=True)


class Normalized(EnvFactoryRegistered):
    def create_venv(self, num_envs, mode):
        return VectorEnvNormObs(super().create_venv(num_envs, mode), update_obs_rms=mode is EnvMode.TRAIN)

    def create_envs(self, *args, **kwargs):
        envs = super().create_envs(*args, **kwargs)
        envs.test_envs.set_obs_rms(envs.train_envs.get_obs_rms())
        return envs


class Swings(EnvFactory):
    def create_env(self, mode):
        return gym.make("Pendulum-v1")


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        (Normalized(task="Pendulum-v1", seed=5, venv_type=VectorEnvType.DUMMY), {}),
        (Swings(VectorEnvType.DUMMY), {"normalize_obs": True}),
    ],
)
def test_an_evaluation_has_the_statistics_of_wrapped_environments(
    env, settings, config, sampling, tmp_path, monkeypatch
):
    builder = builders.PPOExperimentBuilder(env, config, sampling).with_settings(progress=False, **settings)
    builder.build().run("scaled")
    counts = []
    norm = RunningMeanStd.norm
    monkeypatch.setattr(RunningMeanStd, "norm", lambda self, data: counts.append(self.count) or norm(self, data))
    evaluate(tmp_path / "log" / "scaled", 1, allow_import=True)
    assert set(counts) == {66}  # of training alone: 64 steps and the first observations of two environments


def test_it_resumes_to_the_bit(config, sampling, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    custom(config, sampling).build().run("whole")
    half = replace(sampling, num_epochs=1)
    custom(config, half).build().run("half")
    resume(tmp_path / "log" / "half", allow_import=True, max_steps=64)
    assert same(weights(tmp_path / "log" / "whole"), weights(tmp_path / "log" / "half"))
    assert [path.name for path in tmp_path.iterdir()] == ["log"]  # the best policy is saved in the run's folder


def test_callbacks_are_called(config, sampling, cart_pole):
    CALLS.clear()
    builder = builders.PPOExperimentBuilder(cart_pole, config, sampling).with_settings(progress=False)
    builder.with_epoch_train_callback(Counts()).with_epoch_test_callback(CountsTests())
    result = builder.with_epoch_stop_callback(StopsAtOnce()).build().run("called")
    assert result.world.trainer.epoch == 1
    assert CALLS == [("test", 0, 0, 2), ("train", 1, 0, "PPOPolicy"), ("train", 1, 16, "PPOPolicy"), ("test", 1, 32, 2)]


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        (SACParams, ["tau", "gamma", "alpha", "estimation_step", "deterministic_eval"]),
        (DiscreteSACParams, ["tau", "gamma", "alpha", "estimation_step"]),
        (DDPGParams, ["tau", "gamma", "estimation_step"]),
        (REDQParams, ["ensemble_size", "subset_size", "alpha", "actor_delay", "deterministic_eval", "target_mode"]),
        (TD3Params, ["tau", "gamma", "policy_noise", "noise_clip", "update_actor_freq", "estimation_step"]),
    ],
)
def test_params_without_names_have_the_order_of_tianshou(kind, last):
    names = [field.name for field in fields(kind)]
    first = names.index(last[0])
    assert names[first : first + len(last)] == last


@pytest.mark.parametrize("batch_size", [16, None])
def test_a_collect_may_be_of_episodes_longer_than_its_steps(batch_size, config, sampling, cart_pole):
    sampling = replace(sampling, episode_per_collect=4, step_per_collect=2, batch_size=batch_size)
    result = (
        builders.PGExperimentBuilder(cart_pole, config, sampling).with_settings(progress=False).build().run("whole")
    )
    assert result.trainer_result.train_episode % 4 == 0
    assert (result.trainer_result.gradient_step == result.trainer_result.train_episode / 4) is (batch_size is None)


class NotesEps(EpochTestCallback):
    seen = []

    def callback(self, epoch, env_step, context):
        self.seen.append(context.policy.eps)


def test_settings_of_tests_count_beside_a_callback(config, sampling, cart_pole):
    NotesEps.seen.clear()
    builder = dqn(cart_pole, config, sampling).with_settings(eval_eps=0.25).with_epoch_test_callback(NotesEps())
    builder.build().run("noted")
    assert set(NotesEps.seen) == {0.25}


def test_schedules_are_those_of_a_run_where_a_script_trains_the_world(config, sampling, cart_pole):
    world = ppo(cart_pole, config, sampling).build().create_experiment_world()
    world.trainer.run()
    (group,) = world.policy.optim.param_groups
    assert world.trainer.env_step == 64
    assert group["lr"] == pytest.approx(1e-3 * (1 - 48 / 64))  # as set before the last collect


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("PG", None),
        ("A2C", A2CParams(max_grad_norm=0.5)),
        ("NPG", None),
        ("TRPO", None),
        ("IQN", None),
        ("DDPG", DDPGParams(exploration_noise=MaxActionScaledGaussian(0.1))),
        ("TD3", TD3Params(policy_noise=MaxActionScaled(0.2))),
        ("REDQ", None),
        ("DiscreteSAC", None),
    ],
)
def test_every_builder_runs(name, params, config, sampling, cart_pole, pendulum):
    env = pendulum if name in ("DDPG", "TD3", "REDQ") else cart_pole
    builder = getattr(builders, f"{name}ExperimentBuilder")(env, config, sampling).with_settings(progress=False)
    if params is not None:
        getattr(builder, f"with_{name.lower()}_params")(params)
    assert builder.build().run(name).trainer_result.gradient_step > 0


def test_params_that_settings_do_not_say_reach_the_policy(config, sampling, pendulum):
    params = SACParams(alpha=AutoAlphaFactoryDefault(), critic1_lr=1e-2, actor_lr=1e-4, deterministic_eval=False)
    builder = builders.SACExperimentBuilder(pendulum, config, sampling).with_sac_params(params)
    policy = builder.with_optim_factory(OptimizerFactoryAdam(weight_decay=0.1)).build().create_experiment_world().policy
    rates = [optim.param_groups[0]["lr"] for optim in (policy.actor_optim, policy.critic_optim, policy.critic2_optim)]
    assert rates == [1e-4, 1e-2, 1e-3]
    assert policy.actor_optim.defaults["weight_decay"] == 0.1
    assert not policy.deterministic_eval
    assert policy.alpha == 1.0


@pytest.mark.parametrize(
    ("dist_fn", "softmax"),
    [
        (DistributionFunctionFactoryCategorical(), True),
        (DistributionFunctionFactoryCategorical(is_probs_input=False), False),
        (torch.distributions.Categorical, True),
    ],
)
def test_a_distribution_of_ones_own_gets_what_the_actors_factory_makes(dist_fn, softmax, config, sampling, cart_pole):
    builder = builders.PPOExperimentBuilder(cart_pole, config, sampling).with_ppo_params(PPOParams(dist_fn=dist_fn))
    if not softmax:
        builder.with_actor_factory(ActorFactoryDiscreteNet((8,), softmax_output=False))
    result = builder.build().run("own").world.policy(Batch(obs=torch.ones(3, 4), info={}))
    assert torch.allclose(result.dist.probs, result.logits if softmax else result.logits.softmax(-1))


def test_environments_of_envpool(config, sampling, tmp_path):
    pytest.importorskip("envpool")
    kind = VectorEnvType.DUMMY
    env = EnvFactoryRegistered(task="Pendulum-v1", seed=0, venv_type=kind, envpool_factory=EnvPoolFactory())
    experiment = builders.TD3ExperimentBuilder(env, config, sampling).with_settings(progress=False).build()
    assert experiment.run("pool").trainer_result.gradient_step == 16
    with pytest.warns(UserWarning, match="no seed when it is reset"):
        assert len(evaluate(tmp_path / "log" / "pool", 2, allow_import=True).returns) == 2


GAME = """
from rlfast.highlevel.env import EnvFactoryRegistered, EnvMode, VectorEnvType
factory = EnvFactoryRegistered(task="PongNoFrameskip-v4", venv_type=VectorEnvType.DUMMY)
print(factory.create_env(EnvMode.TRAIN).observation_space.shape)
"""


def test_games_are_registered_when_they_are_asked_for():
    pytest.importorskip("ale_py")
    done = subprocess.run([sys.executable, "-c", GAME], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["(210, 160, 3)"], done.stderr


def test_a_wrapper_wraps(config, sampling, cart_pole):
    wrapper = PolicyWrapperFactoryIntrinsicCuriosity(
        feature_net_factory=Features(),
        hidden_sizes=[8],
        lr=1e-3,
        lr_scale=1.0,
        reward_scale=0.01,
        forward_loss_weight=0.2,
    )
    builder = builders.PPOExperimentBuilder(cart_pole, config, sampling).with_policy_wrapper_factory(wrapper)
    world = builder.with_settings(progress=False).build().run("icm").world
    assert isinstance(world.policy, ICMPolicy)


@pytest.mark.parametrize("mode", PolicyPersistence.Mode)
def test_a_policy_is_restored(mode, config, sampling, cart_pole, tmp_path):
    config = replace(config, policy_persistence_mode=mode)
    ppo(cart_pole, config, sampling).build().run("first")
    assert (tmp_path / "log" / "first" / mode.get_filename()).exists()
    again = Experiment.from_directory(str(tmp_path / "log" / "first"))
    again.config = replace(again.config, train=False)
    best = load_file(tmp_path / "log" / "first" / mode.get_filename())
    result = again.run("second")
    assert result.trainer_result is None
    restored = result.world.policy.state_dict()
    saved = {name: value for name, value in best.items() if not name.startswith("array.")}
    assert {*saved} == {name for name, value in restored.items() if isinstance(value, torch.Tensor)}
    assert all(torch.equal(value, restored[name]) for name, value in saved.items())


def test_the_folder_has_a_log_and_must_be_new(config, sampling, cart_pole, tmp_path):
    experiment = ppo(cart_pole, config, sampling).build()
    experiment.run("twice")
    assert "PPOAgentFactory" in (tmp_path / "log" / "twice" / "log.txt").read_text()
    with pytest.raises(ConfigError, match="is not empty"):
        experiment.run("twice")
    before = weights(tmp_path / "log" / "twice")
    experiment.run("twice", raise_error_on_dirname_collision=False)
    assert same(weights(tmp_path / "log" / "twice"), before)


@pytest.mark.filterwarnings("ignore:the model gives 8 values:UserWarning")
def test_a_folder_is_deleted_only_for_a_run_that_can_begin(config, sampling, cart_pole, tmp_path):
    ppo(cart_pole, config, sampling).build().run("once")
    folder = tmp_path / "log" / "once"
    before = weights(folder)
    for builder in (
        builders.DQNExperimentBuilder(cart_pole, config, sampling).with_model_factory(Eight()),
        ppo(cart_pole, replace(config, policy_restore_directory=str(folder)), sampling),
    ):
        with pytest.raises(ConfigError, match=r"gives 8 numbers|would be deleted: choose another name"):
            builder.build().run("once", raise_error_on_dirname_collision=False)
    assert same(weights(folder), before)
    again = Experiment.from_directory(str(folder))
    again.config.train = False
    again.run("once", raise_error_on_dirname_collision=False)
    assert same(weights(folder), before)


def test_the_layer_is_thin():
    files = [*Path(highlevel.__file__).parent.rglob("*.py")]
    assert len(files) > 25
    assert sum(lines_of_code(file.read_text()) for file in files) <= 2_275  # 125 of them describe experiments as JSON


def lines_of_code(text):
    """The number of lines that are neither blank nor comments nor docstrings."""
    tree = ast.parse(text)
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    described = {line for n in texts if isinstance(n.value.value, str) for line in range(n.lineno, n.end_lineno + 1)}
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and line.strip()[0] != "#" and number not in described for number, line in lines)


def test_nothing_is_kept_without_persistence(config, sampling, cart_pole, tmp_path):
    ppo(cart_pole, replace(config, persistence_enabled=False), sampling).build().run("never")
    assert not (tmp_path / "log").exists()


def test_it_is_watched(config, sampling, tmp_path):
    env = EnvFactoryRegistered(task="CartPole-v1", venv_type=VectorEnvType.DUMMY, render_mode_watch="ansi")
    env.render_modes = dict.fromkeys(env.render_modes)
    config = replace(config, watch=True, watch_num_episodes=1)
    assert ppo(env, config, sampling).build().run("watched").world.envs.watch_env.closed


class Modes(EnvFactory):
    """Notes what environments are made for."""

    made = []

    def create_env(self, mode):
        self.made.append(mode)
        return gym.make("CartPole-v1", max_episode_steps=20)


class ModesWithWatching(Modes):
    def create_envs(self, num_training_envs, num_test_envs, create_watch_env=False):
        assert create_watch_env
        return super().create_envs(num_training_envs, num_test_envs, create_watch_env)


@pytest.mark.parametrize("factory", [Modes, ModesWithWatching])
def test_the_environment_to_watch_is_made_after_training(factory, config, sampling):
    factory.made.clear()
    before = []

    class Notes(EpochStopCallbackRewardThreshold):
        def should_stop(self, mean_rewards, context):
            before.extend(factory.made)
            return True

    config = replace(config, watch=True, watch_num_episodes=1, persistence_enabled=False)
    builder = builders.PPOExperimentBuilder(factory(VectorEnvType.DUMMY), config, sampling)
    result = builder.with_epoch_stop_callback(Notes()).with_settings(progress=False).build().run()
    assert factory.made.count(EnvMode.WATCH) == 1
    assert (EnvMode.WATCH in before) is (factory is ModesWithWatching)  # its own method may need it
    assert result.world.envs.watch_env.closed


def test_runs_without_a_name_have_distinct_folders(config, sampling, cart_pole, tmp_path, monkeypatch):
    monkeypatch.setattr("rlfast.highlevel.experiment.experiment.datetime_tag", lambda: "20240131-235959")
    experiment = ppo(cart_pole, config, replace(sampling, num_epochs=1)).build()
    experiment.run()
    experiment.run()
    names = {path.parent.name for path in tmp_path.rglob("metrics.csv")}
    assert len(names) == 2
    assert all(name.startswith("20240131-235959-") for name in names)


class LocalStop(EpochStopCallback):
    def __init__(self):
        self.function = lambda: None

    def should_stop(self, mean_rewards, context):
        return False


PPO, DQN, SAC = builders.PPOExperimentBuilder, builders.DQNExperimentBuilder, builders.SACExperimentBuilder


@pytest.mark.filterwarnings("ignore:the model gives 8 values:UserWarning")
@pytest.mark.parametrize(
    ("declare", "error", "match"),
    [
        (lambda c, s, d, p: PPO(None, c, s), TypeError, "needs an EnvFactory"),
        (lambda c, s, d, p: DQN(p, c, s), ConfigError, "discrete actions"),
        (lambda c, s, d, p: SAC(d, c, s), ConfigError, "continuous actions"),
        (lambda c, s, d, p: PPO(d, c, s).with_ppo_params(DQNParams()), TypeError, "needs a PPOParams, got DQNParams"),
        (
            lambda c, s, d, p: PPO(d, c, s).with_settings(prioritised=True),
            ConfigError,
            r"no settings \['prioritised'\]",
        ),
        *(
            (
                lambda c, s, d, p, said=said: PPO(d, c, s).with_settings(**said),
                ConfigError,
                "with_settings cannot say .*: ExperimentConfig and EnvFactory do",
            )
            for said in ({"env": "Acrobot-v1"}, {"seed": 4}, {"device": "cpu"}, {"run_dir": Path("elsewhere")})
        ),
        (lambda c, s, d, p: PPO(d, c, s).with_name(3), TypeError, "needs a str, got 3"),
        (
            lambda c, s, d, p: PPO(p, c, s).with_epoch_stop_callback(EpochStopCallbackRewardThreshold()),
            ConfigError,
            "no reward_threshold",
        ),
        (lambda c, s, d, p: PPO(d, c, replace(s, start_timesteps=5)), ConfigError, "leave out start_timesteps"),
        (
            lambda c, s, d, p: PPO(p, c, s).with_actor_factory(ActorFactoryDiscreteNet((8,))),
            ConfigError,
            "needs discrete actions",
        ),
        (lambda c, s, d, p: DQN(d, c, s).with_model_factory(Features()), ConfigError, "cannot take an observation"),
        *(
            (
                lambda c, s, d, p, kind=kind, task=task: getattr(builders, kind)(
                    EnvFactoryRegistered(task=task, venv_type=VectorEnvType.DUMMY),
                    c,
                    replace(s, replay_buffer_stack_num=2),
                ),
                ConfigError,
                f"stacks of 2 observations, which they cannot take: .*{why}",
            )
            for kind, task, why in (
                ("DQNExperimentBuilder", "CartPole-v1", "takes observations of Box"),
                ("PPOExperimentBuilder", "Pendulum-v1", "takes observations of Box"),
                ("SACExperimentBuilder", "Pendulum-v1", "takes observations of Box"),
                ("DQNExperimentBuilder", "FrozenLake-v1", "8 actions for 4 stacks"),
            )
        ),
        (
            lambda c, s, d, p: DQN(d, c, s).with_model_factory(Eight()),
            ConfigError,
            "gives 8 numbers, and there are 2 actions",
        ),
        (lambda c, s, d, p: PPO(d, c, s).with_epoch_stop_callback(LocalStop()), ConfigError, "cannot be saved"),
        (
            lambda c, s, d, p: PPO(EnvFactoryRegistered(task="No-v0", venv_type=VectorEnvType.AUTO), c, s),
            ConfigError,
            "`No` doesn't exist",
        ),
        (
            lambda c, s, d, p: PPO(d, c, replace(s, num_train_envs=0)),
            ConfigError,
            "num_train_envs must be at least 1, got 0",
        ),
        (
            lambda c, s, d, p: PPO(d, c, replace(s, step_per_collect=0)),
            ConfigError,
            "step_per_collect must be at least 1, got 0",
        ),
        (
            lambda c, s, d, p: PPO(d, c, replace(s, num_test_episodes=0)).with_epoch_stop_callback(
                EpochStopCallbackRewardThreshold()
            ),
            ConfigError,
            "--eval-episodes must be at least 1, got 0",
        ),
        (
            lambda c, s, d, p: PPO(d, c, s).with_epoch_train_callback(EpochTrainCallbackDQNEpsLinearDecay(1.0, 0.1)),
            ConfigError,
            "ppo does not choose random actions by eps",
        ),
        (
            lambda c, s, d, p: PPO(d, c, s).with_epoch_test_callback(EpochTestCallbackDQNSetEps(0.1)),
            ConfigError,
            "ppo does not choose random actions by eps",
        ),
        (lambda c, s, d, p: DQN(d, c, s).with_model_factory(None), TypeError, "needs a ModuleFactory, got None"),
        (
            lambda c, s, d, p: SAC(p, c, s).with_critic2_factory(SmallActor()),
            TypeError,
            "needs a CriticFactory, got SmallActor",
        ),
        (
            lambda c, s, d, p: PPO(d, c, s).with_epoch_stop_callback(475),
            TypeError,
            "needs an EpochStopCallback, got 475",
        ),
        (lambda c, s, d, p: builders.ExperimentBuilder(d, c, s), NotImplementedError, "use the builder of one"),
        (
            lambda c, s, d, p: PPO(d, replace(c, policy_restore_directory="nowhere"), s),
            ConfigError,
            "'nowhere' has neither policy.safetensors nor a checkpoint",
        ),
    ],
)
def test_bad_declarations_are_refused_before_anything_starts(
    declare, error, match, config, sampling, cart_pole, pendulum, tmp_path
):
    with pytest.raises(error, match=match) as raised:
        declare(config, sampling, cart_pole, pendulum).build().run("x")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "log").exists()


def test_a_logger_that_cannot_be_had_is_refused_before_anything_starts(
    config, sampling, cart_pole, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "wandb", None)
    builder = ppo(cart_pole, config, sampling).with_logger_factory(LoggerFactoryDefault("wandb", "project"))
    with pytest.raises(ConfigError, match="needs wandb"):
        builder.build().run("x")
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("mode", PolicyPersistence.Mode)
def test_a_policy_that_does_not_fit_is_refused_before_anything_starts(mode, config, sampling, cart_pole, tmp_path):
    config = replace(config, policy_persistence_mode=mode)
    ppo(cart_pole, config, sampling).build().run("first")
    again = replace(config, policy_restore_directory=str(tmp_path / "log" / "first"))
    builder = ppo(cart_pole, again, sampling).with_actor_factory_default((8,))
    with pytest.raises(ConfigError, match="first has no policy for this: ") as raised:
        builder.build().run("second")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "log" / "second").exists()


def test_a_run_opens_without_the_folder_that_it_was_restored_from(config, sampling, tmp_path):
    custom(config, sampling).build().run("first")
    again = replace(config, policy_restore_directory=str(tmp_path / "log" / "first"))
    custom(again, sampling).build().run("second")
    (tmp_path / "log" / "first").rename(tmp_path / "moved")
    assert len(evaluate(tmp_path / "log" / "second", 2, allow_import=True).returns) == 2
    with pytest.raises(ConfigError, match="nor a checkpoint"):
        custom(again, sampling).build().run("third")


def test_a_run_without_a_checkpoint_begins_anew_with_the_policy_to_restore(config, sampling, tmp_path):
    custom(config, sampling).build().run("first")
    again = replace(config, policy_restore_directory=str(tmp_path / "log" / "first"))
    custom(again, sampling).build().run("second")
    folder = tmp_path / "log" / "second"
    before = weights(folder)
    assert not same(before, weights(tmp_path / "log" / "first"))
    shutil.rmtree(folder / "checkpoint")
    (folder / "metrics.csv").unlink()
    with pytest.warns(RunWarning, match="it begins anew"):
        resume(folder, allow_import=True)
    assert same(weights(folder), before)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("launcher", RegisteredExpLauncher)
def test_several_seeds_have_a_folder_each(launcher, config, sampling, cart_pole, tmp_path):
    collection = dqn(cart_pole, config, sampling).with_name("dqn").build_seeded_collection(2)
    assert collection.experiments[0].config.seed + 1 == collection.experiments[1].config.seed
    assert len(collection.run(launcher.create_launcher())) == 2
    folders = {path.parent for path in tmp_path.rglob("metrics.csv")}
    assert {folder.parent.name for folder in folders} == {"dqn"}
    assert {folder.name for folder in folders} == {one.get_seeding_info_as_str() for one in collection.experiments}
    assert RLiableExperimentResult.load_from_disk(str(tmp_path)).test_episode_returns_RE.shape[0] == 2
