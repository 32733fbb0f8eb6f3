"""The workers of a pool: starts them, sends them messages, calls their methods, watches them and ends them."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from rlfast.env.errors import EnvFailure
from rlfast.env.process.channel import Channel, Closed
from rlfast.env.process.launch import Child, Forked, Served, Spawned
from rlfast.env.process.protocol import unnamed_file
from rlfast.env.process.serialization import RemoteError, by_value, functions_by_value, registrations
from rlfast.env.process.worker import work

EnvFn = Callable[[], gym.Env[Any, Any]]


_MAIN = "rlfast.env.process.worker:main"
_REAP = 10.0  # seconds to wait for the exit status of a worker whose channel is closed, on a busy machine


class WorkerGroup:
    """All workers of a pool, each with a channel and a file for large records.

    :param env_fns: one callable per environment.
    :param starts: worker ``w`` makes the environments from ``starts[w]`` to ``starts[w + 1] - 1``.
    :param method: the start method.
    """

    def __init__(self, env_fns: Sequence[EnvFn], starts: Sequence[int], method: str) -> None:
        self.env_fns, self.starts, self.method = env_fns, starts, method
        self.owner = os.getpid()
        count = len(starts) - 1
        self.children: list[Child | None] = [None] * count
        self.channels: list[Channel | None] = [None] * count
        self.files: list[int] = [unnamed_file() for _ in range(count)]
        self.slab: Any = None
        self._calls = 0

    def __len__(self) -> int:
        return len(self.children)

    def envs_of(self, worker: int) -> range:
        """Returns the numbers of a worker's environments."""
        return range(self.starts[worker], self.starts[worker + 1])

    # -- beginning ---------------------------------------------------------------------------------------------------

    def start(self, worker: int) -> None:
        """Starts a worker; it makes its environments after this method has returned."""
        self.remove(worker)  # what an interrupted start has left
        fns = [self.env_fns[env] for env in self.envs_of(worker)]
        packed = registered = b""
        if self.method in {"spawn", "forkserver"}:
            packed, registered = functions_by_value(fns), registrations()
        channel, end = Channel.pair()
        self.channels[worker] = channel
        with end:
            if self.method == "spawn":
                self.children[worker] = Spawned(end, _MAIN)
            elif self.method == "forkserver":
                self.children[worker] = Served(end, _MAIN)
            else:
                inner = Channel(end.dup())
                self.children[worker] = Forked(lambda: work(inner, fns))
                inner.close()
        channel.send(pickle.dumps((self.starts[worker], packed, registered)), on_wait=lambda: self._alive(worker))

    def wait_for_description(self, worker: int, limit: float | None) -> dict[str, Any]:
        """Waits until a worker has made its environments, and returns its description of them.

        :param worker: the worker.
        :param limit: the number of seconds that one constructor may take; None for no limit.
        :return: a dict of spaces, metadata, spec and render mode.
        :raises EnvFailure: a constructor raised, took too long, or ended the process.
        """
        channel, making = self.channel(worker), self.starts[worker]
        while True:
            try:
                message, _ = channel.receive(lambda: self._alive(worker), limit)
                kind, content = pickle.loads(message)  # noqa: S301
            except (Closed, TimeoutError) as error:
                why = f"did not finish within {limit:g} s" if isinstance(error, TimeoutError) else self.cause(worker)[0]
                self.remove(worker)
                raise EnvFailure(
                    f"environment {making} failed in its constructor: its worker {why}",
                    env_id=making,
                    phase="constructor",
                ) from None
            if kind == "making":
                making = content
            elif kind == "failed":
                self.remove(worker)
                raise failed(content, making, "constructor")
            else:
                return dict(content)

    def connect(self, worker: int, plan: object, over: Sequence[bool], spins: int) -> None:
        """Connects a worker, which has made its environments, to the shared memory."""
        files = [*self.slab.files(worker), self.files[worker]]
        message = pickle.dumps((plan, worker, list(over), spins))
        self.channel(worker).send(message, files, lambda: self._alive(worker))

    # -- in between --------------------------------------------------------------------------------------------------

    def channel(self, worker: int) -> Channel:
        """Returns the channel of a worker.

        :raises Closed: the worker has been removed.
        """
        channel = self.channels[worker]
        if channel is None:
            raise Closed("the worker has ended")
        return channel

    def send(self, worker: int, kind: str, content: object, on_wait: Callable[[], None] | None = None) -> None:
        """Sends a message; the worker reads it before it serves any later request.

        :raises Closed: the worker has ended.
        """

        def wake() -> None:
            (on_wait or (lambda: self._alive(worker)))()
            self.slab.notify(worker)

        self.channel(worker).send(by_value((kind, content)), on_wait=wake)
        self.slab.notify(worker)

    def call(self, worker: int, env: int, method: str, arguments: Sequence[Any], on_wait: Callable[[], None]) -> Any:
        """Calls a method of a worker for one of its environments, and returns its result.

        :param on_wait: called every 50 ms while waiting; an exception that it raises ends the wait.
        :raises EnvFailure: the method raised an exception.
        :raises Closed: the worker has ended.
        """
        self._calls += 1
        number = self._calls
        self.send(worker, "call", (number, method, env, list(arguments)), on_wait)
        while True:
            message, _ = self.channel(worker).receive(on_wait)
            answered, fine, value = pickle.loads(message)  # noqa: S301
            if answered == number:  # others answer calls that Ctrl-C interrupted
                break
        if not fine:
            raise failed(value, env, str(arguments[0]) if method == "call" else method)
        return value

    def is_sound(self, worker: int) -> bool:
        """Whether a worker runs, and no message to it or from it was interrupted half-way."""
        child, channel = self.children[worker], self.channels[worker]
        return child is not None and child.poll() is None and channel is not None and channel.is_sound

    def _alive(self, worker: int) -> None:
        child = self.children[worker]
        if child is None or child.poll() is not None:
            raise Closed("the worker has ended")

    # -- the end -----------------------------------------------------------------------------------------------------

    def cause(self, worker: int) -> tuple[str, int | None, str | None]:
        """Returns how a worker has ended: a description, its exit status, and the name of the signal that killed it."""
        child = self.children[worker]
        if child is not None:
            child.join(_REAP)  # the channel closes before the exit status is known
        status = None if child is None else child.poll()
        if status is None:
            return "hung up", None, None
        if status >= 0:
            return f"left with exit status {status}", status, None
        import signal

        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        hint = " (by a user, or by the system because memory ran out)" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}", status, name

    def remove(self, worker: int) -> None:
        """Kills a worker and releases its resources."""
        child, channel = self.children[worker], self.channels[worker]
        if channel is not None:
            channel.close()
        if child is not None:
            child.kill()
            child.join(1.0)
            child.release()
        self.children[worker] = self.channels[worker] = None

    def end(self, grace: float) -> None:
        """Ends all workers. Those that do not close their environments within ``grace`` seconds are killed."""
        if self.owner != os.getpid():  # this is a forked child, which does not own the workers
            return
        deadline = time.monotonic() + grace
        for worker in range(len(self)):
            if self.slab is None:
                self.remove(worker)
            elif self.children[worker] is not None:
                self.slab.stop(worker)
        for worker, child in enumerate(self.children):
            if child is not None:
                child.join(max(0.0, deadline - time.monotonic()))
            self.remove(worker)
        self.slab = None
        files, self.files = self.files, []
        for file in files:
            os.close(file)


def failed(error: RemoteError, env: int, phase: str, **more: Any) -> EnvFailure:
    """Makes the failure that the parent raises for an exception in a worker."""
    during = {"constructor": "its constructor"}.get(phase, f"{phase}()")
    if "action" in more:
        during = f"step(action={more['action']!r})"
    text = f"environment {env} failed in {during}: {error.summary}"
    failure = EnvFailure.by(error.exception(), text, env_id=env, phase=phase, traceback=error.text, **more)
    if failure.__cause__ is None:
        failure.add_note(f"in the worker:\n{error.text}")
    return failure
