"""What a pool does when an environment fails or a worker ends: it tells, or builds anew and goes on."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast.env.backends.base import Backend, Rows
from rlfast.env.errors import WorkerDied
from rlfast.env.info import Info
from rlfast.env.process.layout import WHOLE
from rlfast.env.process.protocol import PHASES, REPLACE, RESET, Places, Plan, Records, Views
from rlfast.env.process.worker_group import WorkerGroup, failed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

_CONSTRUCTOR = 60.0  # seconds for a constructor, where there is a step_timeout

_log = logging.getLogger(__name__)


class RecoveringBackend(Backend):
    """The part of :class:`~rlfast.env.process.ProcessBackend` that deals with failures."""

    step_timeout: float | None
    on_error: str
    restarts: int
    """How many environments have been built anew."""
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
        self._dead: set[int] = set()  # workers
        self._interrupted: dict[int, str] = {}  # environments built anew within their step, and why
        self._owed: dict[int, str] = {}  # ... while nobody waited for them: the next step tells
        self._cut: set[int] = set()  # environments that stay gone, whose last answer has not been taken

    @abstractmethod
    def _call(self, env: int, method: str, *arguments: Any) -> Any:
        """What a method of a worker returns for one of its environments."""

    @abstractmethod
    def _ask_reset(self, ids: Ids, kind: int = RESET) -> None:
        """Asks environments for a reset, with the arguments that are kept for them."""

    @property
    def _constructor_limit(self) -> float | None:
        return None if self.step_timeout is None else self.step_timeout + _CONSTRUCTOR

    def _look(self) -> None:
        """Deals with workers that have ended or hang while something is asked of them."""
        for worker in np.unique(self._worker_of[self._slab.asked()]).tolist():
            self._check(worker)

    def _check(self, worker: int, *, calling: bool = False) -> None:
        child = self._workers.children[worker]
        if child is None or child.poll() is not None:
            self._lose(worker, "a method" if calling else None)
            return
        if self.step_timeout is not None:
            env, _, since = self._slab.running(worker)
            waiting = time.monotonic() - self._asked_at
            if (since if env >= 0 else waiting) > self.step_timeout and waiting > self.step_timeout:
                self._lose(worker, "a method" if calling else None, hangs=True)

    def _lose(self, worker: int, method: str | None = None, *, hangs: bool = False) -> None:
        """A worker has ended, or is ended here because it hangs: raises that, or builds its environments anew."""
        slab, group = self._slab, self._workers
        env, phase, _ = slab.running(worker)
        asked = slab.asked()
        pending = asked[self._worker_of[asked] == worker]
        if hangs:
            why, status, name = f"did not return within step_timeout={self.step_timeout:g} s", None, None
        else:
            why, status, name = group.cause(worker)
            why = f"its worker {why}"
        idle = env < 0
        env = int(pending[0]) if idle and len(pending) else self._plan.starts[worker] if idle else env
        doing = method or PHASES.get(phase, "step")
        action = None
        if doing == "step":
            action = self._action_of(env)
        shown = f"step(action={action!r})" if doing == "step" else f"{doing}()"
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
            phase=doing,
            action=action,
            lost=tuple(lost.tolist()),
        )
        self._dead.add(worker)
        again = env in self._interrupted
        try:
            if self.on_error == "raise" or again or method or self._method == "thread":
                raise failure  # noqa: TRY301 - what follows it is the same in both cases
            _log.warning("%s; building environments %s anew", failure, own.tolist())
            self._revive(worker, answered)
        except BaseException:
            self._drop(lost)
            self._cut.update(answered.tolist())
            for one in lost.tolist():
                self._interrupted.pop(one, None)
            raise
        else:
            self._go_on(own, pending, answered, str(failure))
        finally:
            del failure  # else it and this frame would hold one another, and the memory

    def _deal_with(self, env: int) -> None:
        """An answer says that ``env`` raised."""
        error = self._records.read(env)
        action = self._action_of(env)
        again = env in self._interrupted
        phase = "reset" if again else "step"
        where = {} if again else {"action": action}
        self._slab.take(np.array([env]))
        self._interrupted.pop(env, None)
        try:
            if self.on_error == "raise" or again:
                raise failed(error, env, phase, **where)  # noqa: TRY301 - what follows it is the same in both cases
            why = str(failed(error, env, phase, **where))
            _log.warning("%s; building it anew", why)
            self._rebuild(env)
        except BaseException:
            self._drop(np.array([env]))
            raise
        self._interrupt([env], why)

    def _action_of(self, env: int) -> Any:
        """The action of its last step."""
        spilled = self._spilled.get(env, {})
        return spilled[WHOLE] if WHOLE in spilled else self._places.action.get(self._views.actions, env, spilled)

    def _drop(self, lost: Ids) -> None:
        """These will not answer, and are in no episode."""
        self._steps -= int(np.count_nonzero(self._stepping[lost]))
        self._stepping[lost] = False
        self._over[lost] = True

    def _rebuild(self, env: int) -> None:
        """Puts a new environment in the place of one that raised."""
        self._call(env, "rebuild")
        self._restore(env)

    def _restore(self, env: int) -> None:
        self.restarts += 1
        for (how, name), value in self._attributes.get(env, {}).items():
            self._call(env, how, name, value)

    def _revive(self, worker: int, answered: Ids | tuple[()] = ()) -> None:
        """Starts a worker in the place of one that has ended.

        :param answered: environments whose last answer is still to be taken; it will say that the episode is over.
        """
        group = self._workers
        own = group.own(worker)
        group.start(worker)
        group.described(worker, self._constructor_limit)
        between = self._over.copy()
        between[list(answered)] = True
        over = [self.autoreset_mode is AutoresetMode.NEXT_STEP and bool(between[env]) for env in own]
        group.admit(worker, self._plan, over, self._spins)
        self._dead.discard(worker)
        for env in own:
            self._restore(env)

    def _go_on(self, own: Ids, pending: Ids, answered: Ids, why: str) -> None:
        """What becomes of the environments of a worker that has been started anew.

        An answer that ended its episode counts. The episodes of the others cannot go on, whoever had answered.
        """
        resetting = [env for env in pending.tolist() if env in self._resets]
        stepping = [env for env in pending.tolist() if env not in self._resets]
        broken = answered
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:  # there, what followed an end is lost as well
            _, terminated, truncated, _ = self._slab.gather(answered)
            broken = answered[~(terminated | truncated)]
        self._slab.take(broken)
        self._interrupt(stepping + broken.tolist(), why)
        idle = set(own.tolist()) - set(pending.tolist()) - set(answered.tolist())
        self._owed.update((env, why) for env in idle if not self._over[env])
        if resetting:
            self._ask_reset(np.array(resetting))

    def _interrupt(self, envs: list[int], why: str) -> None:
        """Resets environments that have been built anew; that is the answer to the step they were in."""
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
        """Says of rows that their environment has been built anew."""
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
