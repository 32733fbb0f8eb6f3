"""What the adapters share."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

from rlfast.env.backends.base import Backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)


class Wrapped(Backend):
    """Runs the environments of ``env``, which knows attributes and frames only of all together."""

    env: Any

    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """As :meth:`Backend.get_attr`; what only the whole has is given for each."""
        found = self.env.get_attr(name) if hasattr(self.env, "get_attr") else [getattr(self.env, name)] * self.num_envs
        return [found[i] for i in ids.tolist()]

    def set_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.set_attr`.

        :raises NotImplementedError: these environments let nobody set attributes, or only those of all.
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


class Once:
    """Warns, each thing once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, what: str) -> None:
        """Warns of ``what``, unless it was said before."""
        if what not in self._said:
            self._said.add(what)
            _log.warning(what)
            warnings.warn(what, stacklevel=6)
