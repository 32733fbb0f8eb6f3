"""Gymnasium's calls in two halves: one asks the environments, the other waits for what they answer."""

# ruff: noqa: SLF001 (what is pending is noted in the innermost vector environment, whichever wrapper was asked)

from __future__ import annotations

import multiprocessing
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from rlfast.env.errors import NothingPendingError, PendingError
from rlfast.env.vector import gymnasium_protocol
from rlfast.env.vector.arguments import as_seeds
from rlfast.env.vector.attributes import EnvAttributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rlfast.env.backends.base import Rows
    from rlfast.env.vector.arguments import Ids, VectorStep


class AsyncCalls(EnvAttributes):
    """``reset_async`` and ``reset_wait``, ``step_async`` and ``step_wait``, ``call_async`` and ``call_wait``.

    Where a wait takes longer than its ``timeout``, the answers are dropped, and the environments must be reset.
    """

    _all: NDArray[np.int64]
    _pending: str | None = None
    """What was asked and is to be waited for: "reset", "step" or "call"."""
    _asked: Any = None

    @abstractmethod
    def send(self, actions: Any, id: Ids | None = None) -> None: ...

    @abstractmethod
    def _wait_for(self, ids: NDArray[np.int64]) -> Rows: ...

    @abstractmethod
    def _abandon(self, ids: NDArray[np.int64]) -> None: ...

    @abstractmethod
    def _mark_lost(self, error: Exception) -> None: ...

    def reset_async(
        self, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Begins what ``reset(seed=seed, options=options)`` does; :meth:`reset_wait` gives what comes of it.

        :raises gymnasium.error.AlreadyPendingCallError: something else was asked, and not waited for.
        :raises gymnasium.error.ClosedEnvironmentError: the environments are closed.
        """
        self._begin("reset")
        ask = gymnasium_protocol.asked(self, seed, options)  # type: ignore[arg-type]
        ids = self._all if ask.ids is None else ask.ids
        self._backend.begin_reset(ids, as_seeds(ask.seeds, ids), ask.options)
        self._note("reset", ask)

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """What ``reset`` gives.

        :param timeout: seconds; None: any.
        :raises gymnasium.error.NoAsyncCallError: there was no :meth:`reset_async`.
        :raises multiprocessing.TimeoutError: it took longer.
        """
        ask = self._end("reset")
        self._await("reset", self.num_envs if ask.ids is None else len(ask.ids), timeout)
        return gymnasium_protocol.reset(self, ask)  # type: ignore[arg-type]

    def step_async(self, actions: Any) -> None:
        """Begins what ``step(actions)`` does; :meth:`step_wait` gives what comes of it.

        :raises gymnasium.error.AlreadyPendingCallError: something else was asked, and not waited for.
        :raises gymnasium.error.ClosedEnvironmentError: the environments are closed.
        """
        self._begin("step")
        self.send(actions)
        self._note("step", None)

    def step_wait(self, timeout: float | None = None) -> VectorStep:
        """What ``step`` gives.

        :param timeout: seconds; None: any.
        :raises gymnasium.error.NoAsyncCallError: there was no :meth:`step_async`.
        :raises multiprocessing.TimeoutError: it took longer.
        """
        self._end("step")
        self._await("step", self.num_envs, timeout)
        return gymnasium_protocol.answer(self, self._wait_for(self._all))  # type: ignore[arg-type]

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Notes what :meth:`call_wait` is to call.

        :raises gymnasium.error.AlreadyPendingCallError: something else was asked, and not waited for.
        :raises gymnasium.error.ClosedEnvironmentError: the environments are closed.
        """
        self._begin("call")
        self._note("call", (name, args, kwargs))

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """What ``call`` gives.

        :param timeout: seconds; None: any.
        :raises gymnasium.error.NoAsyncCallError: there was no :meth:`call_async`.
        :raises multiprocessing.TimeoutError: it took longer.
        """
        name, args, kwargs = self._end("call")
        return tuple(self._backend.call(name, args, kwargs, self._idle(None), timeout))

    def _begin(self, what: str) -> None:
        if self.autoreset_mode is None:
            raise TypeError(
                f"{what}_async() is of Gymnasium's protocol: give an autoreset_mode, or use send() and recv()"
            )
        own = self.unwrapped
        pending = own._pending or ("step" if own._stepping.any() else None)
        if pending is not None and not self.closed:
            raise PendingError(
                f"Calling `{what}_async` while waiting for a pending call to `{pending}` to complete", pending
            )
        self._idle(())

    def _note(self, what: str, asked: Any) -> None:
        own = self.unwrapped
        own._pending, own._asked = what, asked

    def _end(self, what: str) -> Any:
        """What was asked."""
        own = self.unwrapped
        if own._pending != what:
            self._idle(())
            raise NothingPendingError(f"Calling `{what}_wait` without any prior call to `{what}_async`.", what)
        asked, own._pending, own._asked = own._asked, None, None
        return asked

    def _await(self, what: str, count: int, timeout: float | None) -> None:
        """Until so many have answered."""
        if timeout is None:
            return
        try:
            there = self._backend.ready(count, timeout)
        except Exception as error:
            self.unwrapped._mark_lost(error)
            self._abandon(self._all)
            raise
        if not there:
            self._abandon(self._all)
            raise multiprocessing.TimeoutError(f"The call to `{what}_wait` has timed out after {timeout} second(s).")
