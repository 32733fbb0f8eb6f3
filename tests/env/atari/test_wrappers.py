"""The wrappers of DeepMind's agents, around an environment whose every step is known."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlfast.env.atari import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    FrameStack,
    MaxAndSkipEnv,
    NoopResetEnv,
    ScaledFloatFrame,
    WarpFrame,
    wrap_deepmind,
)


class Game(gym.Env[Any, Any]):
    """Frame ``t`` is ``t`` everywhere; a life is lost at each frame in ``deaths``, and the last ends the game."""

    def __init__(
        self, deaths: tuple[int, ...] = (100,), limit: int = 1000, meanings: tuple[str, ...] = ("NOOP", "FIRE")
    ):
        self.observation_space = gym.spaces.Box(0, 255, (4, 6, 3), np.uint8)
        self.action_space = gym.spaces.Discrete(len(meanings))
        self.deaths, self.limit, self.meanings = deaths, limit, [*meanings]
        self.time, self.games, self.played = 0, 0, list[int]()

    def get_action_meanings(self) -> list[str]:
        return self.meanings

    def _frame(self) -> Any:
        return np.full((4, 6, 3), self.time % 256, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.games = 0, self.games + 1
        return self._frame(), {"lives": len(self.deaths)}

    def step(self, action: Any) -> Any:
        self.time += 1
        self.played.append(int(action))
        lives = sum(death > self.time for death in self.deaths)
        return self._frame(), float(self.time), lives == 0, self.time >= self.limit, {"lives": lives}


def test_games_begin_with_one_to_noop_max_steps() -> None:
    env = NoopResetEnv(Game(), noop_max=3)
    env.reset(seed=0)
    counts = {int(env.reset()[0].flat[0]) for _ in range(60)}
    assert counts == {1, 2, 3}
    game: Any = env.unwrapped
    assert set(game.played) == {0}


def test_game_over_in_noops_resets() -> None:
    env = NoopResetEnv(Game(deaths=(2,)), noop_max=30)
    for _ in range(20):
        assert env.reset()[0].flat[0] < 2


def test_frame_skip_and_max_of_two_screens() -> None:
    game = Game(deaths=(1000,))
    env = MaxAndSkipEnv(game, skip=4)
    env.reset()
    obs, reward, *_ = env.step(1)
    assert (int(obs.flat[0]), reward, game.played) == (4, 1.0 + 2 + 3 + 4, [1] * 4)
    game.time = 253  # frames 254, 255, 0, 1
    assert int(env.step(0)[0].flat[0]) == 1
    game.time = 252  # frames 253, 254, 255, 0
    assert int(env.step(0)[0].flat[0]) == 255


@pytest.mark.parametrize(("deaths", "limit", "flags"), [((2,), 99, (True, False)), ((9,), 2, (False, True))])
def test_repetition_stops_at_the_end(deaths: tuple[int, ...], limit: int, flags: tuple[bool, bool]) -> None:
    game = Game(deaths, limit)
    env = MaxAndSkipEnv(game)
    env.reset()
    obs, reward, terminated, truncated, _ = env.step(0)
    assert (int(obs.flat[0]), reward, (terminated, truncated), game.time) == (2, 3.0, flags, 2)


def test_a_lost_life_terminates_and_the_game_goes_on() -> None:
    game = Game(deaths=(2, 5))
    env = EpisodicLifeEnv(game)
    env.reset()
    assert [env.step(1)[2] for _ in range(2)] == [False, True]
    obs, info = env.reset()
    assert (int(obs.flat[0]), info["lives"], game.games) == (3, 1, 1)
    assert game.played == [1, 1, 0]
    assert [env.step(1)[2] for _ in range(2)] == [False, True]
    assert (int(env.reset()[0].flat[0]), game.games) == (0, 2)


def test_a_truncated_game_is_over() -> None:
    game = Game(deaths=(50,), limit=2)
    env = EpisodicLifeEnv(game)
    env.reset()
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    env.reset()
    assert game.games == 2


def test_reset_mid_life_continues_without_seed() -> None:
    game = Game(deaths=(50, 60))
    env = EpisodicLifeEnv(game)
    env.reset()
    env.step(0)
    assert int(env.reset()[0].flat[0]) == 2
    assert int(env.reset(seed=1)[0].flat[0]) == 0


def test_game_over_in_step_after_life_resets() -> None:
    game = Game(deaths=(2, 3))
    env = EpisodicLifeEnv(game)
    env.reset()
    env.step(0)
    assert env.step(0)[2]
    obs, info = env.reset()
    assert (int(obs.flat[0]), info["lives"], game.games) == (0, 2, 2)


def test_episodes_begin_with_fire() -> None:
    game = Game()
    obs, info = FireResetEnv(game).reset()
    assert (int(obs.flat[0]), info, game.played) == (1, {"lives": 1}, [1])
    short = Game(deaths=(1,))
    assert int(FireResetEnv(short).reset()[0].flat[0]) == 0


def test_other_actions_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"action 1 is FIRE, got \['NOOP', 'UP'\]"):
        FireResetEnv(Game(meanings=("NOOP", "UP")))
    with pytest.raises(ValueError, match="action 1 is FIRE"):
        FireResetEnv(Game(meanings=("NOOP",)))
    with pytest.raises(AssertionError, match=r"action 0 is NOOP, got \['UP'\]"):
        NoopResetEnv(Game(meanings=("UP",)))
    for make in (lambda: NoopResetEnv(Game(), 0), lambda: MaxAndSkipEnv(Game(), 0), lambda: FrameStack(Game(), 0)):
        with pytest.raises(ValueError, match="must be at least 1, got 0"):
            make()


def test_screens_become_grey_small_scaled_and_stacked() -> None:
    env = FrameStack(ScaledFloatFrame(WarpFrame(Game(), size=2)), 3)
    assert env.observation_space == gym.spaces.Box(0.0, 1.0, (3, 2, 2), np.float32)
    obs, _ = env.reset()
    assert (obs == 0).all()
    env.step(0)
    obs = env.step(0)[0]
    assert obs.dtype == np.float32
    assert env.observation_space.contains(obs)
    assert np.allclose(obs[:, 0, 0], [0, 1 / 255, 2 / 255])


def test_wrong_observations_are_refused() -> None:
    class Vector(Game):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,))

    with pytest.raises(TypeError, match="WarpFrame needs coloured screens of uint8"):
        WarpFrame(Vector())
    with pytest.raises(TypeError, match="ScaledFloatFrame needs observations in a bounded Box"):
        ScaledFloatFrame(Vector())


@pytest.mark.parametrize(("reward", "sign"), [(-7.0, -1.0), (0.0, 0.0), (0.5, 1.0)])
def test_rewards_are_replaced_by_their_signs(reward: float, sign: float) -> None:
    assert ClipRewardEnv(Game()).reward(reward) == sign


class Large(Game):
    """A game with screens of the usual size."""

    def __init__(self) -> None:
        super().__init__(deaths=(60, 90))
        self.observation_space = gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)

    def _frame(self) -> Any:
        return np.full((210, 160, 3), self.time % 256, np.uint8)


@pytest.mark.parametrize(
    ("options", "shape", "dtype", "rewards", "ends"),
    [
        ({}, (4, 84, 84), np.uint8, {1.0}, True),
        ({"scale": True, "frame_stack": 0}, (84, 84), np.float32, {1.0}, True),
        ({"warp_frame": False, "clip_rewards": False}, (4, 210, 160, 3), np.uint8, None, True),
        ({"episode_life": False, "frame_stack": 2}, (2, 84, 84), np.uint8, {1.0}, False),
    ],
)
def test_all_wrappers_together(options: Any, shape: Any, dtype: Any, rewards: Any, ends: bool) -> None:
    env = wrap_deepmind(Large(), **options)
    obs, _ = env.reset(seed=0)
    assert (obs.shape, obs.dtype, env.observation_space.shape) == (shape, dtype, shape)
    seen, lives, terminated = set(), None, False
    while not terminated:
        _, reward, terminated, _, info = env.step(0)
        seen.add(reward)
        lives = info["lives"]
    assert lives == (1 if ends else 0)
    assert seen == rewards or (rewards is None and max(seen) > 1)
