"""Whole runs in real Ray actors, some of which are killed."""

import os
import signal
from dataclasses import replace

import pytest
import torch

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")

from rlfast.distributed import resume, train
from rlfast.distributed.build import build
from rlfast.distributed.learning.team import Team
from rlfast.experiment import train as train_in_one_process
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.config import RunWarning
from rlfast.experiment.run import ConfigError

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")]


@pytest.fixture(scope="module", autouse=True)
def running():
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        configure_logging=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


def config(name, **changes):
    made = {"env": "Pendulum-v1", "num_envs": 4, "max_steps": 600, "eval_interval": 300, "ray": "auto", "collectors": 2}
    shown = {"eval_envs": 2, "eval_episodes": 2, "hidden_sizes": (8,), "progress": False}
    return ALGORITHMS[name].config(**made | shown | changes)


def replay(**changes):
    given = {"shards": 2, "start_steps": 60, "batch_size": 16, "updates_per_step": 0.25, "collect_steps": 8}
    return config("sac", **given | {"buffer_size": 4000, "chunk_steps": 16} | changes)


def weights(run_dir):
    from safetensors.torch import load_file

    return load_file(run_dir / "checkpoint" / "policy.safetensors")


def test_a_run_and_its_continuation(run_dir):
    result = train(replay(run_dir=run_dir, weights_every=4))
    assert (result.env_step, result.info.gradient_step, result.unsaved) == (600, 135, None)
    with pytest.raises(ConfigError, match="connects only when it is asked for: --ray auto"):
        resume(run_dir, max_steps=700)
    assert resume(run_dir, max_steps=700, ray="auto").env_step == 700


def test_ppo_equals_the_run_in_one_process_to_the_bit(tmp_path):
    made = config("ppo", collect_steps=120, batch_size=32)
    train(replace(made, run_dir=tmp_path / "ray"))
    train_in_one_process(replace(made, ray=None, collectors=1, run_dir=tmp_path / "one"))
    ours, theirs = weights(tmp_path / "ray"), weights(tmp_path / "one")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_shard_and_a_collector_are_killed_in_the_middle():
    parts = build(replay())
    collectors = parts.train_collector
    try:
        collectors.collect(n_step=60, random=True)
        os.kill(collectors.buffer.shards[1].call("process").result(), signal.SIGKILL)
        with pytest.warns(RunWarning, match=r"replay shard 1 was lost, and its \d+ rows with it"):
            collectors.collect(n_step=200)
        collectors._members[0].actor.kill()
        with pytest.warns(RunWarning, match="collector 0 was lost"):
            collectors.collect(n_step=200)
        left = 600 - collectors.collect_step
        assert collectors.collect(n_step=left).n_collected_steps == left
        assert len(collectors.buffer.sample(16)[0]) == 16
        assert collectors.figures()["shards_lost"] == collectors.figures()["collectors_lost"] == 1.0
    finally:
        parts.close()


def test_a_learner_is_killed_in_the_middle(run_dir, monkeypatch):
    calls, update = [], Team.update

    def killing(team, *args):
        calls.append(len(team.workers))
        if len(calls) == 4:
            team.workers[0].kill()
        return update(team, *args)

    monkeypatch.setattr(Team, "update", killing)
    with pytest.warns(RunWarning, match="learner 1 was lost.*go back by .* gradient steps, to the last checkpoint"):
        result = train(replay(run_dir=run_dir, learners=2))
    assert (result.env_step, result.info.gradient_step) == (600, 135)


def test_what_a_constructor_raises_is_said_in_its_own_words(run_dir):
    from rlfast.experiment.run import ConfigError

    with pytest.raises(ConfigError, match="NoSuchEnv"):
        train(replay(env="NoSuchEnv-v0", run_dir=run_dir))
    assert not run_dir.exists()
