"""Fixtures of all tests: fixed seeds, one numeric thread, and a temporary folder for runs."""

import os

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # read once, when NumPy and torch load: so before anything else is imported

import gc
import random
import sys
from collections.abc import Generator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("random"), derandomize=True)
settings.load_profile("same")  # a push fails for what it changed; `make fuzz` draws new examples


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leaves doctests to the package: a test module that one of them failed to import counts as empty afterwards."""
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spares the garbage collector the tests themselves, thousands of objects each run of it would look at."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or nanobind, which some libraries are made with, tells of objects that were never freed


@pytest.fixture(autouse=True)
def _seeds() -> None:
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:  # a test that imports torch later seeds it itself
        sys.modules["torch"].manual_seed(0)
        sys.modules["torch"].set_grad_enabled(True)  # a test of interrupts that fails must fail alone


@pytest.fixture(autouse=True)
def _registrations() -> Generator[None, None, None]:
    """Forgets the environments of classes that a test registers. (Those of packages that it imports are strings.)"""
    before = dict(gym.registry)
    yield
    if gym.registry != before:
        for name, spec in [*gym.registry.items()]:
            if name not in before and not isinstance(spec.entry_point, str):
                del gym.registry[name]
        gym.registry.update(before)


@pytest.fixture(autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> None:
    """Each test has its own record of what the user has asked for. The folder is made when something is written."""
    folder = tmp_path_factory.getbasetemp() / "state" / f"{abs(hash(request.node.nodeid))}"
    os.environ["XDG_STATE_HOME"] = str(folder)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run folder that does not exist yet, as a training run finds it."""
    return tmp_path / "run"
