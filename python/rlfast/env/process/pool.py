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
from rlfast.env.backend import Everyone, Rows
from rlfast.env.failure import EnvFailure
from rlfast.env.info import Info
from rlfast.env.process.answers import Answers
from rlfast.env.process.channel import Closed
from rlfast.env.process.crew import Crew, failed
from rlfast.env.process.layout import Array
from rlfast.env.process.protocol import (
    FAILED,
    REPLACE,
    RESET,
    STEP,
    Places,
    Plan,
    Records,
)
from rlfast.env.process.rescue import Rescuing
from rlfast.env.process.start import cores, doorbell_by_pipe, method_of

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


class ProcessBackend(Rescuing):
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
        :mod:`multiprocessing` context. None of them needs a ``__main__`` guard. Where Python has no global lock,
        threads are the default, unless workers may have to be ended: with a ``step_timeout`` or ``on_error="restart"``.
    :param step_timeout: seconds that a step or reset may take before its worker is ended; None: any. A constructor
        has a minute more.
    :param on_error: ``"raise"``: a failure is raised by :meth:`recv`. ``"restart"``: the environment is built anew,
        and its row says ``truncated`` and is no ``valid`` transition. A worker that died takes all of its environments
        with it, also those whose step had been answered, unless that had ended the episode. An environment that fails
        while it is built anew raises in either case.
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
        self._method = method_of(context, isolated=step_timeout is not None or on_error == "restart")
        self.placement = "thread" if self._method == "thread" else "process"
        pipes = doorbell_by_pipe(doorbell)
        workers = min(count, num_workers or cores())
        starts = [count * worker // workers for worker in range(workers + 1)]
        self.num_envs, self.autoreset_mode = count, autoreset_mode
        self.step_timeout, self.on_error = step_timeout, on_error
        super().__init__()
        self._spins = _SPINS if workers < cores() else 0
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
        self._notes = self._slab.notes()
        self._records = Records(self._views, self._file_of)
        self._answers = Answers(self._places, self._views, self._records, self._notes)
        self._leaves = list(self._places.action.leaves())
        self._slice = _SLICE if step_timeout is None else min(_SLICE, step_timeout / 4)
        self._worker_of = np.repeat(np.arange(workers), np.diff(starts))
        self._all = np.arange(count)
        self._are_all = Everyone(self._all)
        self._steps = 0  # how many are stepping, and which
        self._stepping = np.zeros(count, dtype=bool)
        self._over = np.ones(count, dtype=bool)  # between episodes
        self._bank_of = np.zeros(count, dtype=np.uint8)
        self._lease: Any = None
        self._asked_at = 0.0
        self._resets: dict[int, dict[str, Any]] = {}  # arguments of the resets that are being waited for
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
        if self._steps:
            self._check_idle(ids)
        if self._dead and (gone := [env for env in ids.tolist() if self._worker_of[env] in self._dead]):
            raise RuntimeError(f"environments {gone} were lost with their worker: call reset() for them")
        every = self._are_all(ids)
        self._put_actions(actions, ids, every)
        if self.step_timeout is not None:
            self._asked_at = time.monotonic()
        if self._owed:
            ids, every = self._pay(ids), False
        bank, lease = 0, None
        if self._plan.banks > 1:
            lease = self._slab.lend() if every else None
            bank = 0 if lease is None else lease.bank
            self._bank_of[ids] = bank
            self._lease = lease or self._lease
        self._ask(None if every else ids, STEP, bank)
        self._mark_stepping(ids)

    def _mark_stepping(self, ids: Ids) -> None:
        self._steps += len(ids)
        if self._steps == self.num_envs:
            self._stepping.fill(True)
        else:
            self._stepping[ids] = True

    def _pay(self, ids: Ids) -> Ids:
        """Resets those of ``ids`` that were lost while idle, which answers their step; the others."""
        owed = np.array([env for env in ids.tolist() if env in self._owed], dtype=np.int64)
        self._interrupted.update((env, self._owed.pop(env)) for env in owed.tolist())
        self._bank_of[owed] = 0
        self._ask(owed, REPLACE, 0)
        self._mark_stepping(owed)
        return ids[~np.isin(ids, owed)]

    def _put_actions(self, actions: Tree, ids: Ids, every: bool) -> None:
        spilled: dict[int, dict[int, Any]] = {}
        checked = []
        for leaf, values in zip(self._leaves, self._places.action.split(actions), strict=True):
            if isinstance(leaf, Array):
                checked.append((leaf.number, _fitting(np.asarray(values), len(ids), leaf)))
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
        if not 1 <= min_ready <= self._steps:
            raise RuntimeError(
                f"recv() of {min_ready} answers, but {self._steps} environments are stepping: send() first"
            )
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ids, enough = self._answered(min_ready, deadline)
            if not enough:
                self._look()
            elif (rows := self._rows(ids)) is not None:
                return rows

    def _answered(self, min_ready: int, deadline: float | None) -> tuple[Ids | None, bool]:
        """Waits for a moment: who has answered (None: all), and whether these are enough."""
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
        """Takes answers (None: of all); None when one of them was a failure that has been dealt with."""
        own = self._all if ids is None else ids
        numbers = self._slab.gather(ids)
        if numbers[3] & FAILED:
            self._deal_with(int(own[(self._notes[own] & FAILED) != 0][0]))
            return None
        spread = self._lease is not None and ids is not None
        banks, lease = (self._bank_of[own], None) if spread else (None, self._lease)
        rows = self._answers.rows(own, numbers, banks, lease)
        if self._interrupted or self._cut:
            self._mark(rows)
        self._slab.take(ids)
        self._steps -= len(own)
        if self._steps:
            self._stepping[own] = False
        else:
            self._stepping.fill(False)
            self._lease = None
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._over[own] = rows.terminated | rows.truncated
        return rows

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
        self._check_idle(ids)
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
            if self.on_error == "raise" or again.intersection(broken):
                self._slab.take(ids)
                self._over[ids] = True
                raise failed(told, broken[0], "reset")
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
            self._owed.pop(env, None)
        return obs, Info(len(ids), {k: extra["info"] for k, extra in extras.items() if "info" in extra})

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

    def call(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], ids: Ids) -> list[Any]:
        """As :meth:`Backend.call`."""
        return [self._call(env, "call", name, args, kwargs) for env in ids.tolist()]

    def set_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_attr`; environments that are built anew get it again."""
        for env, value in zip(ids.tolist(), values, strict=True):
            self._call(env, "set_attr", name, value)
            self._attributes.setdefault(env, {})[name] = value

    def render(self, ids: Ids, **kwargs: Any) -> list[Any]:
        """As :meth:`Backend.render`."""
        return [self._call(env, "render", kwargs) for env in ids.tolist()]

    def get_state(self, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_state`; see :mod:`rlfast.env.capture`."""
        return [
            {"state": self._call_state(env, "get_state"), "over": over}
            for env, over in zip(ids.tolist(), self._over[ids].tolist(), strict=True)
        ]

    def set_state(self, states: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_state`."""
        for env, state in zip(ids.tolist(), states, strict=True):
            self._call_state(env, "set_state", state["state"])
            self._over[env] = state["over"]
            self._owed.pop(env, None)

    def _call_state(self, env: int, method: str, *arguments: Any) -> Any:
        try:
            return self._call(env, method, *arguments)
        except EnvFailure as error:
            if isinstance(error.__cause__, NotImplementedError):
                raise NotImplementedError(str(error.__cause__)) from error
            raise

    def close(self) -> None:
        """Ends the workers within two seconds, whatever they are doing. Arrays that were lent stay."""
        self._end()
        if self._crew.owner == os.getpid():
            for name in ("_slab", "_views", "_records", "_answers", "_lease", "_notes"):
                self.__dict__.pop(name, None)

    def _check_usable(self) -> None:
        if not self._end.alive:
            raise RuntimeError(f"{type(self).__name__} is closed: make a new one")
        if self._crew.owner != os.getpid():
            raise RuntimeError("these environments belong to the process that this one was forked from: make new ones")

    def _check_idle(self, ids: Ids) -> None:
        busy = ids[self._stepping[ids]]
        if len(busy):
            raise RuntimeError(f"environments {busy.tolist()} are stepping: recv() first")

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


def _fitting(values: NDArray[Any], count: int, leaf: Array) -> NDArray[Any]:
    """``values``, if they are ``count`` actions."""
    shape = (count, *leaf.shape)
    if values.shape != shape:
        if not values.ndim or len(values) != shape[0]:
            raise ValueError(f"got {len(values) if values.ndim else 'a single'} actions for {shape[0]} environments")
        raise ValueError(f"got actions of shape {values.shape}{leaf.path and f' for {leaf.path}'}, wanted {shape}")
    if values.dtype == leaf.dtype:
        return values
    kinds = {"f": "biuf", "c": "biufc"}.get(leaf.dtype.kind, "biu" if leaf.dtype.kind in "biu" else leaf.dtype.kind)
    if values.dtype.kind not in kinds:
        raise TypeError(f"got actions of dtype {values.dtype} for {leaf.space}")
    return values
