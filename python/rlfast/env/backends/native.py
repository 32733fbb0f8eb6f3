"""The backend for environments written in Rust."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast._core import NativeEnvs, SchemaMismatch
from rlfast.env.adapters.base import WarnOnce
from rlfast.env.backends.base import Backend, IsAllEnvs, Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.backends.rows import joined
from rlfast.env.specs import native_spec
from rlfast.env.vector.actions import converter
from rlfast.utils.runtime.seeding import draw_seed

InfoRows = NDArray[np.float64] | None
"""The infos as numbers, one row for each environment; None for environments without infos."""
Events = tuple[NDArray[np.int64], NDArray[Any] | None, InfoRows] | None
"""The rows in which an environment was reset. If it was reset within the step that ended its episode (SAME_STEP),
also the observations of all rows before the resets, and the final infos of these rows; otherwise two Nones."""
StepOutput = tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], InfoRows, Events]


class NativeBackend(Backend):
    """A backend for environments written in Rust; for the parameters see :class:`NativeVectorEnv`."""

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
        described = json.loads(self.envs.description)
        self.single_observation_space = _space(described["observation"])
        self.single_action_space = _space(described["action"])
        self.info_fields = _fields(described["infos"])
        self._options: list[tuple[str, float]] = described["options"]
        self.autoreset_mode = autoreset_mode
        self.metadata = {"render_modes": []}
        self.render_mode = None
        self._is_tuple = isinstance(self.single_observation_space, gym.spaces.Tuple)
        self._convert = converter(self.single_action_space)
        self._are_all = IsAllEnvs(np.arange(num_envs))
        self._never_seeded = np.ones(num_envs, dtype=bool)
        self._fresh_seeds: list[int] = []
        self._answers: list[Rows] = []
        self._nothing = Info(num_envs)
        self._warn = WarnOnce()

    def reset(
        self, ids: NDArray[np.int64], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`. An environment that never had a seed draws one from NumPy's global generator.

        :param options: the bounds of the first state's distribution, for this reset only: ``low`` and ``high``, or
            ``x_init`` and ``y_init`` of Pendulum. Only the classic control environments have such options. Unknown
            options are ignored with a warning; Gymnasium's environments ignore them, too.
        :raises ValueError: a bound is not a number, or the bounds are invalid; no environment was reset.
        """
        obs, infos = self.envs.reset(ids, self._seeds(ids, seeds), self._numbers(options) if options else None)
        self._never_seeded[ids] = False
        return self.as_observations(obs), self._info(infos, len(ids))

    def _numbers(self, options: dict[str, Any]) -> list[float]:
        """Returns the values of all options that the environments have, with defaults for those not given."""
        known = self._options
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
            root = np.random.SeedSequence(draw_seed())
            self._fresh_seeds = root.generate_state(self.num_envs, np.uint64).tolist()
        return [
            self._fresh_seeds[i] if seed is None and self._never_seeded[i] else seed
            for i, seed in zip(ids.tolist(), seeds, strict=True)
        ]

    def send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.send`; the step is complete when this method returns."""
        self._answers.append(self.exchange(actions, ids))

    def exchange(self, actions: Tree, ids: NDArray[np.int64]) -> Rows:
        """Steps the environments ``ids`` and returns their results."""
        some = None if self._are_all(ids) else ids
        try:
            answer = self.envs.step(actions, some)
        except SchemaMismatch:
            answer = self.envs.step(self.as_actions(actions, ids), some)
        return self.rows(ids, answer)

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:  # noqa: ARG002
        """As :meth:`Backend.recv`; all results are available, so it never waits."""
        rows = self._answers[0]
        for other in self._answers[1:]:
            rows = joined(rows, other)
        self._answers.clear()
        return rows

    def drop(self) -> None:
        """As :meth:`Backend.drop`."""
        self._answers = []

    def as_actions(self, actions: object, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Converts actions into the array that :class:`NativeEnvs` accepts."""
        array = self._convert(actions, ids)
        with np.errstate(over="ignore"):  # overflow gives infinity, for which the environments raise an error
            return np.ascontiguousarray(array, dtype=self.single_action_space.dtype)

    def as_observations(self, obs: NDArray[Any]) -> Tree:
        """Converts the observations of :class:`NativeEnvs` into the nesting of the observation space."""
        return tuple(obs.T) if self._is_tuple else obs

    def rows(self, ids: NDArray[np.int64], answer: StepOutput) -> Rows:
        """Converts the output of a step of the environments ``ids`` into rows."""
        obs, rew, terminated, truncated, infos, events = answer
        shown = obs_next = self.as_observations(obs)
        valid = final_info = None
        if events is not None:
            at, final_obs, final_infos = events
            if final_obs is None:
                valid = np.ones(len(ids), dtype=bool)
                valid[at] = False
            else:
                obs_next = self.as_observations(final_obs)
                final_info = self._info(final_infos, len(ids), at)
        info = self._info(infos, len(ids))
        return Rows(ids, shown, obs_next, rew, terminated, truncated, info, final_info, valid)

    def _info(self, numbers: InfoRows, rows: int, at: NDArray[np.int64] | None = None) -> Info:
        """Converts infos from numbers.

        :param numbers: the infos, one row for each entry of ``at``.
        :param rows: the number of environments.
        :param at: the rows that have an info; None for all.
        """
        if numbers is None:
            return self._nothing if rows == self.num_envs else Info(rows)
        columns: dict[str, Any] = {}
        for name, dtype, shape, place in self.info_fields:
            values = numbers[:, place].reshape(-1, *shape)
            if at is None:
                columns[name] = values.astype(dtype)
            else:
                columns[name], columns[f"_{name}"] = np.zeros((rows, *shape), dtype), np.zeros(rows, dtype=bool)
                columns[name][at], columns[f"_{name}"][at] = values, True
        return Info(rows, columns=columns)

    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """As :meth:`Backend.get_attr`; only spaces, metadata, render mode and spec are available."""
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
        """Raises an error, because native environments have no attributes that can be set.

        :raises AttributeError: always.
        """
        raise AttributeError(f"native environments have no attribute {name!r} to set")

    def render(self, ids: NDArray[np.int64], **kwargs: Any) -> list[Any]:
        """Raises an error, because native environments cannot render.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("native environments do not render: use gymnasium.make(id, render_mode=...)")

    def close(self) -> None:
        """As :meth:`Backend.close`."""
        self._answers = []

    def get_state(self, ids: NDArray[np.int64]) -> list[bytes]:
        """As :meth:`Backend.get_state`."""
        return [self.envs.get_state(i) for i in ids.tolist()]

    def set_state(self, states: Sequence[bytes], ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.set_state`.

        :raises ValueError: a state does not belong to such an environment, or the number of states is not the number of
            environments; nothing has changed.
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


def _space(described: list[Any]) -> gym.Space[Any]:
    """Makes the Gymnasium space from the description that :class:`NativeEnvs` gives."""
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


def _fields(described: list[Any]) -> list[tuple[str, np.dtype[Any], list[int], slice]]:
    """Returns the name, dtype and shape of each entry of an info, and its slice of the row of numbers."""
    fields, start = [], 0
    for name, dtype, shape in described:
        stop = start + int(np.prod(shape, dtype=int))
        fields.append((name, np.dtype(dtype), shape, slice(start, stop)))
        start = stop
    return fields
