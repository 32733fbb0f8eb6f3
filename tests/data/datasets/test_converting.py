"""Every format, written from every other, and read back."""

import json
import os
import subprocess

import gymnasium as gym
import h5py
import numpy as np
import pytest

from rlfast.data import Batch, ReplayBuffer, VectorReplayBuffer
from rlfast.data.datasets import converting, parts
from rlfast.data.datasets.buffers import BufferSource
from rlfast.data.datasets.converting import WRITABLE, Target, write
from rlfast.data.datasets.opening import open_source
from rlfast.utils import tree

pytestmark = pytest.mark.filterwarnings("ignore:.*is set to None:UserWarning", "ignore:.*env:UserWarning")
BOX = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
TORQUE = gym.spaces.Box(np.float32([-2.0]), np.float32([6.0]))


def episodes(*lengths, terminated=(), rings=1, info=False):
    """A buffer of episodes that go on from row to row; ``terminated`` are the numbers of those that end so."""
    rng = np.random.default_rng(sum(lengths))
    buffer = VectorReplayBuffer(rings * sum(lengths), rings) if rings > 1 else ReplayBuffer(sum(lengths))
    for number, length in enumerate(lengths):
        obs = rng.normal(size=(rings, length + 1, 3)).astype(np.float32)
        for t in range(length):
            last = np.full(rings, t == length - 1)
            row = Batch(
                obs=obs[:, t],
                act=rng.uniform(-1, 1, (rings, 1)).astype(np.float32),
                rew=rng.integers(9, size=rings).astype(np.float64),
                terminated=last & (number in terminated),
                truncated=last & (number not in terminated),
                obs_next=obs[:, t + 1],
                info={"t": np.full(rings, t)} if info else {},
            )
            buffer.add(row if rings > 1 else row[0])
    return buffer


def all_of(source):
    with source:
        found = list(source.parts())
        assert sum(len(part["rew"]) for part in found) == source.length
    return tree.joined(found)


def assert_same(one, other, act=None):
    for name in ("obs", "rew", "terminated", "truncated", "obs_next"):
        assert np.array_equal(one[name], other[name]), name
        assert one[name].dtype == other[name].dtype, name
    assert one["act"] == pytest.approx(other["act"] if act is None else act, abs=1e-6)


def target(kind):
    return Target(kind=kind, observation_space=BOX, action_space=TORQUE)


@pytest.mark.parametrize("second", WRITABLE)
@pytest.mark.parametrize("first", WRITABLE)
def test_from_every_format_to_every_other(tmp_path, first, second, monkeypatch):
    monkeypatch.setattr(parts, "_PART_ROWS", 7)
    buffer = episodes(5, 12, 3, 1, 9, terminated=(1, 3))
    given, once, twice = all_of(BufferSource(buffer)), tmp_path / "once", tmp_path / "twice"
    assert write([BufferSource(buffer)], once, target(first)) == [once]
    with open_source(str(once)) as source:
        assert source.in_environment_form == (first in ("d4rl", "minari"))
        write([source], twice, target(second))
    again = open_source(str(twice))
    in_environment_form = again.in_environment_form
    assert in_environment_form == (second in ("d4rl", "minari"))
    assert_same(all_of(again), given, given["act"] * 4 + 2 if in_environment_form else given["act"])
    assert {path.name for path in tmp_path.iterdir()} == {"once", "twice"}


@pytest.mark.parametrize("kind", WRITABLE)
@pytest.mark.parametrize("rings", [2, 3])
def test_rings_follow_each_other(tmp_path, kind, rings):
    buffer = episodes(4, 6, terminated=(0,), rings=rings)
    given = all_of(BufferSource(buffer))
    assert np.array_equal(given["obs"], np.concatenate([buffer.buffers[k].obs for k in range(rings)]))
    write([BufferSource(buffer)], tmp_path / "a", Target(kind="hdf5"))
    buffer.save_hdf5(tmp_path / "b")
    for name in "ab":
        with open_source(str(tmp_path / name)) as source:
            write([source], tmp_path / f"{name}2", target(kind))
        found = all_of(open_source(str(tmp_path / f"{name}2")))
        assert_same(found, given, found["act"])


@pytest.mark.parametrize("rings", [1, 2])
@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("kind", ["snapshot", "hdf5"])
def test_rings_that_have_been_overwritten_and_episodes_that_still_run(tmp_path, kind, rings, wraps, monkeypatch):
    monkeypatch.setattr(parts, "_PART_ROWS", 3)
    whole = episodes(4, 6, 3, terminated=(0,), rings=rings)
    buffer = VectorReplayBuffer((8 if wraps else 12) * rings, rings)
    length = 11
    for t in range(length):
        rows = [ring[t : t + 1] for ring in getattr(whole, "buffers", [whole])]
        buffer.add(Batch.cat(rows))
    buffer.save(tmp_path / "data") if kind == "snapshot" else buffer.save_hdf5(tmp_path / "data")
    found = all_of(open_source(str(tmp_path / "data")))
    kept = slice(3, 11) if wraps else slice(0, 11)
    for name in ("obs", "obs_next", "rew"):
        rows = [ring[:][name][kept] for ring in getattr(whole, "buffers", [whole])]
        assert np.array_equal(found[name], np.concatenate(rows)), name
    size = kept.stop - kept.start
    assert found["truncated"][size - 1 :: size].all()  # the running episodes
    assert found["truncated"].sum() == 2 * rings


def test_files_without_next_observations(tmp_path):
    """Tianshou's ``ignore_obs_next``: what follows is the next row's observation, and at an end the row's own."""
    buffer = ReplayBuffer(6, ignore_obs_next=True)
    for t in range(8):
        buffer.add(Batch(obs=[float(t)], act=0, rew=1.0, terminated=t == 4, truncated=False, info={}))
    buffer.save_hdf5(tmp_path / "a")
    buffer.save(tmp_path / "b")
    for name in "ab":
        found = all_of(open_source(str(tmp_path / name)))
        assert found["obs"].flatten().tolist() == [2, 3, 4, 5, 6, 7]
        assert found["obs_next"].flatten().tolist() == [3, 4, 4, 6, 7, 7]


def test_the_last_observations_that_our_files_keep(tmp_path):
    buffer = ReplayBuffer(6, ignore_obs_next=True)
    for t in range(6):
        row = Batch(obs=[float(t)], act=0, rew=1.0, terminated=t in (1, 3), truncated=False, obs_next=[t + 0.5])
        buffer.add(row)
    buffer.save_hdf5(tmp_path / "a")
    assert all_of(open_source(str(tmp_path / "a")))["obs_next"].flatten().tolist() == [1, 1.5, 3, 3.5, 5, 5]


def frames(lengths, stack_num, **options):
    buffer = ReplayBuffer(sum(lengths), stack_num, **options)
    value = 0.0
    for length in lengths:
        for t in range(length):
            value += 1
            ends = t == length - 1
            row = {"obs": [value], "obs_next": [value + 0.5 if ends else value + 1], "act": 0, "rew": 1.0}
            buffer.add(Batch(**row, terminated=ends, truncated=False, info={}))
    return buffer


@pytest.mark.parametrize("kind", ["d4rl", "minari"])
def test_stacks_are_made_for_formats_without_them(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(parts, "_PART_ROWS", 4)
    buffer = frames((2, 7, 1, 3), 3)
    space = gym.spaces.Box(-np.inf, np.inf, (3, 1), np.float64)
    discrete = gym.spaces.Discrete(2, start=5)
    wanted = Target(kind=kind, observation_space=space, action_space=discrete)
    write([BufferSource(buffer)], tmp_path / "a", wanted)
    found = all_of(open_source(str(tmp_path / "a")))
    rows = np.arange(13)
    assert np.array_equal(found["obs"], buffer.get(rows, "obs"))
    assert np.array_equal(found["obs_next"], buffer.get(rows, "obs_next"))
    assert (found["act"] == 5).all()


@pytest.mark.parametrize("kind", ["snapshot", "hdf5"])
def test_buffers_keep_the_length_of_their_stacks(tmp_path, kind):
    write([BufferSource(frames((2, 7), 3))], tmp_path / "a", Target(kind=kind))
    source = open_source(str(tmp_path / "a"))
    assert source.stack_num == 3
    assert all_of(source)["obs"].shape == (9, 1)
    with pytest.raises(ValueError, match=r"stacks of different lengths: \[2, 3\]"):
        write([open_source(str(tmp_path / "a")), BufferSource(frames((3,), 2))], tmp_path / "b", Target(kind=kind))


@pytest.mark.parametrize("kind", WRITABLE)
def test_merging(tmp_path, kind):
    one, other = episodes(5, 2, terminated=(0,), info=True), episodes(3, 9)
    write([BufferSource(other)], tmp_path / "other", target("d4rl"))
    paths = write([BufferSource(one), open_source(str(tmp_path / "other"))], tmp_path / "both", target(kind))
    found = all_of(open_source(str(paths[0])))
    given = [all_of(BufferSource(buffer)) for buffer in (one, other)]
    given[0].pop("info")  # the other has none
    assert_same(found, tree.joined([{name: part[name] for name in found} for part in given]), found["act"])
    assert found["rew"].shape == (19,)


def numbers(dtype, step, *, obs_shape=(3,)):
    buffer = ReplayBuffer(6)
    for t in range(6):
        obs, obs_next = (np.full(obs_shape, t * step + k * step, dtype) for k in range(2))
        row = {"obs": obs, "act": np.full(1, t * step, dtype), "rew": 1.5 * t, "obs_next": obs_next}
        buffer.add(Batch(**row, terminated=t == 5, truncated=False))
    return buffer


@pytest.mark.parametrize("kind", ["snapshot", "hdf5", "d4rl"])
@pytest.mark.parametrize(
    ("second", "match"),
    [
        (numbers(np.float64, 0.25), "obs got float64, but its column holds int64"),
        (numbers(np.float32, 0.25), "0.25 at .* would become 0"),
        (numbers(np.int64, 1, obs_shape=(2,)), r"rows of shapes \(2,\) and \(3,\)"),
        (numbers(np.int64, 1, obs_shape=()), r"rows of shapes \(\) and \(3,\)"),
    ],
)
def test_merging_loses_no_numbers(tmp_path, kind, second, match):
    sources = [BufferSource(numbers(np.int64, 1)), BufferSource(second)]
    with pytest.raises(ValueError, match=f"do not fit together: .*{match}"):
        write(sources, tmp_path / "merged", target(kind))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("kind", ["snapshot", "hdf5", "d4rl"])
def test_merging_gives_all_numbers_the_first_type(tmp_path, kind):
    """Where they fit: integers among floats, doubles among singles."""
    kinds = [(np.float32, 0.25), (np.int64, 1), (np.float64, 0.5)]
    sources = [BufferSource(numbers(*each)) for each in kinds]
    write(sources, tmp_path / "merged", target(kind))
    found = all_of(open_source(str(tmp_path / "merged")))
    assert found["obs"].dtype == found["obs_next"].dtype == np.float32
    for name in ("obs", "obs_next"):
        wanted = np.concatenate([all_of(source)[name] for source in sources])
        assert np.array_equal(found[name], wanted)


@pytest.mark.parametrize("kind", ["snapshot", "hdf5", "minari"])
def test_infos_are_kept(tmp_path, kind):
    write([BufferSource(episodes(5, 2, info=True))], tmp_path / "a", target(kind))
    assert all_of(open_source(str(tmp_path / "a")))["info"]["t"].tolist() == [0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("kind", WRITABLE)
def test_splitting(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(parts, "_PART_ROWS", 3)
    buffer = episodes(5, 4, 8, terminated=(0, 1))
    given = all_of(BufferSource(buffer))
    paths = write([BufferSource(buffer)], tmp_path / "a.x", target(kind), size=7)
    assert [path.name for path in paths] == [f"a-0000{k}-of-00003.x" for k in range(3)]
    assert sorted(paths) == sorted(tmp_path.iterdir())
    found = [all_of(open_source(str(path), kind)) for path in paths]
    assert [len(part["rew"]) for part in found] == [7, 7, 3]
    given["truncated"][[6, 13]] = True  # the episodes that are cut
    whole = tree.joined(found)
    assert_same(whole, given, whole["act"])


def test_a_size_that_all_rows_fit_into_makes_one_file(tmp_path):
    assert write([BufferSource(episodes(5))], tmp_path / "a", Target(kind="snapshot"), size=5) == [tmp_path / "a"]


def test_progress_adds_up(tmp_path):
    steps = []
    write([BufferSource(episodes(5, 4))] * 2, tmp_path / "a", Target(kind="hdf5"), size=7, advance=steps.append)
    assert sum(steps) == 18


class TestNothingIsLeftBehind:
    @pytest.mark.parametrize("kind", WRITABLE)
    @pytest.mark.parametrize("size", [None, 4])
    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_when_a_source_breaks_off(self, tmp_path, kind, size, error):
        class Broken(BufferSource):
            def parts(self):
                for number, part in enumerate(super().parts()):
                    if number == 2:
                        raise error("it is damaged")
                    yield part

        (tmp_path / "a.x").write_text("as before") if kind != "minari" else None
        with pytest.MonkeyPatch.context() as patch, pytest.raises(error, match="it is damaged"):
            patch.setattr(parts, "_PART_ROWS", 4)
            write([Broken(episodes(5, 4, 2))], tmp_path / "a.x", target(kind), size=size)
        assert [path.name for path in tmp_path.iterdir()] == ["a.x"] * (kind != "minari")
        assert kind == "minari" or (tmp_path / "a.x").read_text() == "as before"

    def test_when_the_process_is_killed(self, tmp_path):
        """No file has the final name."""
        code = (
            "import os, sys; from pathlib import Path; sys.path.insert(0, 'tests')\n"
            "from rlfast.data.datasets import converting, parts\n"
            "from rlfast.data.datasets.buffers import BufferSource\n"
            "from rlfast.data import ReplayBuffer\n"
            "buffer = ReplayBuffer(9)\n"
            "for t in range(9):\n"
            "    buffer.append(obs=[t], act=0, rew=1.0, terminated=False, truncated=False, obs_next=[t + 1])\n"
            "converting.write([BufferSource(buffer)], Path(sys.argv[1]), converting.Target(kind='hdf5'),\n"
            "                 advance=lambda n: os.kill(os.getpid(), 9))\n"
        )
        done = subprocess.run([os.sys.executable, "-c", code, str(tmp_path / "a")], check=False, capture_output=True)
        assert done.returncode == -9, done.stderr
        assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("kind", WRITABLE)
def test_data_that_are_there_are_replaced_if_they_are_one_file(tmp_path, kind):
    for length in (5, 4):
        if kind == "minari" and length == 4:
            with pytest.raises(FileExistsError, match="is there already: remove it"):
                write([BufferSource(episodes(4))], tmp_path / "a", target(kind))
        else:
            write([BufferSource(episodes(length))], tmp_path / "a", target(kind))
    assert open_source(str(tmp_path / "a")).length == (5 if kind == "minari" else 4)


@pytest.mark.parametrize(
    ("kind", "changes", "match"),
    [
        ("d4rl", {}, "actions of d4rl data are those of environments, and those given are not: name the environment"),
        ("minari", {}, "a Minari dataset names the spaces of its environment: give --env"),
        ("zip", {}, "there is no kind of data 'zip' to write: choose from snapshot, hdf5, d4rl, minari"),
    ],
)
def test_targets_that_cannot_be_written(tmp_path, kind, changes, match):
    with pytest.raises(ValueError, match=match):
        write([BufferSource(episodes(4))], tmp_path / "a", Target(kind=kind, **changes))
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write([BufferSource(episodes(4))], tmp_path / "gone" / "a", Target(kind="hdf5"))
    with pytest.raises(IsADirectoryError, match="is a folder: give the name of a file"):
        write([BufferSource(episodes(4))], tmp_path, Target(kind="hdf5"))
    with pytest.raises(ValueError, match="no transitions"):
        write([BufferSource(ReplayBuffer(4))], tmp_path / "a", Target(kind="hdf5"))


def test_nested_observations(tmp_path):
    buffer = ReplayBuffer(4)
    for t in range(4):
        obs, obs_next = ({"a": np.full(2, float(k)), "b": {"c": k}} for k in (t, t + 1))
        buffer.append(obs=obs, act=t, rew=1.0, terminated=t == 3, truncated=False, obs_next=obs_next)
    write([BufferSource(buffer)], tmp_path / "a", Target(kind="hdf5"))
    found = all_of(open_source(str(tmp_path / "a")))
    assert found["obs_next"]["b"]["c"].tolist() == [1, 2, 3, 4]
    assert ReplayBuffer.load_hdf5(tmp_path / "a").obs.a[:, 1].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="observations of D4RL are arrays, and these are dicts with a, b"):
        write([BufferSource(buffer)], tmp_path / "b", target("d4rl"))


def test_what_the_writer_of_tianshous_layout_says_is_what_buffers_say(tmp_path):
    """All attributes and datasets equal those that a buffer of the same rows writes itself."""
    buffer = episodes(5, 4, terminated=(0,))
    buffer.save_hdf5(tmp_path / "a")
    write([BufferSource(buffer)], tmp_path / "b", Target(kind="hdf5"))
    with h5py.File(tmp_path / "a") as one, h5py.File(tmp_path / "b") as other:
        names = []
        one.visit(names.append)
        names.remove("_meta/info")  # which is empty
        for name in names:
            assert dict(one[name].attrs) == dict(other[name].attrs), name
            if isinstance(one[name], h5py.Dataset):
                assert np.array_equal(one[name], other[name]), name
        assert dict(one.attrs) == dict(other.attrs)


def test_minari_datasets_say_what_environment_they_are_of(tmp_path):
    env = gym.make("Pendulum-v1")
    wanted = Target(
        kind="minari", observation_space=env.observation_space, action_space=env.action_space, spec=env.spec
    )
    write([BufferSource(episodes(5))], tmp_path / "a", wanted)
    said = json.loads((tmp_path / "a" / "data" / "metadata.json").read_text())
    assert json.loads(said["env_spec"])["id"] == "Pendulum-v1"
    assert (said["dataset_id"], said["total_steps"], said["total_episodes"]) == ("a-v0", 5, 1)
    source = open_source(str(tmp_path / "a"))
    assert source.action_space == env.action_space
    write([source], tmp_path / "b", Target(kind="snapshot"))  # whose actions the space of the dataset converts
    assert all_of(open_source(str(tmp_path / "b")))["act"] == pytest.approx(all_of(source)["act"] / 2)


def test_objects_of_python_are_read_with_the_whole_file(tmp_path):
    buffer = ReplayBuffer(3)
    for t in range(3):
        row = Batch(
            obs=[t], act=0, rew=1.0, terminated=t == 2, truncated=False, obs_next=[t + 1], info={"name": "x" * t}
        )
        buffer.add(row)
    buffer.save_hdf5(tmp_path / "a")
    found = all_of(open_source(str(tmp_path / "a")))
    assert found["info"]["name"].tolist() == ["", "x", "xx"]
    with pytest.raises(ValueError, match="_meta/info/name holds Python objects"):
        write([open_source(str(tmp_path / "a"))], tmp_path / "b", Target(kind="hdf5"))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_long_file_is_read_and_written_in_parts(tmp_path, monkeypatch):
    """No more than a part is in memory at a time, whatever the formats."""
    monkeypatch.setattr(parts, "_PART_ROWS", 100)
    buffer = episodes(*[50] * 30)
    seen = []
    monkeypatch.setattr(converting, "_cut", lambda rows, size, cut=converting._cut: watched(cut(rows, size), seen))
    for kind in WRITABLE:
        write([BufferSource(buffer)], tmp_path / kind, target(kind))
    for kind in WRITABLE:
        with open_source(str(tmp_path / kind)) as source:
            write([source], tmp_path / f"{kind}2", target("hdf5"))
    assert max(seen) == 100
    assert sum(seen) == 8 * 1500


def watched(rows, seen):
    for part in rows:
        seen.append(len(part["rew"]))
        yield part
