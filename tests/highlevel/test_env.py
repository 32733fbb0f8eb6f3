"""Factories of environments."""

import os
import subprocess
import sys

import pytest


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
