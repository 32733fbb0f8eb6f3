"""The first use of each part of the engine: called back by a finalizer, near the recursion limit, and interrupted."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

USES = {
    "batch": "Batch(obs=1.0, act=[1, 2], info={'a': np.float32(2)})",
    "batch of objects": "Batch(np.array([{'a': 1}, {'a': 2}], object))",
    "fields of other names": "Batch(copy=True, a=1)",
    "a leaf outside": "pytest.raises(IndexError, lambda: _core.SegmentTree(4)[9])",
    "buffer": "sampled()",
    "append": "appended()",
    "random numbers": "_core.randint(np.random.PCG64(0), 5, 3)",
    "borrowed arrays": "_core.grey(np.zeros((2, 2, 3), np.uint8), np.zeros((2, 2), np.uint8))",
    "record": "recorded()",
}
"""Calls that are the first of their kind in a process."""

SCRIPT = """
    import faulthandler, gc, json, os, signal, sys
    import numpy as np
    import pytest
    from rlfast import _core
    from rlfast.data import Batch, ReplayBuffer

    ROW = dict(obs=np.zeros(2), act=0, rew=0.0, terminated=False, truncated=False, obs_next=np.ones(2))

    def sampled():
        buffer = ReplayBuffer(4, seed=0)
        buffer.add(Batch(ROW))
        return buffer.sample(2)[1].tolist()

    def appended():
        buffer = ReplayBuffer(4, seed=0)
        buffer.add(Batch(ROW))
        buffer._core.append(**ROW)
        return len(buffer)

    def recorded():
        obs = np.zeros((1, 2), np.float32)
        ends = np.zeros(1, np.float32)
        core = _core.Replay([4], batch=Batch)
        pytest.raises(Exception, core.record, obs, obs, ends, ends, ends, ends)
        return 1

    USES = {uses!r}
    use = {{name: eval("lambda: " + code) for name, code in USES.items()}}

    def child(work):
        # The outcome of work in a process of its own, in which nothing was used yet.
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(20, exit=True)
            os._exit(work())
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    MADE, REFUSED, WRONG = 10, 11, 12
"""

FINALIZER = """
    class Caller:
        def __init__(self, name):
            self.name, self.me = name, self
        def __del__(self):
            use[self.name]()
            done.append(self.name)

    done = []

    def called_back(name):
        keep = [Caller(name) for _ in range(20)]
        gc.set_threshold(1)
        del keep
        use[name]()
        gc.collect()
        return MADE if len(done) == 20 else WRONG

    print(json.dumps({name: child(lambda: called_back(name)) for name in USES}))
"""

RECURSION = """
    def deep(number, call):
        return deep(number - 1, call) if number else call()

    def near_the_limit(name, room):
        sys.setrecursionlimit(300)
        try:
            deep(294 - room, use[name])
            outcome = MADE
        except RecursionError:
            outcome = REFUSED
        use[name]()
        return outcome

    print(json.dumps({name: [child(lambda: near_the_limit(name, room)) for room in range(0, 60, 2)] for name in USES}))
"""

INTERRUPT = """
    def interrupted(name, microseconds):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, microseconds * 1e-6)
            for _ in range(3):
                use[name]()
            outcome = MADE
        except KeyboardInterrupt:
            outcome = REFUSED
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        use[name]()
        return outcome

    print(json.dumps({name: [child(lambda: interrupted(name, 5 + 20 * k)) for k in range(15)] for name in USES}))
"""


def outcomes(script):
    code = textwrap.dedent(SCRIPT.format(uses=USES)) + textwrap.dedent(script)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")
MADE, REFUSED = 10, 11


def test_finalizers_may_use_what_is_used_for_the_first_time():
    found, said = outcomes(FINALIZER)
    assert found == dict.fromkeys(USES, MADE), said[-3000:]


def test_first_use_near_the_recursion_limit():
    found, said = outcomes(RECURSION)
    for name, results in found.items():
        assert {*results} <= {MADE, REFUSED}, (name, results, said[-2000:])
        assert results[-1] == MADE, name
    assert any(REFUSED in results for results in found.values())
    assert "panicked" not in said


def test_first_use_while_signals_arrive():
    found, said = outcomes(INTERRUPT)
    for name, results in found.items():
        assert {*results} <= {MADE, REFUSED}, (name, results, said[-2000:])
    assert "panicked" not in said


IMPORT = """
    import faulthandler, json, os, signal, sys
    import numpy as np

    def child(work):
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(30, exit=True)
            os._exit(work())
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def load():
        from rlfast import _core
        return _core

    def deep(number):
        return deep(number - 1) if number else load()

    def near_the_limit(room):
        sys.setrecursionlimit(300)
        try:
            deep(296 - room)
            outcome = 10
        except RecursionError:
            outcome = 11
        sys.setrecursionlimit(3000)
        core = load()
        from rlfast.data import Batch
        return outcome if Batch(obs=1.0).obs == 1.0 and core.__version__ else 12

    def interrupted(k):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002 * k)
            load()
            outcome = 10
        except KeyboardInterrupt:
            outcome = 11
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        load()
        from rlfast.data import Batch
        return outcome if Batch(obs=1.0).obs == 1.0 else 12

    work = near_the_limit if {limit} else interrupted
    print(json.dumps([child(lambda: work(k)) for k in range(1, 60, 4)]))
"""


@pytest.mark.parametrize("limit", [True, False], ids=["recursion limit", "interrupt"])
def test_an_import_that_failed_is_tried_again(limit):
    code = textwrap.dedent(IMPORT.format(limit=limit))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {*json.loads(done.stdout)} <= {10, 11}, (done.stdout, done.stderr[-2000:])
    assert "panicked" not in done.stderr


def test_the_engine_makes_everything_once_when_it_is_loaded():
    """Anywhere else, Python runs under a lock, or an error ends the process."""
    folder = Path(__file__).parents[2] / "rust/python/src"
    for path in folder.rglob("*.rs"):
        if path.name != "once.rs":
            code = path.read_text()
            found = [word for word in ("intern!", "PyOnceLock", "get_or_init", "get_or_try_init") if word in code]
            assert not found, path
