"""HDF5 files whose parts are elsewhere are refused by every reader. Nothing outside is read or waited for."""

import os
import pickle
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rlfast.data import Batch, ReplayBuffer, VectorReplayBuffer
from rlfast.data.datasets.converting import Target
from rlfast.data.datasets.converting import write as write_all
from rlfast.data.datasets.opening import open_source
from rlfast.data.formats.hdf5 import from_hdf5

h5py = pytest.importorskip("h5py")


@contextmanager
def deadline(seconds=20):
    """Ends the process where something waits for a pipe."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def external(folder, name):
    """A link to an array of another file."""
    with h5py.File(folder / "other.h5", "w") as file:
        file["secret"] = np.arange(40.0).reshape(10, 4)
    return h5py.ExternalLink(str(folder / "other.h5"), "/secret")


def pipe(folder, name):
    os.mkfifo(folder / "pipe")
    return h5py.ExternalLink(str(folder / "pipe"), "/x")


LINKS = {
    "external": external,
    "pipe": pipe,
    "device": lambda folder, name: h5py.ExternalLink("/dev/zero", "/x"),
    "nowhere": lambda folder, name: h5py.ExternalLink(str(folder / "nothing.h5"), "/x"),
    "itself": lambda folder, name: h5py.SoftLink(f"/{name}"),
    "missing": lambda folder, name: h5py.SoftLink("/missing"),
    "another": lambda folder, name: h5py.SoftLink("/actions"),
}


def raw(file, name, folder):
    (folder / "secret").write_bytes(bytes(320))
    file.create_dataset(name, (10, 4), "f8", external=[(str(folder / "secret"), 0, 320)])


def virtual(file, name, folder):
    external(folder, name)
    layout = h5py.VirtualLayout((10, 4), "f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", (10, 4))
    file.create_virtual_dataset(name, layout)


def text(file, name, folder):
    file.create_dataset(name, (10,), h5py.string_dtype(), data=["x"] * 10)


def references(file, name, folder):
    file.create_dataset(name, (10,), h5py.ref_dtype)


def lengths(file, name, folder):
    file.create_dataset(name, (10,), h5py.vlen_dtype("f8"))


def records(file, name, folder):
    file.create_dataset(name, (10,), np.dtype([("a", "f8"), ("b", h5py.string_dtype())]))


def kind(file, name, folder):
    file[name] = np.dtype("f8")


def group(file, name, folder):
    file.create_group(name)


def claims(file, name, folder):
    file.create_dataset(name, (10**13, 4), "f8", chunks=(1024, 4))


ODD = [raw, virtual, text, references, lengths, records, kind, group, claims]


def d4rl(path, name, put):
    """A file of D4RL with another thing in the place of one of its datasets."""
    parts = {
        "observations": np.zeros((10, 4)),
        "next_observations": np.zeros((10, 4)),
        "actions": np.zeros((10, 2)),
        "rewards": np.zeros(10),
        "terminals": np.zeros(10, bool),
        "timeouts": np.zeros(10, bool),
    }
    with h5py.File(path, "w") as file:
        for key, value in parts.items():
            if key != name:
                file[key] = value
        put(file, name)


READERS = {"open_source": lambda path: open_source(str(path)), "from_d4rl": ReplayBuffer.from_d4rl}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["observations", "next_observations", "actions", "rewards", "terminals", "timeouts"])
@pytest.mark.parametrize("what", [*LINKS, *ODD], ids=lambda what: getattr(what, "__name__", what))
def test_files_of_d4rl(tmp_path, reader, name, what):
    def put(file, name):
        if callable(what):
            what(file, name, tmp_path)
        else:
            file[name] = LINKS[what](tmp_path, name)

    d4rl(tmp_path / "x.h5", name, put)
    with deadline(), pytest.raises(ValueError, match=r"link|damaged|another file|no dataset|no numbers|claims"):
        READERS[reader](tmp_path / "x.h5")


def test_a_file_of_d4rl_as_it_should_be_is_read(tmp_path):
    def put(file, name):
        file[name] = np.arange(40.0).reshape(10, 4)

    d4rl(tmp_path / "x.h5", "observations", put)
    assert ReplayBuffer.from_d4rl(tmp_path / "x.h5")[:].obs.tolist() == np.arange(40.0).reshape(10, 4).tolist()


def buffer(rings=1):
    made = VectorReplayBuffer(10, rings, seed=0) if rings > 1 else ReplayBuffer(10, ignore_obs_next=True, seed=0)
    row = Batch(obs=np.zeros((rings, 4)), act=np.zeros(rings), rew=np.zeros(rings), info=Batch(a=np.zeros(rings)))
    for step in range(10 // rings):
        ends = np.full(rings, step == 2)
        made.add(Batch(row, terminated=ends, truncated=~ends & False, obs_next=row.obs), np.arange(rings))
    return made


PLACES = {
    1: ["_meta", "_meta/obs", "_meta/info", "_meta/info/a", "_last_obs_next", "_last_obs_next/rows", "_ep_rew"],
    2: ["_meta", "_meta/obs", "_extend_offset", "_lengths", "last_index", "buffers"],
}


@pytest.mark.parametrize(("rings", "name"), [(rings, name) for rings, names in PLACES.items() for name in names])
@pytest.mark.parametrize("what", LINKS)
def test_files_of_buffers(tmp_path, rings, name, what):
    whole = buffer(rings)
    whole.save_hdf5(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        if name not in file:
            pytest.skip("this buffer does not store it")
        del file[name]
        file[name] = LINKS[what](tmp_path, name)
    with deadline():
        with pytest.raises(ValueError, match=r"x\.h5"):
            type(whole).load_hdf5(tmp_path / "x.h5")
        with h5py.File(tmp_path / "x.h5") as file, pytest.raises((ValueError, pickle.UnpicklingError)):
            from_hdf5(file)
        if name in ("_ep_rew", "buffers"):  # which this one does not read
            return
        with pytest.raises(ValueError, match=r"x\.h5.*link"):
            open_source(str(tmp_path / "x.h5"), "hdf5")


@pytest.mark.parametrize("reader", ["source", "buffer", "values"])
def test_a_lattice_of_groups_is_walked_once(tmp_path, reader):
    """Sixty groups, each of which holds the next one twice: 2**60 paths."""
    buffer().save_hdf5(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        below = file.create_group("_meta/info/last")
        for depth in range(60):
            above = file.create_group(f"_meta/info/group{depth}") if depth < 59 else file["_meta/info"]
            above["left"], above["right"] = below, below
            below = above
    with deadline(), pytest.raises(ValueError, match="reached twice"), h5py.File(tmp_path / "x.h5") as file:
        if reader == "values":
            from_hdf5(file)
        elif reader == "source":
            open_source(str(tmp_path / "x.h5"), "hdf5")
        else:
            ReplayBuffer.load_hdf5(tmp_path / "x.h5")


def test_pipes_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    readers = [
        ReplayBuffer.from_d4rl,
        ReplayBuffer.load_hdf5,
        ReplayBuffer.load,
        lambda path: open_source(str(path)),
        lambda path: open_source(str(path), "d4rl"),
        lambda path: open_source(str(path), "snapshot"),
        lambda path: open_source(str(path), "rl-unplugged"),
    ]
    with deadline():
        for reader in readers:
            for path in (tmp_path / "pipe", tmp_path):
                with pytest.raises((ValueError, OSError)):
                    reader(path)


def test_a_dataset_of_minari_with_links(tmp_path):
    minari = pytest.importorskip("minari")
    source = buffer()
    source.save(tmp_path / "x.snapshot")
    target = Target(kind="minari", observation_space=Box(-1, 1, (4,), np.float64), action_space=Discrete(2))
    write_all([open_source(str(tmp_path / "x.snapshot"))], tmp_path / "mine-v0", target)
    open_source(str(tmp_path / "mine-v0"))
    (path,) = (tmp_path / "mine-v0" / "data").glob("*.hdf5")
    with h5py.File(path, "r+") as file:
        del file["episode_0/observations"]
        file["episode_0/observations"] = external(tmp_path, "x")
    with deadline(), pytest.raises(ValueError, match="holds a link"):
        open_source(str(tmp_path / "mine-v0"))
    assert minari


@pytest.mark.parametrize("name", ["x.h5.part", "x.h5"])
def test_links_are_not_written_through(tmp_path, name):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / name).symlink_to(tmp_path / "precious")
    buffer().save_hdf5(tmp_path / "x.h5")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert len(ReplayBuffer.load_hdf5(tmp_path / "x.h5")) == 10


@pytest.mark.parametrize("format", ["hdf5", "d4rl", "snapshot"])
@pytest.mark.parametrize("temporary", [True, False])
def test_datasets_are_not_written_through_links(tmp_path, format, temporary):
    name = f".x.data.{os.getpid()}.part" if temporary else "x.data"
    buffer().save(tmp_path / "rows.snapshot")
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / name).symlink_to(tmp_path / "precious")
    target = Target(kind=format, action_space=Discrete(2))
    write_all([open_source(str(tmp_path / "rows.snapshot"))], tmp_path / "x.data", target)
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "x.data").is_symlink()
