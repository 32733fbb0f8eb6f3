"""Vector environments written in Rust, which step without the Python interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from rlfast._core import SchemaMismatch, native_envs
from rlfast.env.backends.base import Rows
from rlfast.env.backends.native import NativeBackend, StepOutput
from rlfast.env.vector.arguments import Ids, VectorStep, as_autoreset_mode
from rlfast.env.vector.base import BaseVectorEnv


def ids() -> list[str]:
    """Returns the ids of the environments that are available in Rust.

    >>> "CartPole-v1" in ids()
    True
    """
    return [id for id, _ in native_envs()]


def is_native(id: str) -> bool:
    """Whether an environment is available in Rust, so that :class:`NativeVectorEnv` can be made of it.

    :param id: the environment's id.

    >>> is_native("CartPole-v1"), is_native("Humanoid-v5")
    (True, False)
    """
    return id in ids()


class NativeVectorEnv(BaseVectorEnv):
    """A vector environment whose environments are written in Rust and behave like Gymnasium's of the same id.

    With the same seed and the same actions, episodes are the same as Gymnasium's. Each environment has its own random
    stream, so results do not depend on the number of threads. Threads share the work only if that is faster.

    :param id: one of :func:`ids`, or its registration. If a script has registered a class of its own under the id, this
        class is ignored and the environments are still Gymnasium's; :func:`rlfast.make_vec` respects it.
    :param num_envs: the number of environments.
    :param autoreset_mode: a :class:`gymnasium.vector.AutoresetMode` or its name; None for the protocol without one, see
        :class:`BaseVectorEnv`. Default: NEXT_STEP.
    :param max_episode_steps: the number of steps after which episodes are truncated; None (default) for the limit in
        the registration, -1 for no limit.
    :param kwargs: the arguments of Gymnasium's environment of this id, except ``render_mode``.
    :raises ValueError: there is no such environment in Rust, or an argument has an invalid value.
    :raises TypeError: the environment does not accept one of the arguments.

    >>> envs = NativeVectorEnv("CartPole-v1", 64)
    >>> obs, info = envs.reset(seed=0)
    >>> obs, rew, terminated, truncated, info = envs.step(envs.action_space.sample())
    >>> obs.shape, obs.dtype, rew.sum()
    ((64, 4), dtype('float32'), np.float64(64.0))
    >>> envs
    NativeVectorEnv(CartPole-v1, num_envs=64, native, NEXT_STEP)
    """

    _backend: NativeBackend

    def __init__(
        self,
        id: str | EnvSpec,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode | str | None = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        mode = as_autoreset_mode(autoreset_mode)
        backend = NativeBackend(
            id, num_envs, autoreset_mode=mode or AutoresetMode.DISABLED, max_episode_steps=max_episode_steps, **kwargs
        )
        self._attach(backend, autoreset_mode=mode)
        # exchange() skips these methods, unless a subclass overrides one of them.
        self._is_own = all(
            getattr(type(self), name) is getattr(NativeVectorEnv, name) for name in ("send", "recv", "_take")
        )
        self._whole_step: Callable[[Any], StepOutput] | None = None  # set while step() may call it directly
        self._allow_whole_steps()

    def _allow_whole_steps(self) -> None:
        if self.autoreset_mode is not None:
            self._whole_step = self._backend.envs.step

    def step(self, action: object, id: Ids | None = None) -> VectorStep:
        """As :meth:`BaseVectorEnv.step`."""
        if self._whole_step is None or id is not None:
            return super().step(action, id)
        shown, self._last_obs = self._last_obs, None  # until the new ones are known
        try:
            try:
                answer = self._whole_step(action)
            except SchemaMismatch:
                answer = self._whole_step(self._backend.as_actions(action, self._all))
        except Exception:  # no environment was stepped
            self._last_obs = shown
            raise
        obs, rew, terminated, truncated, infos, events = answer
        if infos is None and (events is None or events[1] is None):
            self._last_obs = self._backend.as_observations(obs)
            return self._last_obs, rew, terminated, truncated, {}
        return self._step_result(self._backend.rows(self._all, answer))

    def send(self, actions: object, id: Ids | None = None) -> None:
        """As :meth:`BaseVectorEnv.send`; the step is complete when this method returns."""
        ids = self._idle(id)
        self._whole_step = None  # until all results are received
        self._send(actions, ids)

    def exchange(self, actions: object, id: Ids | None = None) -> Rows:
        """As :meth:`BaseVectorEnv.exchange`."""
        if id is not None or self._steps or self._at_risk is not None or self.closed or not self._is_own:
            return super().exchange(actions, id)
        return self._backend.exchange(actions, self._all)

    def _take(self, min_ready: int, timeout: float | None) -> Rows:
        rows = super()._take(min_ready, timeout)
        self._allow_whole_steps()
        return rows

    def _settle(self) -> None:
        super()._settle()
        self._allow_whole_steps()

    def close(self, **kwargs: Any) -> None:
        """As :meth:`BaseVectorEnv.close`."""
        self._whole_step = None
        super().close(**kwargs)
