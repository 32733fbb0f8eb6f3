"""Factories of environments."""

import os
import subprocess
import sys

import gymnasium as gym
import pytest

from rlfast.experiment.run import ConfigError
from rlfast.highlevel import env
from rlfast.highlevel.experiment import PPOExperimentBuilder, SACExperimentBuilder


@pytest.mark.timeout(120)
def test_old_ids_of_games_need_no_import():
    pytest.importorskip("ale_py")
    script = (
        "from rlfast.highlevel.env import EnvFactoryRegistered, EnvMode, VectorEnvType\n"
        "factory = EnvFactoryRegistered(task='PongNoFrameskip-v4', venv_type=VectorEnvType.DUMMY, obs_type='ram')\n"
        "print(factory.create_env(EnvMode.TRAIN).reset(seed=0)[0].shape)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.endswith("(128,)\n")


@pytest.mark.parametrize(
    ("kind", "id"), [(env.ContinuousEnvironments, "Pendulum-v1"), (env.DiscreteEnvironments, "CartPole-v1")]
)
def test_environments_are_made_by_a_function_of_the_mode(kind, id):
    modes = []

    def make(mode):
        modes.append(mode)
        return gym.make(id)

    made = kind.from_factory(make, env.VectorEnvType.DUMMY, 2, 3, create_watch_env=True)
    counts = {mode: modes.count(mode) for mode in env.EnvMode}
    assert counts == {env.EnvMode.TRAIN: 2 + 1, env.EnvMode.TEST: 3, env.EnvMode.WATCH: 1}
    assert (type(made), len(made.train_envs), len(made.test_envs), len(made.watch_env)) == (kind, 2, 3, 1)


class Matrices(gym.Env):
    """Has actions along two axes."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,))
    action_space = gym.spaces.Box(-2.0, 2.0, (2, 3))

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action.shape == (2, 3)
        return self.observation_space.sample(), 0.0, True, False, {}


class MatricesFactory(env.EnvFactory):
    def create_env(self, mode):
        return Matrices()


def test_actions_may_have_two_axes(config, sampling):
    made = MatricesFactory(env.VectorEnvType.DUMMY)
    builder = SACExperimentBuilder(made, config, sampling).with_settings(progress=False)
    assert builder.build().run("matrices").world.envs.max_action == 2.0


def test_an_error_names_the_environment(config, sampling):
    builder = PPOExperimentBuilder(MatricesFactory(env.VectorEnvType.DUMMY), config, sampling)
    with pytest.raises(ConfigError, match=r"those of <Matrices instance> are Box"):
        builder.build().run("matrices")
