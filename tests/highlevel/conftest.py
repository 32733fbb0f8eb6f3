"""Small experiments."""

import pytest

from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactoryRegistered, VectorEnvType
from rlfast.highlevel.experiment import ExperimentConfig


@pytest.fixture
def config(tmp_path):
    return ExperimentConfig(seed=3, watch=False, device="cpu", persistence_base_dir=str(tmp_path / "log"))


@pytest.fixture
def sampling():
    return SamplingConfig(
        num_epochs=2,
        step_per_epoch=32,
        num_train_envs=2,
        num_test_envs=2,
        num_test_episodes=2,
        step_per_collect=16,
        batch_size=16,
        buffer_size=200,
        update_per_step=0.25,
    )


@pytest.fixture
def cart_pole():
    return EnvFactoryRegistered(task="CartPole-v1", venv_type=VectorEnvType.AUTO)


@pytest.fixture
def pendulum():
    return EnvFactoryRegistered(task="Pendulum-v1", venv_type=VectorEnvType.DUMMY)
