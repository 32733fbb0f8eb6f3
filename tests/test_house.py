"""How simple the package is, in figures. ``python tests/test_house.py`` prints them.

Each has a limit, which only comes down, and a goal.
"""

import ast
import importlib
import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "rlfast"
ALGORITHMS = ("modelfree", "imitation", "modelbased")
TORCH_PRIVATE = re.compile(r"\btorch(\.\w+)*\._[a-z]\w*|\.run_backward\(|\b_fused_adam_\b")


def sources(folder: Path, *apart: str) -> Iterator[Path]:
    """The Python files of a folder, but for those of the parts ``apart``."""
    for path in sorted(folder.rglob("*.py")):
        if not {"_bench", *apart} & set(path.relative_to(folder).parts):
            yield path


def code_lines(path: Path) -> int:
    """Lines that are neither docstrings nor comments nor blank."""
    text, docs = path.read_text(), set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docs.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = (number for number, line in enumerate(text.splitlines(), 1) if line.strip(" ") and line.lstrip()[0] != "#")
    return len({*code} - docs)


def classes_of_a_policy() -> int:
    """Classes of ours that the policy with the most of them is derived from, itself included."""
    policy = importlib.import_module("rlfast.policy")
    found = [getattr(policy, name) for name in policy.__all__]
    policies = [one for one in found if inspect.isclass(one) and issubclass(one, policy.BasePolicy)]
    return max(sum(kind.__module__.startswith("rlfast") for kind in one.__mro__) for one in policies)


def computes_a_loss(path: Path) -> bool:
    """Whether a function of the file gives a value to a name with ``loss`` in it."""
    targets = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            targets.append(node.target)
    names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return any("loss" in name.lower() for name in names)


def algorithms_elsewhere() -> int:
    """Files of algorithms that compute no loss."""
    files = [path for name in ALGORITHMS for path in sources(PACKAGE / "policy" / name)]
    files = [path for path in files if path.stem not in ("__init__", "psrl")]  # PSRL counts and has no loss
    return sum(not computes_a_loss(path) for path in files)


def mentions_of_tianshou() -> int:
    """Files of the package that name Tianshou, apart from compatibility and adapters."""
    return sum("ianshou" in path.read_text() for path in sources(PACKAGE, "compat", "interop"))


def private_names_of_torch() -> int:
    """Files with private names of PyTorch, apart from the folder that is there for them."""
    return sum(bool(TORCH_PRIVATE.search(path.read_text())) for path in sources(PACKAGE, "torch_private"))


def parameters_of_any_type() -> int:
    """Parameters, apart from ``*args`` and ``**kwargs``, whose annotation is exactly ``Any``."""
    count = 0
    for path in sources(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arguments):
                given = [one.annotation for one in (*node.posonlyargs, *node.args, *node.kwonlyargs)]
                count += sum(isinstance(one, ast.Name) and one.id == "Any" for one in given)
    return count


def ways_through(method: str, *calls: str) -> int:
    """How many of these ``calls`` of the engine write or read rows for a method of buffers, in any class of them."""
    data, engine = importlib.import_module("rlfast.data"), importlib.import_module("rlfast._core").Replay
    found: set[str] = set()

    def watch(_frame: object, event: str, called: Any) -> None:
        if event == "c_call" and isinstance(getattr(called, "__self__", None), engine) and called.__name__ in calls:
            found.add(called.__name__)

    plain = {"act": 0, "rew": 1.0, "terminated": True, "truncated": False}
    goals = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), np.zeros(2))
    odd = plain | {"obs": [0.0, 1.0], "obs_next": [1.0, 2.0]}
    units = (data.NStep(2, 0.9), data.Sequence(2), data.FrameStack(2))
    buffers = [data.ReplayBuffer(9), data.VectorReplayBuffer(9, 1), data.CachedReplayBuffer(data.ReplayBuffer(9), 1, 9)]
    buffers += [data.PrioritizedReplayBuffer(9, 0.6, 0.4), *(data.ReplayBuffer(9, unit=unit) for unit in units)]
    buffers += [
        data.VectorReplayBuffer(9, 1).buffers[0],
        data.HERReplayBuffer(9, lambda got, wanted: -np.abs(got - wanted).sum(-1), 9),
    ]
    for buffer in buffers:
        row = plain | {"obs": goals, "obs_next": goals} if isinstance(buffer, data.HERReplayBuffer) else odd
        for fields in (row, row | {"info": {"name": "x"}}, row):
            batch = data.Batch.stack([data.Batch(fields)])
            steps = {"add": lambda to=buffer, rows=batch: to.add(rows, [0]), "sample": lambda of=buffer: of.sample(2)}
            for name, step in steps.items():
                sys.setprofile(watch if name == method else None)
                try:
                    step()
                finally:
                    sys.setprofile(None)
    return len(found)


def annotated_names(kind: type) -> set[str]:
    """Names that a class and its bases declare with annotations in their source."""
    found = set()
    for one in kind.__mro__:
        if one.__module__.startswith("rlfast"):
            body = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
            found |= {node.target.id for node in body.body if isinstance(node, ast.AnnAssign)}  # type: ignore[attr-defined]
    return found


def declarations_of_a_setting() -> int:
    """Places that declare a hyper-parameter, most: the policy's constructor, the command line's settings, highlevel."""
    settings = importlib.import_module("rlfast.utils.arguments.settings").settings_of
    config = importlib.import_module("rlfast.experiment.config")
    params = importlib.import_module("rlfast.highlevel.params.policy_params")
    most = 1
    for algorithm in importlib.import_module("rlfast.experiment").ALGORITHMS.values():
        policy = algorithm.config.policy
        own = {one.name for one in settings(f"rlfast.policy.{policy}") if one.has_effect}
        places = [{config.OLD_NAMES.get(name, name) for name in annotated_names(algorithm.config)}]
        if kind := getattr(params, policy.replace("Policy", "Params"), None):
            places.append(annotated_names(kind))
        most = max(most, *(1 + sum(name in place for place in places) for name in own))
    return most


def exempted_imports() -> int:
    """Modules that may import what is above them, apart from the root, which is lazy."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    exempt = {line.split(" -> ")[0] for contract in contracts for line in contract.get("ignore_imports", [])}
    return len(exempt - {"rlfast"})


@dataclass(frozen=True)
class Figure:
    """A figure, the most that it may be, and where it shall go."""

    count: Callable[[], int]
    limit: int
    goal: int


FIGURES = {
    "own classes of a policy, most": Figure(classes_of_a_policy, 5, 5),
    "files of algorithms without their loss": Figure(algorithms_elsewhere, 0, 0),
    "files that mention Tianshou": Figure(mentions_of_tianshou, 10, 10),
    "files with private names of PyTorch": Figure(private_names_of_torch, 0, 0),
    "parameters of type Any": Figure(parameters_of_any_type, 269, 200),
    "ways through add": Figure(lambda: ways_through("add", "add", "append"), 1, 1),
    "ways through sample": Figure(lambda: ways_through("sample", "sample", "take"), 2, 1),
    "declarations of a hyper-parameter, most": Figure(declarations_of_a_setting, 1, 1),
    "modules exempted from the layers": Figure(exempted_imports, 0, 0),
    "lines of code, package": Figure(lambda: sum(map(code_lines, sources(PACKAGE, "highlevel"))), 39_000, 24_900),
    "lines of code, tests": Figure(lambda: sum(map(code_lines, sources(ROOT / "tests"))), 68_000, 43_000),
}


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_goes_up(name: str) -> None:
    figure = FIGURES[name]
    assert figure.count() <= figure.limit


def test_docstrings_and_comments_are_no_code(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""A\nmodule."""\n\n# why\ndef f(x):\n    """Does."""\n    return (  # so\n        x\n    )\n')
    assert code_lines(path) == 4


def test_a_loss_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    for text, found in (("loss = x", True), ("a, vf_loss = x", True), ("y = loss(x)", False), ("loss: float", False)):
        path.write_text(f"def f():\n    {text}\n")
        assert computes_a_loss(path) is found


def test_private_names_are_seen() -> None:
    for text in ("torch._foreach_norm(x)", "from torch._dynamo import y", "torch.autograd.Variable._execution_engine"):
        assert TORCH_PRIVATE.search(text)
    for text in ("torch.nn.functional", "self._torch", "torch.as_tensor(_x)", "__import__('torch')"):
        assert not TORCH_PRIVATE.search(text)


if __name__ == "__main__":
    for name, figure in FIGURES.items():
        sys.stdout.write(f"{name:42} {figure.count():>7,}  (at most {figure.limit:,}; goal {figure.goal:,})\n")
