import numpy as np
import pytest

from rlfast.data import PrioritizedVectorReplayBuffer, Sequence, VectorReplayBuffer
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.run import ConfigError, train


def parts_of(**changes):
    return build(ALGORITHMS["r2d2"].config(buffer_size=200, progress=False, **{"hidden_sizes": (8,), **changes}))


def test_settings_reach_their_parts():
    parts = parts_of(
        learning_rate=0.25,
        gamma=0.5,
        n_step=2,
        target_update_freq=7,
        double=False,
        eta=0.5,
        rescaling=0.125,
        max_grad_norm=3.0,
        sequence_length=5,
        burn_in=2,
        alpha=0.75,
        beta=0.25,
        beta_end=0.5,
        beta_steps=100,
    )
    policy, buffer = parts.policy, parts.train_collector.buffer
    assert policy.optim.defaults["lr"] == 0.25
    assert (policy.gamma, policy.n_step, policy.freq, policy.is_double) == (0.5, 2, 7, False)
    assert (policy.eta, policy.rescaling, policy.max_grad_norm) == (0.5, 0.125, 3.0)
    assert isinstance(buffer, PrioritizedVectorReplayBuffer)
    assert (buffer.options["unit"], buffer.stack_num) == (Sequence(5, 2), 1)
    assert (buffer.options["alpha"], buffer.options["beta"]) == (0.75, 0.25)
    assert policy.model.Q is not None
    parts.before_collect(0, 50)
    assert buffer._beta == pytest.approx(0.375)
    parts.close()


def test_without_priorities_and_streams():
    parts = parts_of(prioritized=False, dueling=False)
    assert type(parts.train_collector.buffer) is VectorReplayBuffer
    assert parts.policy.model.Q is None
    parts.close()


def test_it_learns_from_sequences_of_what_is_seen():
    parts = parts_of(observe=(0, 2), sequence_length=4, burn_in=3)
    collector = parts.train_collector
    collector.collect(n_step=80, reset_before_collect=True)
    batch, _ = collector.buffer.sample(6)
    assert batch.obs.shape == (6, 7, 2)
    assert batch.policy.hidden_state.hidden.shape == (6, 7, 1, 8)
    assert np.isfinite(parts.policy.update(6, collector.buffer).loss)
    parts.close()


def test_random_actions_become_rare():
    parts = parts_of(eps_start=1.0, eps_end=0.5, eps_steps=100)
    seen = []
    for step in (0, 50, 100):
        parts.before_collect(0, step)
        seen.append(parts.policy.eps)
    assert seen == [1.0, 0.75, 0.5]
    parts.close()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"observe": (0, 4)}, r"--observe \[0, 4\] names places of a vector"),
        ({"env": "Pendulum-v1"}, "R2D2 needs discrete actions"),
    ],
)
def test_what_is_refused(run_dir, changes, match):
    config = ALGORITHMS["r2d2"].config(hidden_sizes=(8,), buffer_size=200, progress=False, run_dir=run_dir, **changes)
    with pytest.raises(ConfigError, match=match):
        train(config)


@pytest.mark.parametrize("name", ["compile", "recurrent"])
def test_it_always_has_a_memory_and_no_graph(name):
    with pytest.raises((TypeError, ValueError), match=name):
        ALGORITHMS["r2d2"].config(**{name: name == "compile"})
