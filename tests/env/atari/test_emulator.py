"""AtariEnv beside the wrappers, and beside its own definition."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

ale_py = pytest.importorskip("ale_py", reason="ale-py is not installed")

from rlfast._core import AreaResize  # noqa: E402
from rlfast.env.atari import AtariEnv, EpisodicLifeEnv, FireResetEnv, MaxAndSkipEnv, NoopResetEnv  # noqa: E402
from rlfast.env.state import capture, restore  # noqa: E402

gym.register_envs(ale_py)
Frame = NDArray[np.uint8]


class GreySkip(MaxAndSkipEnv):
    """As AtariEnv: when the game ends within a step, its last screen is the observation."""

    def step(self, action: Any) -> Any:
        total, screens = 0.0, []
        for _ in range(self._skip):
            screen, reward, terminated, truncated, info = self.env.step(action)
            screens.append(screen)
            total += float(reward)
            if terminated or truncated:
                break
        last = screens[-2:] if len(screens) == self._skip else screens[-1:]
        return np.maximum(last[0], last[-1]), total, terminated, truncated, info


def wrapped(game: str, *, episodic_life: bool, fire: bool, sticky: float, max_frames: int) -> gym.Env[Any, Any]:
    raw: Any = gym.make(
        f"ALE/{game}-v5",
        frameskip=1,
        obs_type="grayscale",
        repeat_action_probability=sticky,
        max_num_frames_per_episode=max_frames,
        disable_env_checker=True,
    )
    env: Any = GreySkip(NoopResetEnv(raw))
    if episodic_life:
        env = EpisodicLifeEnv(env)
    return FireResetEnv(env) if fire else env


def small(screen: Frame) -> Frame:
    out = np.empty((84, 84), np.uint8)
    AreaResize((screen.shape[0], screen.shape[1]), (84, 84))(screen, out)
    return out


@pytest.mark.parametrize(
    ("game", "episodic_life", "sticky", "max_frames", "count"),
    [
        ("Breakout", True, 0.0, 108_000, 300),
        ("Breakout", False, 0.25, 108_000, 200),
        ("SpaceInvaders", True, 0.0, 1100, 350),
        ("Pong", True, 0.25, 301, 100),
    ],
)
def test_every_step_is_that_of_the_wrappers(
    game: str, episodic_life: bool, sticky: float, max_frames: int, count: int
) -> None:
    ours = AtariEnv(
        game, episodic_life=episodic_life, clip_rewards=False, repeat_action_probability=sticky, max_frames=max_frames
    )
    fire = ours.action_meanings()[1:2] == ["FIRE"]
    theirs = wrapped(game, episodic_life=episodic_life, fire=fire, sticky=sticky, max_frames=max_frames)
    rng = np.random.default_rng(0)
    obs, info = ours.reset(seed=5)
    screen, _ = theirs.reset(seed=5)
    stack = [small(screen)] * 4
    ends = {"lives": 0, "games": 0, "truncated": 0}
    for step in range(count):
        assert (obs == np.stack(stack)).all()
        action = int(rng.integers(ours.action_space.n))
        obs, reward, terminated, truncated, info = ours.step(action)
        screen, wanted, *flags, their_info = theirs.step(action)
        assert (reward, [terminated, truncated]) == (wanted, flags)
        assert {key: info[key] for key in ("lives", "frame_number", "episode_frame_number")} == {
            key: their_info[key] for key in ("lives", "frame_number", "episode_frame_number")
        }
        stack = [*stack[1:], small(screen)]
        if terminated or truncated or step == 20:
            assert (obs == np.stack(stack)).all()
            ends["games"] += info["game_over"]
            ends["lives"] += terminated and not info["game_over"]
            ends["truncated"] += truncated
            obs, _ = ours.reset()
            screen, _ = theirs.reset()
            stack = [small(screen)] * 4
    assert ends["games"] > 0
    assert (ends["lives"] > 0) == (episodic_life and game != "Pong")
    assert (ends["truncated"] > 0) == (max_frames < 2000)


def test_game_return_spans_lives_unclipped() -> None:
    env = AtariEnv("SpaceInvaders")
    env.reset(seed=0)
    total, lives, rng = 0.0, 0, np.random.default_rng(0)
    rewards = set()
    for _ in range(2000):
        _, reward, terminated, _, info = env.step(int(rng.integers(6)))
        rewards.add(reward)
        if info["game_over"]:
            break
        if terminated:
            lives += 1
            total = info["game_return"]
            assert env.reset()[1]["game_return"] >= total
    assert info["game_over"]
    assert lives == 2
    assert info["game_return"] > 50
    assert rewards <= {-1.0, 0.0, 1.0}
    assert env.reset()[1]["game_return"] == 0.0


def test_observations_stay_as_they_were() -> None:
    env = AtariEnv("Breakout")
    obs, _ = env.reset(seed=0)
    kept = [(obs, obs.copy())]
    for _ in range(200):
        obs, _, terminated, truncated, _ = env.step(2)
        kept.append((obs, obs.copy()))
        if terminated or truncated:
            env.reset()
    assert all((now == then).all() for now, then in kept)


def test_scaled_observations_are_255ths() -> None:
    plain, scaled = AtariEnv("Breakout"), AtariEnv("Breakout", scale=True)
    obs, floats = plain.reset(seed=1)[0], scaled.reset(seed=1)[0]
    assert floats.dtype == np.float32
    assert scaled.observation_space.contains(floats)
    assert plain.observation_space.contains(obs)
    assert (floats * 255 == obs).all()
    assert floats.max() > 0.3


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_a_restored_state_goes_on_to_the_bit(sticky: float) -> None:
    env = AtariEnv("Breakout", repeat_action_probability=sticky, noop_max=10)
    env.reset(seed=3)
    actions = np.random.default_rng(0).integers(4, size=400).tolist()

    def play(env: Any, actions: list[int]) -> list[Any]:
        results = []
        for action in actions:
            obs, *rest = env.step(action)
            results.append((obs.tobytes(), *rest))
            if rest[1] or rest[2]:
                obs, info = env.reset()
                results.append((obs.tobytes(), info))
        return results

    play(env, actions[:150])
    state = capture(env)
    wanted = play(env, actions[150:])
    other = AtariEnv("Breakout", repeat_action_probability=sticky, noop_max=10)
    restore(other, state)
    assert play(other, actions[150:]) == wanted


@pytest.mark.long
@pytest.mark.parametrize("game", ["ALE/Pong-v5", "ALE/Breakout-v5", "SpaceInvaders", "Seaquest"])
def test_interrupted_game_equals_uninterrupted(game: str) -> None:
    """At random steps the game is saved, and goes on in another environment."""
    steps, rng = 25_000, np.random.default_rng(5)
    stops = set(rng.integers(1, steps, 30).tolist())
    actions = rng.integers(AtariEnv(game).action_space.n, size=steps).tolist()

    def play(stops: set[int]) -> tuple[str, float, int]:
        env: Any = AtariEnv(game)
        digest, total, ends = sha256(env.reset(seed=3)[0].tobytes()), 0.0, 0
        for step, action in enumerate(actions):
            if step in stops:
                state = capture(env)
                env.close()
                env = AtariEnv(game)
                restore(env, state)
            obs, rew, terminated, truncated, info = env.step(action)
            digest.update(obs.tobytes() + repr((rew, terminated, truncated, info)).encode())
            total += info["game_return"] * info["game_over"]
            if terminated or truncated:
                ends += 1
                digest.update(env.reset()[0].tobytes())
        return digest.hexdigest(), total, ends

    without = play(set())
    assert play(stops) == without
    assert without[2] > 3


@pytest.mark.parametrize(
    "name",
    ["pong", "Pong", "PongNoFrameskip-v4", "PongNoFrameskip-v0", "ALE/Pong-v5", "Pong-v5", "PongDeterministic-v4"],
)
def test_names_of_games(name: str) -> None:
    env = AtariEnv(name)
    assert env.action_meanings() == ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    assert env._ale.getFloat("repeat_action_probability") == (0.25 if name[-3:] in ("-v0", "-v5") else 0.0)


@pytest.mark.parametrize(
    ("game", "options", "message"),
    [
        ("Pong-ram-v4", {}, "has the console's memory as observations"),
        ("ALE/Pong-ramNoFrameskip-v4", {}, "has the console's memory as observations"),
        ("Pongo", {}, r"ale-py has no game 'Pongo'; did you mean pong"),
        ("Pong", {"frame_stack": 0}, "frame_stack must be at least 1, got 0"),
        ("Pong", {"frame_skip": 0}, "frame_skip must be at least 1, got 0"),
        ("Pong", {"noop_max": -1}, "noop_max must not be negative, got -1"),
        ("Pong", {"screen_size": 300}, "cannot be resized"),
        ("Pong", {"repeat_action_probability": 1.5}, "must be within 0 and 1, or None, got 1.5"),
    ],
)
def test_wrong_arguments(game: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AtariEnv(game, **options)


@pytest.mark.parametrize("damage", ["no folder", "no file", "other bytes"])
def test_a_missing_rom_is_named(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path / "gone" if damage == "no folder" else tmp_path))
    if damage == "other bytes":
        (tmp_path / "pong.bin").write_bytes(b"no game")
    with pytest.raises(FileNotFoundError, match=r"^the ROM of pong cannot be read: .*; install ale-py again"):
        AtariEnv("Pong")
