"""The package as a user meets it: what importing it costs and brings, its version, types and names."""

import importlib
import importlib.metadata
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rlfast
from rlfast import _core

PACKAGE = Path(rlfast.__file__).parent
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages([str(PACKAGE)], "rlfast.")
    if not m.name.endswith("__main__") and "._bench" not in m.name
)
DATA_NAMES = (
    "Batch",
    "CachedReplayBuffer",
    "HERReplayBuffer",
    "HERReplayBufferManager",
    "HERVectorReplayBuffer",
    "PrioritizedReplayBuffer",
    "PrioritizedReplayBufferManager",
    "PrioritizedVectorReplayBuffer",
    "ReplayBuffer",
    "ReplayBufferManager",
    "SegmentTree",
    "VectorReplayBuffer",
    "to_numpy",
    "to_torch",
    "to_torch_as",
)


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("heavy", ["torch", "gymnasium", "h5py", "matplotlib", "tensorboard"])
def test_the_buffers_load_nothing_heavy(heavy: str) -> None:
    assert python(f"import sys, rlfast, rlfast.data; print({heavy!r} in sys.modules)") == "False"


def test_the_buffers_work_where_torch_is_not_installed() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("torch", "h5py", "gymnasium")))     # importing any of them raises ImportError
import numpy as np
from rlfast.data import Batch, ReplayBuffer
buffer = ReplayBuffer(4, seed=0)
for i in range(6):
    buffer.add(Batch(obs=i, act=i, rew=1.0, terminated=i == 3, truncated=False, obs_next=i + 1, info={}))
batch, index = buffer.sample(0)
print(batch.obs.tolist(), batch.done.tolist(), index.tolist())
"""
    assert python(code) == "[2, 3, 4, 5] [False, True, False, False] [2, 3, 0, 1]"


def test_one_version() -> None:
    assert rlfast.__version__ == _core.__version__ == importlib.metadata.version("rlfast")


def test_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").is_file()
    declared = set(re.findall(r"^(?:class|def) (\w+)", (PACKAGE / "_core.pyi").read_text(), re.MULTILINE))
    compiled = {n for n in vars(_core) if not n.startswith("_")}
    assert declared == compiled


@pytest.mark.parametrize("name", DATA_NAMES)
def test_names_of_the_data_package(name: str) -> None:
    assert hasattr(importlib.import_module("rlfast.data"), name)


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_promises_is_there(module: str) -> None:
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        if error.name != module or not module.startswith("rlfast.interop."):
            raise
        pytest.skip(str(error))  # an adapter whose host is not installed here
    promised = getattr(loaded, "__all__", [])
    assert len(promised) == len(set(promised))
    assert [n for n in promised if not hasattr(loaded, n)] == []
