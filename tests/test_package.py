"""The package as a whole: the time and the modules of its import, its version, types and names."""

import importlib
import importlib.metadata
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rlfast
from rlfast import _core
from rlfast.experiment import DQNConfig

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
    """Returns the output of a new interpreter."""
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


ALONE = "import sys; sys.modules.update(dict.fromkeys(('torch', 'h5py', 'gymnasium', 'tensorboard')))\n"
"""With NumPy alone: importing any of these raises ModuleNotFoundError."""


def test_star_imports_give_what_is_there() -> None:
    given = python(ALONE + "from rlfast.data import *; print('ReplayBuffer' in dir(), 'Collector' in dir())")
    assert given == "True False"
    assert python(ALONE + "from rlfast import *; print('data' in dir(), 'policy' in dir())") == "True False"
    assert python("from rlfast.data import *; print('ReplayBuffer' in dir(), 'Collector' in dir())") == "True True"


@pytest.mark.parametrize(
    ("statement", "who"),
    [
        ("import rlfast.policy", "rlfast.policy needs"),
        ("import rlfast.env", "rlfast.env needs gymnasium"),
        ("import rlfast.trainer", "rlfast.\\w+ needs"),
        ("import rlfast.utils.net.common", "rlfast.utils.net needs torch"),
        ("from rlfast.data import Collector", "rlfast.data.Collector needs"),
        ("import rlfast; rlfast.make_vec", "rlfast.env needs gymnasium"),
        ("import rlfast.data as data; data.to_torch([1])", "to_torch needs torch"),
        ("import rlfast.data as data; data.Batch(a=1).to_torch()", "to_torch needs torch"),
    ],
)
def test_what_is_missing_is_named_with_its_extra(statement: str, who: str) -> None:
    code = ALONE + f"try:\n    {statement}\nexcept ImportError as error:\n    print(error)"
    hint = r", which cannot be imported; install it: pip install '\.\[train\]' in the checkout of rlfast"
    assert re.search(who + ".*" + hint, python(code))


def test_every_module_works_with_numpy_alone_or_names_what_it_needs() -> None:
    """Those of ``rlfast.interop`` name their hosts."""
    others = ("annotated_types", "cloudpickle", "safetensors", "scipy", "matplotlib", "optuna", "tqdm", "ray", "ale_py")
    others += ("wandb",)
    code = (
        ALONE
        + f"""
import importlib, sys
sys.modules.update(dict.fromkeys({others}))
for name in {MODULES}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if "; install it: pip install" not in str(error):
            print(name, error)
"""
    )
    assert python(code) == ""


def test_the_command_names_the_extra_in_one_line(tmp_path: Path) -> None:
    config = {"algorithm": "dqn", "config": json.loads(DQNConfig().to_json())}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for command in (["train", "dqn"], ["eval", str(tmp_path)], ["train", "--resume", str(tmp_path)]):
        code = ALONE + f"import io; sys.stderr = io.StringIO(); from rlfast.cli import main; print(main({command}))"
        shown = python(code + "; print(sys.stderr.getvalue())").splitlines()
        assert shown[0] == "1"
        assert shown[1].startswith("rlfast: ")
        assert shown[1].endswith("install it: pip install '.[train]' in the checkout of rlfast")
        assert len(shown) == 2


def test_buffers_load_no_loggers() -> None:
    assert (
        python("import sys; from rlfast.data import ReplayBuffer; print('rlfast.utils.logger' in sys.modules)")
        == "False"
    )


def test_one_version() -> None:
    assert rlfast.__version__ == _core.__version__ == importlib.metadata.version("rlfast")
    assert f'version: "{rlfast.__version__}"' in (Path(__file__).parents[1] / "packaging" / "recipe.yaml").read_text()


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
