"""Stacks of frames in vector environments, in which each frame is stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast._core import FrameRing
from rlfast.env.backends.base import Backend, IsAllEnvs, Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.subproc import SubprocVectorEnv
from rlfast.env.vector.arguments import Ids, VectorStep
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.dummy import DummyVectorEnv
from rlfast.utils import tree


class StackedFrames:
    """A backend that stacks the newest frames of environments that show one frame, ``(1, *shape)``.

    The first frame of an episode fills its stack. Arrays of stacks are read-only views of memory that is never written
    again. A replay buffer recognises their frames by number, so it reads only new ones. All that is not about
    observations is the backend's with the environments.

    :param frames: the backend with the environments.
    :param stack: number of frames in an observation.
    """

    def __init__(self, frames: Backend, stack: int) -> None:
        self._frames = frames
        one = frames.single_observation_space
        self._space = gym.spaces.Box(one.low.min(), one.high.max(), (stack, *one.shape[1:]), one.dtype)
        self.single_observation_space, self.observation_spaces = self._space, [self._space] * frames.num_envs
        self._ring = FrameRing(frames.num_envs, stack, one.shape[1:], one.dtype)
        self._are_all = IsAllEnvs(np.arange(frames.num_envs))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_frames"], name)

    @property
    def lost(self) -> Sequence[int]:
        """As :attr:`Backend.lost`."""
        return self._frames.lost

    @lost.setter
    def lost(self, ids: Sequence[int]) -> None:
        self._frames.lost = ids

    def _push(
        self, frames: NDArray[Any], ids: NDArray[np.int64], fresh: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        return self._ring.push(frames[:, 0], None if self._are_all(ids) else ids, fresh)

    def reset(self, ids: NDArray[np.int64], *arguments: Any, **more: Any) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`."""
        frames, info = self._frames.reset(ids, *arguments, **more)
        return self._push(frames, ids, np.ones(len(ids), np.bool_)), info

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:
        """As :meth:`Backend.recv`."""
        rows = self._frames.recv(min_ready, timeout)
        ids = rows.env_id
        obs = last = self._push(rows.obs_next, ids, None if rows.valid is None else ~rows.valid)
        if rows.obs is not rows.obs_next and len(over := np.flatnonzero(rows.done)):
            self._push(rows.obs[over], ids[over], np.ones(len(over), np.bool_))
            obs = self._ring.stacks(None if self._are_all(ids) else ids)
        return replace(rows, obs=obs, obs_next=last)

    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """As :meth:`Backend.get_attr`."""
        return [self._space] * len(ids) if name == "observation_space" else self._frames.get_attr(name, ids)

    def get_state(self, ids: NDArray[np.int64]) -> list[Any]:
        """As :meth:`Backend.get_state`."""
        states, stacks = self._frames.get_state(ids), self._ring.stacks(ids)
        return [{"env": state, "stack": stack} for state, stack in zip(states, stacks, strict=True)]

    def set_state(self, states: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.set_state`."""
        self._frames.set_state([state["env"] for state in states], ids)
        self._ring.restore(np.stack([state["stack"] for state in states]), ids)


class StackingEnvs(BaseVectorEnv):
    """A mix-in of vector environments that stacks the frames of their environments.

    ``recv`` and ``reset_rows``, which collectors call, give read-only views of the frames. ``step`` and ``reset`` give
    copies that belong to the caller.

    :param arguments: those of the vector environment.
    :param frame_stack: number of frames in an observation; 1 leaves observations as they are.
    :param options: keyword arguments of the vector environment.
    """

    def __init__(self, *arguments: Any, frame_stack: int, **options: Any) -> None:
        self._frame_stack = frame_stack
        super().__init__(*arguments, **options)

    def _attach(self, backend: Backend, *arguments: Any, **options: Any) -> None:
        stacked: Any = StackedFrames(backend, self._frame_stack) if self._frame_stack > 1 else backend
        super()._attach(stacked, *arguments, **options)

    def step(self, action: object, id: Ids | None = None) -> VectorStep:
        """As :meth:`BaseVectorEnv.step`.

        :param action: one action for each environment.
        :param id: the environments; None for all.
        """
        obs, *rest = super().step(action, id)
        return tree.writable(obs), *rest

    def reset(self, id: Ids | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """As :meth:`BaseVectorEnv.reset`.

        :param id: the environments; None for all.
        :param kwargs: seeds and options.
        """
        obs, info = super().reset(id, **kwargs)
        return tree.writable(obs), info


class StackingSubprocEnv(StackingEnvs, SubprocVectorEnv):
    """Environments in worker processes, whose frames are stacked in this process."""


class StackingDummyEnv(StackingEnvs, DummyVectorEnv):
    """Environments in this process, whose frames are stacked."""
