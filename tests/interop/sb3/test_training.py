"""Whole runs inside SB3: rlfast's buffers give the same numbers as SB3's, and saved buffers can be loaded."""

import warnings

import numpy as np
import pytest
import torch as th

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3 import her as host_her
from stable_baselines3.common import buffers as host
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import VecNormalize

from interop.sb3.comparing import assert_same
from rlfast.interop import sb3

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"


def bits(envs=1):
    return make_vec_env(lambda: BitFlippingEnv(n_bits=4, continuous=False), envs)


def off_policy(algorithm, env, steps, kind, buffer_kwargs=None, policy="MlpPolicy", **kwargs):
    def learn(module):
        buffer = getattr(host_her if kind == "HerReplayBuffer" and module is host else module, kind)
        model = algorithm(
            policy,
            env() if callable(env) else env,
            replay_buffer_class=buffer,
            replay_buffer_kwargs=dict(buffer_kwargs or {}),
            policy_kwargs={"net_arch": [16]},
            learning_starts=40,
            buffer_size=100,
            batch_size=16,
            seed=1,
            device="cpu",
            **kwargs,
        )
        return model.learn(steps)

    return learn


def on_policy(algorithm, policy, env, kind, **kwargs):
    def learn(module):
        buffer = getattr(module, kind)
        model = algorithm(policy, env(), n_steps=16, rollout_buffer_class=buffer, seed=1, device="cpu", **kwargs)
        return model.learn(100)

    return learn


RUNS = {
    "DQN": off_policy(DQN, CARTPOLE, 200, "ReplayBuffer"),
    "DQN, 3 environments": off_policy(DQN, lambda: make_vec_env(CARTPOLE, 3), 300, "ReplayBuffer"),
    "DQN, memory saved": off_policy(
        DQN, CARTPOLE, 200, "ReplayBuffer", {"handle_timeout_termination": False}, optimize_memory_usage=True
    ),
    "DQN, 3 steps": off_policy(DQN, CARTPOLE, 200, "NStepReplayBuffer", {"n_steps": 3}),
    "DQN, dict": off_policy(DQN, bits, 150, "DictReplayBuffer", policy="MultiInputPolicy"),
    "DQN, hindsight": off_policy(DQN, bits, 150, "HerReplayBuffer", policy="MultiInputPolicy"),
    "DQN, hindsight, 2 environments": off_policy(
        DQN,
        lambda: bits(2),
        150,
        "HerReplayBuffer",
        {"goal_selection_strategy": "final", "copy_info_dict": True},
        policy="MultiInputPolicy",
    ),
    "SAC": off_policy(SAC, PENDULUM, 55, "ReplayBuffer"),
    "TD3, normalized": off_policy(TD3, lambda: VecNormalize(make_vec_env(PENDULUM, 2)), 120, "ReplayBuffer"),
    "PPO": on_policy(PPO, "MlpPolicy", lambda: make_vec_env(CARTPOLE, 1), "RolloutBuffer", batch_size=8, n_epochs=2),
    "PPO, 3 environments": on_policy(
        PPO, "MlpPolicy", lambda: VecNormalize(make_vec_env(PENDULUM, 3)), "RolloutBuffer", batch_size=12, n_epochs=2
    ),
    "A2C, dict": on_policy(A2C, "MultiInputPolicy", bits, "DictRolloutBuffer"),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.filterwarnings("ignore:You are trying to run PPO on the GPU")
def test_a_run_is_the_hosts_run_to_the_last_bit(name):
    ours, theirs = RUNS[name](sb3), RUNS[name](host)
    assert ours.num_timesteps == theirs.num_timesteps
    for key, value in theirs.policy.state_dict().items():
        assert th.equal(ours.policy.state_dict()[key], value), key


@pytest.mark.parametrize("algorithm", [DQN, SAC, TD3])
def test_memory_is_saved_and_timeouts_are_handled(algorithm):
    """What the host refuses, with the numbers that the host has without saving memory."""
    env = CARTPOLE if algorithm is DQN else PENDULUM
    states = []
    for module, saving in ((sb3, True), (host, False)):
        learn = off_policy(algorithm, env, 95 if algorithm is DQN else 55, "ReplayBuffer", optimize_memory_usage=saving)
        model = learn(module)
        states.append(model.policy.state_dict())
        assert model.replay_buffer.handle_timeout_termination
    for key, value in states[1].items():
        assert th.equal(states[0][key], value), key
    with pytest.raises(ValueError, match="simultaneously"):
        host.ReplayBuffer(10, model.observation_space, model.action_space, optimize_memory_usage=True)


def test_a_buffer_comes_back_from_its_file(tmp_path):
    model = RUNS["DQN"](sb3)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    loaded = DQN.load(tmp_path / "model", env=model.get_env())
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert type(loaded.replay_buffer) is sb3.ReplayBuffer
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        assert_same(getattr(loaded.replay_buffer, name), getattr(model.replay_buffer, name), name)
    loaded.set_logger(model.logger)
    states = []
    for one in (model, loaded):
        np.random.seed(0)
        one.replay_buffer.device = th.device("cpu")
        one.train(3, 16)
        states.append(one.policy.state_dict())
    for key, value in states[0].items():
        assert th.equal(value, states[1][key]), key


@pytest.mark.parametrize("truncate", [True, False])
def test_a_hindsight_buffer_comes_back_from_its_file(tmp_path, truncate):
    model = RUNS["DQN, hindsight, 2 environments"](sb3)
    model.save_replay_buffer(tmp_path / "buffer")
    running = bool((model.replay_buffer._current_ep_start != model.replay_buffer.pos).any())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=truncate)
    assert any("truncated" in str(warning.message) for warning in caught) == (truncate and running)
    assert model.replay_buffer.env is model.env
    model.learn(50, reset_num_timesteps=False)


def test_second_learn_ends_last_trajectory():
    model = RUNS["DQN, memory saved"](sb3)
    newest = (model.replay_buffer.pos - 1) % model.replay_buffer.buffer_size
    model.replay_buffer.dones[newest] = False
    with pytest.warns(UserWarning, match="last trajectory in the replay buffer will be truncated"):
        model.learn(2)
    assert model.replay_buffer.dones[newest, 0] == 1


def test_algorithm_n_steps_warns():
    with pytest.warns(UserWarning, match="n_steps=3"):
        DQN("MlpPolicy", CARTPOLE, n_steps=3, replay_buffer_class=sb3.NStepReplayBuffer, device="cpu")
