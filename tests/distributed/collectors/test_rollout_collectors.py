"""Several collectors of roll-outs, in this process, do what one collector does."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rlfast.distributed import resume, train
from rlfast.distributed.build import build
from rlfast.experiment import train as train_in_one_process
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.config import RunWarning
from rlfast.experiment.run import ConfigError


def config(name="ppo", collectors=None, **changes):
    made = ALGORITHMS[name].config(
        num_envs=6, collect_steps=120, max_steps=600, eval_interval=240, eval_envs=2, eval_episodes=2, batch_size=32,
        hidden_sizes=(8,), progress=False, repeat=2,
    )  # fmt: skip
    return replace(made, ray=collectors and "in-process", collectors=collectors or 1, **changes)


def outcome(run_dir):
    """The weights of a run, and its log without times."""
    from safetensors.torch import load_file

    rows = [line.split(",") for line in (run_dir / "metrics.csv").read_text().splitlines()]
    scores = [row for row in rows[1:] if row[0] in ("test", "update")]
    names = rows[0]
    timed = [place for place, name in enumerate(names) if "time" in name or "speed" in name]
    kept = [[value for place, value in enumerate(row) if place not in timed] for row in scores]
    return load_file(run_dir / "checkpoint" / "policy.safetensors"), kept


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("collectors", [1, 3])
def test_ppo_equals_the_run_in_one_process_to_the_bit(collectors, env, tmp_path):
    train_in_one_process(config(env=env, run_dir=tmp_path / "one"))
    train(config(env=env, run_dir=tmp_path / "several", collectors=collectors))
    (one, log), (several, other_log) = outcome(tmp_path / "one"), outcome(tmp_path / "several")
    assert same(one, several)
    assert log == other_log
    train(config(env=env, run_dir=tmp_path / "other", collectors=collectors, seed=1))
    assert not same(one, outcome(tmp_path / "other")[0])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a2c", {}),
        ("pqn", {}),
        ("ppo", {"recurrent": True}),
        ("ppo", {"env": "Pendulum-v1", "sde": True, "sde_sample_freq": 7}),
    ],
)
def test_other_algorithms_and_python_environments(name, options, tmp_path):
    given = {"backend": "in-process", **options}
    train_in_one_process(config(name, run_dir=tmp_path / "one", **given))
    train(config(name, run_dir=tmp_path / "several", collectors=2, **given))
    assert same(outcome(tmp_path / "one")[0], outcome(tmp_path / "several")[0])


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    train(config(run_dir=tmp_path / "whole", collectors=2))
    train(config(run_dir=tmp_path / "stopped", collectors=2, max_steps=240))
    resume(tmp_path / "stopped", max_steps=600)
    assert same(outcome(tmp_path / "whole")[0], outcome(tmp_path / "stopped")[0])


@pytest.fixture
def make():
    parts = []

    def made(**changes):
        parts.append(build(config(collectors=3, **changes)))
        return parts[-1].train_collector

    yield made
    for one in parts:
        one.close()


def test_episodes_are_in_the_order_of_one_collector(make):
    one = build(config())
    theirs = one.train_collector.collect(n_step=600)
    one.close()
    ours = make(collect_steps=600).collect(n_step=600)
    assert ours.n_collected_steps == 600
    assert ours.n_collected_episodes == len(ours.lens) > 10
    np.testing.assert_array_equal(ours.lens, theirs.lens)
    np.testing.assert_array_equal(ours.returns, theirs.returns)


def test_rows_are_in_the_rings_of_their_environments(make):
    one = build(config())
    one.train_collector.collect(n_step=120)
    collectors = make()
    collectors.collect(n_step=120)
    ours, theirs = collectors.buffer[collectors.buffer.sample_indices(0)], one.train_collector.buffer
    np.testing.assert_array_equal(ours.obs, theirs[theirs.sample_indices(0)].obs)
    collectors.reset_buffer()
    assert len(collectors.buffer) == 0
    one.close()


def test_a_lost_collector_is_replaced_and_the_roll_out_is_whole(make):
    collectors = make()
    collectors.collect(n_step=120)
    collectors._cluster.actors[1].kill()
    with pytest.warns(RunWarning, match="collector 1 was lost"):
        assert collectors.collect(n_step=120).n_collected_steps == 120
    assert collectors.figures()["collectors_lost"] == 1.0
    assert collectors.collect(n_step=120).n_collected_steps == 120


def test_a_collector_that_never_works_ends_the_run(make):
    collectors = make()

    def dying(number, restarts):
        actor = collectors._cluster.actors[0]
        actor.kill()
        return actor

    collectors._restart = dying
    collectors._cluster.actors[0].kill()
    with pytest.warns(RunWarning), pytest.raises(RuntimeError, match="collector 0 has ended 5 times in a row"):
        collectors.collect(n_step=120)


def test_a_policy_whose_draws_depend_on_its_environments_is_an_error(make):
    collectors = make()
    policy = collectors._cluster.actors[1].target.policy

    def forward(self, *args, **kwargs):
        torch.rand(1)
        self._torch_rng.manual_seed(3)
        return super(type(self), self).forward(*args, **kwargs)

    policy.__class__ = type("Own", (type(policy),), {"forward": forward})
    with pytest.raises(RuntimeError, match="different numbers of random numbers"):
        collectors.collect(n_step=120)


@pytest.mark.parametrize("given", [{}, {"n_episode": 3}])
def test_collects_are_of_steps(make, given):
    with pytest.raises(TypeError, match="give n_step"):
        make().collect(**given)
    with pytest.raises(ValueError, match="n_step=100 must be a multiple of the 6 environments"):
        make().collect(n_step=100)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": 2}, "--shards 2 are for algorithms with a replay buffer"),
        ({"learners": 2}, "--learners 2 are for algorithms with a replay buffer"),
        ({"num_envs": 8, "collect_steps": 120}, "--collectors 3 must share the --num-envs 8 evenly"),
        ({"max_steps": 601}, "--max-steps 601 must be a multiple of the --num-envs 6"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_written(changes, message, run_dir):
    with pytest.raises(ConfigError, match=message):
        train(config(collectors=3, run_dir=run_dir, **changes))
    assert not run_dir.exists()
