"""Files of D4RL hold real numbers: other dtypes are refused, and the dataset named."""

import numpy as np
import pytest

from rlfast.data import ReplayBuffer

h5py = pytest.importorskip("h5py")

ROWS = {
    "observations": np.zeros((4, 2), np.float32),
    "actions": np.zeros((4, 1), np.float32),
    "rewards": np.arange(4, dtype=np.float32),
    "terminals": np.zeros(4, bool),
    "timeouts": np.array([0, 1, 0, 1], bool),
    "next_observations": np.ones((4, 2), np.float32),
}


def load(path, **changed):
    with h5py.File(path, "w") as file:
        for name, column in {**ROWS, **changed}.items():
            file[name] = column
    return ReplayBuffer.from_d4rl(path)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "S3", [("a", "f4"), ("b", "i4")]], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_other_dtypes_are_refused(tmp_path, name, dtype):
    path = tmp_path / "data.hdf5"
    with pytest.raises(ValueError, match=rf"data\.hdf5 is no file of D4RL: {name} has the dtype .*, not real numbers"):
        load(path, **{name: np.zeros(ROWS[name].shape, dtype)})


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_real_dtypes_load(tmp_path, name, dtype):
    assert len(load(tmp_path / "data.hdf5", **{name: ROWS[name].astype(dtype)})) == 4
