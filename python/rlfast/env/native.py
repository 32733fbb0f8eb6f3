"""Environments written in Rust, stepped together without the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast._core import NativeEnvs, SchemaMismatch, native_envs
from rlfast.env.adapters.base import WarnOnce
from rlfast.env.backends.base import Backend, IsAllEnvs, Rows
from rlfast.env.backends.rows import joined
from rlfast.env.info import Info
from rlfast.env.specs import native_spec
from rlfast.env.vector import gymnasium_protocol
from rlfast.env.vector.actions import converter
from rlfast.env.vector.arguments import as_autoreset_mode
from rlfast.env.vector.base import BaseVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gymnasium.envs.registration import EnvSpec
    from numpy.typing import NDArray

    from rlfast.env.backends.base import Tree
    from rlfast.env.vector.arguments import Ids, VectorStep

    Told = NDArray[np.float64] | None
    """Infos, one row for each environment; None where there are none."""
    Events = tuple[NDArray[np.int64], NDArray[Any] | None, Told] | None
    """Rows that were reset, and, if within the step that ended their episodes, what all observed before that, and the
    final infos of these rows."""
    Answer = tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Told, Events]


def ids() -> list[str]:
    """The ids of the environments that there are in Rust.

    >>> "CartPole-v1" in ids()
    True
    """
    return [id for id, _ in native_envs()]


def is_native(id: str) -> bool:
    """Whether there is a :class:`NativeVectorEnv` of this id.

    >>> is_native("CartPole-v1"), is_native("Humanoid-v5")
    (True, False)
    """
    return id in ids()


class NativeVectorEnv(BaseVectorEnv):
    """``num_envs`` environments in Rust, which reset and step as Gymnasium's of the same id do: with the same seed and
    actions, episodes are the same. Every environment has a random stream of its own, so nothing depends on the number
    of threads, which share the work only where that pays.

    :param id: as in Gymnasium's registry, one of :func:`ids`, or a registration of one. Where a script has registered a
        class of its own under the id, the environments are Gymnasium's none the less; :func:`rlfast.make_vec` asks.
    :param num_envs: how many.
    :param autoreset_mode: a :class:`gymnasium.vector.AutoresetMode` or its name; None for Tianshou's protocol, see
        :class:`BaseVectorEnv`. Default: NEXT_STEP.
    :param max_episode_steps: steps after which episodes are truncated. None (default): as many as the id is registered
        with; -1: never.
    :param kwargs: what Gymnasium's environment of this id takes, apart from ``render_mode``.
    :raises ValueError: there is no such environment, or an argument has a value that it cannot have.
    :raises TypeError: the environment takes no such argument.

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
        # A subclass that overrides one of these sees every step.
        self._is_own = all(
            getattr(type(self), name) is getattr(NativeVectorEnv, name) for name in ("send", "recv", "_take")
        )
        self._whole_step: Callable[[Any], Answer] | None = None  # steps all at once, while nothing stands in the way
        self._allow_whole_steps()

    def _allow_whole_steps(self) -> None:
        if self.autoreset_mode is not None:
            self._whole_step = self._backend.envs.step

    def step(self, action: Any, id: Ids | None = None) -> VectorStep:
        """As :meth:`BaseVectorEnv.step`."""
        if self._whole_step is None or id is not None:
            return super().step(action, id)
        try:
            answer = self._whole_step(action)
        except SchemaMismatch:
            answer = self._whole_step(self._backend.as_actions(action, self._all))
        obs, rew, terminated, truncated, told, events = answer
        if told is None and (events is None or events[1] is None):
            self._last_obs = self._backend.as_observations(obs)
            return self._last_obs, rew, terminated, truncated, {}
        return gymnasium_protocol.step_result(self, self._backend.rows(self._all, answer))

    def send(self, actions: Any, id: Ids | None = None) -> None:
        """As :meth:`BaseVectorEnv.send`; the step is over when it returns."""
        ids = self._idle(id)
        self._backend.send(actions, ids)
        self._mark_stepping(ids)
        self._whole_step = None

    def exchange(self, actions: Any, id: Ids | None = None) -> Rows:
        """As :meth:`BaseVectorEnv.exchange`."""
        if id is not None or self._steps or self.closed or not self._is_own:
            return super().exchange(actions, id)
        return self._backend.exchange(actions, self._all)

    def _take(self, min_ready: int, timeout: float | None) -> Rows:
        rows = self._backend.recv(min_ready, timeout)
        self._mark_answered(rows.env_id)
        self._allow_whole_steps()
        return rows

    def close(self, **kwargs: Any) -> None:
        """As :meth:`BaseVectorEnv.close`."""
        self._whole_step = None
        super().close(**kwargs)


class NativeBackend(Backend):
    """Runs environments in Rust; for the parameters see :class:`NativeVectorEnv`."""

    placement = "native"

    def __init__(
        self,
        id: str | EnvSpec,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        name = id if isinstance(id, str) else id.id
        self.spec = spec = native_spec(id, max_episode_steps, kwargs)
        if spec is not None:
            max_episode_steps = -1 if spec.max_episode_steps is None else spec.max_episode_steps
            kwargs = spec.kwargs
        self.envs = NativeEnvs(name, num_envs, autoreset_mode.value, max_episode_steps, kwargs)
        self.num_envs, self._id = num_envs, name
        self.single_observation_space = _space(self.envs.observation_space)
        self.single_action_space = _space(self.envs.action_space)
        self.autoreset_mode = autoreset_mode
        self.metadata = {"render_modes": []}
        self.render_mode = None
        self._is_tuple = isinstance(self.single_observation_space, gym.spaces.Tuple)
        self._convert = converter(self.single_action_space)
        self._fields = _fields(self.envs.info_fields)
        self._are_all = IsAllEnvs(np.arange(num_envs))
        self._never_seeded = np.ones(num_envs, dtype=bool)
        self._fresh_seeds: list[int] = []
        self._answers: list[Rows] = []
        self._nothing = Info(num_envs)
        self._warn = WarnOnce()

    def reset(
        self, ids: NDArray[np.int64], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`. Environments that never had a seed draw one from NumPy's global generator.

        :param options: for these starts alone, the numbers that Gymnasium's environment takes: ``low`` and ``high``, or
            Pendulum's ``x_init`` and ``y_init``. Only those of classic control take any.
            Others are ignored, as Gymnasium's environments do, with a warning.
        :raises ValueError: options between which nothing can be drawn; nothing was reset.
        """
        obs, told = self.envs.reset(ids, self._seeds(ids, seeds), self._numbers(options) if options else None)
        self._never_seeded[ids] = False
        return self.as_observations(obs), self._info(told, len(ids))

    def _numbers(self, options: dict[str, Any]) -> list[float]:
        """Values of all options there are."""
        known = self.envs.reset_options
        if others := options.keys() - {name for name, _ in known}:
            takes = f"no options but {' and '.join(name for name, _ in known)}" if known else "no options"
            self._warn(f"{self._id} takes {takes}: {sorted(others, key=str)} have no effect")
        try:
            return [float(options.get(name, default)) for name, default in known]
        except (TypeError, ValueError) as error:
            raise ValueError(f"the options of {self._id} are numbers, got {options}") from error

    def _seeds(self, ids: NDArray[np.int64], seeds: Sequence[int | None]) -> list[int | None]:
        if not (self._never_seeded[ids] & [seed is None for seed in seeds]).any():
            return list(seeds)
        if not self._fresh_seeds:
            root = np.random.SeedSequence(np.random.randint(2**63 - 1, dtype=np.int64).item())
            self._fresh_seeds = root.generate_state(self.num_envs, np.uint64).tolist()
        return [
            self._fresh_seeds[i] if seed is None and self._never_seeded[i] else seed
            for i, seed in zip(ids.tolist(), seeds, strict=True)
        ]

    def send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.send`: steps at once."""
        self._answers.append(self.exchange(actions, ids))

    def exchange(self, actions: Tree, ids: NDArray[np.int64]) -> Rows:
        """Steps ``ids``: what they answer."""
        some = None if self._are_all(ids) else ids
        try:
            answer = self.envs.step(actions, some)
        except SchemaMismatch:
            answer = self.envs.step(self.as_actions(actions, ids), some)
        return self.rows(ids, answer)

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:  # noqa: ARG002
        """As :meth:`Backend.recv`: everything is there."""
        rows = self._answers[0]
        for other in self._answers[1:]:
            rows = joined(rows, other)
        self._answers.clear()
        return rows

    def as_actions(self, actions: Any, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The array that :class:`NativeEnvs` takes."""
        array = self._convert(actions, ids)
        with np.errstate(over="ignore"):  # to infinity, which the environments refuse
            return np.ascontiguousarray(array, dtype=self.single_action_space.dtype)

    def as_observations(self, obs: NDArray[Any]) -> Tree:
        """What :class:`NativeEnvs` gives, nested as the space is."""
        return tuple(obs.T) if self._is_tuple else obs

    def rows(self, ids: NDArray[np.int64], answer: Answer) -> Rows:
        """What came of a step of ``ids``."""
        obs, rew, terminated, truncated, told, events = answer
        shown = obs_next = self.as_observations(obs)
        valid = final_info = None
        if events is not None:
            at, final_obs, final_told = events
            if final_obs is None:
                valid = np.ones(len(ids), dtype=bool)
                valid[at] = False
            else:
                obs_next = self.as_observations(final_obs)
                final_info = self._info(final_told, len(ids), at)
        info = self._info(told, len(ids))
        return Rows(ids, shown, obs_next, rew, terminated, truncated, info, final_info, valid)

    def _info(self, told: Told, rows: int, at: NDArray[np.int64] | None = None) -> Info:
        """The infos of ``rows`` environments, of which the rows ``at`` have any (None: all)."""
        if told is None:
            return self._nothing if rows == self.num_envs else Info(rows)
        columns: dict[str, Any] = {}
        for name, dtype, shape, place in self._fields:
            values = told[:, place].reshape(-1, *shape)
            if at is None:
                columns[name] = values.astype(dtype)
            else:
                columns[name], columns[f"_{name}"] = np.zeros((rows, *shape), dtype), np.zeros(rows, dtype=bool)
                columns[name][at], columns[f"_{name}"][at] = values, True
        return Info(rows, columns=columns)

    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """As :meth:`Backend.get_attr`: what the environments have in common."""
        known = {
            "action_space": self.single_action_space,
            "metadata": self.metadata,
            "observation_space": self.single_observation_space,
            "render_mode": self.render_mode,
            "spec": self.spec,
        }
        if name not in known:
            raise AttributeError(f"native environments have no attribute {name!r}, only {', '.join(known)}")
        return [known[name]] * len(ids)

    def set_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:  # noqa: ARG002
        """Raises AttributeError: there is none to set."""
        raise AttributeError(f"native environments have no attribute {name!r} to set")

    def render(self, ids: NDArray[np.int64], **kwargs: Any) -> list[Any]:
        """Raises NotImplementedError: there is nothing to see."""
        raise NotImplementedError("native environments draw nothing: use gymnasium.make(id, render_mode=...)")

    def close(self) -> None:
        """As :meth:`Backend.close`."""
        self._answers = []

    def get_state(self, ids: NDArray[np.int64]) -> list[bytes]:
        """As :meth:`Backend.get_state`."""
        return [self.envs.get_state(i) for i in ids.tolist()]

    def set_state(self, states: Sequence[bytes], ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.set_state`.

        :raises ValueError: an environment made like these cannot be in such a state; nothing has changed.
        """
        if len(states) != len(ids):
            raise ValueError(f"got the states of {len(states)} environments for {len(ids)}")
        before = self.get_state(ids)
        try:
            for i, state in zip(ids.tolist(), states, strict=True):
                self.envs.set_state(i, state)
        except BaseException:
            for i, state in zip(ids.tolist(), before, strict=True):
                self.envs.set_state(i, state)
            raise
        self._never_seeded[ids] = False


def _space(described: tuple[Any, ...]) -> gym.Space[Any]:
    """The space that :class:`NativeEnvs` describes."""
    kind, *rest = described
    if kind == "discrete":
        n, start = rest
        return gym.spaces.Discrete(n, start=start)
    if kind == "multi_discrete":
        return gym.spaces.MultiDiscrete(*rest)
    if kind == "tuple":
        return gym.spaces.Tuple([_space(part) for part in rest[0]])
    low, high, shape, dtype = rest
    low, high = (np.array(bound).reshape(shape).astype(dtype) for bound in (low, high))
    space: gym.Space[Any] = gym.spaces.Box(low, high, dtype=np.dtype(dtype))
    return space


def _fields(described: list[tuple[str, str, list[int]]]) -> list[tuple[str, np.dtype[Any], list[int], slice]]:
    """Name, dtype and shape of each entry of an info, and where it stands among the numbers."""
    fields, start = [], 0
    for name, dtype, shape in described:
        stop = start + int(np.prod(shape, dtype=int))
        fields.append((name, np.dtype(dtype), shape, slice(start, stop)))
        start = stop
    return fields
