"""The base class of vector environments: Tianshou 1.0's interface and Gymnasium's, over any backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.backends.base import INTERRUPTS, Backend, Rows, Tree
from rlfast.env.backends.in_process import InProcess
from rlfast.env.backends.info import Info
from rlfast.env.backends.rows import joined, ordered
from rlfast.env.backends.workers import Workers
from rlfast.env.errors import ClosedEnvsError, NoEpisodeError, NothingPendingError, PendingError
from rlfast.env.spaces.batching import ObservationMode, as_gymnasium, common
from rlfast.env.vector.actions import checker, lenient_checker, lenient_checker_of_each
from rlfast.env.vector.arguments import (
    EnvFn,
    Ids,
    Seeds,
    VectorStep,
    as_autoreset_mode,
    as_env_fns,
    as_ids,
    as_seeds,
    check_waiting,
)
from rlfast.env.vector.async_calls import AsyncCalls
from rlfast.env.worker import DummyEnvWorker, EnvWorker
from rlfast.utils import tree


class BaseVectorEnv(AsyncCalls):
    """A vector environment: ``N`` environments behind the interface of :class:`gymnasium.vector.VectorEnv`.

    Without an ``autoreset_mode`` it follows Tianshou 1.0's protocol: ``reset(id)`` and ``step(action, id)`` accept any
    subset of the environments, infos are an array with one dict for each environment, and ``action_space``,
    ``observation_space``, ``spec`` and ``metadata`` are lists. After the end of an episode the environment is not reset
    until ``reset(id)`` is called for it, so the ``obs`` of its last step is the true final observation. Environments
    may have different spaces, or declare none.

    With an ``autoreset_mode`` it follows Gymnasium's protocol: spaces are batched, infos are a dict of arrays,
    ``reset(seed=, options=)`` and ``step(actions)`` apply to all environments, and an environment is reset
    automatically after the end of an episode, as the mode defines.

    Environments written in Python check themselves whether an action is in their space, and whether an episode is
    running.

    Both protocols are implemented with :meth:`send`, :meth:`recv` and :meth:`reset_rows`.

    After an exception or Ctrl-C in any call, :meth:`reset` works: it discards what that call has left behind.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th.
    :param worker_fn: makes the worker that holds the environment made by the given callable.
    :param wait_num: for asynchronous stepping: ``step`` returns as soon as this many environments have answered.
        None (default) waits for all environments that were stepped.
    :param timeout: for asynchronous stepping: after this many seconds, ``step`` returns the answers that have arrived,
        and waits for at least one.
    :param autoreset_mode: None (default) for Tianshou's protocol; a :class:`gymnasium.vector.AutoresetMode` or its name
        for Gymnasium's protocol.
    :param observation_mode: for Gymnasium's protocol: ``"same"`` (default) requires equal observation spaces,
        ``"different"`` requires observation spaces of the same shape and dtype; a tuple gives the batched observation
        space and the observation space of one environment.
    :raises ValueError: there is no environment, a mode is unknown, or ``wait_num`` or ``timeout`` is out of range.
    :raises RuntimeError: in Gymnasium's protocol, the spaces of the environments differ.

    >>> import gymnasium as gym
    >>> from rlfast.env import DummyVectorEnv
    >>> envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(3)])
    >>> obs, info = envs.reset(seed=0)
    >>> obs.shape, len(envs)
    ((3, 4), 3)
    >>> obs, rew, terminated, truncated, info = envs.step([0, 1], id=[0, 2])
    >>> rew, [i["env_id"] for i in info]
    (array([1., 1.]), [0, 2])
    >>> envs.close()

    >>> envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 3, autoreset_mode="same-step")
    >>> obs, info = envs.reset(seed=0)
    >>> envs.action_space
    MultiDiscrete([2 2 2])
    >>> envs.close()
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        worker_fn: Callable[[EnvFn], EnvWorker],
        wait_num: int | None = None,
        timeout: float | None = None,
        *,
        autoreset_mode: AutoresetMode | str | None = None,
        observation_mode: ObservationMode = "same",
    ) -> None:
        mode = as_autoreset_mode(autoreset_mode)
        env_fns = as_env_fns(env_fns)
        wait_num = check_waiting(len(env_fns), wait_num, timeout)
        self._env_fns = env_fns
        run_by, as_space = mode or AutoresetMode.DISABLED, mode is not None
        backend = (
            InProcess(env_fns, run_by, as_space=as_space)
            if worker_fn is DummyEnvWorker
            else Workers(env_fns, worker_fn, run_by, as_space=as_space)
        )
        self._attach(backend, wait_num, timeout, mode, observation_mode)

    def _attach(
        self,
        backend: Backend,
        wait_num: int | None = None,
        timeout: float | None = None,
        autoreset_mode: AutoresetMode | None = None,
        observation_mode: ObservationMode = "same",
    ) -> None:
        """Sets the backend and initializes all attributes; the constructors of all subclasses end with this call.

        :param autoreset_mode: None for Tianshou's protocol, which needs a backend whose mode is DISABLED; otherwise the
            mode of the backend.
        :raises ValueError: the mode is not that of the backend, or ``wait_num`` or ``timeout`` is out of range.
        """
        wait_num = check_waiting(backend.num_envs, wait_num, timeout)
        if backend.autoreset_mode is not (autoreset_mode or AutoresetMode.DISABLED):
            raise ValueError(f"the backend's autoreset mode is {backend.autoreset_mode}, not {autoreset_mode}")
        self._backend = backend
        self.num_envs = backend.num_envs
        self.wait_num = self.num_envs if wait_num is None else wait_num
        self.timeout = timeout
        self.is_async = self.wait_num != self.num_envs or timeout is not None
        self.autoreset_mode = autoreset_mode
        """None in Tianshou's protocol; in Gymnasium's protocol, how environments are reset after an episode."""
        self.single_observation_space = backend.single_observation_space
        self.single_action_space = backend.single_action_space
        if autoreset_mode is not None and backend.observation_spaces is not None:
            self._batch_spaces(backend, observation_mode)
        strict = not backend.takes_anything
        self._stay_ended = backend.autoreset_mode is AutoresetMode.DISABLED and (strict or autoreset_mode is not None)
        spaces = backend.action_spaces or [backend.single_action_space]
        space = common(spaces)
        if strict:
            self._check_actions = checker(space)
        elif space is None and any(one is not None for one in spaces):
            self._check_actions = lenient_checker_of_each(spaces)
        else:
            self._check_actions = lenient_checker(space)
        self._all = np.arange(self.num_envs)
        self._all.setflags(write=False)
        self._to_reset = np.full(self.num_envs, strict)  # no episode is running: a step is an error
        self._some_to_reset = strict
        self._stepping = np.zeros(self.num_envs, dtype=bool)  # a step was sent, and its answer not received
        self._steps = 0  # the number of environments that are stepping
        self._last_obs = None
        self._at_risk: NDArray[np.int64] | None = None
        """The environments of a call that has begun and is not complete: one that failed or was interrupted leaves them
        here. The next call discards what is outstanding, and they must be reset. None between calls."""
        self._may_discard = False  # whether reset() discards what is outstanding, as the call that waited for it failed

    def _batch_spaces(self, backend: Backend, observation_mode: ObservationMode) -> None:
        observations, actions = backend.observation_spaces or [], backend.action_spaces or []
        try:
            single, batched = as_gymnasium(observations, actions, observation_mode)
        except BaseException:
            backend.close()
            raise
        self.single_observation_space = single  # type: ignore[assignment]
        if batched is not None:
            self._set_own("observation_space", batched)

    def __len__(self) -> int:
        """The number of environments."""
        return self.num_envs

    # -- primitives --------------------------------------------------------------------------------------------------

    def reset_rows(
        self, id: Ids | None = None, seed: Seeds = None, options: dict[str, Any] | None = None, **more: Any
    ) -> tuple[Tree, Info]:
        """Starts a new episode in each of the environments ``id``.

        :param id: the environments; None for all.
        :param seed: an int ``s``, which gives environment ``i`` the seed ``s + i``, or one entry for each environment
            in ``id``.
        :param options: given to each environment's ``reset``.
        :param more: further keyword arguments for the ``reset`` of environments written in Python.
        :return: the first observations, with leaves ``(len(id), ...)`` in the order of ``id``, and the infos.
        :raises ValueError: ``id`` is empty, or the number of seeds is not the number of environments.
        :raises RuntimeError: one of the environments is stepping, or the vector environment is closed.
        """
        if self._may_discard and self._steps and self._pending is None:
            self._abandon()
        ids = self._idle(id)
        if not ids.size:
            raise ValueError("id is empty, so there is nothing to reset: leave it out to reset all environments")
        seeds = as_seeds(seed, ids)
        self._at_risk = ids
        try:
            obs, info = self._backend.reset(ids, seeds, options, **more)
        except Exception as error:
            self._must_reset(ids)
            self._forgive(error)
            raise
        if self._some_to_reset:
            self._to_reset[ids] = False
            self._some_to_reset = True in self._to_reset.tobytes()  # faster than any()
        self._at_risk = None
        return obs, info

    def _forgive(self, error: Exception) -> None:
        """Ends a call that raised an exception of its own, after which the backend is in order."""
        if not isinstance(error, INTERRUPTS):
            self._at_risk = None

    def _must_reset(self, ids: NDArray[Any]) -> None:
        self._to_reset[ids] = self._some_to_reset = True

    def send(self, actions: object, id: Ids | None = None) -> None:
        """Starts a step in each of the environments ``id``; :meth:`recv` returns the results.

        Environments that are not written in Python accept only actions of their action space, and must be reset before
        their first step and after the end of each episode. In Gymnasium's protocol with the mode DISABLED, all
        environments must be reset after the end of an episode.

        :param actions: leaves ``(len(id), ...)``, or one action for each entry of ``id``.
        :param id: the environments; None for all.
        :raises ValueError: the number of actions is not the number of environments.
        :raises TypeError: ``actions`` is a single action.
        :raises RuntimeError: one of the environments is stepping or must be reset, or the vector environment is closed;
            no environment was stepped.
        """
        ids = self._idle(id)
        if self._some_to_reset and len(ended := ids[self._to_reset[ids]]):
            raise NoEpisodeError(
                f"environments {ended.tolist()} are in no episode: call reset() for them before step()"
            )
        self._send(self._check_actions(actions, ids), ids)

    def _send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        self._at_risk = ids
        try:
            self._backend.send(actions, ids)
        except Exception as error:  # no environment was stepped
            self._forgive(error)
            raise
        self._mark_stepping(ids)
        self._at_risk = None

    def _mark_stepping(self, ids: NDArray[np.int64]) -> None:
        if ids is self._all:
            self._stepping.fill(True)
        else:
            self._stepping[ids] = True
        self._steps += len(ids)

    def recv(self, min_ready: int | None = None, timeout: float | None = None) -> Rows:
        """Waits for the results of environments that are stepping, and returns them.

        :param min_ready: the number of results to wait for; None for ``wait_num``, or fewer where fewer environments
            are stepping.
        :param timeout: seconds after which fewer results are returned, but at least one; None for the constructor's.
        :return: one row for each environment that has answered.
        :raises RuntimeError: no environment is stepping, or the vector environment is closed.
        :raises Exception: an environment raised this exception. It must be reset before its next step; the results of
            the others can still be received. A reset discards them.
        """
        self._may_discard = True  # if this fails or is interrupted
        if self.closed or self._at_risk is not None:
            self._idle(())  # raises if closed; discards what an interrupted call has left behind
        if not self._steps:
            self._may_discard = False
            raise NothingPendingError("no environment is stepping: give actions to send() or step() first", "step")
        return self._take(
            min(self.wait_num if min_ready is None else min_ready, self._steps),
            self.timeout if timeout is None else timeout,
        )

    def exchange(self, actions: object, id: Ids | None = None) -> Rows:
        """Calls :meth:`send` and then :meth:`recv`; some subclasses do both faster than one after the other.

        If an environment raises, a reset discards the results of the others.

        :param actions: as for :meth:`send`.
        :param id: the environments; None for all.
        :return: one row for each environment that has answered.
        """
        try:
            self.send(actions, id)
            return self.recv()
        except PendingError:  # they were stepping before
            raise
        except BaseException:
            self._give_up(id)
            raise

    def _take(self, min_ready: int, timeout: float | None) -> Rows:
        self._at_risk = self._all
        try:
            rows = self._backend.recv(min_ready, timeout)
        except Exception:
            self._mark_lost()
            raise
        self._steps -= len(rows.env_id)
        if self._steps:
            self._stepping[rows.env_id] = False
        else:
            self._stepping.fill(False)
        if self._stay_ended and (np.count_nonzero(rows.terminated) or np.count_nonzero(rows.truncated)):
            self._must_reset(rows.env_id[rows.done])
        self._may_discard = False
        self._at_risk = None
        return rows

    def _mark_lost(self) -> None:
        """Marks the environments that the backend names as failed: they will not answer and must be reset."""
        lost, self._backend.lost = np.array(self._backend.lost, dtype=np.int64), ()
        if lost.size:
            self._must_reset(lost)
            self._stepping[lost] = False
            self._steps = int(np.count_nonzero(self._stepping))
            self._at_risk = None

    # -- acting ------------------------------------------------------------------------------------------------------

    def reset(self, id: Ids | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """Starts a new episode in each of the environments ``id``.

        :param id: the environments; None for all. In Gymnasium's protocol it must be None: all environments are reset,
            or those where ``options["reset_mask"]``, bools ``(N,)``, is True.
        :param kwargs: ``seed`` is an int ``s``, which gives environment ``i`` the seed ``s + i``, or a list with one
            entry for each environment in ``id``. ``options`` is given to each environment's ``reset``, and so is every
            other keyword in Tianshou's protocol. ``env_id`` is another name for ``id``.
        :return: ``(obs, info)``: the first observations, one row for each environment in ``id``, and an object array
            ``(len(id),)`` of info dicts. In Gymnasium's protocol, the observations of all environments, and the infos
            as a dict of arrays.
        :raises ValueError: ``id`` is empty, or the number of seeds is not the number of environments.
        :raises TypeError: in Tianshou's protocol, observations are tuples; in Gymnasium's, ``id`` or an unknown keyword
            was given; or an environment's ``reset`` does not return ``(obs, info)``.
        :raises RuntimeError: one of the environments is stepping, or the vector environment is closed.
        """
        if "env_id" in kwargs:
            id = kwargs.pop("env_id")
        if self.autoreset_mode is not None:
            if unknown := kwargs.keys() - {"seed", "options"}:
                raise TypeError(f"reset() takes seed and options, got {sorted(unknown)}: put them into options")
            if id is not None:
                raise TypeError(
                    f"in Gymnasium's protocol reset() takes no id ({id}): use options={{'reset_mask': ...}}"
                )
            return self._reset_result(self._reset_request(**kwargs))
        obs, info = self.reset_rows(id, **kwargs)
        return _rows_of(obs), tree.object_array(info.dicts())

    def step(self, action: object, id: Ids | None = None) -> VectorStep:
        """Steps each of the environments ``id``.

        In Tianshou's asynchronous mode, the returned rows may belong to environments that earlier calls have stepped:
        ``info["env_id"]`` names the environment of each row. There, ``action=None`` returns further results without
        starting steps. In Gymnasium's protocol all environments are stepped.

        :param action: one action for each entry of ``id``; in Gymnasium's protocol, an element of the batched action
            space.
        :param id: the environments; None for all. In Gymnasium's protocol it must be None.
        :return: ``(obs, rew, terminated, truncated, info)``: arrays with one row per environment. ``rew`` is float64,
            ``(K,)`` or ``(K, agents)``; ``terminated`` and ``truncated`` are bools ``(K,)``. ``info`` is an object
            array ``(K,)`` of dicts, each with its ``env_id`` added; in Gymnasium's protocol, a dict of arrays.
        :raises ValueError: the number of actions is not the number of environments.
        :raises TypeError: ``action`` is a single action for several environments; in Tianshou's protocol, observations
            are tuples; or ``id`` was given in Gymnasium's protocol.
        :raises RuntimeError: one of the environments is stepping or must be reset (see :meth:`send`), or the vector
            environment is closed; no environment was stepped.
        """
        if self.autoreset_mode is not None:
            if id is not None:
                raise TypeError(f"in Gymnasium's protocol step() takes no id ({id}): use send() and recv()")
            return self._step_result(self._step_rows(action))
        rows = self._rows_after(action, id)
        numbers = rows.env_id.tolist()
        infos: list[dict[str, Any]] = (
            [{**info, "env_id": i} for i, info in zip(numbers, rows.info.dicts(), strict=True)]
            if rows.info
            else [{"env_id": i} for i in numbers]
        )
        return _rows_of(rows.obs), rows.rew, rows.terminated, rows.truncated, tree.object_array(infos)

    def _rows_after(self, action: object, id: Ids | None) -> Rows:
        """Step environments; of asynchronous ones, return those that answer first."""
        if not self.is_async:
            return self._step_rows(action, id)
        if action is not None:
            self.send(action, id)
        return self.recv()

    def _step_rows(self, action: object, id: Ids | None = None) -> Rows:
        """Steps the environments ``id``, waits for all of them, and returns their rows in the order of ``id``.

        If an environment raises, the results of the others are discarded, and all of ``id`` must be reset.
        """
        ids = self._all if id is None else self._idle(id)
        try:
            self.send(action, ids)
            if id is None:
                self._last_obs = None  # until the new ones are known
            rows = self._wait_for(ids)
        except PendingError:  # they were stepping before
            raise
        except BaseException:
            self._give_up(ids)
            raise
        return rows if id is None or np.array_equal(rows.env_id, ids) else ordered(rows, ids)

    def _wait_for(self, ids: NDArray[np.int64]) -> Rows:
        """Waits for the results of ``ids``, which are all environments that are stepping.

        If an environment raises, the results of the others are discarded.
        """
        try:
            rows = self.recv(len(ids))
            while len(rows.env_id) < len(ids):
                rows = joined(rows, self.recv(len(ids)))
        except BaseException:
            self._abandon(ids)
            raise
        return rows

    def _give_up(self, id: Ids | None) -> None:
        """Abandons a step of the environments ``id``, if it has begun."""
        with suppress(TypeError, IndexError):  # these are no ids, so it has not
            self._abandon(self._all if id is None else as_ids(id, self.num_envs), if_stepping=True)

    def _abandon(self, ids: NDArray[np.int64] | None = None, *, if_stepping: bool = False) -> None:
        """Marks the results of environments as no longer wanted: the next call discards them, and they must be reset.

        :param ids: the environments; None for those that are stepping.
        :param if_stepping: whether to do this only for those of ``ids`` that are stepping.
        """
        if ids is None:
            ids = np.flatnonzero(self._stepping)
        elif if_stepping:
            ids = ids[self._stepping[ids]]
        if len(ids):
            self._at_risk = ids if self._at_risk is None else np.union1d(self._at_risk, ids)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def seed(self, seed: Seeds = None) -> list[list[int | None] | None]:
        """Seeds every environment and its action space.

        An environment is seeded by its own method ``seed``; one that has no such method is reset with the seed.

        :param seed: an int ``s``, which gives environment ``i`` the seed ``s + i``; one entry per environment; or None
            for fresh entropy.
        :return: a list with one list per environment, which holds its seed.
        :raises ValueError: the number of seeds is not the number of environments.
        :raises TypeError: a seed is neither an integer nor None.
        :raises RuntimeError: an environment is stepping, or the vector environment is closed.
        """
        ids = self._idle(None)
        seeds = as_seeds(seed, ids)
        self._must_reset(ids)
        self._at_risk = ids
        try:
            self._backend.seed(ids, seeds)
        except Exception as error:
            self._forgive(error)
            raise
        self._to_reset[:] = self._some_to_reset = False
        self._at_risk = None
        return [[one] for one in seeds]

    def get_state(self, id: Ids | None = None) -> list[Any]:
        """Returns the states of the environments ``id``: plain data that :meth:`set_state` restores exactly.

        :param id: the environments; None for all.
        :return: one state for each environment, in the order of ``id``.
        :raises NotImplementedError: the state of an environment cannot be saved; see :mod:`rlfast.env.state`.
        """
        ids = self._idle(id)
        shown = tree.each(self._last_obs) if self._last_obs is not None else [None] * self.num_envs
        return [
            {"state": state, "over": bool(self._to_reset[i]), "shown": shown[i]}
            for i, state in zip(ids.tolist(), self._backend.get_state(ids), strict=True)
        ]

    def set_state(self, states: Sequence[Any], id: Ids | None = None) -> None:
        """Restores states that :meth:`get_state` returned.

        :param states: one state for each environment in ``id``.
        :param id: the environments; None for all.
        :raises NotImplementedError: an environment written in Python differs from the one whose state it is.
        :raises ValueError: an environment written in Rust differs from the one whose state it is, or the number of
            states is not the number of environments.
        """
        ids = self._idle(id)
        if len(states) != len(ids):
            raise ValueError(f"got the states of {len(states)} environments for {len(ids)}")
        self._at_risk = ids
        try:
            self._backend.set_state([state["state"] for state in states], ids)
        except Exception as error:
            self._forgive(error)
            raise
        self._to_reset[ids] = [state["over"] for state in states]
        self._some_to_reset = bool(self._to_reset.any())
        self._at_risk = None
        shown = [state["shown"] for state in states]
        if all(one is not None for one in shown):
            self._remember(tree.collate(shown), ids)

    def render(self, **kwargs: Any) -> Any:
        """Renders all environments.

        :param kwargs: given to each environment's ``render``.
        :return: a list of what each ``render`` returned; a tuple in Gymnasium's protocol.
        """
        frames = self._backend.render(self._idle(None), **kwargs)
        return frames if self.autoreset_mode is None else tuple(frames)

    def close(self, **kwargs: Any) -> None:
        """Closes all environments, even if closing one of them fails. A second call does nothing.

        :param kwargs: given to :meth:`close_extras`.
        """
        if not self.closed:
            self.closed = True
            self.close_extras(**kwargs)

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002
        """Closes the backend; :meth:`close` calls this once. Subclasses override it to release further resources.

        :param kwargs: the arguments of :meth:`close`; ignored here.
        """
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = getattr(self._backend.spec, "id", None)
        shown = [str(name)] if name else []
        shown += [f"num_envs={self.num_envs}", self.placement]
        if self.autoreset_mode is not None:
            shown.append(self.autoreset_mode.name)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _wrap_id(self, id: Ids | None = None) -> Sequence[int] | NDArray[np.integer[Any]]:
        """Returns ``id`` as a sequence, without checking it; subclasses written for Tianshou call this method."""
        if id is None:
            return list(range(self.num_envs))
        return [int(id)] if isinstance(id, int | np.integer) else id

    def _idle(self, id: Ids | None) -> NDArray[np.int64]:
        """Returns ``id`` as an array ``(K,)`` of int64, after checking that none of these environments is stepping.

        :raises RuntimeError: the vector environment is closed, a call is pending, or an environment is stepping.
        :raises TypeError: an id is not an integer.
        :raises IndexError: an id is out of range or occurs twice.
        """
        if self.closed:
            name = type(self).__name__
            raise ClosedEnvsError(
                f"Trying to operate on `{name}`, after a call to `close()`. {name} is closed: make a new one"
            )
        if self._pending is not None:
            raise PendingError(
                f"called while waiting for a pending call to `{self._pending}` to complete: "
                f"take its answer with {self._pending}_wait() first",
                self._pending,
            )
        if self._at_risk is not None:
            self._settle()
        ids = self._all if id is None or id is self._all else as_ids(id, self.num_envs)
        if self._steps and self._stepping[ids].any():
            raise PendingError(
                f"environments {ids[self._stepping[ids]].tolist()} are stepping: "
                "fetch their answers with recv() or step(None) first",
                "step",
            )
        return ids

    def _settle(self) -> None:
        """Discards what a call that failed or was interrupted has left behind; its environments must be reset."""
        if self._at_risk is not None and len(self._at_risk):
            self._must_reset(self._at_risk)
        self._must_reset(self._stepping)
        self._backend.drop()
        self._backend.lost = ()
        self._stepping.fill(False)
        self._steps = 0
        self._may_discard = False
        self._some_to_reset = True in self._to_reset.tobytes()
        self._at_risk = None


def _rows_of(obs: Tree) -> NDArray[Any]:
    """Converts observations into the form of Tianshou's protocol.

    :param obs: an array ``(K, ...)``, or a dict of arrays.
    :return: the array; for a dict, an object array ``(K,)`` with one dict for each environment.
    :raises TypeError: the observations are a tuple.
    """
    if isinstance(obs, tuple):
        raise TypeError(
            "Tuple observation space is not supported in Tianshou's protocol: use an array or a dict, or an "
            "autoreset_mode"
        )
    rows: NDArray[Any] = tree.object_array(tree.each(obs)) if isinstance(obs, dict) else obs
    return rows
