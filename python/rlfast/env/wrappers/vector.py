"""The base class of wrappers around vector environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.env.adapters import as_vector_env
from rlfast.env.backends.base import Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.vector.arguments import Ids, Seeds
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.subset_calls import SubsetVectorEnv


class VectorEnvWrapper(SubsetVectorEnv):
    """Forwards every call to a wrapped vector environment; subclasses override what they change.

    A subclass that overrides :meth:`reset_rows`, :meth:`send` and :meth:`recv` changes both protocols and the data of
    collectors. A subclass that overrides :meth:`step` and :meth:`reset` calls ``step``
    and ``reset`` of ``self.venv`` in them.

    :param venv: the vector environment to wrap: a :class:`BaseVectorEnv`, or one of another library that
        :func:`~rlfast.env.as_vector_env` accepts, which is adapted first.
    :raises TypeError: ``venv`` is not a vector environment.
    """

    _last_obs = None
    _adapted: tuple[BaseVectorEnv, BaseVectorEnv] | None = None

    def __init__(self, venv: object) -> None:  # does not call super().__init__: a wrapper has no backend
        self.venv: BaseVectorEnv = venv if isinstance(venv, BaseVectorEnv) else as_vector_env(venv)

    @property
    def _inner(self) -> BaseVectorEnv:
        """``venv``; if a user's class overrides its ``step`` or ``reset``, an adapter that calls these."""
        if self._adapted is None or self._adapted[0] is not self.venv:
            self._adapted = self.venv, as_vector_env(self.venv)
        return self._adapted[1]

    def __getattr__(self, key: str) -> Any:
        if key == "venv":  # during unpickling, before the attributes are restored
            raise AttributeError(key)
        return getattr(self.venv, key)

    @property
    def unwrapped(self) -> Any:
        """The innermost vector environment."""
        return self.venv.unwrapped

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Whether the environments are closed."""
        return self.venv.closed

    @property
    def spec(self) -> Any:
        """As :attr:`BaseVectorEnv.spec`; a value that was assigned to this attribute takes precedence."""
        return self._given.get("spec") or self.venv.spec

    @spec.setter
    def spec(self, spec: object) -> None:
        self._set_own("spec", spec)

    def _space(self, name: str) -> Any:
        own = f"single_{name}" in self.__dict__ and self.autoreset_mode is not None
        return super()._space(name) if own else getattr(self.venv, name)

    def get_env_attr(self, key: str, id: Ids | None = None) -> list[Any]:
        """As :meth:`BaseVectorEnv.get_env_attr`."""
        return self.venv.get_env_attr(key, id)

    def set_env_attr(self, key: str, value: object, id: Ids | None = None) -> None:
        """As :meth:`BaseVectorEnv.set_env_attr`."""
        self.venv.set_env_attr(key, value, id)

    def reset_rows(
        self, id: Ids | None = None, seed: Seeds = None, options: dict[str, Any] | None = None, **more: Any
    ) -> tuple[Tree, Info]:
        """As :meth:`BaseVectorEnv.reset_rows`."""
        return self._inner.reset_rows(id, seed, options, **more)

    def send(self, actions: object, id: Ids | None = None) -> None:
        """As :meth:`BaseVectorEnv.send`."""
        self._inner.send(actions, id)

    def recv(self, min_ready: int | None = None, timeout: float | None = None) -> Rows:
        """As :meth:`BaseVectorEnv.recv`."""
        return self._inner.recv(min_ready, timeout)

    def get_state(self, id: Ids | None = None) -> list[Any]:
        """As :meth:`BaseVectorEnv.get_state`; a wrapper that has state of its own overrides this and adds it."""
        return self._inner.get_state(id)

    def set_state(self, states: Sequence[Any], id: Ids | None = None) -> None:
        """As :meth:`BaseVectorEnv.set_state`."""
        self._inner.set_state(states, id)

    def seed(self, seed: Seeds = None) -> list[list[int | None] | None]:
        """As :meth:`BaseVectorEnv.seed`."""
        return self.venv.seed(seed)

    def render(self, **kwargs: Any) -> Any:
        """As :meth:`BaseVectorEnv.render`."""
        return self.venv.render(**kwargs)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """As :meth:`BaseVectorEnv.call`."""
        return self.venv.call(name, *args, **kwargs)

    def set_attr(self, name: str, values: object) -> None:
        """As :meth:`BaseVectorEnv.set_attr`."""
        self.venv.set_attr(name, values)

    def close(self, **kwargs: Any) -> None:
        """As :meth:`BaseVectorEnv.close`."""
        self.venv.close(**kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.venv!r})"

    def _idle(self, id: Ids | None) -> NDArray[np.int64]:
        return self._inner._idle(id)  # noqa: SLF001

    def _abandon(self, ids: NDArray[np.int64] | None = None, *, if_stepping: bool = False) -> None:
        self._inner._abandon(ids, if_stepping=if_stepping)  # noqa: SLF001
