"""Several environments that step together, under the names Tianshou 1.0 gave them."""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.env.worker import DummyEnvWorker, EnvWorker, stack

EnvFn: TypeAlias = Callable[[], gym.Env[Any, Any]]
Ids: TypeAlias = int | Sequence[int] | NDArray[np.integer[Any]]
VectorStep: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], NDArray[Any]]
"""``(obs, rew, terminated, truncated, info)``, one row for each environment asked."""


class BaseVectorEnv:
    """``N`` environments behind one interface: actions in as an array, arrays out.

    An environment that ends an episode stays ended until ``reset(id)`` is called for it: the ``obs`` of its last
    step is the true final observation, and stepping it again is an error.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th.
    :param worker_fn: makes the worker that holds the environment made by the given callable.
    :param wait_num: asynchronous mode: ``step`` returns as soon as this many environments have answered.
        None (default) waits for all that were asked.
    :param timeout: asynchronous mode: ``step`` returns what has arrived after this many seconds, at least one.
    :raises ValueError: no environment, or ``wait_num`` or ``timeout`` out of range.

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
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        worker_fn: Callable[[EnvFn], EnvWorker],
        wait_num: int | None = None,
        timeout: float | None = None,
    ) -> None:
        self.env_num = len(env_fns)
        if self.env_num == 0:
            raise ValueError("a vector environment needs at least one environment, got an empty list")
        self.wait_num = self.env_num if wait_num is None else wait_num
        if not 1 <= self.wait_num <= self.env_num:
            raise ValueError(
                f"wait_num must be within 1 and {self.env_num}, the number of environments, got {wait_num}"
            )
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be positive (seconds) or None, got {timeout}")
        self.timeout = timeout
        self.is_async = self.wait_num != self.env_num or timeout is not None
        self._env_fns = env_fns
        self.is_closed = False
        self.workers: list[EnvWorker] = [worker_fn(fn) for fn in env_fns]
        self.worker_class = type(self.workers[0])
        self._all = range(self.env_num)
        self.waiting_id: list[int] = []
        """Environments that are stepping: asked, and not yet answered."""
        self._over = set(range(self.env_num))  # environments that are in no episode: never reset, or at an end

    def __len__(self) -> int:
        """The number of environments."""
        return self.env_num

    # -- attributes of the environments ------------------------------------------------------------------------------

    @property
    def action_space(self) -> list[gym.Space[Any]]:
        """The action space of each environment."""
        return self.get_env_attr("action_space")

    @property
    def observation_space(self) -> list[gym.Space[Any]]:
        """The observation space of each environment."""
        return self.get_env_attr("observation_space")

    @property
    def spec(self) -> list[Any]:
        """The registration of each environment."""
        return self.get_env_attr("spec")

    @property
    def metadata(self) -> list[Any]:
        """The metadata of each environment."""
        return self.get_env_attr("metadata")

    @property
    def reward_range(self) -> list[Any]:
        """The reward range of each environment, where it still has one."""
        return self.get_env_attr("reward_range")

    @property
    def ready_id(self) -> list[int]:
        """Environments that are not stepping."""
        return [i for i in range(self.env_num) if i not in self.waiting_id]

    def get_env_attr(self, key: str, id: Ids | None = None) -> list[Any]:
        """Attribute ``key`` of the environments ``id`` (None: all), as a list in the same order."""
        return [self.workers[i].get_env_attr(key) for i in self._idle(id)]

    def set_env_attr(self, key: str, value: Any, id: Ids | None = None) -> None:
        """Sets attribute ``key`` of the (innermost) environments ``id`` (None: all)."""
        for i in self._idle(id):
            self.workers[i].set_env_attr(key, value)

    # -- acting ------------------------------------------------------------------------------------------------------

    def reset(self, id: Ids | None = None, **kwargs: Any) -> tuple[NDArray[Any], list[dict[str, Any]]]:
        """Starts a new episode in the environments ``id`` (None: all).

        :param kwargs: given to each environment's ``reset``. A ``seed`` may be an int, then environment ``i`` gets
            ``seed + i``, or a list with one entry for each environment in ``id``.
        :return: ``(obs, info)``: the first observations, one row each, and the info dicts.
        :raises TypeError: observations are tuples, or ``reset`` does not follow Gymnasium.
        """
        ids = self._idle(id)
        requests = [kwargs] * len(ids)
        if "seed" in kwargs:
            requests = [{**kwargs, "seed": seed} for seed in self._seeds(kwargs["seed"], ids)]
        self._send([None] * len(ids), ids, requests)
        results: list[Any] = [self.workers[i].recv() for i in ids]
        for i, result in zip(ids, results, strict=True):
            if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], dict)):
                raise TypeError(f"environment {i}: reset() must give (obs, info) as in Gymnasium, got {type(result)}")
            if isinstance(result[0], tuple):
                raise TypeError(f"environment {i}: tuple observations are not supported, use an array or a dict")
        self._over.difference_update(ids)
        return stack([result[0] for result in results]), [result[1] for result in results]

    def step(self, action: Any, id: Ids | None = None) -> VectorStep:
        """Steps the environments ``id`` (None: all).

        In asynchronous mode the rows that come back may belong to other environments: ``info["env_id"]`` tells, and
        ``action=None`` fetches answers without asking for more.

        :param action: one action for each entry of ``id``, indexable by position.
        :return: ``(obs, rew, terminated, truncated, info)``: arrays with one row per environment; ``info`` is an object
            array of dicts, each with its ``env_id`` added.
        :raises ValueError: the number of actions is not the number of environments asked.
        :raises RuntimeError: one of them is stepping, was never reset, or has ended its episode; nothing was stepped.
        """
        if action is not None or not self.is_async:
            ids = self._idle(id)
            self._begin_step(action, ids)
        if self.is_async:
            ids = self._wait()
        results: list[Any] = [self.workers[i].recv() for i in ids]
        obs, rew, terminated, truncated, infos = zip(*results, strict=True)
        for i, info in zip(ids, infos, strict=True):
            info["env_id"] = i
        info_array = np.empty(len(ids), dtype=object)
        info_array[:] = infos
        term, trunc = np.array(terminated, dtype=bool), np.array(truncated, dtype=bool)
        self._over.update(ids[k] for k in np.flatnonzero(term | trunc).tolist())
        return stack(obs), np.array(rew), term, trunc, info_array

    def _begin_step(self, action: Any, ids: Sequence[int]) -> None:
        if len(action) != len(ids):
            raise ValueError(f"got {len(action)} actions for {len(ids)} environments: give one action for each")
        if self._over and (over := [i for i in ids if i in self._over]):
            raise RuntimeError(f"environments {over} are in no episode: call reset(id={over}) before step()")
        self._send(action, ids)
        if self.is_async:
            self.waiting_id.extend(ids)

    def _send(self, actions: Any, ids: Sequence[int], requests: Sequence[dict[str, Any]] | None = None) -> None:
        """All or none: when one environment raises, the answers of the others are dropped and all must be reset."""
        sent: list[int] = []
        try:
            for k, i in enumerate(ids):
                self.workers[i].send(actions[k], **(requests[k] if requests else {}))
                sent.append(i)
        except Exception:
            for i in sent:
                self.workers[i].recv()
            self._over.update(ids)
            raise

    def _wait(self) -> list[int]:
        if not self.waiting_id:
            raise RuntimeError("no environment is stepping: give actions to step()")
        waiting = {self.workers[i]: i for i in self.waiting_id}
        ready: list[int] = []
        while not ready:
            ready = [waiting[worker] for worker in self.worker_class.wait(list(waiting), self.wait_num, self.timeout)]
        self.waiting_id = [i for i in self.waiting_id if i not in ready]
        return ready

    # -- the rest ----------------------------------------------------------------------------------------------------

    def seed(self, seed: int | Sequence[int | None] | None = None) -> list[list[int | None] | None]:
        """Seeds every environment and its action space, and resets it.

        :param seed: an int (environment ``i`` gets ``seed + i``), one entry per environment, or None for fresh entropy.
        :return: the seeds, one list per environment.
        """
        ids = self._idle(None)
        seeds = self._seeds(seed, ids)
        self._over.clear()
        return [self.workers[i].seed(s) for i, s in zip(ids, seeds, strict=True)]

    def render(self, **kwargs: Any) -> list[Any]:
        """Renders all environments and gives what each returned."""
        return [self.workers[i].render(**kwargs) for i in self._idle(None)]

    def close(self) -> None:
        """Closes all environments, even when one of them fails to; a second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        errors = []
        for worker in self.workers:
            try:
                worker.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _idle(self, id: Ids | None) -> Sequence[int]:
        """``id`` as a list, checked: environments that exist, each once, that are not stepping."""
        if self.is_closed:
            raise RuntimeError(f"{type(self).__name__} is closed: make a new one")
        ids: Sequence[int]
        if id is None:
            ids = self._all
        else:
            ids = [int(i) for i in np.atleast_1d(np.asarray(id, dtype=np.int64))]
            if len(set(ids)) != len(ids) or any(not 0 <= i < self.env_num for i in ids):
                raise IndexError(f"environment ids must be distinct and within 0 and {self.env_num - 1}, got {ids}")
        if self.waiting_id and (busy := [i for i in ids if i in self.waiting_id]):
            raise RuntimeError(f"environments {busy} are stepping: fetch their answers with step(None) first")
        return ids

    @staticmethod
    def _seeds(seed: int | Sequence[int | None] | None, ids: Sequence[int]) -> list[int | None]:
        if seed is None:
            return [None] * len(ids)
        if isinstance(seed, int | np.integer):
            return [int(seed) + i for i in ids]
        if len(seed) != len(ids):
            raise ValueError(f"got {len(seed)} seeds for {len(ids)} environments: give one int, or one seed for each")
        return list(seed)


class DummyVectorEnv(BaseVectorEnv):
    """Environments in this process, stepped one after the other: quickest for small ones, and easiest to debug.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th.
    :param wait_num: see :class:`BaseVectorEnv`; here every environment is always ready.
    :param timeout: see :class:`BaseVectorEnv`.
    """

    def __init__(self, env_fns: Sequence[EnvFn], wait_num: int | None = None, timeout: float | None = None) -> None:
        super().__init__(env_fns, DummyEnvWorker, wait_num, timeout)
