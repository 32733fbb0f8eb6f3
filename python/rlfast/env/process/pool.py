"""The backend whose environments run in worker processes."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.context import BaseContext
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast import _core
from rlfast.env.backends.base import Backend, IsAllEnvs, Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.errors import EnvFailure, WorkerDied
from rlfast.env.process.channel import Closed
from rlfast.env.process.launch import doorbell_by_pipe, method_of
from rlfast.env.process.layout import WHOLE, Array, Leaf, layout
from rlfast.env.process.protocol import FAILED, PHASES, REPLACE, RESET, STEP, Places, Plan, Records
from rlfast.env.process.results import StepResults
from rlfast.env.process.worker_group import WorkerGroup, failed
from rlfast.env.spaces.batching import common
from rlfast.env.spaces.collation import fitted
from rlfast.utils.runtime.cores import cores

Ids = NDArray[np.int64]

_SLICE = 0.05  # seconds of waiting between two checks whether the workers are alive
_GRACE = 1.0  # seconds that environments have to close
_CONSTRUCTOR = 60.0  # seconds for a constructor, where there is a step_timeout
_SPINS = 500  # turns of a busy wait before it sleeps, if the parent and every worker have a core of their own
_OWN_METHODS = ("reset", "step", "close", "_setattr", "_check_spaces")  # call() must not bypass the backend's own

_log = logging.getLogger(__name__)


class ProcessBackend(Backend):
    """A backend that runs environments in worker processes, which share memory with this process.

    A step needs no pickling and no pipe: actions, observations, rewards and flags are written to the shared memory, and
    each worker is woken once for all of its environments. Data without a fixed layout is pickled: non-empty infos;
    elements of ``Text``, ``Sequence`` and ``Graph`` spaces and Python objects; all elements of environments that
    declare no space or whose spaces differ in shape or dtype; and values that do not fit their space.

    :param env_fns: one callable per environment. They are pickled by value, so that lambdas and notebooks work, except
        for ``context="fork"``.
    :param num_workers: the number of worker processes; None for one per core that this process may use. There are never
        more than environments. Each worker has consecutive environments. Results do not depend on this number.
    :param autoreset_mode: when an environment is reset after the end of an episode.
    :param context: how workers are started: ``"forkserver"`` (default if the system can fork), ``"spawn"``, ``"fork"``,
        or a :mod:`multiprocessing` context. None of them needs a ``__main__`` guard.
    :param step_timeout: the number of seconds that a step or reset may take before its worker is killed; None for no
        limit. A constructor has a minute more.
    :param on_error: with ``"raise"``, :meth:`recv` raises the failure of an environment. With ``"restart"``, the
        environment is rebuilt, and its row is ``truncated`` and not a ``valid`` transition. If a worker dies, the
        episodes of all of its environments are lost, unless a result that has not been received yet ended the episode.
        An environment that fails again while it is rebuilt raises in either case.
    :param doorbell: how processes wake one another: ``"futex"``, ``"pipe"``, or None for the one that the system
        supports.
    :param strict: whether an observation that does not fit its space is an error; if not, it is returned unchanged.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an environment function cannot be pickled.
    :raises EnvFailure: the constructor of an environment failed.
    """

    placement = "process"
    takes_anything = True
    restarts: int
    """The number of environments that have been rebuilt."""

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        *,
        num_workers: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.DISABLED,
        context: str | BaseContext | None = None,
        step_timeout: float | None = None,
        on_error: str = "raise",
        doorbell: str | None = None,
        strict: bool = True,
    ) -> None:
        count = len(env_fns)
        _check_arguments(num_workers, step_timeout, on_error)
        method = method_of(context)
        pipes = doorbell_by_pipe(doorbell)
        workers = min(count, num_workers or cores())
        starts = [count * worker // workers for worker in range(workers + 1)]
        self.num_envs, self.autoreset_mode = count, autoreset_mode
        self.step_timeout, self.on_error = step_timeout, on_error
        self._spins = _SPINS if workers < cores() else 0
        self._workers = WorkerGroup(env_fns, starts, method)
        self._end = weakref.finalize(self, WorkerGroup.end, self._workers, _GRACE)
        try:
            self._plan = self._start_workers(starts, strict=strict)
            self._places = Places(self._plan)
            self._slab = _core.Slab(starts, self._places.size, pipes=pipes, spins=self._spins)
            self._workers.slab = self._slab
            for worker in range(workers):
                self._workers.connect(worker, self._plan, [False] * len(self._workers.envs_of(worker)), self._spins)
        except BaseException:
            self._end()
            raise
        self._views = self._places.views(self._slab)
        self._notes = self._slab.notes()
        self._records = Records(self._views, self._file_of)
        self._answers = StepResults(self._places, self._views, self._records, self._notes, strict=strict)
        self._leaves = list(self._places.action.leaves())
        self._is_leaf = isinstance(self._places.action, Leaf)
        self._slice = _SLICE if step_timeout is None else min(_SLICE, step_timeout / 4)
        self._worker_of = np.repeat(np.arange(workers), np.diff(starts))
        self._all = np.arange(count)
        self._are_all = IsAllEnvs(self._all)
        self._spilled: dict[int, dict[int, Any]] = {}  # parts of the last actions that were sent pickled
        self._steps = 0  # the number of environments that are stepping
        self._stepping = np.zeros(count, dtype=bool)
        self._over = np.ones(count, dtype=bool)  # no episode is running
        self._asked_at = 0.0
        self._resets: dict[int, dict[str, Any]] = {}  # arguments of the resets that are pending
        self._sent_resets: set[int] = (
            set()
        )  # environments whose worker was sent arguments of a reset, and not yet asked
        self._seeds: dict[int, int] = {}
        self._attributes: dict[int, dict[tuple[str, str], Any]] = {}  # values of set_attr()
        self.restarts = 0
        self._dead: set[int] = set()  # workers that have ended and have not been replaced
        self._interrupted: dict[int, str] = {}  # environments that were rebuilt during a step, and why
        self._lost_idle: dict[int, str] = {}  # environments that were rebuilt while idle; their next step reports it
        self._cut: set[int] = set()  # lost environments whose last result has not been received

    def _start_workers(self, starts: list[int], *, strict: bool) -> Plan:
        """Starts the workers, receives the spaces from them, and determines the layout of the shared memory."""
        group = self._workers
        for worker in range(len(group)):
            group.start(worker)
        descriptions = [group.wait_for_description(worker, self._constructor_limit) for worker in range(len(group))]
        first = descriptions[0]
        self.observation_spaces = [space for one in descriptions for space in one["observation_spaces"]]
        self.action_spaces = [space for one in descriptions for space in one["action_spaces"]]
        self.single_observation_space, self.single_action_space = self.observation_spaces[0], self.action_spaces[0]
        self.metadata, self.spec, self.render_mode = first["metadata"], first["spec"], first["render_mode"]
        shown = common(self.observation_spaces) if all(one["shows_its_space"] for one in descriptions) else None
        return Plan(layout(shown), layout(common(self.action_spaces)), starts, self.autoreset_mode, strict)

    def _file_of(self, env: int) -> tuple[int, int]:
        worker = self._worker_of[env]
        return self._plan.starts[worker], self._workers.files[worker]

    # -- stepping ----------------------------------------------------------------------------------------------------

    def send(self, actions: Tree, ids: Ids) -> None:
        """As :meth:`Backend.send`.

        :raises RuntimeError: the worker of an environment has ended; none has been stepped.
        """
        self._check_usable()
        if self._dead and (gone := [env for env in ids.tolist() if self._worker_of[env] in self._dead]):
            raise RuntimeError(f"environments {gone} were lost with their worker: call reset() for them")
        is_all = self._are_all(ids)
        self._put_actions(actions, ids, is_all)
        if self.step_timeout is not None:
            self._asked_at = time.monotonic()
        if self._lost_idle:
            ids, is_all = self._report_lost(ids), False
        self._ask(None if is_all else ids, STEP)
        self._mark_stepping(ids)

    def _mark_stepping(self, ids: Ids) -> None:
        self._steps += len(ids)
        if self._steps == self.num_envs:
            self._stepping.fill(True)
        else:
            self._stepping[ids] = True

    def _report_lost(self, ids: Ids) -> Ids:
        """Resets those of ``ids`` that were lost while idle, as the result of their step; returns the others."""
        lost = np.array([env for env in ids.tolist() if env in self._lost_idle], dtype=np.int64)
        self._interrupted.update((env, self._lost_idle.pop(env)) for env in lost.tolist())
        self._ask(lost, REPLACE)
        self._mark_stepping(lost)
        return ids[~np.isin(ids, lost)]

    def _put_actions(self, actions: Tree, ids: Ids, is_all: bool) -> None:
        """Writes actions to the shared memory, and sends actions that do not fit there pickled."""
        spilled: dict[int, dict[int, Any]] = {}
        fitting = []
        for number, leaf, values in self._parts(actions):
            array = None
            if isinstance(leaf, Array):
                array = fitted(np.asarray(values), (len(ids), *leaf.shape), leaf.dtype)
            if array is not None:
                fitting.append((number, array))
            else:
                for env, value in zip(ids.tolist(), values, strict=True):
                    spilled.setdefault(env, {})[number] = value
        if self._spilled:
            spilled.update((env, {}) for env in ids.tolist() if env in self._spilled and env not in spilled)
        for number, array in fitting:
            view = self._views.actions[number]
            view[... if is_all else ids] = array  # type: ignore[index]
        if spilled:
            self._spilled = {env: parts for env, parts in {**self._spilled, **spilled}.items() if parts}
            for worker, own in self._by_worker(spilled):
                self._send_message(worker, "actions", own)

    def _parts(self, actions: Tree) -> Iterable[tuple[int, Leaf | None, Any]]:
        """Returns the number, layout and values of each leaf.

        Actions whose nesting is not that of the space are one part, with the number :data:`WHOLE`.
        """
        if isinstance(actions, np.ndarray) and not self._is_leaf:
            return [(WHOLE, None, actions)]
        values = self._places.action.split(actions)
        return ((leaf.number, leaf, own) for leaf, own in zip(self._leaves, values, strict=True))

    def _ask(self, ids: Ids | None, kind: int) -> None:
        try:
            self._slab.ask(ids, kind, 0)
        except RuntimeError:  # results of a call that Ctrl-C interrupted
            stale = self._all if ids is None else ids
            self._wait_for(stale)
            self._slab.take(stale[np.isin(stale, self._slab.answered())])
            self._slab.ask(ids, kind, 0)

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:
        """As :meth:`Backend.recv`, in ascending order of environments.

        :raises EnvFailure: an environment failed, and ``on_error`` is ``"raise"`` or it failed again when rebuilt.
        """
        self._check_usable()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ids, enough = self._answered(min_ready, deadline)
            if not enough:
                self._check_workers()
            elif (rows := self._rows(ids)) is not None:
                return rows

    def _answered(self, min_ready: int, deadline: float | None) -> tuple[Ids | None, bool]:
        """Waits briefly; returns the environments that have answered (None for all) and whether these are enough."""
        slab, count = self._slab, self.num_envs
        if min_ready == count and deadline is None and not self._interrupted and not self._cut:
            return None, slab.wait(count, self._slice) == count
        answered = slab.answered()
        ids = answered[self._stepping[answered]]
        missing = min_ready - len(ids)
        late = deadline is not None and time.monotonic() >= deadline
        if missing <= 0 or (late and len(ids)):
            return ids, True
        left = self._slice if deadline is None or late else min(self._slice, max(0.0, deadline - time.monotonic()))
        slab.wait(len(answered) + (1 if late else missing), left)
        return ids, False

    def _rows(self, ids: Ids | None) -> Rows | None:
        """Returns the rows of ``ids`` (None for all), or None after one of them failed and has been handled."""
        own = self._all if ids is None else ids
        numbers = self._slab.gather(ids)
        if numbers[3] & FAILED:
            self._handle_failure(int(own[(self._notes[own] & FAILED) != 0][0]))
            return None
        rows = self._answers.rows(own, numbers)
        if self._interrupted or self._cut:
            self._mark(rows)
        self._slab.take(ids)
        self._steps -= len(own)
        if self._steps:
            self._stepping[own] = False
        else:
            self._stepping.fill(False)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._over[own] = rows.terminated | rows.truncated
        return rows

    def drop(self) -> None:
        """As :meth:`Backend.drop`. A worker whose channel an interrupted call has left half-way is ended; a reset
        replaces it.
        """
        self._check_usable()
        slab = self._slab
        while True:
            for worker in set(range(len(self._workers))) - self._dead:
                if not self._workers.is_sound(worker) or self._hangs(worker):
                    self._workers.remove(worker)
                    slab.abandon(worker)
                    self._dead.add(worker)
            pending = slab.pending()
            if not len(pending):
                break
            slab.wait(len(slab.answered()) + len(pending), self._slice)
        slab.take(slab.answered())
        for outstanding in (self._resets, self._interrupted, self._cut):
            outstanding.clear()
        self._stepping.fill(False)
        self._steps = 0

    def is_ready(self) -> bool:
        """Whether :meth:`recv` of one result would return without waiting."""
        self._check_workers()
        return len(self._slab.answered()) > 0

    # -- resetting and the rest --------------------------------------------------------------------------------------

    def reset(
        self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None, **more: Any
    ) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`. Environments whose worker has ended are rebuilt in a new worker.

        :raises EnvFailure: a reset or a constructor failed.
        """
        self._check_usable()
        self._start_reset(ids, seeds, options, **more)
        try:
            return self._first(ids)
        finally:
            self._resets.clear()

    def _start_reset(self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None, **more: Any) -> None:
        self._replace_dead_workers(ids)
        given = more if options is None else {"options": options, **more}
        self._resets = {
            env: given if seed is None else {"seed": seed, **given}
            for env, seed in zip(ids.tolist(), seeds, strict=True)
        }
        self._seeds.update((env, seed) for env, seed in zip(ids.tolist(), seeds, strict=True) if seed is not None)
        try:
            self._ask_reset(ids)
        except BaseException:
            self._resets.clear()
            raise

    def _replace_dead_workers(self, ids: Ids) -> None:
        """Replaces the workers of ``ids`` that have ended by new ones."""
        for worker in sorted({int(self._worker_of[env]) for env in ids} & self._dead):
            self._replace_worker(worker)

    def ready(self, count: int, timeout: float) -> bool:
        """As :meth:`Backend.ready`."""
        deadline = time.monotonic() + timeout
        while True:
            answered = self._slab.answered()
            missing = count - int(np.count_nonzero(self._stepping[answered]))
            left = deadline - time.monotonic()
            if missing <= 0 or left <= 0:
                return missing <= 0
            self._slab.wait(len(answered) + missing, min(self._slice, left))
            self._check_workers()

    def seed(self, ids: Ids, seeds: Sequence[int | None]) -> None:
        """As :meth:`Backend.seed`."""
        self._replace_dead_workers(ids)
        for env, seed in zip(ids.tolist(), seeds, strict=True):
            self._call(env, "seed", seed)
            self._over[env] = False
            self._lost_idle.pop(env, None)
            if seed is not None:
                self._seeds[env] = seed

    def _ask_reset(self, ids: Ids, kind: int = RESET) -> None:
        if self.step_timeout is not None:
            self._asked_at = time.monotonic()
        given = {env: self._resets.get(env, {}) for env in ids.tolist()}
        given = {env: one for env, one in given.items() if one or env in self._sent_resets}
        self._sent_resets.update(given)
        for worker, own in self._by_worker(given):
            self._send_message(worker, "reset", own)
        self._ask(ids, kind)
        self._sent_resets.difference_update(given)

    def _first(self, ids: Ids) -> tuple[Tree, Info]:
        """Waits for resets, and returns the first observations and infos."""
        again: set[int] = set()
        while True:
            self._wait_for(ids)
            broken = ids[(self._notes[ids] & FAILED) != 0].tolist()
            if not broken:
                break
            error = self._records.read(broken[0])
            if self.on_error == "raise" or again.intersection(broken):
                self._slab.take(ids)
                self._over[ids] = True
                raise failed(error, broken[0], "reset")
            again.update(broken)
            self._slab.take(np.array(broken))
            for env in broken:
                self._rebuild(env)
            self._ask_reset(np.array(broken))
        extras = self._answers.extras(ids)
        obs = self._answers.obs(ids, extras)
        self._slab.take(ids)
        self._over[ids] = False
        for env in ids.tolist():
            self._lost_idle.pop(env, None)
        return obs, Info(len(ids), {k: extra["info"] for k, extra in extras.items() if "info" in extra})

    def _wait_for(self, ids: Ids) -> None:
        """Waits until all of ``ids`` have answered."""
        while True:
            asked = self._slab.pending()
            owing = int(np.isin(ids, asked).sum())
            if not owing:
                return
            self._slab.wait(len(self._slab.answered()) + owing, self._slice)
            self._check_workers()

    def get_attr(self, name: str, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_attr`."""
        return [self._call(env, "get_attr", name) for env in ids.tolist()]

    def call(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], ids: Ids, timeout: float | None = None
    ) -> list[Any]:
        """As :meth:`Backend.call`.

        :raises ValueError: the method must be called through the backend, for example ``step`` or ``reset``.
        """
        if name in _OWN_METHODS:
            raise ValueError(f"Trying to call function `{name}` with `call`, use `{name}` directly instead.")
        deadline = None if timeout is None else time.monotonic() + timeout
        return [self._call(env, "call", name, args, kwargs, deadline=deadline) for env in ids.tolist()]

    def set_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_attr`; the value is set again in environments that are rebuilt."""
        self._set("set_attr", name, values, ids)

    def set_wrapper_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_wrapper_attr`; the value is set again in environments that are rebuilt."""
        self._set("set_wrapper_attr", name, values, ids)

    def _set(self, how: str, name: str, values: Sequence[Any], ids: Ids) -> None:
        for env, value in zip(ids.tolist(), values, strict=True):
            self._call(env, how, name, value)
            self._attributes.setdefault(env, {})[how, name] = value

    def render(self, ids: Ids, **kwargs: Any) -> list[Any]:
        """As :meth:`Backend.render`."""
        return [self._call(env, "render", kwargs) for env in ids.tolist()]

    def get_state(self, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_state`; see :mod:`rlfast.env.state`."""
        return [
            {"state": self._call_state(env, "get_state"), "over": over}
            for env, over in zip(ids.tolist(), self._over[ids].tolist(), strict=True)
        ]

    def set_state(self, states: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_state`."""
        for env, state in zip(ids.tolist(), states, strict=True):
            self._call_state(env, "set_state", state["state"])
            self._over[env] = state["over"]
            self._lost_idle.pop(env, None)

    def _call_state(self, env: int, method: str, *arguments: Any) -> Any:
        try:
            return self._call(env, method, *arguments)
        except EnvFailure as error:
            if isinstance(error.__cause__, NotImplementedError):
                raise NotImplementedError(str(error.__cause__)) from error
            raise

    def close(self) -> None:
        """Ends the workers within two seconds, whatever they are doing."""
        self._end()
        if self._workers.owner == os.getpid():
            for name in ("_slab", "_views", "_records", "_answers", "_notes"):
                self.__dict__.pop(name, None)

    def _check_usable(self) -> None:
        if not self._end.alive:
            raise RuntimeError(f"{type(self).__name__} is closed: make a new one")
        if self._workers.owner != os.getpid():
            raise RuntimeError("these environments belong to the process that this one was forked from: make new ones")

    def _by_worker(self, what: dict[int, Any]) -> list[tuple[int, dict[int, Any]]]:
        workers: dict[int, dict[int, Any]] = {}
        for env, value in what.items():
            workers.setdefault(int(self._worker_of[env]), {})[env] = value
        return list(workers.items())

    def _send_message(self, worker: int, kind: str, content: object) -> None:
        try:
            self._workers.send(worker, kind, content)
        except Closed:
            self._handle_loss(worker)

    def _call(self, env: int, method: str, *arguments: Any, deadline: float | None = None) -> Any:
        self._check_usable()
        worker = int(self._worker_of[env])
        if worker in self._dead:
            raise RuntimeError(f"environment {env} was lost with its worker: call reset() for it")
        self._asked_at = time.monotonic()

        def on_wait() -> None:
            if deadline is not None and time.monotonic() >= deadline:
                raise multiprocessing.TimeoutError(f"environment {env} did not answer {method}() in time")
            self._check(worker, calling=True)

        try:
            return self._workers.call(worker, env, method, arguments, on_wait)
        except Closed:
            self._handle_loss(worker, method)
            raise

    # -- failures of environments and workers ------------------------------------------------------------------------

    @property
    def _constructor_limit(self) -> float | None:
        return None if self.step_timeout is None else self.step_timeout + _CONSTRUCTOR

    def _check_workers(self) -> None:
        """Handles workers that have ended or hang while a request is pending."""
        for worker in np.unique(self._worker_of[self._slab.pending()]).tolist():
            self._check(worker)

    def _check(self, worker: int, *, calling: bool = False) -> None:
        child = self._workers.children[worker]
        if child is None or child.poll() is not None:
            self._handle_loss(worker, "a method" if calling else None)
        elif self._hangs(worker):
            self._handle_loss(worker, "a method" if calling else None, hangs=True)

    def _hangs(self, worker: int) -> bool:
        """Whether a request to a worker takes longer than ``step_timeout``."""
        if self.step_timeout is None:
            return False
        env, _, since = self._slab.running(worker)
        waiting = time.monotonic() - self._asked_at
        return (since if env >= 0 else waiting) > self.step_timeout and waiting > self.step_timeout

    def _handle_loss(self, worker: int, method: str | None = None, *, hangs: bool = False) -> None:
        """Handles a worker that has ended, or kills one that hangs; raises an error or rebuilds its environments.

        :param worker: the worker.
        :param method: the method that was called in the worker; None during a step or reset.
        :param hangs: whether the worker exceeded the ``step_timeout``.
        :raises WorkerDied: ``on_error`` is ``"raise"``, a method was called, or the environment failed again.
        """
        slab, group = self._slab, self._workers
        env, phase, _ = slab.running(worker)
        asked = slab.pending()
        pending = asked[self._worker_of[asked] == worker]
        if hangs:
            why, status, name = f"did not return within step_timeout={self.step_timeout:g} s", None, None
        else:
            why, status, name = group.cause(worker)
            why = f"its worker {why}"
        idle = env < 0
        env = int(pending[0]) if idle and len(pending) else self._plan.starts[worker] if idle else env
        phase_name = method or PHASES.get(phase, "step")
        action = None
        if phase_name == "step":
            action = self._action_of(env)
        shown = f"step(action={action!r})" if phase_name == "step" else f"{phase_name}()"
        text = f"environment {env} {why}" if hangs else f"environment {env} failed: {why}"
        text += " before it began " if idle else " in "
        group.remove(worker)
        slab.abandon(worker)
        own = np.arange(*self._plan.starts[worker : worker + 2])
        answered = own[self._stepping[own] & np.isin(own, slab.answered())]
        lost = own[~np.isin(own, answered)]
        failure = WorkerDied(
            text + shown,
            exitcode=status,
            signal=name,
            timeout=self.step_timeout if hangs else None,
            env_id=env,
            phase=phase_name,
            action=action,
            lost=tuple(lost.tolist()),
        )
        self._dead.add(worker)
        again = env in self._interrupted
        try:
            if self.on_error == "raise" or again or method:
                raise failure  # noqa: TRY301 - the cleanup below is the same as for other exceptions
            _log.warning("%s; rebuilding environments %s", failure, own.tolist())
            self._replace_worker(worker, answered)
        except BaseException:
            self._drop(lost)
            self._cut.update(answered.tolist())
            for one in lost.tolist():
                self._interrupted.pop(one, None)
            raise
        else:
            self._resume(own, pending, answered, str(failure))
        finally:
            del failure  # breaks the reference cycle between the exception and this frame, which holds large arrays

    def _handle_failure(self, env: int) -> None:
        """Handles a result that holds an exception: raises it, or rebuilds the environment."""
        error = self._records.read(env)
        action = self._action_of(env)
        again = env in self._interrupted
        phase = "reset" if again else "step"
        where = {} if again else {"action": action}
        self._slab.take(np.array([env]))
        self._interrupted.pop(env, None)
        try:
            if self.on_error == "raise" or again:
                raise failed(error, env, phase, **where)  # noqa: TRY301 - the cleanup is the same
            why = str(failed(error, env, phase, **where))
            _log.warning("%s; rebuilding it", why)
            self._rebuild(env)
        except BaseException:
            self._drop(np.array([env]))
            raise
        self._interrupt([env], why)

    def _action_of(self, env: int) -> Any:
        """Returns the action of the last step of environment ``env``."""
        spilled = self._spilled.get(env, {})
        return spilled[WHOLE] if WHOLE in spilled else self._places.action.get(self._views.actions, env, spilled)

    def _drop(self, lost: Ids) -> None:
        """Marks environments as lost: they will not answer, and no episode is running."""
        self.lost = lost.tolist()
        self._steps -= int(np.count_nonzero(self._stepping[lost]))
        self._stepping[lost] = False
        self._over[lost] = True

    def _rebuild(self, env: int) -> None:
        """Replaces an environment that raised by a new one."""
        self._call(env, "rebuild")
        self._restore(env)

    def _restore(self, env: int) -> None:
        self.restarts += 1
        for (how, name), value in self._attributes.get(env, {}).items():
            self._call(env, how, name, value)

    def _replace_worker(self, worker: int, answered: Ids | tuple[()] = ()) -> None:
        """Replaces a worker that has ended by a new one.

        :param worker: the worker.
        :param answered: environments whose last result has not been received; its row ends the episode.
        """
        group = self._workers
        own = group.envs_of(worker)
        group.start(worker)
        group.wait_for_description(worker, self._constructor_limit)
        between = self._over.copy()
        between[list(answered)] = True
        over = [self.autoreset_mode is AutoresetMode.NEXT_STEP and bool(between[env]) for env in own]
        group.connect(worker, self._plan, over, self._spins)
        self._dead.discard(worker)
        try:
            for env in own:
                self._restore(env)
        except BaseException:  # its environments lack attributes that were set
            self._dead.add(worker)
            raise

    def _resume(self, own: Ids, pending: Ids, answered: Ids, why: str) -> None:
        """Continues with the environments of a worker that has been replaced.

        A result that ended an episode is kept. All other episodes are lost, even if their step was complete.

        :param own: the environments of the worker.
        :param pending: those that have not answered.
        :param answered: those that have answered a step, and whose result has not been received.
        :param why: the message of the failure.
        """
        resetting = [env for env in pending.tolist() if env in self._resets]
        broken = answered
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:  # with SAME_STEP, the new episode is lost as well
            _, terminated, truncated, _ = self._slab.gather(answered)
            broken = answered[~(terminated | truncated)]
        self._slab.take(broken)
        self._interrupt([env for env in pending.tolist() if env not in self._resets] + broken.tolist(), why)
        idle = set(own.tolist()) - set(pending.tolist()) - set(answered.tolist())
        self._lost_idle.update((env, why) for env in idle if not self._over[env])
        if resetting:
            self._ask_reset(np.array(resetting))

    def _interrupt(self, envs: list[int], why: str) -> None:
        """Resets environments that have been rebuilt; the reset is the result of the step that failed."""
        if envs:
            for env in envs:
                if env in self._seeds:
                    mixed = np.random.SeedSequence([self._seeds[env], self.restarts]).generate_state(1)
                    self._resets[env] = {"seed": int(mixed[0])}
            self._interrupted.update((env, why) for env in envs)
            self._ask_reset(np.array(envs), REPLACE)
            for env in envs:
                self._resets.pop(env, None)

    def _mark(self, rows: Rows) -> None:
        """Marks the rows of environments that have been rebuilt or lost."""
        infos = rows.info.dicts()
        for k, env in enumerate(rows.env_id.tolist()):
            why = self._interrupted.pop(env, None)
            if why is not None:
                if rows.valid is None:
                    rows.valid = np.ones(len(infos), dtype=bool)
                rows.rew[k], rows.valid[k], rows.truncated[k] = 0.0, False, True
                infos[k]["restarted"] = why
            elif env in self._cut:
                self._cut.discard(env)
                rows.truncated[k] = not rows.terminated[k]
        rows.info = Info.of(infos)


def _check_arguments(num_workers: int | None, step_timeout: float | None, on_error: str) -> None:
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"num_workers must be at least 1 or None, got {num_workers}")
    if step_timeout is not None and not step_timeout > 0:
        raise ValueError(f"step_timeout must be positive (seconds) or None, got {step_timeout}")
    if on_error not in {"raise", "restart"}:
        raise ValueError(f'on_error must be "raise" or "restart", got {on_error!r}')
