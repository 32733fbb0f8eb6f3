"""Attributes of vector environments: their own, and those of the environments in them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rlfast.env.backends.base import Backend
from rlfast.env.vector.arguments import Ids
from rlfast.env.vector.worker_view import WorkerView


class EnvAttributes(VectorEnv[Any, Any, Any]):
    """Provides the attributes of the environments as lists, and as Gymnasium has them."""

    autoreset_mode: AutoresetMode | None
    _backend: Backend
    _stepping: NDArray[np.bool_]
    _given: Mapping[str, Any] = MappingProxyType({})
    """Attributes of the vector environment that were assigned from outside, for example by ``gymnasium.make_vec``."""

    @abstractmethod
    def _idle(self, id: Ids | None) -> NDArray[np.int64]:
        """Returns ``id`` as an array ``(K,)`` of int64, after checking that none of these environments is stepping."""

    # -- lists, one entry per environment ----------------------------------------------------------------------------

    @property
    def env_num(self) -> int:
        """The number of environments."""
        return self.num_envs

    @property
    def action_space(self) -> Any:
        """The action space of each environment, as a list; in Gymnasium's protocol, the batched action space."""
        return self._space("action_space")

    @action_space.setter
    def action_space(self, space: object) -> None:
        self._set_own("action_space", space)

    @property
    def observation_space(self) -> Any:
        """The observation space of each environment, as a list; in Gymnasium's protocol, the batched one."""
        return self._space("observation_space")

    @observation_space.setter
    def observation_space(self, space: object) -> None:
        self._set_own("observation_space", space)

    def _set_own(self, name: str, value: object) -> None:
        self._given = {**self._given, name: value}

    def _space(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        if self.autoreset_mode is None:
            return self._declared_spaces(name)
        space = batch_space(getattr(self, f"single_{name}"), self.num_envs)
        self._set_own(name, space)
        return space

    def _declared_spaces(self, name: str) -> list[Any]:
        """Returns the attribute ``name`` of each environment; None for environments that declare no space."""
        try:
            return self.get_env_attr(name)
        except AttributeError:
            declared = getattr(self._backend, f"{name}s")
            if declared is None:
                raise
            return list(declared)

    @property
    def spec(self) -> Any:
        """The ``EnvSpec`` of each environment, as a list; in Gymnasium's protocol, that of the first environment.

        A value that was assigned to this attribute takes precedence.
        """
        if self._given.get("spec") is not None:
            return self._given["spec"]
        return self.get_env_attr("spec") if self.autoreset_mode is None else self._backend.spec

    @spec.setter
    def spec(self, spec: object) -> None:
        self._set_own("spec", spec)

    @property
    def metadata(self) -> Any:
        """The metadata of each environment, as a list; in Gymnasium's protocol, one dict.

        That is the metadata of the first environment with the ``autoreset_mode`` added, or the value that was assigned.
        """
        if "metadata" in self._given:
            return self._given["metadata"]
        if self.autoreset_mode is None:
            return self.get_env_attr("metadata")
        return {**self._backend.metadata, "autoreset_mode": self.autoreset_mode}

    @metadata.setter
    def metadata(self, metadata: object) -> None:
        self._set_own("metadata", metadata)

    @property
    def reward_range(self) -> list[Any]:
        """The attribute ``reward_range`` of each environment, which Gymnasium 1.0 removed.

        :raises AttributeError: an environment does not have it.
        """
        return self.get_env_attr("reward_range")

    @property
    def render_mode(self) -> str | None:
        """The render mode of the environments; None if they do not render."""
        given: str | None = self._given.get("render_mode", self._backend.render_mode)
        return given

    @render_mode.setter
    def render_mode(self, mode: str | None) -> None:
        self._set_own("render_mode", mode)

    @property
    def placement(self) -> str:
        """Where the environments run, for example ``"in-process"``, ``"process"`` or ``"native"``."""
        return str(getattr(self._backend, "placement", type(self._backend).__name__))

    @property
    def envs(self) -> list[Any]:
        """The environments as objects, which exist only if they run in this process.

        :raises AttributeError: the environments run elsewhere.
        """
        if self.placement != "in-process":
            raise AttributeError(
                f"the environments are not in this process ({self.placement}): use get_attr() or call()"
            )
        return [worker.env for worker in self.workers]

    @property
    def workers(self) -> list[Any]:
        """One :class:`EnvWorker` for each environment; backends without such workers give views of the environments."""
        found = getattr(self._backend, "workers", None)
        return [WorkerView(self, i) for i in range(self.num_envs)] if found is None else list(found)  # type: ignore[arg-type]

    @property
    def waiting_id(self) -> list[int]:
        """The numbers of the environments that are stepping: a step was sent and its result not received."""
        return np.flatnonzero(self._stepping).tolist()

    @property
    def ready_id(self) -> list[int]:
        """The numbers of the environments that are not stepping."""
        return np.flatnonzero(~self._stepping).tolist()

    @property
    def worker_class(self) -> type:
        """The class of :attr:`workers`."""
        return type(self.workers[0])

    @property
    def waiting_conn(self) -> list[Any]:
        """The workers of the environments that are stepping."""
        workers = self.workers
        return [workers[i] for i in self.waiting_id]

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self.closed

    def get_env_attr(self, key: str, id: Ids | None = None) -> list[Any]:
        """Returns an attribute of the environments, looked up through their wrappers.

        :param key: the attribute's name.
        :param id: the environments; None for all.
        :return: a list of the values in the order of ``id``.
        :raises AttributeError: an environment has no such attribute.
        :raises RuntimeError: one of the environments is stepping, or the vector environment is closed.
        """
        return self._backend.get_attr(key, self._idle(id))

    def set_env_attr(self, key: str, value: object, id: Ids | None = None) -> None:
        """Sets an attribute of the environments to one value; wrappers are skipped.

        :param key: the attribute's name.
        :param value: the value for all of them.
        :param id: the environments; None for all.
        :raises RuntimeError: one of the environments is stepping, or the vector environment is closed.
        """
        ids = self._idle(id)
        self._backend.set_attr(key, [value] * len(ids), ids)

    # -- Gymnasium's names -------------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each environment, or reads an attribute.

        :param name: the name of the method or attribute.
        :param args: the method's arguments.
        :param kwargs: the method's keyword arguments.
        :return: a tuple with one entry per environment: what the method returned, or the attribute's value.
        :raises AttributeError: an environment has no such attribute.
        :raises RuntimeError: an environment is stepping, or the vector environment is closed.
        """
        return tuple(self._backend.call(name, args, kwargs, self._idle(None)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns the attribute ``name`` of each environment, as a tuple.

        If the attribute is a method, the method is called without arguments, as in Gymnasium.

        :param name: the attribute's name.
        :raises AttributeError: an environment has no such attribute.
        """
        return self.call(name)

    def set_attr(self, name: str, values: object) -> None:
        """Sets an attribute of each environment's outermost wrapper that has it, otherwise of the environment.

        :param name: the attribute's name.
        :param values: a list or tuple with one value per environment; any other value is set in all of them.
        :raises ValueError: the number of values is not the number of environments.
        """
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        ids = self._idle(None)
        if len(values) != self.num_envs:
            raise ValueError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(values)}` values for {self.num_envs} environments."
            )
        self._backend.set_wrapper_attr(name, values, ids)

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """The random generator of each environment, as a tuple."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> Any:
        """The seed of each environment's random generator, as a tuple."""
        return self.get_attr("np_random_seed")
