"""Settings of a DQN run that takes a second or two, for tests that do not need it to learn."""

from dataclasses import replace

import pytest

from experiment.small import REPLAY
from rlfast.experiment import DQNConfig


def no_room(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.fixture
def full_disk(monkeypatch):
    """Makes a function, such as one that writes a file, fail as it does on a full disk."""
    return lambda where: monkeypatch.setattr(where, no_room)


@pytest.fixture
def tiny(run_dir):
    options = REPLAY | {"eval_episodes": 3, "buffer_size": 100, "target_update_freq": 5}
    return lambda **changes: replace(DQNConfig(run_dir=run_dir, **options), **changes)
