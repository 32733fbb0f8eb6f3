"""The native game Catch, seen from Python."""

from itertools import product

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

import rlfast

WIDTH = 7
"""The number of rows and of columns of fields."""


class Reference:
    """The rules, on fields: a ball that falls and a paddle that follows actions."""

    def __init__(self, ball: int, drift: int) -> None:
        self.row, self.ball, self.drift, self.paddle = 0, ball, drift, WIDTH // 2
        self.pictures = [self.draw()] * 4

    def draw(self) -> NDArray[np.uint8]:
        fields = np.zeros((WIDTH, WIDTH), np.uint8)
        fields[WIDTH - 1, self.paddle] = 128
        fields[self.row, self.ball] = 255
        return np.kron(fields, np.ones((12, 12), np.uint8))

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool]:
        if not 0 <= self.ball + self.drift < WIDTH:
            self.drift = -self.drift
        self.row, self.ball = self.row + 1, self.ball + self.drift
        self.paddle = min(max(self.paddle + action - 1, 0), WIDTH - 1)
        self.pictures = [*self.pictures[1:], self.draw()]
        ended = self.row == WIDTH - 1
        return np.stack(self.pictures), (1.0 if self.ball == self.paddle else -1.0) * ended, ended


def test_spaces() -> None:
    envs = rlfast.make_vec("Catch-v0", 4, backend="native")
    assert envs.single_observation_space == gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    assert envs.single_action_space == gym.spaces.Discrete(3)


def test_every_episode_is_one_of_the_rules() -> None:
    envs = rlfast.make_vec("Catch-v0", 1, backend="native")
    actions = np.random.default_rng(0)
    starts, moves = set(), set()
    for seed in range(60):
        obs, _ = envs.reset(seed=seed)
        explained = [Reference(*start) for start in product(range(WIDTH), (-1, 0, 1))]
        explained = [game for game in explained if np.array_equal(np.stack(game.pictures), obs[0])]
        starts |= {game.ball for game in explained}
        for _ in range(WIDTH - 1):
            action = int(actions.integers(3))
            obs, reward, terminated, truncated, _ = envs.step(np.array([action]))
            assert not truncated[0]
            seen = obs[0], reward[0], terminated[0]
            steps = [(game, game.step(action)) for game in explained]
            explained = [game for game, step in steps if all(map(np.array_equal, step, seen))]
            assert explained, f"seed {seed}: no start leads to what was seen"
            moves |= {game.drift for game in explained}
        assert terminated[0]
    assert starts == set(range(WIDTH))
    assert moves == {-1, 0, 1}


@pytest.mark.parametrize(("looks", "least", "most"), [(True, 1.0, 1.0), (False, -0.8, -0.6)])
def test_catch_perfect_and_random_player(looks: bool, least: float, most: float) -> None:
    envs = rlfast.make_vec("Catch-v0", 16, backend="native")
    obs, _ = envs.reset(seed=0)
    blind = np.random.default_rng(0)
    ended = total = 0.0
    for _ in range(60 * WIDTH):  # an episode has a step less, and one more resets
        ball, paddle = columns(obs[:, 3], 255), columns(obs[:, 3], 128)
        drift = np.sign(ball - columns(obs[:, 2], 255))
        following = ball + np.where((ball + drift < 0) | (ball + drift >= WIDTH), -drift, drift)
        acts = np.sign(following - paddle) + 1 if looks else blind.integers(3, size=16)
        obs, reward, terminated, truncated, _ = envs.step(acts)
        assert not truncated.any()
        total += reward.sum()
        ended += terminated.sum()
    assert ended == 16 * 60
    assert least <= total / ended <= most


def columns(pictures: NDArray[np.uint8], value: int) -> NDArray[np.int64]:
    """The columns of the fields of a brightness, one for each picture."""
    return (pictures == value).any(axis=1).argmax(axis=1) // 12
