"""The interface between vector environments and the backends that run the environments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.backends.info import Info
from rlfast.env.spaces.batching import Space

Tree: TypeAlias = Any
"""An array with one row for each environment, or a dict or tuple of such arrays for nested spaces."""

INTERRUPTS = (MemoryError, RecursionError)
"""Exceptions that come at any place, as Ctrl-C does, and leave a call half-way."""


@dataclass(slots=True)
class Rows:
    """The result of a step of ``K`` environments, with one row each. Its arrays are never overwritten by later steps.

    The transition of row ``k`` is ``(previous observation, action, rew[k], obs_next[k])``.
    """

    env_id: NDArray[np.int64]
    """The environment of each row, ``(K,)``. After a step of all environments: ``0 .. N - 1`` in this order."""
    obs: Tree
    """The observations for the next actions, leaves ``(K, ...)``; after an autoreset, those of the new episodes."""
    obs_next: Tree
    """The observations that the step led to, leaves ``(K, ...)``: the true final observation where an episode ended.
    The same object as ``obs`` unless an environment was reset within the step (SAME_STEP)."""
    rew: NDArray[Any]
    """Rewards, ``(K,)`` float64; ``(K, agents)`` for environments with one reward per agent."""
    terminated: NDArray[np.bool_]
    """Whether the episode terminated, ``(K,)``."""
    truncated: NDArray[np.bool_]
    """Whether the episode was truncated, ``(K,)``."""
    info: Info
    """The infos that belong to ``obs``."""
    final_info: Info | None = None
    """For SAME_STEP: the infos that belong to ``obs_next``, in the rows whose episode ended; None if no episode did."""
    valid: NDArray[np.bool_] | None = None
    """Whether the row is a transition, ``(K,)``; None if all are. It is False where a NEXT_STEP environment only reset,
    and where an environment failed and was rebuilt, in which case ``truncated`` is True."""
    returns: NDArray[Any] | None = None
    """The sums of the environments' own rewards in each row's episode so far, with the shape of ``rew``, where a
    wrapper has changed ``rew``; None where ``rew`` holds the environments' own rewards."""

    @property
    def done(self) -> NDArray[np.bool_]:
        """Whether the episode terminated or was truncated, ``(K,)``."""
        return self.terminated | self.truncated


class IsAllEnvs:
    """Tells whether an array of ids names all environments in order; the result for a read-only array is cached.

    :param ids: the ids of all environments, ``(N,)``.
    """

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._all = ids
        self._known: NDArray[np.int64] | None = None

    def __call__(self, ids: NDArray[np.int64]) -> bool:
        """Returns whether ``ids`` equals the array of all ids."""
        if ids is self._known:
            return True
        same = len(ids) == len(self._all) and bool((ids == self._all).all())
        if same and not ids.flags.writeable:
            self._known = ids
        return same


class Backend(ABC):
    """Runs ``num_envs`` environments for a :class:`~rlfast.env.BaseVectorEnv`, which is the class that users see.

    The vector environment has checked ``ids``: they are int64, distinct, in range and not stepping, and, for ``send``,
    their episodes are running. A backend checks what only it can know, before anything changes, and raises exceptions
    of Python's own types.
    """

    num_envs: int
    single_observation_space: Any
    single_action_space: Any
    """The spaces of the first environment; None if it declares none."""
    observation_spaces: Sequence[Space] | None = None
    action_spaces: Sequence[Space] | None = None
    """The spaces of each environment; None if all environments have the spaces of the first."""
    lost: Sequence[int] = ()
    """The environments whose steps ended with the newest exception of :meth:`recv` or :meth:`ready`; whoever catches
    the exception empties it. It stays empty for an exception that interrupts the backend's own work."""
    takes_anything = False
    """Whether actions outside the action space and steps outside an episode are passed on to the environments, which
    check them in Python; if False, the vector environment raises an error instead."""
    autoreset_mode: AutoresetMode
    """When an environment is reset after the end of an episode: by the caller (DISABLED), within the step that ended it
    (SAME_STEP), or in the next step (NEXT_STEP)."""
    metadata: dict[str, Any]
    spec: Any
    render_mode: str | None

    @abstractmethod
    def reset(
        self, ids: NDArray[np.int64], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Tree, Info]:
        """Starts a new episode in each of the environments ``ids``.

        Backends for environments written in Python accept further keywords and give them to ``reset``.

        :param ids: the environments.
        :param seeds: one seed for each environment; None for environments that get no seed.
        :param options: given to each environment's ``reset``.
        :return: the first observations, leaves ``(len(ids), ...)``, and the infos.
        """

    def ready(self, count: int, timeout: float) -> bool:  # noqa: ARG002
        """Waits until ``count`` environments have answered a step.

        :param count: the number of environments.
        :param timeout: the longest wait, in seconds.
        :return: whether they have answered. Backends that do the work in :meth:`recv` always return True.
        """
        return True

    def seed(self, ids: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Seeds environments by their own method ``seed``; those without such a method are reset with the seed."""
        self.reset(ids, seeds, None)

    @abstractmethod
    def send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        """Starts a step in each of the environments ``ids``; if possible, it returns before the step is complete.

        If this method raises, no environment has been stepped.

        :param actions: leaves ``(len(ids), ...)``.
        :param ids: the environments.
        """

    @abstractmethod
    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:
        """Waits for the results of steps and returns them.

        :param min_ready: the number of results to wait for, at most the number of environments that are stepping.
            Further results that have arrived are returned as well.
        :param timeout: seconds after which fewer results are returned, but at least one; None waits without a limit.
        :raises Exception: an environment failed, which :attr:`lost` names. The results of the others can still be
            received.
        """

    @abstractmethod
    def drop(self) -> None:
        """Discards all requests and results that are outstanding, in whatever state an interrupted call left them.

        It waits for environments that are busy. Afterwards no environment is stepping, and those that were stepping or
        that the interrupted call named are reset before anything else. If this call is interrupted itself, it is made
        again.
        """

    @abstractmethod
    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """Returns the attribute ``name`` of each environment in ``ids``, looked up through its wrappers."""

    def call(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        ids: NDArray[np.int64],
        timeout: float | None = None,  # noqa: ARG002
    ) -> list[Any]:
        """Calls the method ``name`` of each environment in ``ids``, or reads the attribute if it is not callable.

        Backends whose environments live in other processes call the method there, because objects fetched into this
        process are copies.

        :param name: the name of the method or attribute.
        :param args: the method's arguments.
        :param kwargs: the method's keyword arguments.
        :param ids: the environments.
        :param timeout: seconds to wait for environments in other processes; None waits without a limit.
        :return: one entry for each environment.
        :raises multiprocessing.TimeoutError: an environment in another process did not answer in time.
        """
        return [one(*args, **kwargs) if callable(one) else one for one in self.get_attr(name, ids)]

    @abstractmethod
    def set_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """Sets the attribute ``name`` of each environment in ``ids``, skipping wrappers; one value per environment."""

    def set_wrapper_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """Sets the attribute of the outermost wrapper that has it, otherwise of the environment, as Gymnasium does."""
        self.set_attr(name, values, ids)

    @abstractmethod
    def render(self, ids: NDArray[np.int64], **kwargs: Any) -> list[Any]:
        """Returns what the ``render`` of each environment in ``ids`` returns."""

    @abstractmethod
    def close(self) -> None:
        """Closes all environments and releases all resources, in any state. It is called once."""

    def get_state(self, ids: NDArray[np.int64]) -> list[Any]:
        """Returns the complete state of each environment in ``ids``.

        A state is plain data: arrays, numbers, strings, bytes, dicts and lists.

        :raises NotImplementedError: the states of these environments cannot be saved exactly.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot store its environments' states")

    def set_state(self, states: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """Restores states that :meth:`get_state` returned, one for each environment in ``ids``.

        :raises NotImplementedError: the states of these environments cannot be restored exactly.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot restore its environments' states")
