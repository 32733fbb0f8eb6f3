"""Adapters can be imported if their library is installed, and otherwise raise an error that names it."""

import subprocess
import sys

import pytest

import rlfast
from rlfast import interop

ADAPTERS = sorted(interop._ADAPTERS)


def outcome(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_interop_is_found_from_the_root() -> None:
    assert rlfast.interop is interop
    assert set(ADAPTERS) <= set(dir(interop))
    with pytest.raises(AttributeError, match="sb2"):
        interop.sb2


def test_nothing_of_a_host_is_imported_unasked() -> None:
    code = "import sys, rlfast.interop; print({'torch', 'gymnasium', 'stable_baselines3'} & set(sys.modules))"
    assert outcome(code) == "set()\n"


@pytest.mark.parametrize(
    ("adapter", "absent", "extra"), [("sb3", "stable_baselines3", "sb3"), ("cleanrl", "gymnasium", "train")]
)
def test_a_missing_host_is_named_with_its_remedy(adapter: str, absent: str, extra: str) -> None:
    said = outcome(f"import sys; sys.modules[{absent!r}] = None\nimport rlfast.interop.{adapter}")
    assert said.splitlines()[-1].startswith(f"ImportError: rlfast.interop.{adapter} works inside ")
    assert said.splitlines()[-1].endswith(f"pip install '.[{extra}]' in the checkout of rlfast")
