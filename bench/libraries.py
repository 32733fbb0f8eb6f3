"""The libraries that are compared, their interpreters, and their worker processes."""

from __future__ import annotations

import atexit
import importlib.metadata
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).absolute().parent.parent  # `bench` can be imported from here; it may be a link, so not resolved
RLFAST = "rlfast"
RLFAST_NET = "rlfast Net"
RLFAST_ENVS = "rlfast envs"
RLFAST_WORKERS = "rlfast workers"
RLFAST_AUTO = "rlfast auto"
RLFAST_RAY = "rlfast shards on Ray"
RLFAST_SHARDS = "rlfast shards"
RLFAST_ONE = "rlfast one buffer"
NETWORK = "network by hand"


@dataclass(frozen=True)
class Library:
    """The interpreter and the driver of a library.

    ``home`` names a virtual environment, ``$RLFAST_PEERS/<home>/bin/python`` (or the interpreter
    ``$RLFAST_PEER_<HOME>``);
    an empty one stands for the running interpreter, which is also used if it has ``distribution`` in version ``major``.
    With ``ours``, the worker can import rlfast, for our adapter inside that library.
    """

    driver: str
    home: str = ""
    distribution: str = ""
    major: str = ""
    variant: str = ""
    ours: bool = False


LIBRARIES = {
    RLFAST: Library(RLFAST),
    RLFAST_NET: Library(RLFAST, variant="Net"),
    "rlfast lz4": Library(RLFAST, variant="lz4"),
    "rlfast zstd": Library(RLFAST, variant="zstd"),
    "tianshou1": Library("tianshou", "tianshou1", "tianshou", "1."),
    "tianshou2": Library("tianshou", "tianshou2", "tianshou", "2."),
    "sb3": Library("sb3", "modern", "stable-baselines3"),
    "torchrl": Library("torchrl", "modern", "torchrl"),
    "cpprb": Library("cpprb", "modern", "cpprb"),
    "rlox": Library("rlox", "rlox", "rlox"),
    "d3rlpy": Library("d3rlpy", "d3rlpy", "d3rlpy"),
    "rlfast in tianshou1": Library("tianshou", "tianshou1", "tianshou", "1.", "rlfast", ours=True),
    "rlfast in tianshou2": Library("tianshou", "tianshou2", "tianshou", "2.", "rlfast", ours=True),
    "rlfast in sb3": Library("sb3", "modern", "stable-baselines3", "", "rlfast", ours=True),
    "rlfast in torchrl": Library("torchrl", "modern", "torchrl", "", "rlfast", ours=True),
    "cleanrl": Library("cleanrl", "tianshou1", "tianshou", "1."),  # its script asks for an older NumPy
    "rlfast in cleanrl": Library("cleanrl", "tianshou1", "tianshou", "1.", "rlfast", ours=True),
    RLFAST_ENVS: Library("vector_envs", variant="rlfast"),
    "gymnasium sync": Library("vector_envs", "modern", "gymnasium", variant="sync"),
    "gymnasium vectorised": Library("vector_envs", "modern", "gymnasium", variant="vector_entry_point"),
    "envpool": Library("vector_envs", "modern", "envpool", variant="envpool"),
    "rlfast over envpool": Library("vector_envs", "modern", "envpool", variant="rlfast over envpool", ours=True),
    RLFAST_WORKERS: Library("worker_envs", variant="rlfast"),
    RLFAST_AUTO: Library("worker_envs", variant="rlfast auto"),
    "rlfast in-process": Library("worker_envs", variant="rlfast in-process"),
    "gymnasium in-process": Library("worker_envs", "modern", "gymnasium", variant="gymnasium sync"),
    "gymnasium async": Library("worker_envs", "modern", "gymnasium", variant="gymnasium async"),
    "sb3 workers": Library("worker_envs", "modern", "stable-baselines3", variant="sb3"),
    "tianshou1 workers": Library("worker_envs", "tianshou1", "tianshou", "1.", "tianshou"),
    "rlfast atari": Library("atari", variant="rlfast"),
    "envpool atari": Library("atari", "modern", "envpool", variant="envpool"),
    "ale-py atari": Library("atari", "modern", "ale-py", variant="ale_py"),
    "sb3 atari": Library("atari", "modern", "stable-baselines3", variant="sb3"),
    "rlfast screens": Library("atari", variant="rlfast"),
    "opencv": Library("atari", "modern", "opencv-python-headless", variant="opencv"),
    RLFAST_RAY: Library("distributed", variant="local"),
    RLFAST_SHARDS: Library("distributed", variant="in-process"),
    RLFAST_ONE: Library("distributed", variant="one"),
    "plain": Library("plain"),
    "take": Library("limits", variant="take"),
    "gather": Library("limits", variant="gather"),
    NETWORK: Library("limits", variant="network"),
    "rlfast exported": Library("decisions", variant="rlfast"),
    "rlfast exported to C": Library("decisions", variant="c"),
    "onnxruntime": Library("decisions", variant="onnxruntime"),
    "torch.jit": Library("decisions", variant="jit"),
    "sb3 predict": Library("decisions", variant="sb3"),
    "NumPy by hand": Library("decisions", variant="by hand"),
    "BLAS products": Library("decisions", variant="products"),
}
COPIES = ("take", "gather")
LIMITS = (*COPIES, NETWORK)
TIANSHOU = ("tianshou1", "tianshou2")
REPLAY_PEERS = ("cpprb", "sb3", "torchrl", *TIANSHOU)


class Unavailable(Exception):
    """The reason why a library cannot take part."""


def interpreter(library: Library) -> str:
    """Returns the interpreter of a library.

    :raises Unavailable: if there is none.
    """
    if not library.home:
        return sys.executable
    named = os.environ.get(f"RLFAST_PEER_{library.home.upper()}")
    folder = os.environ.get("RLFAST_PEERS")
    candidates = [named] if named else [f"{folder}/{library.home}/bin/python"] if folder else []
    for candidate in candidates:
        if Path(candidate).is_file():
            return candidate
        raise Unavailable(f"{candidate} does not exist")
    try:
        if importlib.metadata.version(library.distribution).startswith(library.major):
            return sys.executable
    except importlib.metadata.PackageNotFoundError:
        pass
    wanted = f"{library.distribution} {library.major}x" if library.major else library.distribution
    raise Unavailable(f"{wanted}: set RLFAST_PEERS or RLFAST_PEER_{library.home.upper()}")


@cache
def lent() -> str:
    """Returns a folder that contains only rlfast, for the search path of another interpreter."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    found: Any = importlib.util.find_spec("rlfast")
    Path(folder.name, "rlfast").symlink_to(Path(found.origin).parent)
    return folder.name


class Process:
    """The worker process of one library, which may use ``threads`` cores; see :mod:`bench.peers.worker`."""

    def __init__(self, name: str, threads: int, clock: str) -> None:
        library = LIBRARIES[name]
        python = interpreter(library)
        ours, theirs = socket.socketpair()
        counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(counts, str(threads)), "PYTHONWARNINGS": "ignore"}
        if library.home:  # rlfast's own search path is not for peers
            environment.pop("PYTHONPATH", None)
            environment.pop("VIRTUAL_ENV", None)
        if library.ours:
            environment["PYTHONPATH"] = lent()
        arguments = [library.driver, library.variant, str(theirs.fileno()), str(threads), clock]
        command = [python, "-m", "bench.peers.worker", *arguments]
        self.name, self.threads = name, threads
        self.child = subprocess.Popen(
            command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        theirs.close()
        self.pipe = Connection(ours.detach())
        self._versions: dict[str, str] | None = None

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the worker reports after it has imported the library; waits for them."""
        if self._versions is None:
            self._versions = self._answer("start")
        return self._versions

    def ask(self, method: str, *arguments: Any) -> Any:
        _ = self.versions
        self.pipe.send((method, arguments))
        return self._answer(method)

    def _answer(self, method: str) -> Any:
        try:
            status, value = self.pipe.recv()
        except EOFError:
            raise Unavailable(f"died during {method} with status {self.child.wait()}") from None
        if status == "error":
            if method == "start":
                self.child.wait()
            raise Unavailable(f"{method} failed: {value}")
        return value

    @property
    def alive(self) -> bool:
        return self.child.poll() is None

    def close(self) -> None:
        self.pipe.close()
        self.child.wait()
