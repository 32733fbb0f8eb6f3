"""Environments in worker processes, behind the seam that vector environments are made on."""

from __future__ import annotations

import logging
import os
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast import _core
from rlfast.env.backend import Backend, Rows
from rlfast.env.failure import WorkerDied
from rlfast.env.info import Info
from rlfast.env.process.channel import Closed
from rlfast.env.process.crew import Crew, failed
from rlfast.env.process.layout import Array, objects
from rlfast.env.process.protocol import (
    AGAIN,
    EXTRA,
    FAILED,
    ONLY_RESET,
    PHASES,
    REPLACE,
    RESET,
    STEP,
    Places,
    Plan,
    Records,
)
from rlfast.env.process.start import method_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym
    from numpy.typing import NDArray

    from rlfast.env.backend import Tree

    Ids = NDArray[np.int64]

_SLICE = 0.05  # seconds of waiting between looks at the workers
_GRACE = 1.0  # seconds that environments have for closing
_LEND = 64 << 10  # observations of at least so many bytes are lent instead of copied
_BANKS, _BANK_BYTES = 8, 64 << 20  # how often such observations are held at once, and the memory that may take
_SPINS = 500  # turns of a wait before it sleeps, where every worker has a core and the parent one too
_CONSTRUCTOR = 60.0  # seconds for a constructor, where there is a step_timeout

_log = logging.getLogger(__name__)


class ProcessBackend(Backend):
    """Runs environments in worker processes that share memory with this one.

    A step costs no pickling and no pipe: actions, observations, rewards and flags are written where the other side
    reads them, and a worker is woken once for all of its environments. What has no fixed layout travels pickled:
    non-empty infos, and the parts of spaces that are ``Text``, ``Sequence``, ``Graph`` or of Python objects.

    Large observations are lent: the arrays lie in the shared memory, and are not written again while somebody holds
    them. (A process forked from this one does not count as somebody.)

    :param env_fns: one callable per environment. They are pickled by value (lambdas and notebooks work), except for
        ``context="fork"`` and ``"thread"``.
    :param num_workers: how many processes share them; None: one for each core that this process may use, and never
        more than environments. Each has a contiguous run of environments. Results do not depend on it.
    :param autoreset_mode: who resets an environment whose episode ended.
    :param context: ``"forkserver"`` (default where the system can fork), ``"spawn"``, ``"fork"``, ``"thread"``, or a
        :mod:`multiprocessing` context. None of them needs a ``__main__`` guard.
    :param step_timeout: seconds that a step or reset may take before its worker is ended; None: any. A constructor
        has a minute more.
    :param on_error: ``"raise"``: a failure is raised by :meth:`recv`. ``"restart"``: the environment is built anew,
        and its row says ``truncated`` and is no ``valid`` transition. A worker that died takes all of its environments
        with it: those whose step had been answered are truncated with that answer, the others as above. An
        environment that fails while it is built anew raises in either case.
    :param doorbell: ``"futex"``, ``"pipe"``, or None: whichever the system has.
    :raises ValueError: no environment, spaces that differ, or an argument out of range.
    :raises TypeError: an environment function cannot be pickled.
    :raises EnvFailure: a constructor failed.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        *,
        num_workers: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.DISABLED,
        context: Any = None,
        step_timeout: float | None = None,
        on_error: str = "raise",
        doorbell: str | None = None,
    ) -> None:
        count = len(env_fns)
        if count == 0:
            raise ValueError("a vector environment needs at least one environment, got an empty list")
        if num_workers is not None and num_workers < 1:
            raise ValueError(f"num_workers must be at least 1 or None, got {num_workers}")
        if step_timeout is not None and not step_timeout > 0:
            raise ValueError(f"step_timeout must be positive (seconds) or None, got {step_timeout}")
        if on_error not in {"raise", "restart"}:
            raise ValueError(f'on_error must be "raise" or "restart", got {on_error!r}')
        self._method = method_of(context)
        self.placement = "thread" if self._method == "thread" else "process"
        pipes = _pipes(doorbell)
        cores = _cores()
        workers = min(count, num_workers or cores)
        starts = [count * worker // workers for worker in range(workers + 1)]
        self.num_envs, self.autoreset_mode = count, autoreset_mode
        self.step_timeout, self.on_error = step_timeout, on_error
        self.restarts = 0
        """How many environments have been built anew."""
        self._spins = _SPINS if workers < cores else 0
        self._crew = Crew(env_fns, starts, self._method)
        self._end = weakref.finalize(self, Crew.end, self._crew, _GRACE)
        try:
            self._plan = self._hire(starts)
            self._places = Places(self._plan)
            self._slab = _core.Slab(starts, self._places.size, banks=self._plan.banks, pipes=pipes, spins=self._spins)
            self._crew.slab = self._slab
            for worker in range(workers):
                self._crew.admit(worker, self._plan, [False] * len(self._crew.own(worker)), self._spins)
        except BaseException:
            self._end()
            raise
        self._views = self._places.views(self._slab)
        self._rewards, self._terminated, self._truncated, self._notes = self._slab.columns()
        self._records = Records(self._views, self._file_of)
        self._worker_of = np.repeat(np.arange(workers), np.diff(starts))
        self._all = np.arange(count)
        self._stepping = np.zeros(count, dtype=bool)
        self._over = np.ones(count, dtype=bool)  # between episodes
        self._bank_of = np.zeros(count, dtype=np.uint8)
        self._lease: Any = None
        self._asked_at = 0.0
        self._dead: set[int] = set()  # workers
        self._resets: dict[int, dict[str, Any]] = {}  # arguments of the resets that are being waited for
        self._interrupted: dict[int, str] = {}  # environments built anew within their step, and why
        self._owed: dict[int, str] = {}  # ... while nobody waited for them: the next step tells
        self._cut: set[int] = set()  # environments that are gone, whose last answer has not been taken
        self._seeds: dict[int, int] = {}
        self._attributes: dict[int, dict[str, Any]] = {}  # what set_attr set, for environments built anew

    def _hire(self, starts: list[int]) -> Plan:
        """Starts the workers and learns the spaces from them."""
        crew = self._crew
        for worker in range(len(crew)):
            crew.start(worker)
        told = [crew.described(worker, self._constructor_limit) for worker in range(len(crew))]
        first = told[0]
        for start, one in zip(starts, told, strict=False):
            for k, spaces in {0: one["spaces"], **one["odd"]}.items():
                for name, space, wanted in zip(("observation", "action"), spaces, first["spaces"], strict=True):
                    if space != wanted:
                        raise ValueError(
                            f"all environments need the same {name}_space, but that of environment 0 is {wanted} and "
                            f"that of environment {start + k} is {space}: use one vector environment for each kind"
                        )
        self.single_observation_space, self.single_action_space = first["spaces"]
        self.metadata, self.spec, self.render_mode = first["metadata"], first["spec"], first["render_mode"]
        plan = Plan(self.single_observation_space, self.single_action_space, starts, self.autoreset_mode, 1)
        size = Places(plan).bank_bytes
        banks = 1 + min(_BANKS, _BANK_BYTES // size) if size >= _LEND else 1
        return Plan(plan.observation_space, plan.action_space, starts, plan.mode, banks)

    @property
    def _constructor_limit(self) -> float | None:
        return None if self.step_timeout is None else self.step_timeout + _CONSTRUCTOR

    def _file_of(self, env: int) -> tuple[int, int]:
        worker = self._worker_of[env]
        return self._plan.starts[worker], self._crew.files[worker]

    # -- stepping ----------------------------------------------------------------------------------------------------

    def send(self, actions: Tree, ids: Ids) -> None:
        """As :meth:`Backend.send`.

        :raises RuntimeError: one of the environments is stepping, or was lost with its worker; none has been stepped.
        :raises ValueError: actions of another number or shape.
        :raises TypeError: actions of another kind.
        """
        self._check_usable()
        if self._stepping[ids].any():
            raise RuntimeError(f"environments {ids[self._stepping[ids]].tolist()} are stepping: recv() first")
        if self._dead and (gone := [env for env in ids.tolist() if self._worker_of[env] in self._dead]):
            raise RuntimeError(f"environments {gone} were lost with their worker: call reset() for them")
        every = len(ids) == self.num_envs and bool((ids == self._all).all())
        self._put_actions(actions, ids, every)
        if self.step_timeout is not None:
            self._asked_at = time.monotonic()
        owed = self._owed and [env for env in ids.tolist() if env in self._owed]
        if owed:
            ids = ids[~np.isin(ids, owed)]
            every = False
        bank, lease = 0, None
        if self._plan.banks > 1:
            lease = self._slab.lend() if every else None
            bank = lease.bank if lease is not None else 0
            self._bank_of[ids] = bank
        self._ask(None if every else ids, STEP, bank)
        self._lease = lease or self._lease
        self._stepping[ids] = True
        if owed:
            self._ask(np.array(owed), REPLACE, 0)
            self._bank_of[owed] = 0
            self._stepping[owed] = True
            self._interrupted.update((env, self._owed.pop(env)) for env in owed)

    def _put_actions(self, actions: Tree, ids: Ids, every: bool) -> None:
        spilled: dict[int, dict[int, Any]] = {}
        checked = []
        for leaf, values in zip(self._places.action.leaves(), self._places.action.split(actions), strict=True):
            if isinstance(leaf, Array):
                checked.append((leaf.number, _fitting(np.asarray(values), (len(ids), *leaf.shape), leaf)))
            elif len(values) != len(ids):
                raise ValueError(f"got {len(values)} actions for {len(ids)} environments: give one action for each")
            else:
                for env, value in zip(ids.tolist(), values, strict=True):
                    spilled.setdefault(env, {})[leaf.number] = value
        for number, array in checked:
            view = self._views.actions[number]
            view[... if every else ids] = array  # type: ignore[index]
        for worker, own in self._by_worker(spilled) if spilled else ():
            self._tell(worker, "actions", own)

    def _ask(self, ids: Ids | None, kind: int, bank: int) -> None:
        try:
            self._slab.ask(ids, kind, bank)
        except RuntimeError:  # what a call that Ctrl-C ended has left
            stale = self._all if ids is None else ids
            self._wait_for(stale)
            self._slab.take(stale[np.isin(stale, self._slab.answered())])
            self._slab.ask(ids, kind, bank)

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:
        """As :meth:`Backend.recv`, in ascending order of environments.

        :raises EnvFailure: an environment failed, and ``on_error`` is ``"raise"`` or it failed again.
        :raises RuntimeError: nothing is stepping, or fewer than ``min_ready``.
        """
        self._check_usable()
        stepping = int(np.count_nonzero(self._stepping))
        if not 1 <= min_ready <= stepping:
            raise RuntimeError(f"recv() of {min_ready} answers, but {stepping} environments are stepping: send() first")
        slab, count = self._slab, self.num_envs
        every = stepping == count == min_ready and not self._interrupted and not self._cut
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if every and deadline is None:
                ids: Ids | None = None
                enough = slab.wait(count, self._slice) == count
                every = not self._interrupted and not self._cut
            else:
                answered = slab.answered()
                ids = answered[self._stepping[answered]]
                missing = min_ready - len(ids)
                late = deadline is not None and time.monotonic() >= deadline
                enough = missing <= 0 or (late and len(ids) > 0)
                if not enough:
                    left = self._slice if deadline is None or late else max(0.0, deadline - time.monotonic())
                    slab.wait(len(answered) + (1 if late else missing), min(left, self._slice))
            if enough:
                rows = self._rows(ids)
                if rows is not None:
                    return rows
                every = False
            else:
                self._look()

    @property
    def _slice(self) -> float:
        return _SLICE if self.step_timeout is None else min(_SLICE, self.step_timeout / 4)

    def _rows(self, ids: Ids | None) -> Rows | None:
        """Takes answers (None: of all); None when one of them was a failure that has been dealt with."""
        own = self._all if ids is None else ids
        notes = self._notes[own]
        if (notes & FAILED).any():
            self._deal_with(int(own[(notes & FAILED) != 0][0]))
            return None
        noted = int(np.bitwise_or.reduce(notes))
        extras = self._extras(own, notes) if noted & EXTRA else {}
        obs = self._obs(ids, own, extras)
        rows = Rows(
            env_id=own.copy(),
            obs=obs,
            obs_next=obs,
            rew=self._rewards[own],
            terminated=self._terminated[own],
            truncated=self._truncated[own],
            info=Info(len(own), {k: extra["info"] for k, extra in extras.items() if "info" in extra}),
        )
        if noted & AGAIN:
            again = np.flatnonzero(notes & AGAIN)
            rows.obs_next = self._finals(obs, own, again, extras)
            rows.final_info = Info(
                len(own), {k: extras[k].get("final_info", {}) for k in again.tolist() if k in extras}
            )
        if noted & ONLY_RESET:
            rows.valid = (notes & ONLY_RESET) == 0
        if any("reward" in extra for extra in extras.values()):
            rows.rew = _vector_rewards(rows.rew, extras)
        if self._interrupted or self._cut:
            self._mark(rows)
        self._slab.take(ids)
        self._stepping[own] = False
        if self.autoreset_mode is AutoresetMode.DISABLED or self.autoreset_mode is AutoresetMode.NEXT_STEP:
            self._over[own] = rows.done
        if self._lease is not None and not self._stepping.any():
            self._lease = None
        return rows

    def _extras(self, ids: Ids, notes: NDArray[np.uint8]) -> dict[int, dict[str, Any]]:
        return {k: self._records.read(int(ids[k])) for k in np.flatnonzero(notes & EXTRA).tolist()}

    def _obs(self, ids: Ids | None, own: Ids, extras: dict[int, dict[str, Any]]) -> Tree:
        """The observations in the answers: lent where all are in one bank that can be, else copied."""
        if ids is None and self._lease is not None:
            arrays = self._views.lent(self._lease)
        elif ids is None:
            arrays = [view if view is None else view.copy() for view in self._views.banks[0]]
        elif self._lease is None:
            arrays = [view if view is None else view[own] for view in self._views.banks[0]]
        else:
            arrays = self._of_banks(own)
        return self._places.obs.join(
            iter(
                [
                    array if array is not None else objects([extras[k]["obs"][number] for k in range(len(own))])
                    for number, array in enumerate(arrays)
                ]
            )
        )

    def _of_banks(self, own: Ids) -> list[NDArray[Any] | None]:
        banks = self._bank_of[own]
        arrays = [view if view is None else view[own] for view in self._views.banks[int(banks[0])]]
        for bank in np.unique(banks).tolist():
            at = np.flatnonzero(banks == bank)
            for array, view in zip(arrays, self._views.banks[bank], strict=True):
                if array is not None and view is not None:
                    array[at] = view[own[at]]
        return arrays

    def _finals(self, obs: Tree, own: Ids, again: Ids, extras: dict[int, dict[str, Any]]) -> Tree:
        """The observations with the final ones in the rows ``again``."""

        def replaced(number: int, array: NDArray[Any]) -> NDArray[Any]:
            array = array.copy()
            view = self._views.finals[number]
            if view is not None:
                array[again] = view[own[again]]
            else:
                for k in again.tolist():
                    array[k] = extras[k]["final"][number]
            return array

        node = self._places.obs
        return node.join(replaced(number, array) for number, array in enumerate(node.split(obs)))

    def is_ready(self) -> bool:
        """Whether :meth:`recv` of one answer would not have to wait."""
        self._look()
        return len(self._slab.answered()) > 0

    # -- resetting and the rest --------------------------------------------------------------------------------------

    def reset(self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`. Environments that were lost with their worker are built anew.

        :raises EnvFailure: a reset, or a constructor, failed.
        """
        self._check_usable()
        if self._stepping[ids].any():
            raise RuntimeError(f"environments {ids[self._stepping[ids]].tolist()} are stepping: recv() first")
        for worker in sorted({int(self._worker_of[env]) for env in ids} & self._dead):
            self._revive(worker)
        given = {} if options is None else {"options": options}
        self._resets = {
            env: given if seed is None else {"seed": seed, **given}
            for env, seed in zip(ids.tolist(), seeds, strict=True)
        }
        self._seeds.update((env, seed) for env, seed in zip(ids.tolist(), seeds, strict=True) if seed is not None)
        self._ask_reset(ids)
        try:
            return self._first(ids)
        finally:
            self._resets.clear()

    def _ask_reset(self, ids: Ids, kind: int = RESET) -> None:
        if self.step_timeout is not None:
            self._asked_at = time.monotonic()
        for worker, own in self._by_worker({env: self._resets[env] for env in ids.tolist() if self._resets.get(env)}):
            self._tell(worker, "reset", own)
        self._bank_of[ids] = 0
        self._ask(ids, kind, 0)

    def _first(self, ids: Ids) -> tuple[Tree, Info]:
        """Waits for resets and takes their answers."""
        again: set[int] = set()
        while True:
            self._wait_for(ids)
            broken = ids[(self._notes[ids] & FAILED) != 0].tolist()
            if not broken:
                break
            told = self._records.read(broken[0])
            fails = failed(told, broken[0], "reset")
            if self.on_error == "raise" or again.intersection(broken):
                self._slab.take(ids)
                self._over[ids] = True
                raise fails
            again.update(broken)
            self._slab.take(np.array(broken))
            for env in broken:
                self._rebuild(env)
            self._ask_reset(np.array(broken))
        notes = self._notes[ids]
        extras = self._extras(ids, notes)
        obs = self._obs_of_reset(ids, extras)
        self._slab.take(ids)
        self._over[ids] = False
        for env in ids.tolist():
            self._owed.pop(env, None)
        return obs, Info(len(ids), {k: extra["info"] for k, extra in extras.items() if "info" in extra})

    def _obs_of_reset(self, ids: Ids, extras: dict[int, dict[str, Any]]) -> Tree:
        lease, self._lease = self._lease, None  # resets answer in bank 0
        try:
            return self._obs(ids, ids, extras)
        finally:
            self._lease = lease

    def _wait_for(self, ids: Ids) -> None:
        """Until none of ``ids`` owes an answer."""
        while True:
            asked = self._slab.asked()
            owing = int(np.isin(ids, asked).sum())
            if not owing:
                return
            self._slab.wait(len(self._slab.answered()) + owing, self._slice)
            self._look()

    def get_attr(self, name: str, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_attr`."""
        return [self._call(env, "get_attr", name) for env in ids.tolist()]

    def set_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_attr`; environments that are built anew get it again."""
        for env, value in zip(ids.tolist(), values, strict=True):
            self._call(env, "set_attr", name, value)
            self._attributes.setdefault(env, {})[name] = value

    def render(self, ids: Ids, **kwargs: Any) -> list[Any]:
        """As :meth:`Backend.render`."""
        return [self._call(env, "render", kwargs) for env in ids.tolist()]

    def close(self) -> None:
        """Ends the workers within two seconds, whatever they are doing. Arrays that were lent stay."""
        self._end()
        if self._crew.owner == os.getpid():
            for name in ("_slab", "_views", "_records", "_lease", "_rewards", "_terminated", "_truncated", "_notes"):
                self.__dict__.pop(name, None)

    def _check_usable(self) -> None:
        if not self._end.alive:
            raise RuntimeError(f"{type(self).__name__} is closed: make a new one")
        if self._crew.owner != os.getpid():
            raise RuntimeError("these environments belong to the process that this one was forked from: make new ones")

    def _by_worker(self, what: dict[int, Any]) -> list[tuple[int, dict[int, Any]]]:
        workers: dict[int, dict[int, Any]] = {}
        for env, value in what.items():
            workers.setdefault(int(self._worker_of[env]), {})[env] = value
        return list(workers.items())

    def _tell(self, worker: int, kind: str, content: Any) -> None:
        try:
            self._crew.tell(worker, kind, content)
        except Closed:
            self._lose(worker)

    def _call(self, env: int, method: str, *arguments: Any) -> Any:
        self._check_usable()
        worker = int(self._worker_of[env])
        if worker in self._dead:
            raise RuntimeError(f"environment {env} was lost with its worker: call reset() for it")
        self._asked_at = time.monotonic()
        try:
            return self._crew.call(worker, env, method, arguments, lambda: self._check(worker, calling=True))
        except Closed:
            self._lose(worker, method)
            raise

    # -- failures ----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Deals with workers that have ended or hang while something is asked of them."""
        for worker in np.unique(self._worker_of[self._slab.asked()]).tolist():
            self._check(worker)

    def _check(self, worker: int, *, calling: bool = False) -> None:
        child = self._crew.children[worker]
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
        slab, crew = self._slab, self._crew
        env, phase, _ = slab.running(worker)
        asked = slab.asked()
        pending = asked[self._worker_of[asked] == worker]
        if hangs:
            why, status, name = f"did not return within step_timeout={self.step_timeout:g} s", None, None
        else:
            why, status, name = crew.cause(worker)
            why = f"its worker {why}"
        idle = env < 0
        env = int(pending[0]) if idle and len(pending) else self._plan.starts[worker] if idle else env
        doing = method or PHASES.get(phase, "step")
        action = None
        if doing == "step":
            action = self._places.action.get(self._views.actions, env, _Unknown())
        shown = f"step(action={action!r})" if doing == "step" else f"{doing}()"
        text = f"environment {env} {why}" if hangs else f"environment {env} failed: {why}"
        text += " before it began " if idle else " in "
        crew.remove(worker)
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
            self._stepping[lost] = False
            self._over[lost] = True
            self._cut.update(answered.tolist())
            for one in lost.tolist():
                self._interrupted.pop(one, None)
            raise
        self._go_on(own, pending, answered, str(failure))

    def _deal_with(self, env: int) -> None:
        """An answer says that ``env`` raised."""
        told = self._records.read(env)
        action = self._places.action.get(self._views.actions, env, _Unknown())
        again = env in self._interrupted
        phase = "reset" if again else "step"
        failure = failed(told, env, phase, **({} if again else {"action": action}))
        self._slab.take(np.array([env]))
        self._interrupted.pop(env, None)
        if self.on_error == "raise" or again:
            self._stepping[env] = False
            self._over[env] = True
            raise failure
        _log.warning("%s; building it anew", failure)
        try:
            self._rebuild(env)
        except BaseException:
            self._stepping[env] = False
            self._over[env] = True
            raise
        self._interrupt([env], str(failure))

    def _rebuild(self, env: int) -> None:
        """Puts a new environment in the place of one that raised."""
        self._call(env, "rebuild")
        self._restore(env)

    def _restore(self, env: int) -> None:
        self.restarts += 1
        for name, value in self._attributes.get(env, {}).items():
            self._call(env, "set_attr", name, value)

    def _revive(self, worker: int, answered: Ids | tuple[()] = ()) -> None:
        """Starts a worker in the place of one that has ended.

        :param answered: environments whose last answer is still to be taken; it will say that the episode is over.
        """
        crew = self._crew
        own = crew.own(worker)
        crew.start(worker)
        crew.described(worker, self._constructor_limit)
        between = self._over.copy()
        between[list(answered)] = True
        over = [self.autoreset_mode is AutoresetMode.NEXT_STEP and bool(between[env]) for env in own]
        crew.admit(worker, self._plan, over, self._spins)
        self._dead.discard(worker)
        for env in own:
            self._restore(env)

    def _go_on(self, own: Ids, pending: Ids, answered: Ids, why: str) -> None:
        """What becomes of the environments of a worker that has been started anew."""
        resetting = [env for env in pending.tolist() if env in self._resets]
        stepping = [env for env in pending.tolist() if env not in self._resets]
        if self.autoreset_mode is AutoresetMode.SAME_STEP:  # they must be in an episode when their answer is taken
            self._slab.take(answered)
            stepping += answered.tolist()
        else:
            self._cut.update(answered.tolist())
        self._interrupt(stepping, why)
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


class _Unknown(dict[int, Any]):
    """Parts of actions that only the worker had."""

    def __missing__(self, number: int) -> str:
        return "..."


def _fitting(values: NDArray[Any], shape: tuple[int, ...], leaf: Array) -> NDArray[Any]:
    if values.shape != shape:
        if not values.ndim or len(values) != shape[0]:
            raise ValueError(f"got {len(values) if values.ndim else 'a single'} actions for {shape[0]} environments")
        raise ValueError(f"got actions of shape {values.shape}{leaf.path and f' for {leaf.path}'}, wanted {shape}")
    kinds = {"f": "biuf", "c": "biufc"}.get(leaf.dtype.kind, "biu" if leaf.dtype.kind in "biu" else leaf.dtype.kind)
    if values.dtype.kind not in kinds:
        raise TypeError(f"got actions of dtype {values.dtype} for {leaf.space}")
    return values


def _vector_rewards(rew: NDArray[Any], extras: dict[int, dict[str, Any]]) -> NDArray[Any]:
    """Rewards of environments that reward several agents."""
    size = max(len(extra["reward"]) for extra in extras.values() if "reward" in extra)
    out = np.repeat(rew[:, None], size, axis=1)
    for k, extra in extras.items():
        if "reward" in extra:
            out[k] = extra["reward"]
    return out


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _pipes(doorbell: str | None) -> bool:
    """Whether bells are pipes."""
    import sys

    name = doorbell or os.environ.get("RLFAST_DOORBELL") or ("futex" if sys.platform == "linux" else "pipe")
    if name not in {"futex", "pipe"} or (name == "futex" and sys.platform != "linux"):
        raise ValueError(f'doorbell must be "futex" (Linux alone), "pipe" or None, got {name!r}')
    return name == "pipe"
