"""What vector environments tell of themselves and of the environments in them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rlfast.env.vector.worker_view import WorkerView

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlfast.env.backends.base import Backend
    from rlfast.env.vector.arguments import Ids


class EnvAttributes(VectorEnv[Any, Any, Any]):
    """Attributes of the environments behind a backend, by Tianshou's names and by Gymnasium's."""

    autoreset_mode: AutoresetMode | None
    _backend: Backend
    _stepping: NDArray[np.bool_]
    _given: Mapping[str, Any] = MappingProxyType({})
    """Attributes of all together that somebody has set, as ``gymnasium.make_vec`` does."""

    @abstractmethod
    def _idle(self, id: Ids | None) -> NDArray[np.int64]:
        """``id`` as an array, checked: environments that exist, each once, that are not stepping."""

    # -- Tianshou's names --------------------------------------------------------------------------------------------

    @property
    def env_num(self) -> int:
        """The number of environments."""
        return self.num_envs

    @property
    def action_space(self) -> Any:
        """The action space of each environment; in Gymnasium's protocol, that of all together."""
        return self._space("action_space")

    @action_space.setter
    def action_space(self, space: Any) -> None:
        self._give("action_space", space)

    @property
    def observation_space(self) -> Any:
        """The observation space of each environment; in Gymnasium's protocol, that of all together."""
        return self._space("observation_space")

    @observation_space.setter
    def observation_space(self, space: Any) -> None:
        self._give("observation_space", space)

    def _give(self, name: str, value: Any) -> None:
        self._given = {**self._given, name: value}

    def _space(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        if self.autoreset_mode is None:
            return self._declared_spaces(name)
        space = batch_space(getattr(self, f"single_{name}"), self.num_envs)
        self._give(name, space)
        return space

    def _declared_spaces(self, name: str) -> list[Any]:
        """What each environment has under this name; None where it declares no space."""
        try:
            return self.get_env_attr(name)
        except AttributeError:
            declared = getattr(self._backend, f"{name}s")
            if declared is None:
                raise
            return list(declared)

    @property
    def spec(self) -> Any:
        """The registration of each environment; in Gymnasium's protocol, of the first, or what was set."""
        if self._given.get("spec") is not None:
            return self._given["spec"]
        return self.get_env_attr("spec") if self.autoreset_mode is None else self._backend.spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._give("spec", spec)

    @property
    def metadata(self) -> Any:
        """The metadata of each environment; in Gymnasium's protocol, of the first, with the ``autoreset_mode``."""
        if "metadata" in self._given:
            return self._given["metadata"]
        if self.autoreset_mode is None:
            return self.get_env_attr("metadata")
        return {**self._backend.metadata, "autoreset_mode": self.autoreset_mode}

    @metadata.setter
    def metadata(self, metadata: Any) -> None:
        self._give("metadata", metadata)

    @property
    def reward_range(self) -> list[Any]:
        """The reward range of each environment, where it still has one."""
        return self.get_env_attr("reward_range")

    @property
    def render_mode(self) -> str | None:
        """How the environments render."""
        given: str | None = self._given.get("render_mode", self._backend.render_mode)
        return given

    @render_mode.setter
    def render_mode(self, mode: str | None) -> None:
        self._give("render_mode", mode)

    @property
    def placement(self) -> str:
        """What runs the environments."""
        return str(getattr(self._backend, "placement", type(self._backend).__name__))

    @property
    def envs(self) -> list[Any]:
        """The environments themselves, where they are in this process.

        :raises AttributeError: they are elsewhere.
        """
        if self.placement != "in-process":
            raise AttributeError(
                f"the environments are not in this process ({self.placement}): use get_attr() or call()"
            )
        return [worker.env for worker in self.workers]

    @property
    def workers(self) -> list[Any]:
        """What holds each environment, or stands for it where there is no worker for each."""
        found = getattr(self._backend, "workers", None)
        return [WorkerView(self, i) for i in range(self.num_envs)] if found is None else list(found)  # type: ignore[arg-type]

    @property
    def waiting_id(self) -> list[int]:
        """Environments that are stepping: asked, and not yet answered."""
        return np.flatnonzero(self._stepping).tolist()

    @property
    def ready_id(self) -> list[int]:
        """Environments that are not stepping."""
        return np.flatnonzero(~self._stepping).tolist()

    @property
    def worker_class(self) -> type:
        """The class of :attr:`workers`."""
        return type(self.workers[0])

    @property
    def waiting_conn(self) -> list[Any]:
        """The workers of environments that are stepping."""
        workers = self.workers
        return [workers[i] for i in self.waiting_id]

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self.closed

    def get_env_attr(self, key: str, id: Ids | None = None) -> list[Any]:
        """Attribute ``key`` of the environments ``id`` (None: all), as a list in the same order."""
        return self._backend.get_attr(key, self._idle(id))

    def set_env_attr(self, key: str, value: Any, id: Ids | None = None) -> None:
        """Sets attribute ``key`` of the (innermost) environments ``id`` (None: all)."""
        ids = self._idle(id)
        self._backend.set_attr(key, [value] * len(ids), ids)

    # -- Gymnasium's names -------------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Attribute ``name`` of each environment, or, where it is a method, what it returns for these arguments."""
        return tuple(self._backend.call(name, args, kwargs, self._idle(None)))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Attribute ``name`` of each environment, as a tuple."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets attribute ``name`` of the outermost wrapper that has it, else of the environment.

        :param values: a list or tuple gives each environment its own value, anything else is for all.
        :raises ValueError: the number of values is not that of the environments.
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
