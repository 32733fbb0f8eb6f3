"""What settings change beside the arguments of policies: networks, buffers, noise, temperatures and schedules."""

import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rlfast.data import PrioritizedVectorReplayBuffer, Sequence, VectorReplayBuffer
from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.exploration import GaussianNoise, OUNoise
from rlfast.utils.net.discrete import NoisyLinear

REFUSED = [
    *((name, {"env": "Pendulum-v1"}, "{} needs discrete actions, and those of Pendulum-v1 are Box")
      for name in ("c51", "qrdqn", "iqn", "fqf", "drqn", "r2d2", "discrete-sac")),
    *((name, {"env": "CartPole-v1"}, "{} needs continuous actions, and those of CartPole-v1 are Discrete")
      for name in ("bdq", "ddpg", "td3", "sac", "redq", "tqc", "droq", "crossq", "xqc")),
    *((name, {"recurrent": True}, "{} does not support --recurrent") for name in ("c51", "qrdqn", "bdq")),
    *((name, {"dueling": True}, "{} does not support --dueling") for name in ("iqn", "fqf", "bdq")),
    *((name, {"hidden_sizes": ()}, "{} needs a hidden layer: give --hidden-sizes") for name in ("iqn", "fqf")),
    *((name, {"observe": (0, 4)}, r"--observe \[0, 4\] names places of a vector") for name in ("drqn", "r2d2")),
    ("drqn", {"recurrent": False}, "DRQN needs a memory"),
    ("bdq", {"choices": 1}, "--choices must be at least 2, got 1"),
]  # fmt: skip


ATOMS = {"c51": "num_atoms", "rainbow": "num_atoms", "qrdqn": "num_quantiles"}


@pytest.mark.parametrize(("name", "changes", "message"), REFUSED)
def test_refused(short, name, changes, message):
    config = short(name, **changes)
    with pytest.raises(ConfigError, match=message.format(ALGORITHMS[name].title)):
        train(config)


@pytest.mark.parametrize("name", ["iqn", "fqf"])
def test_quantile_networks(parts_of, name):
    model = parts_of(name, num_cosines=6, hidden_sizes=(9, 8)).policy.model
    assert model.embed_model.num_cosines == 6
    assert [parameter.shape[0] for parameter in model.last.parameters()] == [8, 8, 2, 2]


def test_fraction_network(parts_of):
    policy = parts_of("fqf", num_fractions=5, fraction_learning_rate=0.5).policy
    assert (policy.fraction_model.num_fractions, policy.fraction_optim.defaults["lr"]) == (5, 0.5)


@pytest.mark.parametrize(
    ("name", "atoms"), [("c51", "num_atoms"), ("rainbow", "num_atoms"), ("qrdqn", "num_quantiles")]
)
def test_distribution_has_as_many_outputs(parts_of, name, atoms):
    obs = torch.zeros(3, 4)
    assert parts_of(name, **{atoms: 5}).policy.model(obs)[0].shape == (3, 2, 5)


@pytest.mark.parametrize(("dueling", "expected"), [(True, 4), (False, 2)])
def test_noisy_layers(parts_of, dueling, expected):
    model = parts_of("rainbow", noisy_std=0.25, dueling=dueling).policy.model
    assert [layer.sigma for layer in model.modules() if isinstance(layer, NoisyLinear)] == [0.25] * expected


def test_branches_store_choices(parts_of):
    parts = parts_of("bdq", choices=3)
    parts.train_collector.collect(n_step=16, random=True)
    act = parts.train_collector.buffer.sample(0)[0].act
    assert act.shape[1:] == (1,)
    assert set(act.flatten().tolist()) == {0, 1, 2}


@pytest.mark.parametrize(("name", "options"), [("rainbow", {}), ("dqn", {"prioritized": True}), ("r2d2", {})])
def test_priorities_and_their_schedule(parts_of, name, options):
    parts = parts_of(name, alpha=0.75, beta=0.5, beta_end=1.0, beta_steps=100, **options)
    buffer = parts.train_collector.buffer
    assert type(buffer) is PrioritizedVectorReplayBuffer
    assert (buffer.maxsize, buffer.buffer_num, buffer.options["alpha"], buffer.options["beta"]) == (200, 2, 0.75, 0.5)
    for step, expected in ((0, 0.5), (50, 0.75), (100, 1.0), (1000, 1.0)):
        parts.before_collect(1, step)
        assert buffer._beta == expected


@pytest.mark.parametrize("name", ["dqn", "rainbow", "r2d2"])
def test_random_actions_become_rare(parts_of, name):
    parts, seen = parts_of(name, eps_start=1.0, eps_end=0.5, eps_steps=100), []
    for step in (0, 50, 100):
        parts.before_collect(0, step)
        seen.append(parts.policy.eps)
    assert seen == [1.0, 0.75, 0.5]
    assert ALGORITHMS["rainbow"].config().eps_start == 0.0


@pytest.mark.parametrize("name", ["dqn", "r2d2"])
def test_uniform_replay_and_streams(parts_of, name):
    parts = parts_of(name, prioritized=False, dueling=False)
    assert type(parts.train_collector.buffer) is VectorReplayBuffer
    assert [parts_of(name, dueling=dueling).policy.model.V is None for dueling in (True, False)] == [False, True]
    assert parts.train_collector.exploration_noise
    assert not parts.test_collector.exploration_noise


def test_drqn_stacks(parts_of):
    parts = parts_of("drqn", observe=(0, 2), burn_in=2, prioritized=True)
    collector = parts.train_collector
    assert collector.buffer.stack_num == 3
    whole = parts_of("dqn").train_collector.env.reset()[0]
    assert np.array_equal(collector.env.reset()[0], whole[:, [0, 2]])
    collector.collect(n_step=80, reset_before_collect=True)
    batch, _ = collector.buffer.sample(6)
    assert batch.obs.shape == (6, 3, 2)
    assert batch.policy.hidden_state.hidden.shape[0] == 6
    assert np.isfinite(parts.policy.update(6, collector.buffer).loss)


def test_r2d2_sequences(parts_of):
    parts = parts_of("r2d2", observe=(0, 2), sequence_length=4, burn_in=3)
    collector = parts.train_collector
    assert (collector.buffer.options["unit"], collector.buffer.stack_num) == (Sequence(4, 3), 1)
    collector.collect(n_step=80, reset_before_collect=True)
    batch, _ = collector.buffer.sample(6)
    assert batch.obs.shape == (6, 7, 2)
    assert batch.policy.hidden_state.hidden.shape == (6, 7, 1, 8)
    assert np.isfinite(parts.policy.update(6, collector.buffer).loss)


@pytest.mark.parametrize("name", ["compile", "recurrent"])
def test_r2d2_always_has_a_memory_and_no_graph(name):
    with pytest.raises((TypeError, ValueError), match=name):
        ALGORITHMS["r2d2"].config(**{name: name == "compile"})


@pytest.mark.parametrize("name", ["ddpg", "td3"])
def test_noise(parts_of, name):
    noise = parts_of(name, noise=0.75).policy._exploration_noise
    assert (type(noise), noise._sigma) == (GaussianNoise, 0.75)
    noise = parts_of(name, noise_process="ornstein-uhlenbeck", noise=0.5).policy._exploration_noise
    assert (type(noise), noise._spread, noise._pull) == (OUNoise, 0.5, 0.15)


@pytest.mark.parametrize(
    ("name", "usual"),
    [
        ("discrete-sac", 0.98 * math.log(2)),
        *((name, -1.0) for name in ("sac", "redq", "tqc", "droq", "crossq")),
        ("xqc", -0.5),
    ],
)
def test_temperature(parts_of, name, usual):
    policy = parts_of(name, alpha=0.5, alpha_learning_rate=0.75).policy
    assert float(policy.alpha) == pytest.approx(0.5)
    assert (policy.target_entropy, policy.alpha_optim.defaults["lr"]) == (pytest.approx(usual), 0.75)
    assert parts_of(name, target_entropy=0.25).policy.target_entropy == 0.25
    fixed = parts_of(name, auto_alpha=False, alpha=0.25).policy
    assert (fixed.alpha, fixed.is_auto_alpha) == (0.25, False)


@pytest.mark.parametrize("name", ["discrete-sac", "sac"])
def test_actor_and_critics_share_nothing(parts_of, name):
    policy = parts_of(name).policy
    networks = [{id(p) for p in network.parameters()} for network in (policy.actor, policy.critic, policy.critic2)]
    assert len(set.union(*networks)) == sum(map(len, networks))


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("noise_process", ["normal", "ornstein-uhlenbeck"])
def test_repeated_and_resumed_run_are_equal(short, tmp_path, noise_process):
    def weights(name):
        return load_file(tmp_path / name / "checkpoint" / "policy.safetensors")

    for number, steps in enumerate((80, 80, 40)):
        torch.manual_seed(number)  # what else a process did must not matter
        folder = tmp_path / str(number)
        result = train(short("ddpg", run_dir=folder, max_steps=steps, noise_process=noise_process))
        assert result.info.gradient_step == (steps - 20) // 2
    assert resume(tmp_path / "2", max_steps=80).env_step == 80
    for other in ("1", "2"):
        assert all(torch.equal(value, weights(other)[name]) for name, value in weights("0").items())
