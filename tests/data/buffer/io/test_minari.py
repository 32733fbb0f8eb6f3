"""Conversion of Minari datasets to buffers and back without loss."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer

minari = pytest.importorskip("minari")
from minari.data_collector import EpisodeBuffer  # noqa: E402

Box, Dict, Discrete, Text, Tuple = (getattr(gymnasium.spaces, n) for n in ("Box", "Dict", "Discrete", "Text", "Tuple"))
PLAIN = Box(-9, 9, (3,), np.float32)
SPACES = {
    "plain": PLAIN,
    "dict": Dict({"goal": Box(0, 1, (2,), np.float64), "inner": Dict({"image": Box(0, 255, (8, 8, 3), np.uint8)})}),
    "tuple": Tuple([Discrete(5), PLAIN]),
    "text": Dict({"mission": Text(8), "pos": PLAIN}),
}
LENGTHS = (5, 1, 7)
pytestmark = pytest.mark.filterwarnings("ignore:.*is set to None:UserWarning", "ignore:.*env:UserWarning")


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def stacked(space, samples):
    if isinstance(space, Dict):
        return {key: stacked(inner, [sample[key] for sample in samples]) for key, inner in space.items()}
    if isinstance(space, Tuple):
        return tuple(stacked(inner, [sample[i] for sample in samples]) for i, inner in enumerate(space))
    return samples if isinstance(space, Text) else np.stack(samples)


def made(name, action_space=None, infos=True):
    """Makes a dataset of three episodes: one is truncated, one is terminated, one is both."""
    space, action_space = SPACES[name], action_space or Discrete(4)
    space.seed(0), action_space.seed(1)
    rng = np.random.default_rng(2)
    buffers = []
    for place, length in enumerate(LENGTHS):
        terminations, truncations = np.zeros(length, bool), np.zeros(length, bool)
        terminations[-1], truncations[-1] = place > 0, place != 1
        buffers.append(
            EpisodeBuffer(
                id=place,
                observations=stacked(space, [space.sample() for _ in range(length + 1)]),
                actions=stacked(action_space, [action_space.sample() for _ in range(length)]),
                rewards=rng.random(length),
                terminations=terminations,
                truncations=truncations,
                infos={"lives": rng.integers(0, 9, length + 1), "more": {"speed": rng.random((length + 1, 2))}}
                if infos
                else None,
            )
        )
    return minari.create_dataset_from_buffers(
        f"{name}/test-v0", buffers, observation_space=space, action_space=action_space, jpeg_encoding=False
    )


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            same(value, other[key])
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for mine, yours in zip(one, other, strict=True):
            same(mine, yours)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("infos", [True, False])
@pytest.mark.parametrize("name", SPACES)
def test_there_and_back(name, infos):
    dataset = made(name, infos=infos)
    buffer = ReplayBuffer.from_minari(dataset)
    assert len(buffer) == buffer.maxsize == sum(LENGTHS)
    again = buffer.to_minari(
        f"{name}/again-v0", observation_space=dataset.observation_space, action_space=dataset.action_space
    )
    assert again.total_episodes == len(LENGTHS)
    for one, other in zip(dataset.iterate_episodes(), again.iterate_episodes(), strict=True):
        for field in ("observations", "actions", "rewards", "terminations", "truncations", "infos"):
            same(getattr(one, field), getattr(other, field))


def test_rows_are_the_steps():
    dataset = made("plain", action_space=Dict({"move": PLAIN, "jump": Discrete(2)}))
    buffer = ReplayBuffer.from_minari("plain/test-v0", seed=3)
    episodes = list(dataset.iterate_episodes())
    rows = buffer[:]
    np.testing.assert_array_equal(rows.obs, np.concatenate([e.observations[:-1] for e in episodes]))
    np.testing.assert_array_equal(rows.obs_next, np.concatenate([e.observations[1:] for e in episodes]))
    np.testing.assert_array_equal(rows.act.move, np.concatenate([e.actions["move"] for e in episodes]))
    np.testing.assert_array_equal(rows.info.lives, np.concatenate([e.infos["lives"][1:] for e in episodes]))
    assert rows.first_info.lives[[0, 5, 6]].tolist() == [e.infos["lives"][0] for e in episodes]
    assert not rows.first_info.lives[[1, 2, 3, 4, 7, 8]].any()
    assert np.flatnonzero(rows.terminated).tolist() == [5, 12]
    assert np.flatnonzero(rows.truncated).tolist() == [4, 12]
    assert buffer.prev(np.array([5, 6, 7])).tolist() == [5, 6, 6]


def test_options_and_size():
    made("plain")
    buffer = PrioritizedReplayBuffer.from_minari("plain/test-v0", size=7, alpha=0.6, beta=0.4)
    assert len(buffer) == 7
    assert np.flatnonzero(buffer.terminated[buffer.sample_indices(0)]).tolist() == [6]
    assert buffer.sample(4)[0].weight.shape == (4,)
    with pytest.raises(TypeError, match="one ring, not into a VectorReplayBuffer"):
        VectorReplayBuffer.from_minari("plain/test-v0", buffer_num=2)


def test_observations_are_stored_once():
    space = Box(0, 255, (64, 64), np.uint8)
    image = EpisodeBuffer(
        observations=np.random.default_rng(0).integers(0, 256, (301, 64, 64), dtype=np.uint8),
        actions=np.zeros(300, np.int64),
        rewards=np.zeros(300),
        terminations=np.zeros(300, bool),
        truncations=np.arange(300) == 299,
    )
    dataset = minari.create_dataset_from_buffers(
        "image/test-v0", [image], observation_space=space, action_space=Discrete(1), jpeg_encoding=False
    )
    assert ReplayBuffer.from_minari(dataset).nbytes < 1.5 * 300 * 64 * 64


def test_several_rings_and_running_episodes():
    buffer = VectorReplayBuffer(20, 2, seed=0)
    for step in range(5):
        flags = np.array([step == 2, False])
        obs = np.array([[step], [step + 10]], np.float32)
        row = Batch(obs=obs, act=[0, 1], rew=[1.0, 2.0], terminated=flags, truncated=[False, False], obs_next=obs + 1)
        buffer.add(row)
    spaces = {"observation_space": Box(-99, 99, (1,), np.float32), "action_space": Discrete(2)}
    episodes = list(buffer.to_minari("rings/test-v0", **spaces).iterate_episodes())
    assert [len(episode) for episode in episodes] == [3, 2, 5]
    assert [e.observations[:, 0].tolist() for e in episodes] == [[0, 1, 2, 3], [3, 4, 5], [10, 11, 12, 13, 14, 15]]
    assert [bool(e.terminations[-1]) for e in episodes] == [True, False, False]
    assert [bool(e.truncations[-1]) for e in episodes] == [False, True, True]
    part = buffer.buffers[1].to_minari("rings/part-v0", **spaces)
    assert [episode.observations[0, 0] for episode in part.iterate_episodes()] == [10]


def test_what_minari_has_no_place_for():
    buffer = ReplayBuffer(4, seed=0)
    spaces = {"observation_space": Box(-9, 9, (1,)), "action_space": Discrete(2)}
    with pytest.raises(ValueError, match="empty"):
        buffer.to_minari("odd/test-v0", **spaces)
    for step in range(3):
        buffer.add(Batch(obs=[float(step)], act=0, rew=0.0, terminated=False, truncated=False, obs_next=[9.0]))
    with pytest.raises(ValueError, match=r"obs_next is not the next row's obs"):
        buffer.to_minari("odd/test-v0", **spaces)


def test_an_episode_without_an_end_is_cut_off():
    class Dataset:
        total_steps = 4

        def iterate_episodes(self):
            for start in (0, 10):
                obs = np.arange(start, start + 3)[:, None]
                flags = np.zeros(2, bool)
                yield EpisodeBuffer(None, None, None, obs, np.zeros(2), np.ones(2), flags, flags)

    buffer = ReplayBuffer.from_minari(Dataset())
    assert buffer.truncated.tolist() == [False, True, False, True]
    assert buffer.obs_next[:, 0].tolist() == [1, 2, 11, 12]


def test_without_minari_the_error_says_so():
    code = """
import sys
sys.modules["minari"] = None
from rlfast.data import ReplayBuffer
for call in (lambda: ReplayBuffer.from_minari("x-v0"), lambda: ReplayBuffer(2).to_minari("x-v0")):
    try:
        call()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["Minari is needed: pip install '.[minari]' in the checkout of rlfast"] * 2
