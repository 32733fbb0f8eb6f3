import contextlib
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rlfast.data import Batch, ReplayBuffer
from rlfast.data.formats.hdf5 import from_hdf5, require_h5py, to_hdf5
from rlfast.data.formats.safe_pickle import dumps, loads

h5py = pytest.importorskip("h5py")
TIANSHOU = os.environ.get("RLFAST_TIANSHOU_PYTHON")


class Point:
    """A class that no file may instantiate."""

    def __init__(self, x=0):
        self.x = x


class Hostile:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def contents():
    return {
        "flag": True,
        "count": 3,
        "speed": 2.5,
        "array": np.arange(6, dtype="i2").reshape(2, 3),
        "none": np.zeros((0, 3)),
        "zero_d": np.array(1.5),
        "tensor": torch.arange(3.0),
        "batch": Batch(a=[1, 2], b={"c": ["x", None], "d": {}}, n=None, s="text", x=np.float32(1.5)),
        "dict": {"e": {"f": (1, "two", [3.0, {4}, b"5", 6j, bytearray(b"7"), frozenset({8})])}},
        "objects": np.array([None, {"g": 1}, "s", np.arange(3.0)], dtype=object),
        "strings": np.array(["x", "yy"]),
        "date": np.array(["2020-01-01"], "M8[s]"),
        "big": 2**80,
    }


def write(path, data, **options):
    with h5py.File(path, "w") as file:
        to_hdf5(data, file, **options)
    return path


def read(path, **options):
    with h5py.File(path) as file:
        return from_hdf5(file, **options)


def plain(x):
    if isinstance(x, Batch):
        return "batch", {k: plain(v) for k, v in x.__dict__.items()}
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, torch.Tensor):
        return "tensor", x.dtype, x.tolist()
    if isinstance(x, np.ndarray):
        return x.dtype, [plain(v) for v in x.ravel()] if x.dtype == object else x.tolist()
    return x


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_what_is_written_is_read(tmp_path, compression):
    got = read(write(tmp_path / "x.h5", contents(), compression=compression))
    assert plain(got) == plain(contents())


def test_the_layout_is_tianshous(tmp_path):
    with h5py.File(write(tmp_path / "x.h5", contents())) as file:
        kinds = {key: value.attrs.get("__data_type__") for key, value in file.items()}
        assert dict(file.attrs) == {"flag": True, "count": 3, "speed": 2.5}
        assert kinds == {
            "array": "ndarray",
            "none": "ndarray",
            "zero_d": "ndarray",
            "tensor": "Tensor",
            "batch": "Batch",
            "dict": None,
            "objects": "pickled_ndarray",
            "strings": "pickled_ndarray",
            "date": "pickled_ndarray",
            "big": "int",
        }
        assert file["big"].dtype == np.int8


@pytest.mark.skipif(TIANSHOU is None, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou 1.0")
def test_files_go_both_ways(tmp_path):
    ours = write(tmp_path / "ours.h5", contents())
    theirs = tmp_path / "theirs.h5"
    code = f"""
import h5py
from tianshou.data.utils.converter import from_hdf5, to_hdf5
with h5py.File({str(ours)!r}) as a, h5py.File({str(theirs)!r}, "w") as b:
    data = from_hdf5(a)
    assert data.pop("big") == 2**80  # which Tianshou reads, but cannot write
    to_hdf5(data, b)
"""
    done = subprocess.run([TIANSHOU, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = contents()
    del wanted["big"]
    assert plain(read(theirs)) == plain(wanted)


def test_the_device_of_tensors(tmp_path):
    assert read(write(tmp_path / "x.h5", {"t": torch.ones(1)}), device="cpu")["t"].device.type == "cpu"


@pytest.mark.parametrize("key", ["a/b", "", ".", "__data_type__", 1, "a\0b", "\0", "a\0"])
def test_keys_that_hdf5_cannot_hold(tmp_path, key):
    with pytest.raises(ValueError, match="a key in an HDF5 file"):
        write(tmp_path / "x.h5", {key: 1})


@pytest.mark.parametrize(
    ("value", "error"), [(lambda: 0, NotImplementedError), (np.array([lambda: 0, None]), RuntimeError)]
)
def test_what_cannot_be_pickled(tmp_path, value, error):
    with pytest.raises(error, match="pickle"):
        write(tmp_path / "x.h5", {"a": value})


def test_without_h5py_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"\.\[hdf5\]"):
        require_h5py()


# -- what a file may not do --------------------------------------------------------------------------------------------


def pickled(path, data):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.frombuffer(data, np.byte)).attrs["__data_type__"] = "object"
    return path


def endless(mark):
    return [
        Hostile(os.mkdir, mark),
        Hostile(eval, f"__import__('os').mkdir({mark!r})"),
        Hostile(getattr, Point, "x"),
        Hostile(range, 10**12),
        Hostile(bytearray, 10**12),
        Hostile(np.zeros, 10**12),
        Hostile(np.ndarray, (10**12,)),
        Hostile(Batch, {"a": 1}),
        Hostile(Point, 1),
        os.mkdir,
        np.random.RandomState(0),
    ]


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize("which", range(11))
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_runs_nothing(tmp_path, which, protocol):
    mark = str(tmp_path / "mark")
    path = pickled(tmp_path / "x.h5", pickle.dumps([endless(mark)[which]], protocol))
    with pytest.raises(pickle.UnpicklingError):
        read(path)
    assert not Path(mark).exists()


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize(
    "state",
    [
        (1, (10**12,), np.dtype("O"), False, [None]),
        (1, (3,), np.dtype("O"), False, [None]),
        (1, (-1,), np.dtype("f8"), False, b""),
        (1, (10**12,), np.dtype("f8"), False, b"8 bytes."),
        (1, (1,), np.dtype("O"), False, b"8 bytes."),
        (1, (1,), np.dtype("f8"), False, [1]),
        (1, (1,), "f8", False, b"8 bytes."),
        7,
    ],
)
def test_an_array_has_the_size_of_its_values(state):
    class Array:
        def __reduce__(self):
            return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state

    with pytest.raises(pickle.UnpicklingError):
        loads(pickle.dumps(Array()))


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize(
    "program",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x02\x82\x01.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",
        b"\x80\x04cnumpy\ndtype\n}\x8c\x0c__defaults__)sb.",  # sets attributes of a function
        b"\x80\x04cnumpy\ndtype\n\x8c\x0210R.",
        b"\x80\x04Pname\n.",
        b"\x80\x04",
        b"",
        b"garbage",
    ],
)
def test_other_hostile_programs(program):
    with pytest.raises(pickle.UnpicklingError):
        loads(program)


@pytest.mark.pitfall("D7")
def test_a_pickle_with_flipped_bits_is_data_or_an_error():
    good = dumps([np.arange(5), {"a": np.array([None, "x"], dtype=object)}, np.float32(1)])
    rng = np.random.default_rng(0)
    for _ in range(3000):
        bad = bytearray(good)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        with contextlib.suppress(pickle.UnpicklingError):
            loads(bytes(bad))


def test_a_trusted_pickle_is_run(tmp_path):
    path = pickled(tmp_path / "x.h5", pickle.dumps(Hostile(divmod, 7, 2)))
    assert read(path, allow_pickle=True)["x"] == (3, 1)


def test_classes_can_be_renamed_and_rebuilt():
    class Shell:
        pass

    data = dumps([Point(3), Point(4)], {Point: ("elsewhere", "Place")})
    assert b"Place" in data
    assert b"Point" not in data
    assert [shell.x for shell in loads(data, {("elsewhere", "Place"): Shell})] == [3, 4]
    assert [shell.x for shell in loads(data, {("elsewhere", "Place"): Shell}, allow_pickle=True)] == [3, 4]
    with pytest.raises(pickle.UnpicklingError, match=r"elsewhere\.Place"):
        loads(data)


def test_a_batch_in_a_pickle_gets_its_fields():
    data = pickle.dumps([Batch(a=[1, 2], b={"c": 3})])
    (got,) = loads(data, {("rlfast.data.batch.batch", "Batch"): Batch})
    assert plain(got) == plain(Batch(a=[1, 2], b={"c": 3}))


def test_pickles_name_numpy_as_all_versions_do():
    data = dumps([np.array([None], dtype=object), np.float64(1)])
    assert b"numpy.core.multiarray" in data
    assert b"numpy._core" not in data
    assert plain(pickle.loads(data)[0]) == plain(np.array([None], dtype=object))


@pytest.mark.pitfall("D7")
def test_a_shape_without_data_allocates_nothing(tmp_path):
    for options in ({}, {"chunks": (1024,), "compression": "gzip"}):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("x", shape=(10**13,), dtype="f8", **options).attrs["__data_type__"] = "ndarray"
        with pytest.raises(ValueError, match="claims 80000000000000 bytes"):
            read(tmp_path / "x.h5")


@pytest.mark.pitfall("D7")
def test_loops_of_links_end(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_group("a")["b"] = file["/"]
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["a"] = h5py.SoftLink("/")
    for name, text in (("x.h5", "reached twice"), ("y.h5", "link")):
        with pytest.raises(ValueError, match=text):
            read(tmp_path / name)


def test_foreign_files_are_named_as_such(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(3)
    with pytest.raises(ValueError, match="not written by to_hdf5"):
        read(tmp_path / "x.h5")


def test_texts_of_different_lengths_load(tmp_path):
    """Such columns come from ``info`` dicts in files of other libraries."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        column = file.create_dataset("name", (2,), h5py.string_dtype(), data=["a", "bcd"])
        column.attrs["__data_type__"] = "ndarray"
        file.create_dataset("reference", (1,), h5py.ref_dtype, data=[column.ref])
        file["reference"].attrs["__data_type__"] = "ndarray"
    with h5py.File(tmp_path / "x.h5") as file:
        assert from_hdf5(file["name"]).tolist() == [b"a", b"bcd"]
        with pytest.raises(ValueError, match="which are no numbers"):
            from_hdf5(file["reference"])


def test_a_file_of_another_kind_is_named(tmp_path):
    path = tmp_path / "junk.hdf5"
    path.write_bytes(b"junk" * 100)
    with pytest.raises(
        OSError, match=rf"^{re.escape(str(path))} cannot be read as an HDF5 file: .*signature not found"
    ):
        ReplayBuffer.load_hdf5(path)
