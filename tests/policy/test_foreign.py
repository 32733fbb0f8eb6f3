"""Policies that were written for Tianshou 1.0 train with rlfast, and give the same results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine import PATIENCE

FOLDER = Path(__file__).parent
PYTHON = os.environ.get("RLFAST_TIANSHOU_PYTHON")
LOSSES = {
    "Sarsa": ["loss"],
    "Categorical51": ["loss"],
    "CountingDqn": ["loss"],
    "Curious": ["curiosity_loss", "loss"],
    "OwnPriorities": ["loss"],
    "OwnPrioritiesOfDqn": ["loss"],
    "Ddpg": ["actor_loss", "critic_loss"],
    "ClippedSac": ["actor_loss", "alpha", "alpha_loss", "critic1_loss", "critic2_loss"],
    "Reinforce": ["loss"],
    "ShapedPpo": ["clip_loss", "ent_loss", "loss", "loss_of_last_epoch", "vf_loss"],
    "GaussianPpo": ["clip_loss", "ent_loss", "loss", "vf_loss"],
}
ON_POLICY = {"Reinforce", "ShapedPpo", "GaussianPpo"}


def told(python, folder):
    command = [python, "-W", "ignore", "foreign_runs.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ours():
    return told(sys.executable, FOLDER)


@pytest.mark.parametrize("name", LOSSES)
def test_they_train_and_tell_their_losses(ours, name):
    runs = [answer for key, answer in ours.items() if key.split()[0] == name]
    assert len(runs) == (1 if name in ON_POLICY else 2)
    for run in runs:
        assert run["losses"] == run["smoothed"] == LOSSES[name]
        assert run["timed"]
        assert run["steps"] == (16 if name in ON_POLICY else 40)  # 4 collects, 2 passes over 2 whole minibatches


def test_learning_asks_an_overridden_forward_three_times_an_update(ours):
    assert [ours[f"CountingDqn {prioritized}"]["asked"] for prioritized in (False, True)] == [120, 120]


def test_who_learns_nothing_tells_nothing(ours):
    assert ours["Greedy"] == [{}, {}]


@pytest.mark.skipif(not PYTHON, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0")
def test_tianshou_is_told_the_same(ours, tmp_path):
    for name in ("foreign.py", "foreign_runs.py"):
        (tmp_path / name).write_text((FOLDER / name).read_text().replace("rlfast", "tianshou"))
    theirs = told(PYTHON, tmp_path)
    for name in ON_POLICY:  # counted otherwise: docs/differences.md
        del theirs[name]["steps"], ours[name]["steps"]
    assert ours == theirs
