"""The backends of Atari games, stepped side by side."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

pytest.importorskip("ale_py", reason="ale-py is not installed")
pytest.importorskip("envpool", reason="EnvPool is not installed")

from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import TruncatedAsTerminated
from rlfast.env.atari import AtariEnv, make_atari_env, make_atari_vec
from rlfast.env.atari.wrappers import ClipRewardEnv
from rlfast.policy import RandomPolicy

OWN = ("ale", "gymnasium")
BACKENDS = (*OWN, "envpool", "ale-vector")

pytestmark = pytest.mark.filterwarnings("ignore:envpool.*ends an episode at each lost life")


def steps(envs: Any, actions: Any) -> Iterator[tuple[Any, float, bool, bool, Any]]:
    """Steps the only environment; in Tianshou's protocol, it is reset at the end of an episode."""
    for action in actions:
        obs, reward, terminated, truncated, info = envs.step(np.array([action]))
        yield obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info
        if envs.autoreset_mode is None and (terminated[0] or truncated[0]):
            envs.reset()


def actions(count: int, number: int = 4) -> list[int]:
    return np.random.default_rng(1).integers(number, size=count).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_observations_and_spaces(backend: str) -> None:
    with closing(make_atari_vec("Breakout", 2, backend=backend, seed=0)) as envs:
        obs, _ = envs.reset()
        assert (obs.shape, obs.dtype) == ((2, 4, 84, 84), np.uint8)
        assert envs.single_action_space == gym.spaces.Discrete(4)
        for _ in range(5):
            obs = envs.step(np.array([1, 2]))[0]
        assert (obs.shape, obs.dtype) == ((2, 4, 84, 84), np.uint8)
        assert obs.max() > 90


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("episodic_life", [True, False])
def test_a_lost_life_terminates_if_it_is_asked_for(backend: str, episodic_life: bool) -> None:
    with closing(make_atari_vec("Breakout", 1, backend=backend, seed=0, episodic_life=episodic_life)) as envs:
        envs.reset()
        count = 80 if episodic_life else 180
        ends = [number for number, (*_, over, late, _) in enumerate(steps(envs, [1] * count)) if over or late]
    assert len(ends) >= (2 if episodic_life else 1)
    assert ends[0] < 60 or not episodic_life


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("clip_rewards", [True, False])
def test_rewards_are_clipped_if_it_is_asked_for(backend: str, clip_rewards: bool) -> None:
    with closing(make_atari_vec("SpaceInvaders", 1, backend=backend, seed=0, clip_rewards=clip_rewards)) as envs:
        envs.reset()
        rewards = {reward for _, reward, *_ in steps(envs, actions(250, 6))} - {0.0}
    assert rewards == {1.0} if clip_rewards else min(rewards) >= 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_limit_of_frames_truncates(backend: str) -> None:
    with closing(make_atari_vec("Pong", 1, backend=backend, seed=0, max_frames=200)) as envs:
        envs.reset()
        ends = [
            (number, over, late) for number, (*_, over, late, _) in enumerate(steps(envs, actions(60))) if over or late
        ]
    number, terminated, truncated = ends[0]
    assert (terminated, truncated) == (False, True)
    assert 200 / 4 - 30 / 4 - 3 <= number + 1 <= 200 / 4 + 1


def test_own_backends_agree_from_equal_seeds() -> None:
    """Frames differ where sprites overlap or flicker: one takes the brighter grey, the other the brighter colours."""
    runs = []
    for backend in OWN:
        with closing(make_atari_vec("SpaceInvaders", 1, backend=backend, seed=7, clip_rewards=False)) as envs:
            envs.reset()
            runs.append([*steps(envs, actions(280, 6))])
    for ours, theirs in zip(*runs, strict=True):
        assert ours[1:4] == theirs[1:4]
        assert (abs(ours[0].astype(int) - theirs[0]) > 1).mean() < 0.1
    assert any(step[2] for step in runs[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "gym"}, r"backend must be one of \['auto', 'ale'"),
        ({"num_envs": 0}, "num_envs must be at least 1, got 0"),
        ({"backend": "envpool", "scale": True}, "does not support scale"),
        ({"backend": "envpool", "full_action_space": True}, "does not support full_action_space"),
        ({"backend": "ale-vector", "scale": True}, "does not support scale"),
        ({"backend": "envpool", "autoreset_mode": "same-step"}, "does not support autoreset_mode"),
        ({"backend": "ale-vector", "autoreset_mode": "disabled"}, "does not support autoreset_mode"),
        ({"backend": "gymnasium", "noop_max": 5}, "does not support noop_max"),
        ({"backend": "gymnasium", "fire_on_reset": False}, "does not support fire_on_reset"),
        ({"backend": "envpool", "frame_skip": 2}, "does not support frame_skip"),
        ({"game": "Pung"}, "ale-py has no game 'Pung'; did you mean pong"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"game": "Pong", "num_envs": 1, **options}
    with pytest.raises(ValueError, match=message):
        make_atari_vec(**arguments)


def test_unknown_argument() -> None:
    with pytest.raises(TypeError, match="has no argument 'frame_skips': AtariEnv has frame_stack"):
        make_atari_vec("Pong", 1, frame_skips=2)


def test_make_atari_env_gives_what_scripts_expect() -> None:
    env, train, test = make_atari_env("PongNoFrameskip-v4", 0, 2, 1, scale=0, frame_stack=4)
    with closing(env), closing(train), closing(test):
        assert env.observation_space.shape == (4, 84, 84)
        assert (len(train), len(test)) == (2, 1)
        policy = RandomPolicy(action_space=env.action_space)
        buffer = VectorReplayBuffer(100, 2, ignore_obs_next=True, save_only_last_obs=True, stack_num=4)
        stats = Collector(policy, train, buffer, exploration_noise=True).collect(n_step=60)
        assert stats.n_collected_steps == 60
        batch, _ = buffer.sample(8)
        assert isinstance(batch, Batch)
        assert batch.obs.shape == batch.obs_next.shape == (8, 4, 84, 84)


def test_games_go_on_to_the_bit_from_random_points() -> None:
    """With lost lives, resets of single environments and stacks in between."""

    def make() -> Any:
        return make_atari_vec("ALE/Breakout-v5", 2, seed=3, vector_kwargs={"placement": "in-process"})

    def play(envs: Any, actions: Any) -> list[Any]:
        results = []
        for action in actions:
            obs, *rest, infos = envs.step(action)
            results.append((obs.tobytes(), *(one.tolist() for one in rest), infos.tolist()))
            over = np.flatnonzero(rest[1] | rest[2])
            if len(over):
                results.append(envs.reset(over)[0].tobytes())
        return results

    random = np.random.default_rng(0)
    chosen = random.integers(4, size=(260, 2))
    with closing(make()) as envs:
        envs.reset()
        wanted, states = [], {}
        for point in range(0, 260, 20):
            states[point] = envs.get_state()
            wanted.append(play(envs, chosen[point : point + 20]))
        for point in random.choice(np.arange(0, 220, 20), 4, replace=False).tolist():
            with closing(make()) as others:
                others.set_state(states[point])
                again = [play(others, chosen[k : k + 20]) for k in range(point, point + 40, 20)]
            assert again == wanted[point // 20 : point // 20 + 2]
    assert sum(isinstance(one, bytes) for part in wanted for one in part) >= 4


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("game", "id"),
    [("PongNoFrameskip-v4", "PongNoFrameskip-v4"), ("ALE/Pong-v5", "ALE/Pong-v5"), ("pong", "ALE/Pong-v5")],
)
def test_games_have_a_spec(backend: str, game: str, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = gym.spec(id)
    monkeypatch.setitem(gym.registry, id, EnvSpec(id, known.entry_point, reward_threshold=19.0, kwargs=known.kwargs))
    found = make_atari_env(game, 0, 1, 1, backend=backend, frame_stack=2)
    assert (found[0].spec.id, found[0].spec.reward_threshold) == (id, 19)  # what the reference's scripts read
    for envs in found[1:]:
        with closing(envs):
            spec = envs.spec[0] if isinstance(envs.spec, list) else envs.spec
            assert spec.reward_threshold == (19 if spec.id == id else None)
            assert spec.id == ("ALE/Pong-v5" if backend == "gymnasium" else id)


def test_a_spec_makes_an_equal_game() -> None:
    first = AtariEnv("PongNoFrameskip-v4", frame_stack=2, noop_max=3, clip_rewards=False)
    second = gym.make(first.spec)
    assert second.spec.id == "PongNoFrameskip-v4"
    np.testing.assert_array_equal(first.reset(seed=3)[0], second.reset(seed=3)[0])
    for action in actions(9):
        ours, theirs = first.step(action), second.step(action)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:] == theirs[1:]
    assert TruncatedAsTerminated(ClipRewardEnv(first)).spec.id == "PongNoFrameskip-v4"
