"""Training stops at the first NaN or infinity, and says where it came from."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

import policies_to_train as policies
import rlfast
from policies_to_train import BOX, SPACE
from rlfast.data import (
    AsyncCollector,
    Batch,
    Collector,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv, as_vector_env
from rlfast.policy import BasePolicy
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer
from rlfast.utils.arguments.checks import NonFiniteError

VALUES = [np.nan, np.inf, -np.inf]


class Failing(gym.Env):
    """Gives another reward, or observation, at its step ``at``."""

    observation_space, action_space = gym.spaces.Box(-99, 99, (2,), np.float32), SPACE

    def __init__(self, at=10**9, reward=1.0, obs=None):
        self.at, self.reward, self.odd, self.steps = at, reward, obs, 0

    def _observe(self):
        return np.full(2, self.odd if self.odd is not None and self.steps == self.at else self.steps % 7, np.float32)

    def reset(self, *, seed=None, options=None):
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        reward = self.reward if self.steps == self.at else 1.0
        return self._observe(), reward, self.steps % 5 == 0, False, {}


dqn, ppo = partial(policies.dqn, 2), partial(policies.ppo, 2)
POLICIES = {
    "DQN": dqn,
    "3 steps": partial(dqn, estimation_step=3),
    "SAC": partial(policies.sac, 2),
    "DDPG": partial(policies.ddpg, 2),
    "PPO": ppo,
    "ICM": lambda: policies.curious(dqn(), 2),
}


def train(policy, envs, collector_class=Collector, **options):
    envs = as_vector_env(envs)
    buffer = VectorReplayBuffer(200, len(envs))
    given = {
        "policy": policy,
        "train_collector": collector_class(policy, envs, buffer),
        "max_epoch": 1,
        "batch_size": 16,
        "step_per_epoch": 80,
        "step_per_collect": 8,
        "show_progress": False,
        "verbose": False,
    }
    if policy.learns_from == "rollouts":
        return OnpolicyTrainer(repeat_per_collect=1, **given | options)
    return OffpolicyTrainer(update_per_step=0.25, **given | options)


WORLDS = {
    "dummy": (lambda makers: DummyVectorEnv(makers), Collector),
    "resetting": (lambda makers: DummyVectorEnv(makers, autoreset_mode="next-step"), Collector),
    "asynchronous": (lambda makers: DummyVectorEnv(makers, wait_num=1), AsyncCollector),
    "Gymnasium's": (lambda makers: gym.vector.SyncVectorEnv(makers), Collector),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("make", [dqn, ppo])
@pytest.mark.filterwarnings("ignore:asynchronous environments may")
def test_a_reward_ends_training_before_it_is_stored(make, world, value):
    vector, collector_class = WORLDS[world]
    envs = vector([lambda: Failing(), lambda: Failing(13, value)])
    trainer = train(make(), envs, collector_class)
    with pytest.raises(NonFiniteError, match=rf"environment 1 gave the reward {value} after \d+ environment steps"):
        trainer.run()
    rewards = trainer.train_collector.buffer.rew
    assert np.isfinite(rewards).all()


def test_random_steps_before_training_count():
    trainer = train(dqn(), DummyVectorEnv([lambda: Failing(3, np.nan)] * 2), start_timesteps=20)
    with pytest.raises(NonFiniteError, match="environment 0 gave the reward nan after 4 environment steps"):
        trainer.run()


def test_rewards_are_checked_as_they_are_learned_from():
    envs = DummyVectorEnv([lambda: Failing(13, np.nan)])
    trainer = train(dqn(), envs)
    trainer.train_collector.preprocess_fn = lambda **rows: {"rew": np.nan_to_num(rows["rew"])} if "rew" in rows else {}
    trainer.run()
    assert trainer.env_step == 80


def test_collects_and_tests_outside_of_training_take_any_reward():
    collector = Collector(dqn(), DummyVectorEnv([lambda: Failing(3, np.nan)]), VectorReplayBuffer(20, 1))
    collector.collect(n_step=10)
    assert np.isnan(collector.buffer[:].rew).sum() == 1
    tests = Collector(dqn(), DummyVectorEnv([lambda: Failing(3, np.nan)]))
    trainer = train(tests.policy, DummyVectorEnv([Failing]), test_collector=tests, episode_per_test=1)
    trainer.run()
    assert trainer.best_reward == 5  # of the second test


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("value", [*VALUES, 1e38])
def test_an_update_names_the_reward(name, value):
    policy = POLICIES[name]()
    buffer = filled(policy.action_space, rew=value)
    text = "rewards are as large as 1e.38" if value == 1e38 else f"rew = {value}, in row 1[0-9] of .* environment 1"
    with pytest.raises(NonFiniteError, match=rf"an update of .*{text}"):
        for _ in range(4):  # an infinite target is sampled, or makes the next loss NaN
            update(policy, buffer)


@pytest.mark.parametrize("name", POLICIES)
def test_an_update_names_the_observation(name):
    policy = POLICIES[name]()
    with pytest.raises(NonFiniteError, match=r"(obs|obs_next) = nan, in row 1[0-9] .* environment 1"):
        for _ in range(4):
            update(policy, filled(policy.action_space, obs=np.nan))


def filled(space, rew=1.0, obs=0.0, kind=VectorReplayBuffer):
    buffer = kind(20, 2) if kind is not ReplayBuffer else kind(20)
    for i in range(9):
        odd = i == 4
        for ring in (0, 1):
            seen = np.full(2, obs if odd and ring else i, np.float32)
            row = Batch(
                obs=seen,
                act=np.zeros(1, np.float32) if space is BOX else i % 2,
                rew=rew if odd and ring else 1.0,
                terminated=False,
                truncated=i % 3 == 2,
                obs_next=np.full(2, i + 1, np.float32),
                info={},
            )
            buffer.add(Batch.stack([row]), [ring])
    return buffer


def update(policy, buffer):
    policy.train()
    options = {"batch_size": 8, "repeat": 1} if policy.learns_from == "rollouts" else {}
    return policy.update(0, buffer, **options)


def test_priorities_are_no_matter():
    policy = dqn()
    with pytest.raises(NonFiniteError, match="rew = nan"):
        update(
            policy, filled(SPACE, np.nan, kind=lambda *sizes: PrioritizedVectorReplayBuffer(*sizes, alpha=1, beta=1))
        )


@pytest.mark.parametrize("prefetch", [False, True])
def test_offline_training_names_the_step(prefetch):
    policy = dqn()
    given = {"max_epoch": 1, "batch_size": 18, "step_per_epoch": 9, "show_progress": False, "prefetch": prefetch}
    trainer = OfflineTrainer(policy=policy, buffer=filled(SPACE, np.nan), **given)
    with pytest.raises(
        NonFiniteError, match=r"at environment step \d+, after \d gradient steps: loss is nan .* rew = nan"
    ):
        trainer.run()


def test_weights_that_diverge_are_told_from_bad_rows():
    policy = dqn()
    with torch.no_grad():
        next(policy.model.parameters()).fill_(np.nan)
    with pytest.raises(NonFiniteError, match="all values of the sample are finite: lower the learning rate"):
        update(policy, filled(SPACE))


class Own(BasePolicy):
    def __init__(self, loss):
        super().__init__(action_space=SPACE)
        self.layer, self.loss = torch.nn.Linear(1, 1), loss

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=[0] * len(batch.obs))

    def learn(self, batch, *args, **kwargs):
        return self.loss


@pytest.mark.parametrize("loss", [{"actor_loss": np.nan, "loss": 1.0}, {"temperature": np.inf}, {}, {"loss": None}])
def test_users_may_report_nan_for_what_was_not_computed(loss):
    update(Own(loss), filled(SPACE))
    with pytest.raises(NonFiniteError, match="critic_loss is inf"):
        update(Own(loss | {"critic_loss": np.inf}), filled(SPACE))


def broken(envs, seen):
    """Makes the state of environment 1 NaN: the velocity, found by the number that was observed."""
    (state,) = envs.get_state([1])
    data = state["state"]
    places = range(len(data) - 7)
    velocity = next(k for k in places if abs(np.frombuffer(data[k : k + 8])[0] - seen) < 1e-6)
    state["state"] = data[:velocity] + np.float64(np.nan).tobytes() + data[velocity + 8 :]
    envs.set_state([state], [1])


def test_native_environments_are_stopped_too():
    envs = rlfast.make_vec("Pendulum-v1", 3)
    policy = policies.ddpg(3, envs.single_action_space)
    trainer = train(policy, envs, step_per_collect=9)
    collector = trainer.train_collector
    assert "collecting in Rust" in repr(collector)
    collector.collect(n_step=12)
    broken(envs, collector._episodes.obs[1, 2])
    with pytest.raises(NonFiniteError, match="environment 1 gave the reward nan after 3 environment steps"):
        trainer.run()
    collector = Collector(policy, envs, VectorReplayBuffer(60, 3))
    collector.collect(n_step=6)
    broken(envs, collector._episodes.obs[1, 2])
    collector.collect(n_step=3)
    assert np.isnan(collector.buffer.rew).sum() == 1


@pytest.mark.parametrize("value", VALUES)
def test_an_observation_that_the_policy_cannot_act_on_is_named(value):
    envs = DummyVectorEnv([lambda: Failing(), lambda: Failing(13, obs=value)])
    with pytest.raises(NonFiniteError, match=rf"for environment 1, whose obs has {value} at \[0\]"):
        train(ppo(), envs).run()
