"""Code that the adapters share: a backend over a vector environment, and warnings that are given once."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from rlfast.env.backends.base import Backend

_log = logging.getLogger(__name__)


class WarnOnce:
    """Gives each warning once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def __call__(self, message: str) -> None:
        """Gives the warning ``message`` and logs it, unless it was given before."""
        if message not in self._given:
            self._given.add(message)
            _log.warning(message)
            warnings.warn(message, stacklevel=6)


class Wrapped(Backend):
    """A backend over another vector environment, whose attributes and frames exist only for all environments together.

    :param env: the vector environment.
    :param num_envs: the number of its environments.
    :param metadata: its metadata.
    :param spec: the ``EnvSpec`` of its environments.
    """

    env: Any

    def __init__(
        self, env: Any, num_envs: int, *, metadata: dict[str, Any] | None = None, spec: EnvSpec | None = None
    ) -> None:
        self.env, self.num_envs = env, num_envs
        self.metadata, self.spec, self.render_mode = metadata or {}, spec, env.render_mode
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # EnvPool's spaces are float64 within float32
            self.single_observation_space = env.single_observation_space
            self.single_action_space = env.single_action_space
        self._warn = WarnOnce()

    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """As :meth:`Backend.get_attr`; an attribute of the vector environment itself is returned for each."""
        if name == "spec":
            return [self.spec] * len(ids)
        found = self.env.get_attr(name) if hasattr(self.env, "get_attr") else [getattr(self.env, name)] * self.num_envs
        return [found[i] for i in ids.tolist()]

    def set_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.set_attr`.

        :raises NotImplementedError: attributes cannot be set, or only in all environments together.
        """
        if not hasattr(self.env, "set_attr") or len(ids) < self.num_envs:
            raise NotImplementedError(f"{type(self.env).__name__} cannot set {name} of environments {ids.tolist()}")
        self.env.set_attr(name, list(values))

    def render(self, ids: NDArray[np.int64], **kwargs: Any) -> list[Any]:
        """As :meth:`Backend.render`."""
        frames = self.env.render(**kwargs)
        return [None if frames is None else frames[i] for i in ids.tolist()]

    def close(self) -> None:
        """As :meth:`Backend.close`."""
        self.env.close()
