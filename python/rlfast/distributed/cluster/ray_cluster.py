"""Actors in a Ray cluster. Ray is imported when the first cluster is connected to."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from rlfast.distributed.cluster.actors import Actor, ActorLost, Call, Cluster, Shared
from rlfast.utils.runtime.extras import needed_by

_SECONDS = 5.0
"""How long an address may take to answer."""


def _ray() -> Any:
    with needed_by("a run that is spread over processes (--ray)"):
        return import_module("ray")


class RayCall(Call):
    """A call of a method of a Ray actor.

    :param reference: the reference to its result.
    """

    def __init__(self, reference: object) -> None:
        self.reference = reference

    def result(self) -> Any:
        """Waits; see :meth:`Call.result`."""
        ray = _ray()
        try:
            return ray.get(self.reference)
        except ray.exceptions.RayTaskError as error:  # the method has raised
            raise error.as_instanceof_cause() from None
        except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
            cause = getattr(error, "cause", None) or error.__cause__
            if isinstance(cause, ray.exceptions.RayTaskError):  # the constructor has raised
                raise cause.as_instanceof_cause() from None
            if "error raised in its creation task" in str(error):
                raise RuntimeError(f"an actor could not be made: {str(error).strip().splitlines()[-1]}") from None
            raise ActorLost(f"an actor has ended: {str(error).strip().splitlines()[0]}") from None


class RayShared(Shared):
    """A value in Ray's object store, which each machine reads once.

    :param reference: the reference to it.
    """

    def __init__(self, reference: object) -> None:
        self.reference = reference

    def get(self) -> Any:
        """Returns the value."""
        return _ray().get(self.reference)


class RayActor(Actor):
    """A Ray actor. It can be sent to other actors.

    :param handle: its handle.
    """

    def __init__(self, handle: object) -> None:
        self.handle = handle

    def call(self, method: str, *args: Any) -> Call:
        """Starts a call; see :meth:`Actor.call`."""
        return RayCall(getattr(self.handle, method).remote(*args))

    def kill(self) -> None:
        """Ends the actor at once, with its process."""
        _ray().kill(self.handle)


class RayCluster(Cluster):
    """A Ray cluster.

    :param address: ``HOST:PORT``; ``"auto"`` for the cluster that runs on this machine, or else a new one; or
        ``"local"`` for a new one.
    :raises MissingExtra: if Ray is not installed.
    :raises ConnectionError: if there is no cluster at the address.
    """

    def __init__(self, address: str) -> None:
        self._ray = _ray()
        self._started_here = False
        self._actors: list[RayActor] = []
        self._gauges: dict[str, Any] = {}
        if self._ray.is_initialized():  # by the program that uses us
            return
        self._connect(address)
        self._started_here = True

    def _connect(self, address: str) -> None:
        given: dict[str, Any] = {"address": address}
        if address == "local" or (address == "auto" and "RAY_ADDRESS" not in os.environ and not self._finds_one()):
            given = {"address": "local", "include_dashboard": False}
        elif address != "auto":
            _check_reachable(address)
        try:
            self._ray.init(**given, configure_logging=False, log_to_driver=False)
        except Exception as error:  # Ray raises plain ones, too
            line = next(iter(str(error).strip().splitlines()), "")
            raise ConnectionError(f"--ray {address}: {type(error).__name__}: {line}") from error

    @staticmethod
    def _finds_one() -> bool:
        services = import_module("ray._private.services")
        with suppress(Exception):
            return bool(services.find_gcs_addresses())
        return False

    def start(self, kind: type, *args: Any) -> Actor:
        """Starts an actor; see :meth:`Cluster.start`. It is counted as a part of a core, as most of them wait."""
        handle = self._ray.remote(kind).options(num_cpus=0, max_restarts=0).remote(*args)
        actor = RayActor(handle)
        self._actors.append(actor)
        return actor

    def share(self, value: object) -> Shared:
        """Puts a value into the object store; see :meth:`Cluster.share`."""
        return RayShared(self._ray.put(value))

    def wait(self, calls: Sequence[Call], timeout: float | None = None) -> list[Call]:
        """Waits for calls; see :meth:`Cluster.wait`."""
        by_reference = {call.reference: call for call in calls if isinstance(call, RayCall)}
        references = list(by_reference)
        ready, _ = self._ray.wait(references, num_returns=1, timeout=timeout, fetch_local=False)
        if ready:
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
        return [by_reference[reference] for reference in ready]

    def gauge(self, name: str, value: float) -> None:
        """Sets a gauge of ``ray.util.metrics``, for the dashboard and Prometheus; see :meth:`Cluster.gauge`."""
        if name not in self._gauges:
            metrics = import_module("ray.util.metrics")
            self._gauges[name] = metrics.Gauge(f"rlfast_{name}", description=name.replace("_", " "))
        self._gauges[name].set(float(value))

    def close(self) -> None:
        """Ends the actors, and leaves the cluster if it was connected to here."""
        for actor in self._actors:
            with suppress(Exception):  # it may be gone
                actor.kill()
        self._actors.clear()
        if self._started_here:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Checks that something listens at an address; Ray itself would try for minutes.

    :raises ConnectionError: if nothing does.
    :raises ValueError: if it is not an address.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"--ray {address!r} must be HOST:PORT, auto, local or in-process")
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"--ray {address}: no Ray cluster answers there: {error}") from error
