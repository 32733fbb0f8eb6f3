"""Several environments that step together: Tianshou 1.0's interface and Gymnasium's, over any backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env import nested
from rlfast.env.backends.in_process import InProcess
from rlfast.env.backends.rows import joined, ordered
from rlfast.env.backends.workers import Workers
from rlfast.env.errors import ClosedEnvsError, NoEpisodeError, NothingPendingError, PendingError
from rlfast.env.spaces import ObservationMode, as_gymnasium, common
from rlfast.env.vector import gymnasium_protocol
from rlfast.env.vector.actions import checker, lenient
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

if TYPE_CHECKING:
    from rlfast.env.backends.base import Backend, Rows, Tree
    from rlfast.env.info import Info


class BaseVectorEnv(AsyncCalls):
    """``N`` environments behind one interface, which is a :class:`gymnasium.vector.VectorEnv`.

    Without an ``autoreset_mode`` it speaks as Tianshou 1.0 does: ``reset(id)`` and ``step(action, id)`` take any of the
    environments, infos are dicts, one for each, and ``action_space``, ``observation_space``, ``spec`` and ``metadata``
    are lists. An environment that ends an episode stays ended until ``reset(id)`` is called for it: the ``obs`` of its
    last step is the true final observation. Environments may have different spaces, or declare none.

    With one it speaks as Gymnasium does: batched spaces, infos as a dict of arrays, ``reset(seed=, options=)`` and
    ``step(actions)`` of all environments, and episodes that start again by themselves, as the mode says.

    Environments written in Python see themselves to actions outside their space, and to steps outside an episode.

    In both, :meth:`send`, :meth:`recv` and :meth:`reset_rows` are what everything else is made of.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th.
    :param worker_fn: makes the worker that holds the environment made by the given callable.
    :param wait_num: asynchronous mode: ``step`` returns as soon as this many environments have answered.
        None (default) waits for all that were asked.
    :param timeout: asynchronous mode: ``step`` returns what has arrived after this many seconds, at least one.
    :param autoreset_mode: None (default) for Tianshou's protocol; for Gymnasium's a
        :class:`gymnasium.vector.AutoresetMode` or its name.
    :param observation_mode: Gymnasium's protocol: ``"same"`` (default) wants equal observation spaces, ``"different"``
        such of one shape and dtype; a tuple gives the batched space and that of one environment.
    :raises ValueError: no environment, an unknown mode, or ``wait_num`` or ``timeout`` out of range.
    :raises RuntimeError: in Gymnasium's protocol, spaces that differ.

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
        """Becomes the face of ``backend``: what the constructors of all kinds end with.

        :param autoreset_mode: None for Tianshou's protocol, and then the backend's is DISABLED; else the backend's.
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
        """Which protocol: None is Tianshou's, and a mode Gymnasium's."""
        self.single_observation_space = backend.single_observation_space
        self.single_action_space = backend.single_action_space
        if autoreset_mode is not None and backend.observation_spaces is not None:
            self._batch_spaces(backend, observation_mode)
        strict = not backend.takes_anything
        self._stay_ended = backend.autoreset_mode is AutoresetMode.DISABLED and (strict or autoreset_mode is not None)
        space = common(backend.action_spaces or [backend.single_action_space])
        self._check_actions = checker(space) if strict else lenient(space)
        self._all = np.arange(self.num_envs)
        self._all.setflags(write=False)
        self._to_reset = np.full(self.num_envs, strict)  # not to be stepped: never reset, at an end, or failed
        self._some_to_reset = strict
        self._stepping = np.zeros(self.num_envs, dtype=bool)  # asked, and not yet answered
        self._steps = 0  # how many those are
        self._shown: Tree | None = None  # Gymnasium's protocol: the newest observations of all
        self._abandoned = False  # whether the answers of those that are stepping are to be dropped

    def _batch_spaces(self, backend: Backend, observation_mode: ObservationMode) -> None:
        observations, actions = backend.observation_spaces or [], backend.action_spaces or []
        try:
            single, batched = as_gymnasium(observations, actions, observation_mode)
        except BaseException:
            backend.close()
            raise
        self.single_observation_space = single  # type: ignore[assignment]
        if batched is not None:
            self._give("observation_space", batched)

    def __len__(self) -> int:
        """The number of environments."""
        return self.num_envs

    # -- primitives --------------------------------------------------------------------------------------------------

    def reset_rows(
        self, id: Ids | None = None, seed: Seeds = None, options: dict[str, Any] | None = None, **more: Any
    ) -> tuple[Tree, Info]:
        """Starts a new episode in the environments ``id`` (None: all), in the order given.

        :param seed: an int, then environment ``i`` gets ``seed + i``, or one entry for each environment in ``id``.
        :param options: given to each environment's ``reset``.
        :param more: likewise, to environments written in Python.
        :return: the first observations, leaves ``(len(id), ...)``, and the infos.
        :raises ValueError: ``id`` is empty.
        """
        ids = self._idle(id)
        if not ids.size:
            raise ValueError("no environment was named to be reset: leave out id to reset all")
        seeds = as_seeds(seed, ids)
        self._must_reset(ids)
        obs, info = self._backend.reset(ids, seeds, options, **more)
        self._to_reset[ids] = False
        self._some_to_reset = True in self._to_reset.tobytes()  # the quickest way to ask
        return obs, info

    def _must_reset(self, ids: Any) -> None:
        self._to_reset[ids] = self._some_to_reset = True

    def send(self, actions: Any, id: Ids | None = None) -> None:
        """Starts a step in the environments ``id`` (None: all); :meth:`recv` gives what came of it.

        :param actions: leaves ``(len(id), ...)``, or one action for each entry of ``id``.
        :raises ValueError: the number of actions is another.
        :raises TypeError: a single action for several environments.
        :raises RuntimeError: one of the environments is stepping, or its last step failed; nothing was stepped.

        Environments that are no Python want actions of their space, a reset before the first step, and one after the
        end of each episode; so does Gymnasium's protocol after an end, where no autoreset does it.
        """
        ids = self._idle(id)
        if self._some_to_reset and len(over := ids[self._to_reset[ids]]):
            raise NoEpisodeError(f"environments {over.tolist()} are in no episode: call reset() for them before step()")
        self._backend.send(self._check_actions(actions, ids), ids)
        self._mark_stepping(ids)

    def _mark_stepping(self, ids: NDArray[np.int64]) -> None:
        if ids is self._all:
            self._stepping.fill(True)
        else:
            self._stepping[ids] = True
        self._steps += len(ids)

    def recv(self, min_ready: int | None = None, timeout: float | None = None) -> Rows:
        """Waits for environments that are stepping, and takes their answers.

        :param min_ready: how many to wait for; None: ``wait_num``, or as many as are stepping.
        :param timeout: seconds after which fewer are taken, at least one; None: that of the constructor.
        :raises RuntimeError: none is stepping, or the vector environment is closed.
        :raises Exception: what an environment raised. It must be reset; the answers of the others can be received.
        """
        if self.closed or self._abandoned:
            self._idle(())  # complains, or drops what nobody waits for
        if not self._steps:
            raise NothingPendingError("no environment is stepping: give actions to send() or step() first", "step")
        return self._take(
            min(self.wait_num if min_ready is None else min_ready, self._steps),
            self.timeout if timeout is None else timeout,
        )

    def exchange(self, actions: Any, id: Ids | None = None) -> Rows:
        """:meth:`send` and :meth:`recv`, for those who wait for the answers of all."""
        self.send(actions, id)
        return self.recv()

    def _take(self, min_ready: int, timeout: float | None) -> Rows:
        try:
            rows = self._backend.recv(min_ready, timeout)
        except Exception as error:
            self._mark_lost(error)
            raise
        self._mark_answered(rows.env_id)
        if self._stay_ended and (np.count_nonzero(rows.terminated) or np.count_nonzero(rows.truncated)):
            self._must_reset(rows.env_id[rows.done])
        return rows

    def _mark_lost(self, error: Exception) -> None:
        """The environments that an error tells of have not answered, and never will."""
        failed = getattr(error, "lost", getattr(error, "env_id", None))
        if failed is not None:
            lost = np.atleast_1d(failed)
            self._steps -= int(np.count_nonzero(self._stepping[lost]))
            self._stepping[lost] = False
            self._must_reset(lost)

    def _mark_answered(self, ids: NDArray[np.int64]) -> None:
        self._steps -= len(ids)
        if self._steps:
            self._stepping[ids] = False
        else:
            self._stepping.fill(False)

    # -- acting ------------------------------------------------------------------------------------------------------

    def reset(self, id: Ids | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """Starts new episodes.

        :param id: which environments (None: all). Gymnasium's protocol resets all, or those of
            ``options["reset_mask"]``, bools ``(N,)``.
        :param kwargs: ``seed`` may be an int, then environment ``i`` gets ``seed + i``, or a list with one entry for
            each environment in ``id``; ``options``, and in Tianshou's protocol anything else, is given to each
            environment's ``reset``; ``env_id`` is another name for ``id``.
        :return: ``(obs, info)``: the first observations, one row each, and an array of the info dicts. Gymnasium's
            protocol: of all environments, and the infos as a dict of arrays.
        :raises TypeError: observations are tuples (in Tianshou's protocol), or ``reset`` does not follow Gymnasium.
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
            return gymnasium_protocol.reset(self, gymnasium_protocol.asked(self, **kwargs))
        obs, info = self.reset_rows(id, **kwargs)
        return _rows_of(obs), nested.objects(info.dicts())

    def step(self, action: Any, id: Ids | None = None) -> VectorStep:
        """Steps the environments ``id`` (None: all).

        In Tianshou's asynchronous mode the rows that come back may belong to other environments: ``info["env_id"]``
        tells, and ``action=None`` fetches answers without asking for more. Gymnasium's protocol steps all, always.

        :param action: one action for each entry of ``id``, indexable by position; Gymnasium's protocol: of the batched
            action space.
        :return: ``(obs, rew, terminated, truncated, info)``: arrays with one row per environment; ``info`` is an object
            array of dicts, each with its ``env_id`` added, or, in Gymnasium's protocol, a dict of arrays.
        :raises ValueError: the number of actions is not the number of environments asked.
        :raises TypeError: a single action for several environments.
        :raises RuntimeError: one of them is stepping, or see :meth:`send`; nothing was stepped.
        """
        if self.autoreset_mode is not None:
            if id is not None:
                raise TypeError(f"in Gymnasium's protocol step() takes no id ({id}): use send() and recv()")
            return gymnasium_protocol.step(self, action)
        if self.is_async:
            if action is not None:
                self.send(action, id)
            rows = self.recv()
        else:
            rows = self._step_rows(action, id)
        numbers = rows.env_id.tolist()
        infos: list[dict[str, Any]] = (
            [{**info, "env_id": i} for i, info in zip(numbers, rows.info.dicts(), strict=True)]
            if rows.info
            else [{"env_id": i} for i in numbers]
        )
        return _rows_of(rows.obs), rows.rew, rows.terminated, rows.truncated, nested.objects(infos)

    def _step_rows(self, action: Any, id: Ids | None = None) -> Rows:
        """Steps the environments ``id`` and waits for all of them; rows in the order of ``id``.

        Where one raises, the answers of the others are dropped, and all must be reset.
        """
        ids = self._idle(id)
        self.send(action, ids)
        rows = self._wait_for(ids)
        return rows if id is None or np.array_equal(rows.env_id, ids) else ordered(rows, ids)

    def _wait_for(self, ids: NDArray[np.int64]) -> Rows:
        """The answers of ``ids``, all that are stepping; where one raises, those of the others are dropped."""
        try:
            rows = self.recv(len(ids))
            while len(rows.env_id) < len(ids):
                rows = joined(rows, self.recv(len(ids)))
        except BaseException:
            self._abandon(ids)
            raise
        return rows

    def _abandon(self, ids: NDArray[np.int64]) -> None:
        """Nobody waits for the answers of ``ids`` any more."""
        self._abandoned = True
        self._must_reset(ids)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def seed(self, seed: Seeds = None) -> list[list[int | None] | None]:
        """Seeds every environment and its action space: by its own method ``seed`` where it has one, else by a reset.

        :param seed: an int (environment ``i`` gets ``seed + i``), one entry per environment, or None for fresh entropy.
        :return: the seeds, one list per environment.
        """
        ids = self._idle(None)
        seeds = as_seeds(seed, ids)
        self._must_reset(ids)
        self._backend.seed(ids, seeds)
        self._to_reset[:] = self._some_to_reset = False
        return [[one] for one in seeds]

    def get_state(self, id: Ids | None = None) -> list[Any]:
        """All that decides the future of the environments ``id`` (None: all), as plain data, one entry for each.

        :raises NotImplementedError: one of them cannot be written down; see :mod:`rlfast.env.state`.
        """
        ids = self._idle(id)
        shown = nested.each(self._shown) if self._shown is not None else [None] * self.num_envs
        return [
            {"state": state, "over": bool(self._to_reset[i]), "shown": shown[i]}
            for i, state in zip(ids.tolist(), self._backend.get_state(ids), strict=True)
        ]

    def set_state(self, states: Sequence[Any], id: Ids | None = None) -> None:
        """Puts the environments ``id`` (None: all) into the states that :meth:`get_state` gave.

        :raises NotImplementedError: one of them is of another kind, as far as Python can tell.
        :raises ValueError: one of them is of another kind, or the number of states is another.
        """
        ids = self._idle(id)
        if len(states) != len(ids):
            raise ValueError(f"got the states of {len(states)} environments for {len(ids)}")
        self._backend.set_state([state["state"] for state in states], ids)
        self._to_reset[ids] = [state["over"] for state in states]
        self._some_to_reset = bool(self._to_reset.any())
        shown = [state["shown"] for state in states]
        if all(one is not None for one in shown):
            rows = nested.collate(shown)
            if len(ids) == self.num_envs:
                self._shown = nested.put(rows, rows, ids)
            elif self._shown is not None:
                self._shown = nested.put(self._shown, rows, ids)

    def render(self, **kwargs: Any) -> Any:
        """Renders all environments and gives what each returned, as a list; Gymnasium's protocol: as a tuple."""
        frames = self._backend.render(self._idle(None), **kwargs)
        return frames if self.autoreset_mode is None else tuple(frames)

    def close(self, **kwargs: Any) -> None:
        """Closes all environments, even when one of them fails to; a second call does nothing.

        :param kwargs: given to :meth:`close_extras`.
        """
        if not self.closed:
            self.closed = True
            self.close_extras(**kwargs)

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002
        """What :meth:`close` does, for subclasses that hold more."""
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
        """``id`` as a sequence, not checked: subclasses written for Tianshou call it."""
        if id is None:
            return list(range(self.num_envs))
        return [int(id)] if isinstance(id, int | np.integer) else id

    def _idle(self, id: Ids | None) -> NDArray[np.int64]:
        """``id`` as an array, checked: environments that exist, each once, that are not stepping."""
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
        if self._abandoned:
            self._drop_answers()
        ids = self._all if id is None or id is self._all else as_ids(id, self.num_envs)
        if self._steps and self._stepping[ids].any():
            raise PendingError(
                f"environments {ids[self._stepping[ids]].tolist()} are stepping: "
                "fetch their answers with recv() or step(None) first",
                "step",
            )
        return ids

    def _drop_answers(self) -> None:
        """After a step that failed or was interrupted: takes what is still to come."""
        while self._steps:
            try:
                self._take(1, None)
            except Exception as error:
                if getattr(error, "env_id", None) is None:
                    raise
        self._abandoned = False


def _rows_of(tree: Tree) -> NDArray[Any]:
    """Observations as Tianshou gives them: dicts in an array of objects, one for each environment."""
    if isinstance(tree, tuple):
        raise TypeError(
            "Tuple observation space is not supported in Tianshou's protocol: use an array or a dict, or an "
            "autoreset_mode"
        )
    rows: NDArray[Any] = nested.objects(nested.each(tree)) if isinstance(tree, dict) else tree
    return rows
