"""Decides whether environments run faster in this process, in worker processes, or in both."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast.env.backends.base import Backend
from rlfast.env.backends.in_process import InProcess
from rlfast.env.backends.split import Split
from rlfast.env.process.channel import Channel, Closed
from rlfast.env.process.launch import Child, Served, Spawned, method_of
from rlfast.env.process.layout import Array, layout
from rlfast.env.process.pool import ProcessBackend
from rlfast.env.process.serialization import functions_by_value, register, registrations
from rlfast.env.process.worker import exiting, prepare
from rlfast.env.spaces.batching import common
from rlfast.env.spaces.collation import collate_as
from rlfast.utils.runtime.cores import cores
from rlfast.utils.tree import leaves

EnvFn = Callable[[], gym.Env[Any, Any]]

PROBE = "rlfast.env.process.placement:main"
_BUDGET = 0.02  # seconds that a measurement of steps takes
_PATIENCE = 10.0  # seconds after which a constructor is considered to hang
_STEP = 60e-6  # overhead of a step of all workers, in seconds: two wake-ups and some calls
_SPLIT = 30e-6  # the same where this process steps a share: one wake-up
_ENV = 3e-6  # overhead of a step of one environment in a worker, in seconds
_BYTE = 0.1e-9  # seconds to copy a byte
_GAIN = 0.9  # worker processes are chosen if they take at most this fraction of the time in this process
_TRIAL = 0.02  # if a step of all environments in this process takes fewer seconds, worker processes are measured, too


class UnequalSpacesError(ValueError):
    """The observation spaces of environments do not allow to put together observations from two parts."""


@dataclass(frozen=True)
class Measurement:
    """The result of measuring one environment in a temporary process.

    :param step: the duration of a step in seconds, the minimum over several batches; None if the measurement failed.
    :param size: the size of an observation in bytes.
    :param failure: why the measurement failed; None if it did not.
    """

    step: float | None
    size: int = 0
    failure: str | None = None


def measure(env_fn: EnvFn) -> Measurement:
    """Makes an environment in a temporary process, and steps it for about 20 ms with sampled actions.

    :param env_fn: makes the environment. If it crashes or hangs, this process is not affected.
    :raises TypeError: the function cannot be sent to another process.
    """
    channel, end = Channel.pair()
    with end:
        child: Child = Served(end, PROBE) if method_of(None) == "forkserver" else Spawned(end, PROBE)
    try:
        channel.send(pickle.dumps((functions_by_value([env_fn]), registrations())))
        message, _ = channel.receive(timeout=_PATIENCE)
        found: Measurement = pickle.loads(message)  # noqa: S301
    except Closed:
        return Measurement(None, failure="it ended its process")
    except TimeoutError:
        return Measurement(None, failure=f"it took more than {_PATIENCE:g} s")
    finally:
        child.kill()
        child.join(1.0)
        child.release()
        channel.close()
    return found


def main(descriptor: int, parent: int) -> None:
    """The entry point of the temporary process that :func:`measure` starts.

    :param descriptor: the open socket to the parent.
    :param parent: the parent's process id; this process ends when the parent ends.
    """
    with exiting():
        prepare(parent)
        probe(Channel(socket.socket(fileno=descriptor)))


def probe(channel: Channel) -> None:
    """Receives an environment function from the parent, and sends the measurement back."""
    try:
        functions, registered = pickle.loads(channel.receive()[0])  # noqa: S301
        register(registered)
        found = _timed(pickle.loads(functions)[0]())  # noqa: S301
    except BaseException as error:
        found = Measurement(None, failure=f"it raised {type(error).__name__}: {error}")
    channel.send(pickle.dumps(found))


def _timed(env: gym.Env[Any, Any]) -> Measurement:
    env.action_space.seed(0)
    obs, _ = env.reset(seed=0)
    best, batch, begun = np.inf, 1, time.perf_counter()
    while time.perf_counter() - begun < _BUDGET:
        actions = [env.action_space.sample() for _ in range(batch)]
        start = time.perf_counter()
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        took = (time.perf_counter() - start) / batch
        best, batch = min(best, took), min(batch * 2, 64) if took < 1e-3 else 1
    return Measurement(float(best), sum(np.asarray(leaf).nbytes for leaf in leaves(obs)))


@dataclass(frozen=True)
class Choice:
    """A decision where environments run.

    :param placement: ``"in-process"``, ``"process"``, or ``"split"`` for a share in this process and the others in
        worker processes.
    :param reason: the reason, in one line.
    """

    placement: str
    reason: str


def choose(
    env_fns: Sequence[EnvFn], num_workers: int | None = None, context: Any = None, *, may_split: bool = False
) -> Choice:
    """Measures the first environment, and decides where a step of all environments takes the least time.

    If worker processes are expected to be faster, but a step is short, they are started and measured as well, because
    the cost of waking a process differs a hundredfold between machines. Without a clear gain, the environments run in
    this process, and without a clear gain of a split, all of the others run in worker processes. Environments that
    cannot be measured run in worker processes, where they cannot crash this process. Environments that cannot be sent
    to another process run in this one.

    :param env_fns: one callable per environment.
    :param num_workers: the number of worker processes; None for one per core.
    :param context: how workers are started.
    :param may_split: whether this process may step a share of the environments itself, in place of a worker.
    """
    count = len(env_fns)
    workers = min(count, num_workers or cores(), cores())
    if workers < 2:
        return Choice("in-process", "there is nothing to share between processes")
    try:
        found = measure(env_fns[0])
    except TypeError as error:
        return Choice("in-process", str(error))
    if found.step is None:
        return Choice("process", f"the first environment could not be measured: {found.failure}")
    alone = count * found.step
    share = -(-count // workers) * (found.step + _ENV) + count * found.size * _BYTE
    shared, parted, how = _STEP + share, _SPLIT + share if may_split and alone < _TRIAL else np.inf, "some"
    if alone < _TRIAL:
        try:
            if shared < _GAIN * alone:
                shared, how = max(shared, measure_in_workers(env_fns, num_workers, context)), "measured"
            if parted < _GAIN * alone:
                parted = max(parted, measure_split(env_fns, num_workers, context))
        except Exception as error:
            return Choice("process", f"the environments could not be measured: {type(error).__name__}: {error}")
    placement = "process" if shared < _GAIN * alone else "in-process"
    if parted < _GAIN * min(alone, shared):
        placement = "split"
    reason = (
        f"a step of {found.step * 1e6:.3g} us makes {alone * 1e6:.3g} us for {count} environments in this process, "
        f"and {how} {shared * 1e6:.3g} us in {workers} others"
    )
    return Choice(placement, reason + (f", {parted * 1e6:.3g} us in both" if np.isfinite(parted) else ""))


def split(env_fns: Sequence[EnvFn], num_workers: int | None = None, **options: Any) -> Backend:
    """Makes a backend in which this process has the place of a worker.

    :param env_fns: one callable per environment.
    :param num_workers: the number of shares, one of which this process steps; None for one per core.
    :param options: those of :class:`ProcessBackend`.
    :return: the backend; one in this process if there is only one share.
    :raises UnequalSpacesError: observations cannot be put together from two parts.
    """
    count, mode = len(env_fns), options["autoreset_mode"]
    shares = min(count, num_workers or cores())
    first, as_space = count - count // shares, options.get("strict", True) or None
    if first == 0:
        return InProcess(env_fns, mode, as_space=as_space)
    there = ProcessBackend(env_fns[:first], num_workers=shares - 1, **options)
    try:
        here = InProcess(env_fns[first:], mode, as_space=as_space, first_id=first)
    except BaseException:
        there.close()
        raise
    both = Split(there, here)
    space = common(both.observation_spaces or [None])
    if not all(isinstance(leaf, Array) for leaf in layout(space).leaves()):
        both.close()
        raise UnequalSpacesError(
            "placement='split' needs environments whose observations are arrays of the same shapes and dtypes, got "
            f"{'different spaces' if space is None else space}: use placement='process'"
        )
    return both


def measure_in_workers(env_fns: Sequence[EnvFn], num_workers: int | None, context: Any) -> float:
    """Measures a step of all environments in temporary worker processes.

    :return: the median duration in seconds, over at least 9 steps and at least 20 ms.
    :raises Exception: an environment failed.
    """
    options = {"context": context, "autoreset_mode": AutoresetMode.NEXT_STEP, "step_timeout": _PATIENCE}
    return _median_step(ProcessBackend(env_fns, num_workers=num_workers, **options))


def measure_split(env_fns: Sequence[EnvFn], num_workers: int | None, context: Any) -> float:
    """Measures a step of all environments as :func:`split` places them; as :func:`measure_in_workers`.

    :return: the median duration in seconds; infinity if they cannot be split.
    """
    options = {"context": context, "autoreset_mode": AutoresetMode.NEXT_STEP, "step_timeout": _PATIENCE}
    try:
        return _median_step(split(env_fns, num_workers, **options))
    except UnequalSpacesError:
        return np.inf


def _median_step(backend: Backend) -> float:
    """Measures a step of all environments of a backend, and closes it."""
    try:
        ids, space = np.arange(backend.num_envs), backend.single_action_space
        space.seed(0)
        actions = [collate_as(space, [space.sample() for _ in ids]) for _ in range(4)]
        backend.reset(ids, [0] * len(ids), None)
        took: list[float] = []
        while len(took) < 9 or sum(took) < _BUDGET:
            start = time.perf_counter()
            backend.send(actions[len(took) % len(actions)], ids)
            backend.recv(len(ids))
            took.append(time.perf_counter() - start)
    finally:
        backend.close()
    return float(np.median(took))
