import gymnasium as gym
import h5py
import numpy as np
import pytest

from rlfast.data import Batch, ReplayBuffer, VectorReplayBuffer
from rlfast.data.datasets.buffers import BufferSource
from rlfast.data.datasets.opening import open_source
from rlfast.env import DummyVectorEnv, VectorEnvNormObs
from rlfast.experiment.data import load_data, normalize_by_data, returns_of

PENDULUM = gym.make("Pendulum-v1")
SPACES = PENDULUM.observation_space, PENDULUM.action_space


def rows_of(number, rings=1, ends=(), truncated=(), continuous=True):
    """Give a buffer of rows that are numbered from 1; ``ends`` and ``truncated`` are numbers of last rows."""
    rng = np.random.default_rng(0)
    buffer = VectorReplayBuffer(number, rings) if rings > 1 else ReplayBuffer(number)
    for t in range(number // rings):
        obs, obs_next = rng.normal(size=(2, rings, 3)).astype(np.float32)
        act = rng.uniform(-1, 1, (rings, 1)).astype(np.float32) if continuous else rng.integers(3, size=rings)
        flags = {"terminated": np.full(rings, t + 1 in ends), "truncated": np.full(rings, t + 1 in truncated)}
        rew = np.arange(rings) * 100.0 + t + 1
        row = Batch(obs=obs, act=act, rew=rew, obs_next=obs_next, info={}, **flags)
        buffer.add(row if rings > 1 else row[0])
    return buffer


def assert_equal_rows(one, other):
    for name in ("obs", "act", "rew", "terminated", "obs_next"):
        assert np.array_equal(one[:][name], other[:][name]), name


@pytest.mark.parametrize("kind", ["snapshot", "hdf5"])
@pytest.mark.parametrize("rings", [1, 2])
def test_files_of_buffers(tmp_path, kind, rings):
    buffer, path = rows_of(20, rings, ends=(4,)), tmp_path / f"data.{kind}"
    buffer.save(path) if kind == "snapshot" else buffer.save_hdf5(path)
    loaded = load_data(str(path), *SPACES, seed=3)
    assert type(loaded) is ReplayBuffer
    assert_equal_rows(loaded, buffer)
    ends = np.flatnonzero(loaded.truncated)  # the running episode of each ring, and no episode is joined to another
    assert ends.tolist() == ([19] if rings == 1 else [9, 19])
    again, other = (load_data(str(path), *SPACES, seed=seed) for seed in (3, 4))
    drawn = [one.sample(8)[1].tolist() for one in (loaded, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def write_d4rl(path, length=10, terminals=(), timeouts=(), following=False, **changes):
    obs = np.arange(3 * length + 3, dtype=np.float32).reshape(-1, 3)
    columns = {"observations": obs[:-1], "actions": np.linspace(-2, 2, length, dtype=np.float32)[:, None]}
    columns |= {"rewards": np.arange(1.0, length + 1), "terminals": np.isin(np.arange(length), terminals)}
    if timeouts is not None:
        columns["timeouts"] = np.isin(np.arange(length), timeouts)
    if following:
        columns["next_observations"] = obs[1:]
    with h5py.File(path, "w") as file:
        for name, column in (columns | changes).items():
            if column is not None:
                file[name] = column
    return str(path)


class TestD4RL:
    def test_timeouts_are_no_terminals(self, tmp_path):
        path = write_d4rl(tmp_path / "a.hdf5", terminals=(3,), timeouts=(3, 6), following=True)
        with open_source(path) as source:
            assert source.in_environment_form
        buffer = ReplayBuffer.from_d4rl(path)
        assert buffer.rew.tolist() == list(range(1, 11))
        assert np.flatnonzero(buffer.terminated).tolist() == [3]
        assert np.flatnonzero(buffer.truncated).tolist() == [6, 9]
        assert buffer.obs_next[6].tolist() == [21.0, 22.0, 23.0]

    def test_without_next_observations_the_last_row_of_a_cut_off_episode_is_left_out(self, tmp_path):
        buffer = ReplayBuffer.from_d4rl(write_d4rl(tmp_path / "a.hdf5", terminals=(3,), timeouts=(6,)))
        assert buffer.rew.tolist() == [1, 2, 3, 4, 5, 6, 8, 9]  # neither the timeout nor the last row
        assert np.flatnonzero(buffer.terminated).tolist() == [3]
        assert np.flatnonzero(buffer.truncated).tolist() == [5, 7]
        kept = [0, 1, 2, 4, 5, 6, 7]
        assert np.array_equal(buffer.obs_next[kept], buffer.obs[kept] + 3)

    def test_without_timeouts_an_episode_ends_where_the_next_row_begins_elsewhere(self, tmp_path):
        obs = np.arange(30, dtype=np.float32).reshape(10, 3)
        following = np.concatenate([obs[1:], obs[:1]])
        following[4] = -1
        path = write_d4rl(tmp_path / "a.hdf5", timeouts=None, observations=obs, next_observations=following)
        assert np.flatnonzero(ReplayBuffer.from_d4rl(path).truncated).tolist() == [4, 9]

    def test_a_number_that_is_missing_in_each_row_ends_no_episode(self, tmp_path):
        obs = np.arange(30, dtype=np.float32).reshape(10, 3)
        obs[:, 1] = np.nan
        following = np.concatenate([obs[1:], obs[:1]])
        following[4, 1] = 0.0
        path = write_d4rl(tmp_path / "a.hdf5", timeouts=None, observations=obs, next_observations=following)
        assert np.flatnonzero(ReplayBuffer.from_d4rl(path).truncated).tolist() == [4, 9]

    def test_actions_are_turned_into_the_policys(self, tmp_path):
        buffer = load_data(write_d4rl(tmp_path / "a.hdf5", following=True), *SPACES, seed=0)
        assert buffer.act.dtype == np.float32
        assert buffer.act.flatten() == pytest.approx(np.linspace(-1, 1, 10))

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"timeouts": None}, "neither timeouts nor next_observations"),
            ({"rewards": np.zeros(3)}, "the lengths of its datasets differ"),
            ({"rewards": 3.0}, "the lengths of its datasets differ"),
        ],
    )
    def test_files_that_cannot_be_used(self, tmp_path, changes, match):
        with pytest.raises(ValueError, match=match):
            open_source(write_d4rl(tmp_path / "a.hdf5", **changes))

    def test_a_buffer_of_several_rings(self, tmp_path):
        with pytest.raises(TypeError, match="a buffer of one ring, not into a VectorReplayBuffer"):
            VectorReplayBuffer.from_d4rl(write_d4rl(tmp_path / "a.hdf5"))

    def test_a_file_without_actions(self, tmp_path):
        with pytest.raises(ValueError, match="no file of D4RL: it has no actions"):
            ReplayBuffer.from_d4rl(write_d4rl(tmp_path / "a.hdf5", actions=None))


@pytest.mark.filterwarnings("ignore:.*is set to None:UserWarning", "ignore:.*env:UserWarning")
def test_minari_datasets_by_id_and_by_folder(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    buffer = ReplayBuffer(6)
    for t in range(6):
        obs = np.full((2, 3), t, np.float32) + np.array([[0], [1]], np.float32)
        flags = {"terminated": t == 2, "truncated": t == 5}
        buffer.append(obs=obs[0], act=np.full(1, t / 2 - 1, np.float32), rew=1.0, obs_next=obs[1], **flags)
    spaces = {"observation_space": SPACES[0], "action_space": SPACES[1]}
    buffer.to_minari("pendulum/tiny-v0", algorithm_name="x", author="y", **spaces)
    for source in ("pendulum/tiny-v0", str(tmp_path / "pendulum" / "tiny-v0")):
        loaded = load_data(source, *SPACES, seed=0)
        assert loaded.act.flatten() == pytest.approx((np.arange(6) / 2 - 1) / 2)
        assert loaded.obs_next[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("source", ["./gone.hdf5", "gone.snapshot"])
def test_a_file_that_is_not_there(source):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        open_source(source)


def test_data_of_another_environment(tmp_path):
    rows_of(4).save(tmp_path / "data")
    with pytest.raises(ValueError, match=r"observations in .* are of shape \[3\], those of the environment are Box"):
        load_data(str(tmp_path / "data"), gym.spaces.Box(-1, 1, (4,)), SPACES[1], seed=0)
    with pytest.raises(ValueError, match=r"actions in .* are of shape \[1\]"):
        load_data(str(tmp_path / "data"), SPACES[0], gym.spaces.Discrete(3), seed=0)
    ReplayBuffer(3).save(tmp_path / "empty")
    with pytest.raises(ValueError, match="holds no transitions"):
        load_data(str(tmp_path / "empty"), *SPACES, seed=0)


def test_observations_are_scaled_by_the_data():
    buffer = rows_of(20, ends=(4,))
    obs, obs_next = buffer.obs.copy(), buffer.obs_next.copy()
    envs = VectorEnvNormObs(DummyVectorEnv([lambda: gym.make("Pendulum-v1")]), update_obs_rms=False)
    normalize_by_data(buffer, envs)
    assert buffer.obs.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-6)
    assert buffer.obs.std(axis=0) == pytest.approx(np.ones(3), abs=1e-5)
    assert buffer.obs_next == pytest.approx((obs_next - obs.mean(axis=0)) / obs.std(axis=0), abs=1e-4)
    assert envs.get_obs_rms().mean == pytest.approx(obs.mean(axis=0))
    envs.close()


def test_scaled_observations_are_not_cut_to_integers():
    buffer = ReplayBuffer(4)
    for t in range(4):
        buffer.append(obs=[t, 0], act=0, rew=0.0, terminated=False, truncated=False, obs_next=[t + 1, 0])
    with pytest.raises(ValueError, match="observations of the data are int64, and scaled ones are not"):
        normalize_by_data(buffer, None)
    assert buffer.obs[:, 0].tolist() == [0, 1, 2, 3]


def test_returns_and_lengths_of_episodes():
    def figures(buffer):
        return [figure.tolist() for figure in returns_of(BufferSource(buffer))]

    assert figures(rows_of(10, ends=(3,), truncated=(5,))) == [[6.0, 9.0, 40.0], [3, 2, 5]]
    returns, lengths = figures(
        rows_of(20, rings=2, ends=(3,), truncated=(5,))
    )  # no episode is joined to another ring's
    assert returns == [6.0, 9.0, 40.0, 306.0, 209.0, 540.0]
    assert lengths == [3, 2, 5, 3, 2, 5]
    assert figures(ReplayBuffer(4)) == [[], []]


def test_episodes_that_are_longer_than_the_parts_that_are_read(monkeypatch):
    monkeypatch.setattr("rlfast.data.datasets.parts._PART_ROWS", 2)
    returns, lengths = returns_of(BufferSource(rows_of(10, ends=(3, 8))))
    assert returns.tolist() == [6.0, 30.0, 19.0]
    assert lengths.tolist() == [3, 5, 2]
