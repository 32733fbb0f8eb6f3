"""The native game Catch, seen from Python."""

import gymnasium as gym
import numpy as np

import rlfast


def test_a_player_who_looks_catches_every_ball() -> None:
    envs = rlfast.make_vec("Catch-v0", 4, backend="native")
    assert envs.single_observation_space == gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    assert envs.single_action_space == gym.spaces.Discrete(3)
    obs, _ = envs.reset(seed=0)
    ended = total = 0.0
    for _ in range(60):
        ball, paddle = columns(obs[:, 3], 255), columns(obs[:, 3], 128)
        drift = np.sign(ball - columns(obs[:, 2], 255))
        following = ball + np.where((ball + drift < 0) | (ball + drift > 11), -drift, drift)
        obs, reward, terminated, truncated, _ = envs.step(np.sign(following - paddle) + 1)
        assert not truncated.any()
        total += reward.sum()
        ended += terminated.sum()
    assert ended == total == 4 * 5


def columns(pictures: "np.typing.NDArray[np.uint8]", value: int) -> "np.typing.NDArray[np.int64]":
    """The columns of the fields of a brightness, one for each picture."""
    return (pictures == value).any(axis=1).argmax(axis=1) // 7
