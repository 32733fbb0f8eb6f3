"""Prioritized replay inside SB3: the rows that are drawn, their weights, and a DQN that learns from them."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from stable_baselines3 import DQN

from interop.sb3.comparing import assert_same
from interop.streams import ACTIONS, OBSERVATIONS, steps
from rlfast.interop import sb3

NUMBER, DISCRETE = spaces.Box(-1000, 1000, (1,)), spaces.Discrete(2)
SMALL = {"policy_kwargs": {"net_arch": [16]}, "learning_starts": 20, "buffer_size": 200, "seed": 0, "device": "cpu"}


def numbered(capacity, count, envs=1, **kwargs):
    """A buffer whose observations number its rows."""
    buffer = sb3.PrioritizedReplayBuffer(capacity, NUMBER, DISCRETE, device="cpu", n_envs=envs, **kwargs)
    add(buffer, range(count), envs)
    return buffer


def add(buffer, numbers, envs=1):
    for i in numbers:
        obs = np.full((envs, 1), i) + 100 * np.arange(envs)[:, None]
        buffer.add(obs, obs + 0.5, np.zeros(envs, int), np.ones(envs), np.zeros(envs, bool), [{}] * envs)


def prioritize(buffer, priorities):
    """Gives each row that is drawn the priority of its number."""
    for _ in range(50):
        batch = buffer.sample(64)
        buffer.update_priorities(batch.indices, th.tensor([priorities[int(i)] for i in batch.observations[:, 0]]))


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_draws_follow_priorities(alpha):
    buffer = numbered(4, 4, alpha=alpha, beta=1.0)
    prioritize(buffer, [1.0, -4.0, 9.0, 0.0])
    batch = buffer.sample(40_000)
    share = np.bincount(batch.observations[:, 0].int().numpy(), minlength=4) / 40_000
    wanted = np.array([1.0, 4.0, 9.0, 0.0]) ** alpha
    np.testing.assert_allclose(share[:3], wanted[:3] / wanted.sum(), atol=0.01)
    assert share[3] < 0.001
    assert batch.weights.dtype == th.float32
    assert batch.weights.shape == (40_000, 1)


def test_weights_take_the_bias_back():
    buffer = numbered(3, 3, alpha=1.0, beta=0.5)
    prioritize(buffer, [1.0, 4.0, 16.0])
    batch = buffer.sample(200)
    wanted = np.array([1.0, 0.5, 0.25])[batch.observations[:, 0].int().numpy()]
    np.testing.assert_allclose(batch.weights[:, 0].numpy(), wanted, rtol=1e-5)
    buffer.beta = 0.0
    assert set(buffer.sample(200).weights[:, 0].tolist()) == {1.0}


@pytest.mark.pitfall("C6")
def test_stale_priority_is_ignored():
    buffer = numbered(4, 4, alpha=1.0)
    batch = buffer.sample(8)
    add(buffer, range(4, 8))
    buffer.update_priorities(batch.indices, np.full(8, 1e6))
    assert buffer.stale_updates == 8
    assert set(buffer.sample(8).weights[:, 0].tolist()) == {1.0}


@pytest.mark.pitfall("C5")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_errors_change_nothing(bad):
    buffer = numbered(4, 4)
    batch = buffer.sample(2)
    with pytest.raises(ValueError, match="position 1"):
        buffer.update_priorities(batch.indices, [1.0, bad])
    assert set(buffer.sample(8).weights[:, 0].tolist()) == {1.0}


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("obs", ["box", "image", "dict"])
@pytest.mark.parametrize("envs", [1, 3])
def test_prioritized_rows_equal_uniform_rows(envs, obs, n_steps):
    space = OBSERVATIONS[obs]
    more = {"n_steps": n_steps, "gamma": 0.9} if n_steps > 1 else {}
    buffer = sb3.PrioritizedReplayBuffer(20, space, DISCRETE, n_envs=envs, device="cpu", **more)
    kind = sb3.NStepReplayBuffer if n_steps > 1 else sb3.ReplayBuffer
    plain = kind(20, space, DISCRETE, n_envs=envs, device="cpu", **more)
    for step in steps(space, ACTIONS["discrete"], envs, 30):
        buffer.add(*step)
        plain.add(*step)
        batch = buffer.sample(8)
        for name, part in plain._samples(np.array(batch.indices), None)._asdict().items():
            assert_same(getattr(batch, name), part, name)


def test_draws_repeat_with_the_seed():
    draws = []
    for _ in range(2):
        np.random.seed(3)
        draws.append(np.array(numbered(50, 50).sample(20).indices))
    assert draws[0].tolist() == draws[1].tolist()


def test_bad_arguments():
    for kwargs in ({"alpha": 0.0}, {"alpha": -1.0}, {"beta": -0.1}, {"n_steps": 0}):
        with pytest.raises(ValueError, match="must be"):
            numbered(4, 0, **kwargs)
    with pytest.raises(ValueError, match="nothing to sample"):
        numbered(4, 0).sample(1)


def test_priorities_that_are_never_updated_are_warned_of():
    buffer = numbered(8, 8)
    for _ in range(99):
        buffer.sample(4)
    buffer.update_priorities(np.arange(4), np.ones(4))
    for _ in range(99):
        buffer.sample(4)
    with pytest.warns(UserWarning, match=r"^100 samples were drawn without update_priorities\(\)"):
        buffer.sample(4)
    buffer.sample(4)


def test_the_hosts_dqn_is_warned_of_priorities_that_it_does_not_update():
    options = SMALL | {"replay_buffer_class": sb3.PrioritizedReplayBuffer, "train_freq": 1}
    with pytest.warns(UserWarning, match="take PrioritizedDQN, or ReplayBuffer for uniform sampling"):
        DQN("MlpPolicy", "CartPole-v1", **options).learn(130)


# -- learning ----------------------------------------------------------------------------------------------------------


def test_dqn_learns_by_priority():
    model = sb3.PrioritizedDQN("MlpPolicy", "CartPole-v1", **SMALL, replay_buffer_kwargs={"alpha": 0.7, "beta": 0.3})
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(300)
    buffer = model.replay_buffer
    assert isinstance(buffer, sb3.PrioritizedReplayBuffer)
    assert (buffer.alpha, buffer.initial_beta, buffer.beta) == (0.7, 0.3, 1.0)
    assert len(set(buffer.sample(200).weights[:, 0].tolist())) > 20
    assert any(not th.equal(value, before[key]) for key, value in model.policy.state_dict().items())


@pytest.mark.parametrize("n_steps", [1, 3])
def test_the_loss_is_the_papers(n_steps):
    model = sb3.PrioritizedDQN(
        "MlpPolicy", "CartPole-v1", **SMALL, gamma=0.9, replay_buffer_kwargs={"n_steps": n_steps, "gamma": 0.9}
    )
    model.learn(60)
    batch = model.replay_buffer.sample(16)
    td_errors, loss = model._weighted_loss(batch)
    for i in range(16):
        value = model.q_net(batch.observations[i : i + 1])[0, batch.actions[i, 0]]
        discount = 0.9 if n_steps == 1 else batch.discounts[i, 0]
        future = model.q_net_target(batch.next_observations[i : i + 1]).max()
        target = batch.rewards[i, 0] + (1 - batch.dones[i, 0]) * discount * future
        assert td_errors[i, 0].item() == pytest.approx((target - value).item(), abs=1e-5)
    huber = th.where(td_errors.abs() < 1, td_errors**2 / 2, td_errors.abs() - 0.5)
    assert loss.item() == pytest.approx((batch.weights * huber).mean().item(), rel=1e-5)
    assert not td_errors.requires_grad


def test_equal_priorities_make_it_the_hosts_dqn():
    """With priorities that count for nothing, and the same rows, an update is the host's."""
    models = [
        sb3.PrioritizedDQN("MlpPolicy", "CartPole-v1", **SMALL),
        DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=sb3.PrioritizedReplayBuffer, **SMALL),
    ]
    states = []
    for model in models:
        model.learn(20)  # no update yet
        model.replay_buffer._columns.engine.reseed(5)
        model.train(1, 32)
        states.append(model.policy.state_dict())
    for key, value in states[0].items():
        th.testing.assert_close(value, states[1][key])


def test_a_run_is_saved_and_goes_on(tmp_path):
    model = sb3.PrioritizedDQN("MlpPolicy", "CartPole-v1", **SMALL)
    model.learn(60)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = sb3.PrioritizedDQN.load(tmp_path / "model", env=model.get_env())
    loaded.load_replay_buffer(tmp_path / "buffer")
    one, other = model.replay_buffer.sample(32), loaded.replay_buffer.sample(32)
    assert one.indices.tolist() == other.indices.tolist()
    assert_same(one.weights, other.weights)
    loaded.learn(30, reset_num_timesteps=False)
    assert loaded.num_timesteps >= 90
