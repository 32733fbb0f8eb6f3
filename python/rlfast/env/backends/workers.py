"""A backend that drives a list of workers with one environment each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast._core import answer_columns
from rlfast.env.backends.base import INTERRUPTS, Backend, Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.spaces.batching import Space, common, declared
from rlfast.env.spaces.collation import collator, plain_collator
from rlfast.env.worker import EnvWorker, ResetResult, StepResult, reset_result, step_result
from rlfast.utils import tree

Ids = NDArray[np.int64]
Failures = dict[int, Exception]


class Workers(Backend):
    """Runs environments in workers, which may be any :class:`~rlfast.env.worker.EnvWorker`.

    All requests are sent before the first answer is awaited, so that workers may run in parallel.

    :param env_fns: one callable per environment.
    :param worker_fn: makes the worker that holds the environment made by the given callable.
    :param autoreset_mode: when an environment is reset after the end of an episode.
    :param as_space: if True, observations are converted to the dtypes of the observation space, and an observation that
        does not fit the space is an error. If False, observations are stacked without conversion, and those of
        different shapes become an array of objects. If None, observations are converted if they fit the space, and
        stacked without conversion otherwise.
    """

    placement = "workers"
    takes_anything = True

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        worker_fn: Callable[[Callable[[], gym.Env[Any, Any]]], EnvWorker],
        autoreset_mode: AutoresetMode = AutoresetMode.DISABLED,
        *,
        as_space: bool | None = False,
    ) -> None:
        self.num_envs = len(env_fns)
        self._env_fns, self._worker_fn = env_fns, worker_fn
        self.autoreset_mode = autoreset_mode
        self.workers: list[EnvWorker] = []
        try:
            self.workers.extend(worker_fn(fn) for fn in env_fns)
            self.observation_spaces = self._declared("observation_space")
            self.action_spaces = self._declared("action_space")
            self.metadata = dict(self._of_first("metadata") or {})
            self.spec, self.render_mode = self._of_first("spec"), self._of_first("render_mode")
        except BaseException:
            with suppress(Exception):
                self.close()
            raise
        self.single_observation_space, self.single_action_space = self.observation_spaces[0], self.action_spaces[0]
        self._wait = type(self.workers[0]).wait
        space = common(self.observation_spaces)
        collate = plain_collator(space) if as_space is False else collator(space, strict=bool(as_space))
        self._collate: Callable[[Sequence[Any]], Tree] = lambda rows: tree.with_own_objects(collate(rows))
        self._numbers = list(range(self.num_envs))
        self._all = np.arange(self.num_envs)
        self._all.setflags(write=False)
        self._owing: set[int] = set()  # workers that were sent something, and whose answer was not received
        self._unsure: set[int] = set()  # workers whose last call of send() or recv() may have been interrupted
        self._stepping: list[int] = []  # in the order they were sent
        self._failed: Failures = {}
        self._answers: dict[int, StepResult] = {}  # received from the workers, and not yet returned by recv()
        self._restarted: dict[int, ResetResult] = {}  # SAME_STEP: of the environments whose answers ended an episode
        self._ended: set[int] = set()  # NEXT_STEP: the next step resets these
        self._resetting: set[int] = set()  # NEXT_STEP: the current step resets these

    def _declared(self, name: str) -> list[Space]:
        return [declared(worker.get_env_attr, name) for worker in self.workers]

    def _of_first(self, name: str) -> Any:
        """Returns an attribute of the first environment; None if it does not exist."""
        with suppress(AttributeError):
            return self.workers[0].get_env_attr(name)
        return None

    # -- episodes ----------------------------------------------------------------------------------------------------

    def reset(
        self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None, **more: Any
    ) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`. Arguments that are None are left out, as environments need not accept them."""
        results, failures = self._reset(ids, seeds, options, **more)
        if failures:
            raise next(iter(failures.values()))
        self._ended.difference_update(results)
        obs, infos = zip(*results.values(), strict=True)
        return self._collate(obs), self._own_infos(infos)

    def _reset(
        self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None, **more: Any
    ) -> tuple[dict[int, ResetResult], Failures]:
        """Resets environments; returns the results, and the exceptions of those that failed."""
        results: dict[int, ResetResult] = {}
        failures: Failures = {}
        for i, request in zip(ids.tolist(), reset_arguments(seeds, options, more), strict=True):
            try:
                self._post(i, None, request)
            except Exception as error:
                failures[i] = with_env_id(error, i, as_call("reset", request))
        for i in ids.tolist():
            if i not in failures:
                try:
                    results[i] = reset_result(self._get(i))
                except Exception as error:
                    failures[i] = with_env_id(error, i, "reset()")
        return results, failures

    def ready(self, count: int, timeout: float) -> bool:
        """As :meth:`Backend.ready`."""
        waiting = [self.workers[i] for i in self._stepping if i not in self._failed and i not in self._answers]
        done = len(self._stepping) - len(waiting)
        deadline = time.monotonic() + timeout
        while done < count:
            ready = self._wait(waiting, count - done, max(0.0, deadline - time.monotonic()))
            done += len(ready)
            waiting = [worker for worker in waiting if worker not in ready]
            if not ready and time.monotonic() >= deadline:
                break
        return done >= count

    def seed(self, ids: Ids, seeds: Sequence[int | None]) -> None:
        """As :meth:`Backend.seed`."""
        for i, seed in zip(ids.tolist(), seeds, strict=True):
            if type(self.workers[i]).seed is EnvWorker.seed:  # which seeds only the action space
                self.reset(np.array([i]), [seed], None)
            else:
                self.workers[i].seed(seed)
            self._ended.discard(i)

    def send(self, actions: Tree, ids: Ids) -> None:
        """As :meth:`Backend.send`; an exception of an environment is stored and raised by :meth:`recv`."""
        numbers = ids.tolist()
        rows: Iterable[Any] = actions if isinstance(actions, np.ndarray) else tree.each(actions)
        for i, action in zip(numbers, rows, strict=True):
            try:
                if i in self._ended:
                    self._post(i, None)
                    self._resetting.add(i)
                else:
                    self._post(i, action)
            except Exception as error:
                self._failed[i] = with_env_id(error, i, f"step({action!r})")
        self._stepping.extend(numbers)

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:
        """As :meth:`Backend.recv`; the rows are in the order in which the workers report that they are ready."""
        ids = self._stepping
        if min_ready < len(ids) or timeout is not None:
            ids = self._ready(min_ready, timeout)
        answers = self._answers
        self._fetch([i for i in ids if i not in answers] if answers else ids)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._restart([i for i in ids if i in answers and (answers[i][2] or answers[i][3])])
        if self._failed:
            i, failure = self._failed.popitem()
            self._answers.pop(i, None)
            self._stepping.remove(i)
            self._resetting.discard(i)
            self._ended.discard(i)
            self.lost = (i,)
            raise failure
        self._stepping = [] if ids is self._stepping else [i for i in self._stepping if i not in answers]
        try:
            return self._rows(ids, [answers[i] for i in ids])
        except Exception as error:
            unusable = [i for i in ids if not _usable(answers[i])]
            if unusable:
                with_env_id(error, unusable[0], f"step(), which gave {answers[unusable[0]]!r:.500}")
            if len(shapes := sorted({np.shape(answers[i][1]) for i in ids})) > 1:
                error.add_note(f"rewards of all environments must be of one shape, got {shapes}")
            self.lost = ids
            raise
        finally:
            self._resetting.difference_update(ids)
            self._answers, self._restarted = {}, {}

    def drop(self) -> None:
        """As :meth:`Backend.drop`."""
        for i in list(self._unsure):
            self._free(i)
        for i in list(self._owing):
            with suppress(Exception):  # the result of a step that failed
                self._get(i)
        self._stepping, self._failed, self._answers, self._restarted = [], {}, {}, {}
        self._resetting.clear()

    def _free(self, i: int) -> None:
        """Discards what a worker was sent, or replaces the worker if it cannot discard it."""
        if not self.workers[i].discard():
            with suppress(Exception):
                self.workers[i].close()
            self.workers[i] = self._worker_fn(self._env_fns[i])
        self._owing.discard(i)
        self._unsure.discard(i)

    def _post(self, i: int, action: object, options: dict[str, Any] | None = None) -> None:
        """Sends a step, or a reset if ``action`` is None, to a worker."""
        if i in self._unsure:
            self._free(i)
        self._unsure.add(i)
        try:
            self.workers[i].send(action, **(options or {}))
        except Exception as error:
            self._mark_sure(i, error)
            raise
        self._owing.add(i)
        self._unsure.discard(i)

    def _get(self, i: int) -> Any:
        """Receives the answer of a worker; an exception is an answer as well."""
        self._unsure.add(i)
        try:
            answer = self.workers[i].recv()
        except Exception as error:
            self._owing.discard(i)
            self._mark_sure(i, error)
            raise
        self._owing.discard(i)
        self._unsure.discard(i)
        return answer

    def _mark_sure(self, i: int, error: Exception) -> None:
        if not isinstance(error, INTERRUPTS):
            self._unsure.discard(i)

    def _fetch(self, ids: Sequence[int]) -> None:
        """Receives the results of steps: stores them in ``_answers``, and exceptions in ``_failed``."""
        for i in ids:
            if i not in self._failed:
                try:
                    self._answers[i] = self._answer(self._get(i), i)
                except Exception as error:
                    self._failed[i] = with_env_id(error, i, "step()")

    def _ready(self, min_ready: int, timeout: float | None) -> list[int]:
        ready = [i for i in self._stepping if i in self._failed or i in self._answers]
        waiting = {self.workers[i]: i for i in self._stepping if i not in ready}
        while not ready and waiting:
            ready = [waiting[worker] for worker in self._wait(list(waiting), min_ready, timeout)]
        return ready

    def _answer(self, result: object, i: int) -> StepResult:
        if i in self._resetting:
            obs, info = reset_result(result)
            return obs, 0.0, False, False, info
        return step_result(result)

    def _restart(self, done: list[int]) -> None:
        """For SAME_STEP: resets those of the environments ``done`` that have not been reset yet."""
        fresh = [i for i in done if i not in self._restarted]
        if fresh:
            for i in fresh:  # the reset may overwrite the arrays and containers that the step returned
                self._answers[i] = tree.copied(self._answers[i])
            results, failures = self._reset(np.array(fresh), [None] * len(fresh), None)
            self._restarted.update(results)
            self._failed.update(failures)

    def _rows(self, ids: Sequence[int], answers: Sequence[StepResult]) -> Rows:
        obs, infos, numbers = answer_columns(answers)
        again = self._restarted
        shown = [again[i][1] if i in again else info for i, info in zip(ids, infos, strict=True)] if again else infos
        obs_next = self._collate(obs)
        if numbers is None:
            _, rewards, ends, cuts, _ = zip(*answers, strict=True)
            terminated, truncated = (np.fromiter(column, bool, len(ids)) for column in (ends, cuts))
            numbers = np.array(rewards, dtype=np.float64), terminated, truncated
        env_id = self._all if ids == self._numbers else np.array(ids, dtype=np.int64)
        rows = Rows(env_id, obs_next, obs_next, *numbers, self._own_infos(shown))
        if again:
            rows.final_info = Info(len(ids), {k: infos[k] for k, i in enumerate(ids) if i in again})
            rows.obs = self._collate([again[i][0] if i in again else one for i, one in zip(ids, obs, strict=True)])
        elif self.autoreset_mode is AutoresetMode.NEXT_STEP:
            if reset := self._resetting.intersection(ids):
                rows.valid = np.array([i not in reset for i in ids])
                self._ended -= reset
                self._resetting -= reset
            self._ended.update(i for i, over in zip(ids, rows.done.tolist(), strict=True) if over)
        return rows

    def _own_infos(self, infos: Sequence[dict[str, Any]]) -> Info:
        """Copies infos, as environments may change their arrays and containers in the next step."""
        return Info.of([tree.copied(info) for info in infos]) if any(infos) else Info(len(infos))

    # -- the rest ----------------------------------------------------------------------------------------------------

    def get_attr(self, name: str, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_attr`."""
        return [self.workers[i].get_env_attr(name) for i in ids.tolist()]

    def call(
        self, name: str, args: Sequence[Any], kwargs: dict[str, Any], ids: Ids, timeout: float | None = None
    ) -> list[Any]:
        """As :meth:`Backend.call`; workers with a method ``call_env`` make the call where their environment lives."""
        if not all(hasattr(self.workers[i], "call_env") for i in ids.tolist()):
            return super().call(name, args, kwargs, ids, timeout)
        return [self.workers[i].call_env(name, *args, **kwargs) for i in ids.tolist()]

    def set_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_attr`."""
        for i, value in zip(ids.tolist(), values, strict=True):
            self.workers[i].set_env_attr(name, value)

    def set_wrapper_attr(self, name: str, values: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_wrapper_attr`; workers without this method set the innermost environment's."""
        for i, value in zip(ids.tolist(), values, strict=True):
            worker = self.workers[i]
            getattr(worker, "set_wrapper_attr", worker.set_env_attr)(name, value)

    def render(self, ids: Ids, **kwargs: Any) -> list[Any]:
        """As :meth:`Backend.render`."""
        return [self.workers[i].render(**kwargs) for i in ids.tolist()]

    def get_state(self, ids: Ids) -> list[Any]:
        """As :meth:`Backend.get_state`."""
        return [{"env": self.workers[i].get_state(), "ended": i in self._ended} for i in ids.tolist()]

    def set_state(self, states: Sequence[Any], ids: Ids) -> None:
        """As :meth:`Backend.set_state`."""
        for i, state in zip(ids.tolist(), states, strict=True):
            self.workers[i].set_state(state["env"])
            (self._ended.add if state["ended"] else self._ended.discard)(i)

    def close(self) -> None:
        """Closes all environments, even if closing one of them fails, and then raises the first failure."""
        errors = []
        for worker in self.workers:
            try:
                worker.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _usable(answer: StepResult) -> bool:
    """Whether the reward and the flags of a step's result can be converted to numbers."""
    try:
        np.asarray(answer[1], np.float64), bool(answer[2]), bool(answer[3])
    except Exception:  # objects of the environment's own may raise anything
        return False
    return True


def reset_arguments(
    seeds: Sequence[int | None], options: dict[str, Any] | None, more: dict[str, Any]
) -> list[dict[str, Any]]:
    """Returns the arguments of a reset of each environment, without those that are None."""
    given = more if options is None else {"options": options, **more}
    return [given if seed is None else {"seed": seed, **given} for seed in seeds]


def as_call(name: str, arguments: dict[str, Any]) -> str:
    """Returns the text of a call, for a message."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def with_env_id(error: Exception, i: int, during: str) -> Exception:
    """Adds a note and the attribute ``env_id`` to an exception, which name the environment that raised it."""
    with suppress(Exception):  # the class may refuse notes and attributes
        error.add_note(f"raised by environment {i} in {during}")
    with suppress(Exception):
        error.env_id = i  # type: ignore[attr-defined]
    return error
