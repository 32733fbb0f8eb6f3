"""The seam between vector environments and what runs them: processes, threads, other libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from gymnasium.vector import AutoresetMode
    from numpy.typing import NDArray

    from rlfast.env.info import Info
    from rlfast.env.spaces import Space

Tree: TypeAlias = Any
"""An array whose first axis counts environments, or a dict or tuple of such, as the observation space is nested."""


@dataclass(slots=True)
class Rows:
    """What ``K`` environments answered to a step, one row each. Never overwritten: who holds one may keep it.

    The transition of row ``k`` is ``(the observation acted on, action, rew[k], obs_next[k])``.
    """

    env_id: NDArray[np.int64]
    """Which environments these are, shape ``(K,)``. After a step of all of them: ``0 .. N - 1``, in this order."""
    obs: Tree
    """What the next action is chosen on, leaves ``(K, ...)``: after an autoreset, the first of the new episode."""
    obs_next: Tree
    """What the step led to, leaves ``(K, ...)``: the true final observation where an episode ended. The same object
    as ``obs`` unless an environment was reset within the step (SAME_STEP)."""
    rew: NDArray[Any]
    """Rewards, ``(K,)`` float64; ``(K, agents)`` where an environment rewards several."""
    terminated: NDArray[np.bool_]
    """Where an episode ended for good, ``(K,)``."""
    truncated: NDArray[np.bool_]
    """Where an episode was cut short, ``(K,)``."""
    info: Info
    """The infos that belong to ``obs``."""
    final_info: Info | None = None
    """SAME_STEP only: the infos that belong to ``obs_next`` in the rows whose episode ended; None where none did."""
    valid: NDArray[np.bool_] | None = None
    """False in rows that are no transition, ``(K,)``: the step in which a NEXT_STEP environment only resets, and the
    one in which an environment broke and was rebuilt (which is truncated as well). None: all are transitions."""

    @property
    def done(self) -> NDArray[np.bool_]:
        """Where an episode ended, either way, ``(K,)``."""
        return self.terminated | self.truncated


class Everyone:
    """Knows whether an array of numbers is all environments in order; one that is read-only is looked at once.

    :param ids: all of them.
    """

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._all = ids
        self._known: NDArray[np.int64] | None = None

    def __call__(self, ids: NDArray[np.int64]) -> bool:
        if ids is self._known:
            return True
        same = len(ids) == len(self._all) and bool((ids == self._all).all())
        if same and not ids.flags.writeable:
            self._known = ids
        return same


class Backend(ABC):
    """Runs ``num_envs`` like environments; :class:`~rlfast.env.BaseVectorEnv` is the face that users see.

    The face has checked ``ids``: int64, distinct, in range, not stepping, and, for ``send``, in an episode. A backend
    checks what only it can see, before anything has changed, and raises exceptions of Python's own types.
    """

    num_envs: int
    single_observation_space: Any
    single_action_space: Any
    """The spaces of the first environment; None where it declares none."""
    observation_spaces: Sequence[Space] | None = None
    action_spaces: Sequence[Space] | None = None
    """The spaces of each environment; None: all have those of the first."""
    takes_anything = False
    """Whether environments, which are Python, are themselves asked about actions outside their spaces and steps outside
    episodes; if not, the face refuses them."""
    autoreset_mode: AutoresetMode
    """Who resets an environment whose episode ended: the caller (DISABLED), the step that ended it, the next step."""
    metadata: dict[str, Any]
    spec: Any
    render_mode: str | None

    @abstractmethod
    def reset(
        self, ids: NDArray[np.int64], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Tree, Info]:
        """Starts new episodes in ``ids``: first observations, leaves ``(len(ids), ...)``, and infos.

        Backends that run Python take further keywords and give them to the environments' ``reset``.
        """

    def begin_reset(  # noqa: B027 - most have nothing to do ahead
        self, ids: NDArray[np.int64], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> None:
        """Begins what a :meth:`reset` with the same arguments, which follows, will finish."""

    def ready(self, count: int, timeout: float) -> bool:  # noqa: ARG002
        """Waits until ``count`` environments have answered their step or begun reset, or so many seconds have gone by.

        :return: whether they have. Backends that do the work when the answer is asked for are always ready.
        """
        return True

    def seed(self, ids: NDArray[np.int64], seeds: Sequence[int | None]) -> None:
        """Seeds environments: by their own method ``seed`` where they have one, else by a reset."""
        self.reset(ids, seeds, None)

    @abstractmethod
    def send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        """Starts a step in ``ids`` with ``actions``, leaves ``(len(ids), ...)``, and returns at once where it can.

        All or none: where this raises, no environment has stepped.
        """

    @abstractmethod
    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:
        """Waits for answers and takes them.

        :param min_ready: how many to wait for, at most as many as are stepping. More are taken when they are there.
        :param timeout: seconds after which fewer are taken, at least one; None waits for ``min_ready``.
        :raises Exception: an environment failed. The answers of the others stay to be received.
        """

    @abstractmethod
    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """Attribute ``name`` of each environment, looked up through its wrappers."""

    def call(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        ids: NDArray[np.int64],
        timeout: float | None = None,  # noqa: ARG002
    ) -> list[Any]:
        """What method ``name`` of each environment gives; the attribute itself where it is no method.

        Backends whose environments live elsewhere call them there: here they would be copies.

        :param timeout: seconds after which those elsewhere are not waited for any more; None: any.
        :raises TimeoutError: (that of :mod:`multiprocessing`) they took longer.
        """
        return [one(*args, **kwargs) if callable(one) else one for one in self.get_attr(name, ids)]

    @abstractmethod
    def set_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """Sets attribute ``name`` of each innermost environment, one value each."""

    def set_wrapper_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """Sets attribute ``name`` of the outermost wrapper that has it, or of the environment, as Gymnasium does."""
        self.set_attr(name, values, ids)

    @abstractmethod
    def render(self, ids: NDArray[np.int64], **kwargs: Any) -> list[Any]:
        """What each environment's ``render`` gave."""

    @abstractmethod
    def close(self) -> None:
        """Releases everything, whatever state it is in. Called once."""

    def get_state(self, ids: NDArray[np.int64]) -> list[Any]:
        """All that decides the environments' future, as plain data (arrays, numbers, strings, bytes, dicts, lists).

        :raises NotImplementedError: environments of this kind cannot be stored exactly.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot store its environments' states")

    def set_state(self, states: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """Puts back what :meth:`get_state` gave.

        :raises NotImplementedError: environments of this kind cannot be stored exactly.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot restore its environments' states")
