"""Factories of environments."""

import os
import subprocess
import sys

import gymnasium as gym
import pytest

from rlfast.highlevel import env


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
