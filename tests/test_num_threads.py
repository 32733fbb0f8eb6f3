"""The number of threads of the engine, on which no result depends."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rlfast
from rlfast._core import NativeEnvs
from rlfast.data import Batch, ReplayBuffer
from rlfast.utils.runtime.cores import cores

needs_cores = pytest.mark.skipif(cores() < 2, reason="one core, or a quota of less than two, needs no helpers")


@pytest.fixture(autouse=True)
def _as_it_was():
    before = rlfast.get_num_threads()
    yield
    rlfast.set_num_threads(before)


def test_the_bound_is_told_and_never_above_the_cores():
    most = rlfast.get_num_threads()
    rlfast.set_num_threads(1)
    assert rlfast.get_num_threads() == 1
    rlfast.set_num_threads(10**9)
    assert rlfast.get_num_threads() == most


@pytest.mark.parametrize(
    ("n", "error"),
    [(0, ValueError), (-1, ValueError), (2**64, OverflowError), (1.5, TypeError), ("2", TypeError), (None, TypeError)],
)
def test_a_bound_that_is_none_is_refused(n, error):
    before = rlfast.get_num_threads()
    with pytest.raises(error):
        rlfast.set_num_threads(n)
    assert rlfast.get_num_threads() == before


def sampled():
    """A sample that is large enough to be shared."""
    buffer = ReplayBuffer(64, seed=3)
    for step in range(64):
        row = np.full(50_000, step, np.float32)
        buffer.add(Batch(obs=row, act=step, rew=0.0, terminated=False, truncated=False, obs_next=row + 1, info={}))
    batch, index = buffer.sample(64)
    return [index, batch.obs, batch.obs_next]


def stepped():
    """Steps of so many environments that threads share them."""
    envs = NativeEnvs("Acrobot-v1", 3000, "SameStep")
    obs, _ = envs.reset(None, list(range(3000)))
    actions = np.arange(3000) % 3
    return [obs, *(envs.step(actions)[0] for _ in range(30))]


@pytest.mark.parametrize("work", [sampled, stepped])
def test_results_do_not_depend_on_it(work):
    rlfast.set_num_threads(1)
    alone = work()
    rlfast.set_num_threads(64)
    together = work()
    assert all((one == other).all() for one, other in zip(alone, together, strict=True))


HELPERS = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
import rlfast
{first}
from test_num_threads import sampled
sampled()
names = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
print(rlfast.get_num_threads(), names.count("rlfast-pool"))
"""


def in_a_process(first="", **environment):
    """``(threads, helpers)`` after a large sample."""
    path = [str(Path(__file__).parent), *sys.path]
    environment = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", HELPERS.format(path=path, first=first)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return *map(int, done.stdout.split()), done.stderr


@pytest.fixture(scope="module")
def unbounded():
    return in_a_process(RLFAST_NUM_THREADS="")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted through /proc")
class TestHelpers:
    @needs_cores
    def test_there_are_some_without_a_bound(self, unbounded):
        threads, helpers, _ = unbounded
        assert threads >= 2
        assert helpers >= 1

    def test_there_are_none_for_one_thread(self):
        assert in_a_process("rlfast.set_num_threads(1)")[:2] == (1, 0)

    def test_the_environment_sets_it(self):
        assert in_a_process(RLFAST_NUM_THREADS="1")[:2] == (1, 0)

    @pytest.mark.parametrize("given", ["many", "0", "-2", "1.5"])
    def test_what_makes_no_sense_is_warned_of(self, unbounded, given):
        threads, _, shown = in_a_process(RLFAST_NUM_THREADS=given)
        assert threads == unbounded[0]
        assert "RuntimeWarning" in shown
        assert "RLFAST_NUM_THREADS" in shown
        assert given in shown
