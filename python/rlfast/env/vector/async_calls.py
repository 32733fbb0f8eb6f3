"""Gymnasium's asynchronous calls: ``*_async`` starts a call in the environments, ``*_wait`` waits for its result."""

# ruff: noqa: SLF001 (the innermost vector environment stores the pending call, whichever wrapper was called)

from __future__ import annotations

import multiprocessing
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows
from rlfast.env.errors import NothingPendingError, PendingError
from rlfast.env.vector.arguments import Ids, VectorStep, as_seeds
from rlfast.env.vector.gymnasium_protocol import GymnasiumProtocol


class AsyncCalls(GymnasiumProtocol):
    """Implements Gymnasium's ``reset_async``, ``step_async`` and ``call_async`` and their ``*_wait`` counterparts.

    If a wait exceeds its ``timeout``, the results are discarded and the environments must be reset.
    """

    _at_risk: NDArray[np.int64] | None
    _may_discard: bool
    _pending: str | None = None
    """The name of the pending call: "reset", "step" or "call"; None if no call is pending."""
    _pending_request: Any = None
    """The arguments of the pending call."""

    @abstractmethod
    def send(self, actions: object, id: Ids | None = None) -> None: ...

    @abstractmethod
    def _wait_for(self, ids: NDArray[np.int64]) -> Rows: ...

    @abstractmethod
    def _abandon(self, ids: NDArray[np.int64] | None = None, *, if_stepping: bool = False) -> None: ...

    @abstractmethod
    def _mark_lost(self) -> None: ...

    def reset_async(
        self, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Checks the arguments of ``reset(seed=seed, options=options)`` and stores them for :meth:`reset_wait`.

        :param seed: as for ``reset``.
        :param options: as for ``reset``.
        :raises gymnasium.error.AlreadyPendingCallError: another call is pending.
        :raises gymnasium.error.ClosedEnvironmentError: the environments are closed.
        """
        self._begin("reset")
        request = self._reset_request(seed, options)
        as_seeds(request.seeds, self._all if request.ids is None else request.ids)
        self._set_pending("reset", request)

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        """Makes the reset whose arguments :meth:`reset_async` stored.

        :param timeout: accepted for compatibility with Gymnasium and ignored: only steps and calls are limited.
        :return: the same as ``reset``.
        :raises gymnasium.error.NoAsyncCallError: :meth:`reset_async` was not called before.
        """
        return self._reset_result(self._end("reset"))

    def step_async(self, actions: object) -> None:
        """Starts ``step(actions)``; :meth:`step_wait` returns its result.

        :param actions: one action for each environment, of the batched action space.
        :raises gymnasium.error.AlreadyPendingCallError: another call is pending.
        :raises gymnasium.error.ClosedEnvironmentError: the environments are closed.
        """
        self._begin("step")
        self.send(actions)
        self._set_pending("step", None)

    def step_wait(self, timeout: float | None = None) -> VectorStep:
        """Waits for the step that :meth:`step_async` started.

        :param timeout: in seconds; None waits without a limit.
        :return: the same as ``step``.
        :raises gymnasium.error.NoAsyncCallError: :meth:`step_async` was not called before.
        :raises multiprocessing.TimeoutError: the environments did not answer in time.
        """
        self._end("step")
        self._last_obs = None  # until the new ones are known
        self._await_steps(timeout)
        return self._step_result(self._wait_for(self._all))

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Stores the call that :meth:`call_wait` makes.

        :param name: the name of a method or attribute of the environments.
        :param args: the method's arguments.
        :param kwargs: the method's keyword arguments.
        :raises gymnasium.error.AlreadyPendingCallError: another call is pending.
        :raises gymnasium.error.ClosedEnvironmentError: the environments are closed.
        """
        self._begin("call")
        self._set_pending("call", (name, args, kwargs))

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Makes the call that :meth:`call_async` stored.

        :param timeout: in seconds; None waits without a limit.
        :return: the same as ``call``.
        :raises gymnasium.error.NoAsyncCallError: :meth:`call_async` was not called before.
        :raises multiprocessing.TimeoutError: the environments did not answer in time.
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

    def _set_pending(self, what: str, request: object) -> None:
        own = self.unwrapped
        own._pending_request, own._pending = request, what

    def _end(self, what: str) -> Any:
        """Ends the pending call ``what`` and returns its arguments."""
        own = self.unwrapped
        if own._pending != what:
            self._idle(())
            raise NothingPendingError(f"Calling `{what}_wait` without any prior call to `{what}_async`.", what)
        own._may_discard = True  # if this is interrupted
        request, own._pending = own._pending_request, None
        return request

    def _await_steps(self, timeout: float | None) -> None:
        """Waits until all environments have answered; without a ``timeout``, the caller's next call waits."""
        if timeout is None:
            return
        try:
            is_ready = self._backend.ready(self.num_envs, timeout)
        except Exception:
            self.unwrapped._mark_lost()
            self._abandon(self._all)
            raise
        if not is_ready:
            self._abandon(self._all)
            raise multiprocessing.TimeoutError(f"The call to `step_wait` has timed out after {timeout} second(s).")
