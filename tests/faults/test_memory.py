"""A capacity that does not fit is refused with its size in bytes before any memory is touched."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from faults.engines import add, engine
from pitfalls.rows import transition
from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer

resource = pytest.importorskip("resource", reason="POSIX counts resident memory")
FRAMES = np.zeros((4, 84, 84), np.uint8)


def resident():
    """Bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def one_row(buffer):
    if hasattr(buffer, "buffer_num"):
        buffer.add(Batch.stack([transition(FRAMES)]), buffer_ids=[0])
    else:
        buffer.add(transition(FRAMES))


@pytest.mark.parametrize("rows", [10**9, 10**12, 2**50, 2**61], ids=str)
@pytest.mark.parametrize(
    "make",
    [ReplayBuffer, lambda size: VectorReplayBuffer(size, 4), lambda size: PrioritizedReplayBuffer(size, 0.6, 0.4)],
    ids=["ring", "vector", "prioritized"],
)
def test_a_capacity_beyond_memory_is_refused_before_any_is_touched(rows, make):
    before = resident()
    with pytest.raises(MemoryError, match=r"\d\d.*byte") as refused:
        one_row(make(rows))
    assert int(re.search(r"would take (\d+) bytes", str(refused.value))[1]) >= rows
    assert resident() - before < 200 * 2**20


@pytest.mark.parametrize("alpha", [None, 0.6])
def test_a_refused_layout_leaves_an_empty_engine(alpha):
    replay = engine([10**8], alpha=alpha)
    with pytest.raises(MemoryError):
        add(replay, 1, width=10**6)
    assert len(replay) == 0
    assert replay.columns() == []
    assert replay.nbytes() == 0
    add(replay, 1)
    assert replay.chronological().tolist() == [0]


def test_a_large_capacity_costs_only_the_rows_that_are_there():
    """Reserved address space is not memory: ten rows in a ring of ten million."""
    before = resident()
    buffer = ReplayBuffer(10_000_000)
    for number in range(10):
        buffer.add(transition(np.full(64, number, np.float32)))
    assert resident() - before < 100 * 2**20
    assert buffer[:].obs[:, 0].tolist() == list(range(10))


LIMITED = """
    import resource, sys
    sys.path[:0] = {path!r}
    import numpy as np
    from faults.engines import add, contents, engine
    replay = add(engine([1000]), 10)
    before = contents(replay)
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
    late = [(("late",), np.dtype("f8"), (10**7,))]
    for attempt in (lambda: add(engine([40_000_000]), 1, width=200), lambda: replay.define(late)):
        try:
            attempt()
        except MemoryError as error:
            print(error)
        else:
            raise AssertionError("it fitted")
    assert contents(replay) == before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS")
def test_a_limit_on_the_process_is_an_error_and_not_an_abort():
    script = textwrap.dedent(LIMITED.format(path=sys.path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"\d", done.stdout)) > 0
