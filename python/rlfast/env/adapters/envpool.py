"""An adapter for EnvPool, whose environments run in C++ threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.adapters.base import Wrapped
from rlfast.env.backends.base import IsAllEnvs, Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.backends.rows import joined, take

Ids = NDArray[np.int64]

_KEYS = ["env_id", "players.env_id", "action"]
_NOT_INFOS = ("info:env_id", "info:players.env_id")


def is_envpool(env: object) -> bool:
    """Whether ``env`` was made by EnvPool; this does not import EnvPool."""
    return all(hasattr(env, name) for name in ("_recv", "_send", "all_env_ids", "config"))


class EnvPoolBackend(Wrapped):
    """A backend over EnvPool that calls its C++ methods and avoids the conversions in its Python methods.

    EnvPool resets an environment in the step after the end of an episode (NEXT_STEP), and takes its seed when it is
    constructed. An asynchronous EnvPool returns results in groups of ``batch_size`` environments. If fewer environments
    are stepping, idle environments are reset to complete the group; they must be reset before their next step.

    :param env: a vector environment made with ``env_type="gymnasium"``.
    :raises ValueError: it was made with another ``env_type``, or its environments have several players.
    """

    def __init__(self, env: Any) -> None:
        config = env.config
        self.placement = f"envpool.{type(env).__name__}"
        if config.get("max_num_players", 1) != 1:
            raise ValueError(f"{self.placement} has several players in one environment, which is not supported")
        if not hasattr(env, "single_action_space") or "Gymnasium" not in type(env).__name__:
            raise ValueError(f'{self.placement}: make it with envpool.make(..., env_type="gymnasium")')
        name = config.get("task") or type(env).__name__.removesuffix("GymnasiumEnvPool")
        limit, threshold = config.get("max_episode_steps"), getattr(env.spec, "reward_threshold", None)
        spec = EnvSpec(name, max_episode_steps=limit, reward_threshold=threshold)
        super().__init__(env, int(config["num_envs"]), spec=spec)
        self.batch_size = int(config["batch_size"]) or self.num_envs
        self.autoreset_mode = AutoresetMode.NEXT_STEP
        if config.get("episodic_life"):
            self._warn(
                f"{self.placement} ends an episode at each lost life and reports it as terminated: its returns are "
                "those of single lives. infos['terminated'] says whether the game is over"
            )
        names = list(env._state_keys)
        self._at = {name: k for k, name in enumerate(names)}
        self._infos = [(name[5:], k) for name, k in self._at.items() if name[:5] == "info:" and name not in _NOT_INFOS]
        self._infos.append(("elapsed_step", self._at["elapsed_step"]))
        self._plain = env._action_keys == _KEYS and "obs" in self._at
        self._dtype = env._spec._action_spec[-1][0] if self._plain else None
        self._all = np.arange(self.num_envs)
        self._all.setflags(write=False)
        self._all32 = self._all.astype(np.int32)
        self._all_bytes = self._all32.tobytes()
        self._are_all = IsAllEnvs(self._all)
        self._ended = np.zeros(self.num_envs, dtype=bool)  # the next step only resets
        self._lost = np.zeros(self.num_envs, dtype=bool)  # reset to complete a group
        self._some_lost = False
        self._outstanding = 0  # the number of results to come, of steps and of resets
        self._log: list[Any] = []  # requests, as pairs with the environments, and results, as lists, in their order
        self._pending = np.zeros(self.num_envs, dtype=bool)  # a result of this environment is to come
        self._stepping = np.zeros(self.num_envs, dtype=bool)
        self._extra = np.zeros(self.num_envs, dtype=bool)  # the result to come is of a reset to complete a group

    def reset(self, ids: Ids, seeds: Sequence[int | None], options: dict[str, Any] | None) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`; seeds and options have no effect, and a warning is given.

        :raises RuntimeError: environments are stepping, and their results would be mixed with those of the reset.
        """
        if options or any(seed is not None for seed in seeds):
            self._warn(
                f"{self.placement} takes no options, and no seed when it is reset: "
                "give the seed to envpool.make(..., seed=seed)"
            )
        if self._stepping.any():
            raise RuntimeError(
                f"{self.placement} cannot reset environments while {np.flatnonzero(self._stepping).tolist()} are "
                "stepping: take their answers with recv() first"
            )
        self._ended[ids] = self._lost[ids] = False
        self._some_lost = bool(self._lost.any())
        self._ask_resets(ids)
        rows = self._receive(ids)
        while self._outstanding:
            rows = joined(rows, self._receive(ids))
        if not np.array_equal(rows.env_id, ids):
            newest = {i: k for k, i in enumerate(rows.env_id.tolist())}  # some were reset twice
            rows = take(rows, np.array([newest[i] for i in ids.tolist()]))
        return rows.obs, rows.info

    def _ask_resets(self, ids: Ids) -> None:
        self._ask(self.env._reset, (ids.astype(np.int32),), ids)
        self._outstanding += len(ids)
        self._pending[ids] = True

    def _ask(self, function: Callable[..., Any], arguments: tuple[Any, ...], ids: Ids) -> None:
        """Calls a method of EnvPool and notes that it was called; Ctrl-C cannot come in between."""
        self._log.extend(zip(starmap(function, [arguments]), [ids], strict=True))

    def drop(self) -> None:
        """As :meth:`Backend.drop`. EnvPool cannot cancel anything, so this waits for all results."""
        pending = np.zeros(self.num_envs, dtype=np.int64)
        for entry in self._log:
            if type(entry) is tuple:
                np.add.at(pending, entry[1], 1)
            else:
                np.subtract.at(pending, entry[self._at["info:env_id"]], 1)
        self._pending, self._outstanding = pending > 0, int(pending.sum())
        self._log = [(None, np.repeat(self._all, pending))]
        self._stepping.fill(False)
        while self._outstanding:
            self._receive()
        self._extra.fill(False)

    def send(self, actions: Tree, ids: Ids) -> None:
        """As :meth:`Backend.send`.

        :raises RuntimeError: one of the environments was reset to complete a group.
        """
        if self._some_lost and len(lost := ids[self._lost[ids]]):
            raise RuntimeError(
                f"environments {lost.tolist()} were reset to complete a group of {self.batch_size}: "
                "call reset() for them first"
            )
        is_all = self._are_all(ids)
        numbers = self._all32 if is_all else ids.astype(np.int32)
        if self._plain:
            given = [numbers, numbers, np.ascontiguousarray(actions, dtype=self._dtype)]
            self._ask(self.env._send, (given,), ids)
        else:
            self._ask(self.env.send, (actions, numbers), ids)
        which = slice(None) if is_all else ids
        self._outstanding += len(ids)
        self._pending[which] = self._stepping[which] = True

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:  # noqa: ARG002
        """As :meth:`Backend.recv`, in groups of ``batch_size``; EnvPool does not support a timeout."""
        rows = self._receive()
        while len(rows.env_id) < min_ready:
            rows = joined(rows, self._receive()) if len(rows.env_id) else self._receive()
        return rows

    def _receive(self, fresh: Ids | None = None) -> Rows:
        """Receives the next group of results.

        :param fresh: environments that have just been reset, and may be reset again to complete the group.
        :return: the results, without those of environments that were reset to complete a group.
        """
        if self._outstanding < self.batch_size < self.num_envs:
            own = np.zeros(self.num_envs, dtype=bool)
            own[[] if fresh is None else fresh] = True
            idle = np.flatnonzero(~self._pending)
            spare = own[idle] | self._lost[idle]  # another reset loses no episode of these
            idle = idle[np.argsort(~spare, kind="stable")][: self.batch_size - self._outstanding]
            others = idle[~own[idle]]
            self._ended[idle] = False
            self._extra[others] = self._lost[others] = True
            self._some_lost = self._some_lost or len(others) > 0
            self._ask_resets(idle)
        self._log.extend(starmap(self.env._recv, [()]))
        rows = self._rows(self._log[-1])
        ids = rows.env_id
        self._outstanding -= len(ids)
        if ids is self._all:
            self._pending.fill(False)
            self._stepping.fill(False)
            self._log = []
            return rows
        self._pending[ids] = self._stepping[ids] = False
        self._log = [(None, np.flatnonzero(self._pending))]
        if np.count_nonzero(extra := self._extra[ids]):
            self._extra[ids] = False
            rows = take(rows, np.flatnonzero(~extra))
        return rows

    def _rows(self, state: list[NDArray[Any]]) -> Rows:
        at = self._at
        ids = state[at["info:env_id"]]
        ids = self._all if ids.tobytes() == self._all_bytes else ids.astype(np.int64)
        done, truncated = state[at["done"]], state[at["trunc"]]
        if self._plain:
            obs: Tree = state[at["obs"]].astype(self.single_observation_space.dtype, copy=False)
        else:
            obs = self.env._to(state, False, True)[0]
        rows = Rows(
            ids,
            obs,
            obs,
            state[at["reward"]].astype(np.float64),
            done > truncated,
            truncated,
            Info(len(ids), columns={name: state[k] for name, k in self._infos}),
        )
        self._mark(rows, done, state[at["elapsed_step"]])
        return rows

    def _mark(self, rows: Rows, done: NDArray[np.bool_], elapsed: NDArray[np.int32]) -> None:
        """Marks rows in which an environment only reset as no valid transitions."""
        ids = rows.env_id
        is_all = ids is self._all
        was = self._ended if is_all else self._ended[ids]
        if np.count_nonzero(was):
            rows.valid = ~was
            done = done & ~was
        if np.count_nonzero(elapsed) < len(ids):
            unmarked = (elapsed == 0) & ~was & self._stepping[ids]
            if np.count_nonzero(unmarked):
                self._warn(
                    f"{self.placement} began a new episode after a step that was neither terminated nor truncated: "
                    "the episode counts as truncated one step earlier"
                )
                rows.valid = ~(was | unmarked)
                rows.truncated = rows.truncated | unmarked
        if is_all:
            self._ended = done
        else:
            self._ended[ids] = done
