"""Experiments on Atari games, by the factories of Tianshou 2.0."""

from functools import wraps
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("ale_py")

from rlfast.env.atari import AtariEnv
from rlfast.env.atari.atari_network import (
    ActorFactoryAtariDQN,
    DQNet,
    IntermediateModuleFactoryAtariDQN,
    IntermediateModuleFactoryAtariDQNFeatures,
)
from rlfast.env.atari.atari_wrapper import AtariEnvFactory, AtariEpochStopCallback
from rlfast.highlevel import experiment as builders
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvMode, VectorEnvType, environments_of
from rlfast.highlevel.params.policy_wrapper import PolicyWrapperFactoryIntrinsicCuriosity
from rlfast.policy import ICMPolicy
from rlfast.utils.net.atari import ScaledObsInputActionReprNet


@pytest.fixture
def pong():
    return AtariEnvFactory("PongNoFrameskip-v4", frame_stack=2, venv_type=VectorEnvType.DUMMY)


@pytest.fixture
def sampling():
    return SamplingConfig(
        num_epochs=1,
        step_per_epoch=16,
        step_per_collect=16,
        num_train_envs=2,
        num_test_episodes=1,
        batch_size=8,
        buffer_size=64,
        update_per_step=0.125,
        replay_buffer_ignore_obs_next=True,
        replay_buffer_save_only_last_obs=True,
        replay_buffer_stack_num=2,
    )


@pytest.fixture
def short(monkeypatch):
    """Games that end after 40 frames, as random play takes thousands."""
    init = AtariEnv.__init__

    @wraps(init)
    def ends_soon(self, *args, **kwargs):
        init(self, *args, **kwargs | {"max_frames": 160})

    monkeypatch.setattr(AtariEnv, "__init__", ends_soon)


def ppo(factory, config, sampling):
    builder = builders.PPOExperimentBuilder(factory, config, sampling)
    builder.with_actor_factory(ActorFactoryAtariDQN(features_only=True, output_dim_added_layer=32))
    wrapper = PolicyWrapperFactoryIntrinsicCuriosity(
        feature_net_factory=IntermediateModuleFactoryAtariDQNFeatures(),
        hidden_sizes=(16,),
        lr=1e-3,
        lr_scale=1.0,
        reward_scale=0.1,
        forward_loss_weight=0.2,
    )
    return builder.with_critic_factory_use_actor().with_policy_wrapper_factory(wrapper)


def iqn(factory, config, sampling):
    builder = builders.IQNExperimentBuilder(factory, config, sampling)
    return builder.with_preprocess_network_factory(IntermediateModuleFactoryAtariDQN(features_only=True))


def sac(factory, config, sampling):
    builder = builders.DiscreteSACExperimentBuilder(factory, config, sampling)
    builder.with_actor_factory(ActorFactoryAtariDQN(scale_obs=False, features_only=True))
    return builder.with_common_critic_factory_use_actor()


def dqn(factory, config, sampling):
    builder = builders.DQNExperimentBuilder(factory, config, sampling)
    return builder.with_model_factory(IntermediateModuleFactoryAtariDQN())


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("declare", [dqn, iqn, sac, ppo])
def test_experiments_run(declare, pong, config, sampling):
    builder = declare(pong, config, sampling).with_epoch_stop_callback(AtariEpochStopCallback(pong.task))
    result = builder.with_settings(progress=False).build().run(declare.__name__)
    policy, buffer = result.world.policy, result.world.train_collector.buffer
    assert result.trainer_result.gradient_step > 0
    assert len(buffer) == (0 if declare is ppo else 16)
    if declare is dqn:
        assert buffer[:].obs.shape == (16, 2, 84, 84)
    if declare is ppo:
        assert isinstance(policy, ICMPolicy)
        assert isinstance(policy.policy.actor.preprocess, ScaledObsInputActionReprNet)
        assert policy.policy.actor.preprocess is policy.policy.critic.preprocess


@pytest.mark.parametrize("mode", EnvMode)
def test_rewards_are_clipped_and_lives_are_episodes_in_training_alone(mode):
    factory = AtariEnvFactory("Breakout", frame_stack=3, scale=True, venv_type=VectorEnvType.DUMMY)
    factory.render_modes = dict.fromkeys(EnvMode)
    with factory.create_venv(2, mode, seed=3) as venv:
        training, number = mode is EnvMode.TRAIN, 1 if mode is EnvMode.WATCH else 2
        assert len(venv) == number
        obs, _ = venv.reset()
        assert (obs.shape, obs.dtype) == ((number, 3, 84, 84), np.float32)
        lives, over = np.full(number, 5), np.zeros(number, bool)
        while not over.any():
            *_, terminated, truncated, info = venv.step(np.ones(number, int))
            lives = np.array([one["lives"] for one in info])
            over = terminated | truncated
    assert set(lives[over]) == ({4} if training else {0})


def test_seeds_of_the_experiment_reach_the_games():
    breakout = AtariEnvFactory("Breakout", venv_type=VectorEnvType.DUMMY)

    def first_steps(seed):
        with breakout.create_venv(2, EnvMode.TRAIN, seed=seed) as venv:
            venv.reset()
            return np.stack([venv.step(np.ones(2, int))[0] for _ in range(15)])

    one, again, other = first_steps(1), first_steps(1), first_steps(2)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.filterwarnings("ignore:envpool.AtariGymnasiumEnvPool ends an episode:UserWarning")
def test_envpool_steps_the_games_where_it_is_asked_for():
    pytest.importorskip("envpool")
    asked = AtariEnvFactory("PongNoFrameskip-v4", use_envpool_if_available=True)
    with asked.create_venv(2, EnvMode.TRAIN) as venv:
        assert "envpool" in repr(venv)
    assert AtariEnvFactory("PongNoFrameskip-v4").envpool_factory is None


@pytest.mark.parametrize(("task", "threshold"), [("ALE/Pong-v5", 20.0), ("Breakout", None)])
def test_training_stops_at_the_return_of_a_game(task, threshold):
    context = SimpleNamespace(envs=SimpleNamespace(env=SimpleNamespace(spec=None)))
    callback = AtariEpochStopCallback(task)
    assert callback.should_stop(20.0, context) is (threshold is not None)
    assert not callback.should_stop(19.9, context)
    context.envs.env.spec = SimpleNamespace(reward_threshold=400.0)
    assert callback.should_stop(400.0, context)
    assert not callback.should_stop(399.0, context)


def test_networks_that_do_not_fit_are_refused():
    features = IntermediateModuleFactoryAtariDQN(features_only=True)
    with pytest.raises(ValueError, match=r"pictures of shape .*, observations have \(4,\)"):
        features.create_module(environments_of(gym.make("CartPole-v1")), "cpu")
    cars = gym.Env()
    cars.observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    cars.action_space = gym.spaces.Box(-1, 1, (3,))
    with pytest.raises(ValueError, match="needs discrete actions"):
        ActorFactoryAtariDQN().create_module(environments_of(cars), "cpu")


def test_the_added_layer_has_the_size_of_its_name():
    frames = torch.zeros(2, 4, 84, 84)
    assert DQNet(4, 84, 84, 6, features_only=True, output_dim_added_layer=10)(frames)[0].shape == (2, 10)
    assert DQNet(4, 84, 84, 6)(frames)[0].shape == (2, 6)
    with pytest.warns(UserWarning, match="features_only"):
        assert DQNet(4, 84, 84, 6, output_dim_added_layer=10).output_dim == 6
