"""Runs that learn from data."""

import re
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch

from experiment.test_data import rows_of
from experiment.test_run import parameter_hash
from rlfast.cli.data import main
from rlfast.data import Batch, ReplayBuffer
from rlfast.experiment import ALGORITHMS, evaluate, load
from rlfast.experiment.build import build
from rlfast.experiment.gather import gather
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer

CONTINUOUS = ("il", "td3-bc", "rebrac", "iql", "cql", "bcq")
DISCRETE = ("discrete-bcq", "discrete-cql", "discrete-crr")


@pytest.fixture
def tiny(tmp_path):
    def make(name, **changes):
        env = "CartPole-v1" if name in DISCRETE else "Pendulum-v1"
        path = tmp_path / "data"
        if not path.exists():
            discrete_rows().save(path) if name in DISCRETE else rows_of(60, ends=(9, 30), truncated=(45,)).save(path)
        size = {"max_steps": 16, "eval_interval": 8, "eval_episodes": 2, "eval_envs": 2, "hidden_sizes": (8,)}
        run = {"env": env, "data": str(path), "run_dir": tmp_path / "run", "progress": False, "batch_size": 8}
        return replace(ALGORITHMS[name].config(), **run | size | changes)

    return make


def discrete_rows():
    rng, buffer = np.random.default_rng(0), ReplayBuffer(60)
    for t in range(60):
        obs, obs_next = rng.normal(size=(2, 4)).astype(np.float32)
        buffer.append(obs=obs, act=t % 2, rew=1.0, terminated=t % 20 == 19, truncated=False, obs_next=obs_next)
    return buffer


def stopped_at(steps, trainer, counter, monkeypatch):
    """Make trainers stop once, at a number of steps."""
    update = trainer.policy_update_fn

    def stopping(self, *args):
        told = update(self, *args)
        if getattr(self, counter) == steps:
            self.stop()
        return told

    monkeypatch.setattr(trainer, "policy_update_fn", stopping)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_a_resumed_run_equals_an_uninterrupted_one(tiny, name, tmp_path, monkeypatch):
    config = tiny(name)
    straight = train(replace(config, run_dir=tmp_path / "straight"))
    assert (straight.info.gradient_step, straight.env_step) == (16, 128)
    assert straight.info.train_step == 0  # nothing was collected
    assert "environment steps" not in straight.summary()
    with monkeypatch.context() as patch:
        stopped_at(11, OfflineTrainer, "gradient_step", patch)
        assert train(replace(config, run_dir=tmp_path / "stopped")).info.gradient_step == 11
    torch.manual_seed(5)
    assert resume(tmp_path / "stopped").info.gradient_step == 16
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)


@pytest.mark.parametrize("name", ["td3-bc", "discrete-cql"])
def test_rewards_of_the_data_are_scaled(tiny, name):
    config = tiny(name)
    plain, scaled = (build(replace(config, reward_scale=scale)).trainer.keywords["buffer"] for scale in (1.0, 0.25))
    assert scaled.rew.tolist() == (plain.rew * 0.25).tolist()
    assert scaled.obs_next.tolist() == plain.obs_next.tolist()


@pytest.mark.parametrize("name", [name for name in CONTINUOUS if name != "il"])
def test_critics_are_normalized_on_request(tiny, name):
    def layers(network):
        return [type(layer) for layer in network.modules()].count(torch.nn.LayerNorm)

    for asked in (False, True):
        policy = build(tiny(name, layer_norm=asked, hidden_sizes=(8, 8))).policy
        actor = policy.actor_perturbation if name == "bcq" else policy.actor
        assert [layers(net) for net in (policy.critic, policy.critic2, actor)] == [2 * asked, 2 * asked, 0]


@pytest.mark.parametrize("rate", [None, 0.25])
@pytest.mark.parametrize("imitation_steps", [0, 2])
def test_cqls_actor_may_learn_slower_after_it_has_imitated(tiny, rate, imitation_steps):
    config = tiny("cql", learning_rate=0.5, actor_learning_rate=rate, imitation_steps=imitation_steps)
    parts = build(config)
    policy, buffer = parts.policy, parts.trainer.keywords["buffer"]
    policy.process_buffer(buffer)
    rates = []
    for _ in range(4):
        rates.append([optim.param_groups[0]["lr"] for optim in (policy.critic_optim, policy.actor_optim)])
        policy.update(8, buffer)
    slow = 0.5 if rate is None else rate
    assert rates == [[0.5, 0.5 if step < imitation_steps else slow] for step in range(4)]
    assert policy.imitation_steps == imitation_steps


def test_a_run_of_cql_resumes_after_its_imitation(tiny, tmp_path):
    config = tiny("cql", actor_learning_rate=1e-4, imitation_steps=12)
    straight = train(replace(config, run_dir=tmp_path / "straight"))
    train(replace(config, max_steps=8, run_dir=tmp_path / "stopped"))
    resume(tmp_path / "stopped", max_steps=16)
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)


def test_gail_learns_in_its_environment(tiny, tmp_path):
    config = replace(tiny("gail"), max_steps=64, collect_steps=32, num_envs=2, eval_interval=64)
    result = train(config)
    assert result.info.train_step == 64
    assert len(build(config).policy.expert_buffer) == 60
    assert evaluate(config.run_dir, 2).n_collected_episodes == 2  # without the data


@pytest.mark.parametrize("name", ["normalize_obs", "normalize_reward"])
def test_gail_takes_no_setting_that_it_does_not_use(tiny, name):
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} must be one of False, got True"):
        tiny("gail", **{name: True})


def test_a_resumed_run_of_gail_equals_an_uninterrupted_one(tiny, tmp_path, monkeypatch):
    config = replace(tiny("gail"), max_steps=128, collect_steps=32, num_envs=2, eval_interval=64)
    straight = train(replace(config, run_dir=tmp_path / "straight"))
    assert straight.env_step == 128
    with monkeypatch.context() as patch:
        stopped_at(96, OnpolicyTrainer, "env_step", patch)  # between two tests
        assert train(replace(config, run_dir=tmp_path / "stopped")).env_step == 96
    torch.manual_seed(5)
    resumed = resume(tmp_path / "stopped")
    assert resumed.env_step == 128
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)
    assert resumed.test.returns.tolist() == straight.test.returns.tolist()


RLPD = {"max_steps": 64, "start_steps": 16, "buffer_size": 40, "updates_per_step": 0.5, "actor_delay": 2}


@pytest.mark.parametrize("changes", [{}, {"estimation_step": 3, "num_envs": 2, "collect_steps": 2}])
def test_a_resumed_run_of_rlpd_equals_an_uninterrupted_one(tiny, tmp_path, monkeypatch, changes):
    config = tiny("rlpd", **RLPD, **changes)
    straight = train(replace(config, run_dir=tmp_path / "straight"))
    assert (straight.env_step, straight.info.gradient_step) == (64, 24)
    with monkeypatch.context() as patch:
        stopped_at(50, OffpolicyTrainer, "env_step", patch)
        assert train(replace(config, run_dir=tmp_path / "stopped")).env_step == 50
    torch.manual_seed(5)
    assert resume(tmp_path / "stopped").env_step == 64
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)
    other = train(replace(config, run_dir=tmp_path / "other", data_share=0.25))
    assert parameter_hash(other.run_dir) != parameter_hash(straight.run_dir)


def test_rlpd_draws_half_of_a_batch_from_the_data(tiny):
    parts = build(tiny("rlpd", **RLPD))
    trainer = parts.trainer(policy=parts.policy, max_epoch=1, step_per_epoch=9, train_collector=parts.train_collector)
    parts.train_collector.collect(n_step=4, random=True, reset_before_collect=True)
    own = parts.train_collector.buffer
    assert len(trainer.buffer) == 60
    batch, indices = trainer._replay().sample(8)
    assert (indices < own.maxsize).sum() == 4
    assert np.array_equal(batch.obs[4:], trainer.buffer[indices[4:] - own.maxsize].obs)


@pytest.mark.parametrize("name", ["normalize_obs", "normalize_reward", "recurrent"])
def test_rlpd_takes_no_setting_that_data_cannot_have(tiny, name):
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} must be one of False, got True"):
        tiny("rlpd", **{name: True})


def test_rlpd_needs_data(tiny):
    with pytest.raises(ConfigError, match="--data is needed: RLPD learns from a buffer's file or a dataset"):
        train(tiny("rlpd", data=None))


def test_the_temperature_of_rlpd(tiny):
    assert build(tiny("rlpd")).policy.target_entropy == -0.5
    assert build(tiny("rlpd", target_entropy=-3.0)).policy.target_entropy == -3.0


def test_observations_are_scaled_in_tests_and_in_evaluation_as_the_data_were(tiny, tmp_path):
    seen, config = [], tiny("il", normalize_obs=True, max_steps=8)
    parts = build(config)
    trainer = parts.trainer(policy=parts.policy, max_epoch=1, step_per_epoch=4, show_progress=False)
    assert isinstance(trainer, OfflineTrainer)
    assert trainer.buffer.obs.mean() == pytest.approx(0, abs=1e-6)
    raw = ReplayBuffer.load(config.data)
    parts.policy.actor.register_forward_pre_hook(lambda _, given: seen.append(np.asarray(given[0])))
    parts.test_collector.reset_env({"seed": 3})
    parts.test_collector.collect(n_step=2)
    parts.close()
    first = gym.make("Pendulum-v1").reset(seed=3)[0]
    assert seen[0][0] == pytest.approx((first - raw.obs.mean(axis=0)) / raw.obs.std(axis=0), abs=1e-4)
    result = train(config)
    returns = evaluate(result.run_dir, 3).returns
    assert evaluate(result.run_dir, 3).returns.tolist() == returns.tolist()
    (tmp_path / "data").unlink()  # which only training needs
    assert evaluate(result.run_dir, 3).returns.tolist() == returns.tolist()


def test_what_is_missing_or_wrong_is_said_before_anything_starts(tiny, tmp_path):
    with pytest.raises(ConfigError, match="--data is needed: IL learns from"):
        train(tiny("il", data=None))
    with pytest.raises(ConfigError, match="there is no file"):
        train(tiny("il", data="gone.hdf5"))
    with pytest.raises(ConfigError, match=r"observations in .* those of the environment"):
        train(tiny("il", env="CartPole-v1"))
    assert not (tmp_path / "run").exists()


def test_settings_reach_their_parts(tiny):
    def built(name, **changes):
        parts = build(tiny(name, **changes))
        parts.close()
        return parts.policy

    cql = built("cql")
    assert (cql.is_auto_alpha, cql.alpha.item(), cql.target_entropy) == (True, 1.0, -1.0)
    assert built("cql", alpha=0.5, target_entropy=-3.0).target_entropy == -3.0
    fixed = built("cql", alpha=0.5, auto_alpha=False)
    assert (fixed.is_auto_alpha, fixed.alpha) == (False, 0.5)
    assert built("bcq", phi=0.25).actor_perturbation.phi == 0.25


def test_gathering(tiny, tmp_path, capsys):
    run = train(tiny("il")).run_dir
    kinds = {"plain": {}, "noisy": {"noise": 0.5}, "random": {"eps": 1.0}}
    actions = {}
    for name, options in kinds.items():
        stats = gather(run, 450, tmp_path / name, **options)
        buffer = ReplayBuffer.load(tmp_path / name)
        assert stats.n_collected_steps == len(buffer) == 450
        assert (np.abs(buffer.act) <= 1).all()
        actions[name] = np.asarray(buffer.act).flatten()
        assert np.flatnonzero(buffer.terminated | buffer.truncated).tolist() == [199, 399, 449]
    policy = build(tiny("il")).policy
    assert policy.action_type == "continuous"
    assert len({tuple(one) for one in actions.values()}) == 3
    assert actions["random"].std() == pytest.approx(1 / 3**0.5, abs=0.05)
    again = tmp_path / "again.hdf5"
    assert main(["gather", str(run), "--steps", "450", "--noise", "0.5", "--out", str(again)]) == 0
    shown = r"450 transitions, 2 episodes, return -.*; 50 transitions are of episodes that were cut at the end\n"
    assert re.fullmatch(shown, capsys.readouterr().out)
    assert np.array_equal(ReplayBuffer.load(tmp_path / "noisy").act, load_hdf5(again).act)  # by the same seed
    capsys.readouterr()
    assert main(["info", str(again)]) == 0
    assert capsys.readouterr().out.startswith("450 transitions, 3 episodes, return -")
    gather(run, 1_601, tmp_path / "both")  # rounded up for both environments, without a warning
    buffer = ReplayBuffer.load(tmp_path / "both")
    assert np.flatnonzero(buffer.truncated).tolist() == [199, 399, 599, 799, 800, 1_000, 1_200, 1_400, 1_600, 1_601]
    with pytest.raises(ValueError, match="eps in "):
        gather(run, 450, tmp_path / "x", eps=1.5)


def test_gathered_observations_are_those_of_the_environment(tmp_path):
    run = {"env": "Pendulum-v1", "run_dir": tmp_path / "run", "progress": False, "hidden_sizes": (8,), "batch_size": 4}
    size = {"num_envs": 2, "max_steps": 800, "eval_interval": 800, "eval_episodes": 1, "eval_envs": 1}
    train(ALGORITHMS["ppo"].config(**run | size, normalize_obs=True, collect_steps=200))
    gather(tmp_path / "run", 200, tmp_path / "rows")
    buffer, policy = ReplayBuffer.load(tmp_path / "rows"), load(tmp_path / "run")
    assert np.linalg.norm(buffer.obs[:, :2], axis=1) == pytest.approx(1, abs=1e-5)  # a sine and a cosine
    acted = policy.map_action(policy(Batch(obs=buffer.obs, info={})).act.detach().numpy())
    assert policy.map_action(buffer.act) == pytest.approx(acted, abs=1e-5)


def test_gathering_sees_what_the_run_observed(tmp_path):
    run = {"env": "CartPole-v1", "run_dir": tmp_path / "run", "progress": False, "hidden_sizes": (8,), "batch_size": 2}
    size = {"num_envs": 2, "max_steps": 200, "start_steps": 100, "eval_interval": 200, "eval_episodes": 1}
    train(ALGORITHMS["drqn"].config(**run | size, observe=(2, 0), normalize_obs=True, eval_envs=1))
    gather(tmp_path / "run", 100, tmp_path / "rows")
    buffer = ReplayBuffer.load(tmp_path / "rows")
    assert buffer.obs.shape == (100, 2)
    assert abs(buffer.obs).max(axis=0) == pytest.approx([0.1, 0.1], abs=0.15)  # without normalization, near 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_named(bad, tmp_path, capsys):
    buffer = ReplayBuffer(10)
    for i in range(10):
        buffer.add(Batch(obs=i, act=0, rew=bad if i == 7 else 1.0, terminated=i == 4, truncated=False, obs_next=i + 1))
    buffer.save(tmp_path / "data")
    assert main(["info", str(tmp_path / "data")]) == 2
    message = f"rlfast: reward 7, from 0, is {bad}: correct it, or drop its episode\n"
    assert capsys.readouterr().err == message


def load_hdf5(path):
    from rlfast.data import VectorReplayBuffer

    return VectorReplayBuffer.load_hdf5(path)


def test_noise_is_for_continuous_actions(tiny, tmp_path, capsys):
    run = train(tiny("discrete-bcq")).run_dir
    with pytest.raises(ValueError, match="noise is for continuous actions"):
        gather(run, 40, tmp_path / "x", noise=0.5)
    gather(run, 40, tmp_path / "y", eps=0.5)
    assert {*ReplayBuffer.load(tmp_path / "y").act} == {0, 1}
    assert Batch(act=ReplayBuffer.load(tmp_path / "y").act).act.dtype == np.int64


@pytest.mark.parametrize("options", [{}, {"prioritized": True}])
def test_gathering_with_a_policy_that_learned_from_a_buffer_of_several_environments(tmp_path, options):
    size = {"num_envs": 4, "max_steps": 40, "start_steps": 16, "eval_interval": 40, "eval_episodes": 1, "eval_envs": 1}
    run = {"env": "CartPole-v1", "run_dir": tmp_path / "run", "progress": False, "hidden_sizes": (8,), "batch_size": 4}
    train(ALGORITHMS["dqn"].config(**run | size | options, buffer_size=40, collect_steps=8))
    gather(tmp_path / "run", 30, tmp_path / "rows")
    assert len(ReplayBuffer.load(tmp_path / "rows")) == 30


@pytest.mark.parametrize(
    "arguments", [[], ["scatter"], ["info", "gone.hdf5"], ["gather", "gone", "--steps", "3", "--out", "x"]]
)
def test_bad_commands(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("rlfast: ")


def test_help(capsys):
    assert main(["--help"]) == 0
    assert "gather" in capsys.readouterr().out
