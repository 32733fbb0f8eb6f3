"""What vector environments tell of themselves and of the environments in them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

if TYPE_CHECKING:
    import gymnasium as gym
    from numpy.typing import NDArray

    from rlfast.env._arguments import Ids
    from rlfast.env.backend import Backend


class EnvAttributes(VectorEnv[Any, Any, Any]):
    """Attributes of the environments behind a backend, by Tianshou's names and by Gymnasium's."""

    autoreset_mode: AutoresetMode | None
    _backend: Backend
    _stepping: NDArray[np.bool_]
    _given_spec: Any = None

    @abstractmethod
    def _idle(self, id: Ids | None) -> NDArray[np.int64]:
        """``id`` as an array, checked: environments that exist, each once, that are not stepping."""

    # -- Tianshou's names --------------------------------------------------------------------------------------------

    @property
    def env_num(self) -> int:
        """The number of environments."""
        return self.num_envs

    @property
    def action_space(self) -> Any:  # type: ignore[override]
        """The action space of each environment; in Gymnasium's protocol, that of all together."""
        return self._space("action_space")

    @property
    def observation_space(self) -> Any:  # type: ignore[override]
        """The observation space of each environment; in Gymnasium's protocol, that of all together."""
        return self._space("observation_space")

    def _space(self, name: str) -> Any:
        if self.autoreset_mode is None:
            return self.get_env_attr(name)
        batched: dict[str, gym.Space[Any]] = self.__dict__.setdefault("_batched", {})
        if name not in batched:
            batched[name] = batch_space(getattr(self, f"single_{name}"), self.num_envs)
        return batched[name]

    @property
    def spec(self) -> Any:
        """The registration of each environment; in Gymnasium's protocol, of the first, or what was set."""
        if self._given_spec is not None:
            return self._given_spec
        return self.get_env_attr("spec") if self.autoreset_mode is None else self._backend.spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._given_spec = spec  # of all together: gymnasium.make_vec sets it

    @property
    def metadata(self) -> Any:  # type: ignore[override]
        """The metadata of each environment; in Gymnasium's protocol, of the first, with the ``autoreset_mode``."""
        if self.autoreset_mode is None:
            return self.get_env_attr("metadata")
        return {**self._backend.metadata, "autoreset_mode": self.autoreset_mode}

    @property
    def reward_range(self) -> list[Any]:
        """The reward range of each environment, where it still has one."""
        return self.get_env_attr("reward_range")

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        """How the environments render."""
        return self._backend.render_mode

    @property
    def placement(self) -> str:
        """What runs the environments."""
        return str(getattr(self._backend, "placement", type(self._backend).__name__))

    @property
    def workers(self) -> list[Any]:
        """What holds each environment, or stands for it where there is no worker for each."""
        from rlfast.env._views import WorkerView

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
        """Sets attribute ``name``: a list or tuple gives each environment its own value, anything else is for all."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"got {len(values)} values for {self.num_envs} environments: give one for each")
        self._backend.set_attr(name, values, self._idle(None))

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """The random generator of each environment, as a tuple."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> Any:
        """The seed of each environment's random generator, as a tuple."""
        return self.get_attr("np_random_seed")
