"""Settings of a DQN run that takes a second or two, for tests that do not need it to learn."""

from dataclasses import replace

import pytest

from rlfast.experiment import DQNConfig


def no_room(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.fixture
def full_disk(monkeypatch):
    """Makes a function, such as one that writes a file, fail as it does on a full disk."""
    return lambda where: monkeypatch.setattr(where, no_room)


@pytest.fixture
def tiny(run_dir):
    def make(**changes):
        config = DQNConfig(
            run_dir=run_dir,
            max_steps=200,
            num_envs=2,
            eval_episodes=3,
            eval_envs=2,
            eval_interval=80,
            hidden_sizes=(8,),
            batch_size=8,
            buffer_size=100,
            start_steps=20,
            collect_steps=8,
            updates_per_step=0.25,
            target_update_freq=5,
            progress=False,
        )
        return replace(config, **changes)

    return make
