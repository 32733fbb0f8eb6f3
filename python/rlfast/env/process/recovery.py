"""How a pool handles failures of environments and workers: it raises an error, or rebuilds environments."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.backends.base import Backend, Rows
from rlfast.env.backends.info import Info
from rlfast.env.errors import WorkerDied
from rlfast.env.process.layout import WHOLE
from rlfast.env.process.protocol import PHASES, REPLACE, RESET, Places, Plan, Records, Views
from rlfast.env.process.worker_group import WorkerGroup, failed

Ids = NDArray[np.int64]

_CONSTRUCTOR = 60.0  # seconds for a constructor, where there is a step_timeout

_log = logging.getLogger(__name__)


class RecoveringBackend(Backend):
    """Handles failures of environments and workers for :class:`~rlfast.env.process.ProcessBackend`."""

    step_timeout: float | None
    on_error: str
    restarts: int
    """The number of environments that have been rebuilt."""
    _method: str
    _spins: int
    _plan: Plan
    _places: Places
    _views: Views
    _records: Records
    _workers: WorkerGroup
    _slab: Any
    _worker_of: NDArray[np.int64]
    _spilled: dict[int, dict[int, Any]]
    _steps: int
    _stepping: NDArray[np.bool_]
    _over: NDArray[np.bool_]
    _asked_at: float
    _resets: dict[int, dict[str, Any]]
    _seeds: dict[int, int]
    _attributes: dict[int, dict[tuple[str, str], Any]]

    def __init__(self) -> None:
        self.restarts = 0
        self._dead: set[int] = set()  # workers that have ended and have not been replaced
        self._interrupted: dict[int, str] = {}  # environments that were rebuilt during a step, and why
        self._lost_idle: dict[int, str] = {}  # environments that were rebuilt while idle; their next step reports it
        self._cut: set[int] = set()  # lost environments whose last result has not been received

    @abstractmethod
    def _call(self, env: int, method: str, *arguments: Any) -> Any:
        """Calls a method of the worker of environment ``env`` and returns its result."""

    @abstractmethod
    def _ask_reset(self, ids: Ids, kind: int = RESET) -> None:
        """Requests resets of environments, with the arguments in ``_resets``."""

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
            if self.on_error == "raise" or again or method or self._method == "thread":
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
        stepping = [env for env in pending.tolist() if env not in self._resets]
        broken = answered
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:  # with SAME_STEP, the new episode is lost as well
            _, terminated, truncated, _ = self._slab.gather(answered)
            broken = answered[~(terminated | truncated)]
        self._slab.take(broken)
        self._interrupt(stepping + broken.tolist(), why)
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
