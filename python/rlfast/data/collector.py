"""Lets a policy act in environments, and puts what happens into a replay buffer."""

from __future__ import annotations

import time
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, Self

import gymnasium as gym
import numpy as np
import torch

from rlfast.data import _tree
from rlfast.data._goal import Episodes, Goal, Quotas, Steps
from rlfast.data.batch import Batch
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.cached import CachedReplayBuffer
from rlfast.data.buffer.manager import ReplayBufferManager
from rlfast.data.buffer.vector import VectorReplayBuffer
from rlfast.data.converter import to_numpy
from rlfast.data.stats import CollectStats
from rlfast.env import BaseVectorEnv, DummyVectorEnv
from rlfast.env.worker import stack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]


class ActingPolicyProtocol(Protocol):
    """The part of a policy that collecting needs (:class:`rlfast.policy.ActingPolicy`)."""

    def __call__(self, batch: Any, state: Any = None) -> Any:
        """Gives a batch with ``act`` and, where there are, ``state`` and ``policy``."""

    def exploration_noise(self, act: Any, batch: Any) -> Any:
        """The action with noise added."""

    def map_action(self, act: Any) -> Any:
        """From the policy's action space to the environment's."""

    def map_action_inverse(self, act: Any) -> Any:
        """The reverse of ``map_action``."""


class Collector:
    """Lets a policy act in a vector environment and stores every transition.

    In each vector step the policy sees the observations; its action (with exploration noise, if asked for) is stored
    as it is, and what ``policy.map_action`` makes of it goes to the environments. ``obs_next`` is what the
    environment answered, also where the episode ended: the first observation after a reset never takes its place.
    Between calls with ``n_step`` the episodes go on where they were. The first call resets the environments by itself.

    :param policy: acts; see :class:`rlfast.policy.ActingPolicy`.
    :param env: a vector environment; a single one is wrapped, with a warning.
    :param buffer: where transitions go; one ring for each environment. By default a vector buffer that remembers one
        transition of each. It is not reset.
    :param exploration_noise: whether ``policy.exploration_noise`` is applied to the actions.
    :raises TypeError: a plain buffer for several environments, or an environment of an unknown kind.
    :raises ValueError: the buffer has fewer rings than there are environments, or the environment is asynchronous.

    >>> import gymnasium as gym
    >>> from rlfast.data import Collector, VectorReplayBuffer
    >>> from rlfast.env import DummyVectorEnv
    >>> from rlfast.policy import RandomPolicy
    >>> envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    >>> policy = RandomPolicy(action_space=gym.spaces.Discrete(2))
    >>> collector = Collector(policy, envs, VectorReplayBuffer(total_size=100, buffer_num=2))
    >>> collector.collect(n_step=10).n_collected_steps, len(collector.buffer)
    (10, 10)
    >>> collector.evaluate(n_episode=4).returns.shape
    (4,)
    """

    def __init__(
        self,
        policy: ActingPolicyProtocol,
        env: gym.Env[Any, Any] | BaseVectorEnv,
        buffer: ReplayBuffer | None = None,
        exploration_noise: bool = False,
    ) -> None:
        self.env = _as_vector(env)
        self.env_num = len(self.env)
        self.policy = policy
        self.exploration_noise = exploration_noise
        self.buffer: ReplayBuffer = VectorReplayBuffer(self.env_num, self.env_num) if buffer is None else buffer
        _check_buffer(self.buffer, self.env_num)
        self._action_space = self.env.action_space
        self._stale = np.ones(self.env_num, dtype=bool)  # environments to be reset before they are stepped
        self._obs: Any = None
        self._infos: list[dict[str, Any]] = [{} for _ in range(self.env_num)]
        self._info: dict[str, Any] | None = None  # the same as columns, until an environment is reset
        self._state: Any = None  # the policy's hidden state
        self._is_closed = False
        self.reset_stat()

    # -- resetting ---------------------------------------------------------------------------------------------------

    def reset(
        self, reset_buffer: bool = True, reset_stats: bool = True, gym_reset_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Starts all over: new episodes, and, as asked, an empty buffer and counters at zero.

        :param gym_reset_kwargs: given to the environments' ``reset``.
        """
        if reset_buffer:
            self.reset_buffer()
        self.reset_env(gym_reset_kwargs)
        if reset_stats:
            self.reset_stat()

    def reset_stat(self) -> None:
        """Puts ``collect_step``, ``collect_episode`` and ``collect_time`` at zero."""
        self.collect_step, self.collect_episode, self.collect_time = 0, 0, 0.0

    def reset_buffer(self, keep_statistics: bool = False) -> None:
        """Empties the buffer.

        :param keep_statistics: whether running episodes keep their return and length so far.
        """
        self.buffer.reset(keep_statistics=keep_statistics)

    def reset_env(self, gym_reset_kwargs: dict[str, Any] | None = None) -> None:
        """Starts a new episode in every environment; in the buffer, those that were running count as truncated.

        :param gym_reset_kwargs: given to the environments' ``reset``.
        """
        self._reset(np.arange(self.env_num), gym_reset_kwargs or {})

    def close(self) -> None:
        """Closes the environments; the collector cannot be used any more."""
        if not self._is_closed:
            self._is_closed = True
            self.env.close()

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._is_closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- collecting --------------------------------------------------------------------------------------------------

    def collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        random: bool = False,
        render: float | None = None,
        no_grad: bool = True,
        reset_before_collect: bool = False,
        gym_reset_kwargs: dict[str, Any] | None = None,
        *,
        exact: bool = False,
    ) -> CollectStats:
        """Collects a number of steps or of episodes.

        Episodes count in the order in which they end, and each environment contributes; to estimate the mean return,
        use :meth:`evaluate`. After ``n_episode`` all environments start afresh.

        :param n_step: environment steps, over all environments. Where it is not a multiple of their number, a few more
            are taken, with a warning.
        :param n_episode: episodes.
        :param random: whether actions are drawn from the action spaces, without asking the policy.
        :param render: seconds to wait after rendering each step; None (default) does not render.
        :param no_grad: whether ``policy.forward`` runs without recording gradients.
        :param reset_before_collect: whether to start with new episodes.
        :param gym_reset_kwargs: given to the environments' ``reset``. A ``seed`` is for the resets at the start only.
        :param exact: whether the last of ``n_step`` steps only the environments that are needed.
        :raises TypeError: both or none of ``n_step`` and ``n_episode`` are given.
        :raises ValueError: it is not positive, or there is a seed and no environment to reset at the start.
        """
        goal: Goal
        if (n_step is None) == (n_episode is None):
            raise TypeError(f"give one of n_step and n_episode, got n_step={n_step} and n_episode={n_episode}")
        if n_step is not None:
            if _positive("n_step", n_step) % self.env_num and not exact:
                warnings.warn(
                    f"n_step={n_step} is not a multiple of the {self.env_num} environments: a few more are taken",
                    stacklevel=2,
                )
            goal = Steps(n_step, self.env_num, exact=exact)
        else:
            goal = Episodes(_positive("n_episode", n_episode), self.env_num)
        if reset_before_collect:
            self._stale[:] = True
        return self._run(goal, random=random, render=render, no_grad=no_grad, reset_kwargs=gym_reset_kwargs or {})

    def evaluate(
        self,
        n_episode: int,
        random: bool = False,
        render: float | None = None,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> CollectStats:
        """Plays ``n_episode`` new episodes, a fixed share in each environment, so that their mean return is unbiased.

        Exactly ``n_episode`` resets are made. Transitions go to the buffer, as in :meth:`collect`, and all environments
        start afresh afterwards.

        :param n_episode: episodes; where it is not a multiple of the environments, the first ones play one more.
        :param random: as in :meth:`collect`.
        :param render: as in :meth:`collect`.
        :param gym_reset_kwargs: as in :meth:`collect`.
        :raises ValueError: ``n_episode`` is not positive.
        """
        goal = Quotas(_positive("n_episode", n_episode), self.env_num)
        self._stale[:] = True
        return self._run(goal, random=random, render=render, no_grad=True, reset_kwargs=gym_reset_kwargs or {})

    def _run(
        self, goal: Goal, *, random: bool, render: float | None, no_grad: bool, reset_kwargs: dict[str, Any]
    ) -> CollectStats:
        if self._is_closed:
            raise RuntimeError("the collector is closed: make a new one")
        start = time.perf_counter()
        self._reset_stale(goal.ready, reset_kwargs)
        later_kwargs = {key: value for key, value in reset_kwargs.items() if key != "seed"}
        try:
            steps, returns, lens = self._until(
                goal, random=random, render=render, no_grad=no_grad, reset_kwargs=later_kwargs
            )
        except BaseException:  # a step may have been taken and not stored: what follows must not be joined to it
            self._stale[:] = True
            raise
        if goal.discards:
            self._stale[:] = True
        return self._report(steps, np.array(returns), np.array(lens, dtype=np.int64), time.perf_counter() - start)

    def _until(
        self, goal: Goal, *, random: bool, render: float | None, no_grad: bool, reset_kwargs: dict[str, Any]
    ) -> tuple[int, list[Any], list[int]]:
        """Steps until the goal is reached: the number of steps, and returns and lengths of the episodes that ended."""
        returns: list[Any] = []
        lens: list[int] = []
        steps = 0
        while not goal.reached:
            ready = goal.ready
            done, ep_return, ep_len = self._step(ready, random=random, no_grad=no_grad)
            steps += len(ready)
            if render is not None:
                self.env.render()
                time.sleep(render)
            ended = ready[done]
            if len(ended):
                returns.extend(ep_return[done])
                lens.extend(ep_len[done])
                self._stale[ended] = True
            goal.advance(ended)
            if len(ended) and len(again := np.intersect1d(ended, goal.ready, assume_unique=True)):
                self._reset(again, reset_kwargs)
        return steps, returns, lens

    def _report(self, steps: int, returns: NDArray[Any], lens: Ids, seconds: float) -> CollectStats:
        seconds = max(seconds, 1e-9)
        self.collect_step += steps
        self.collect_episode += len(lens)
        self.collect_time += seconds
        return CollectStats.with_autogenerated_stats(
            returns=returns,
            lens=lens,
            n_collected_episodes=len(lens),
            n_collected_steps=steps,
            collect_time=seconds,
            collect_speed=steps / seconds,
        )

    def _step(self, ready: Ids, *, random: bool, no_grad: bool) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[Any]]:
        """One step of the ``ready`` environments, stored: which of them ended, and then their returns and lengths."""
        where = None if len(ready) == self.env_num else ready  # all environments: no row needs to be picked
        obs = _tree.take(self._obs, where)
        if random:
            act = self.policy.map_action_inverse(stack([self._action_space[i].sample() for i in ready]))
            extra: dict[str, Any] = {}
        else:
            act, extra = self._act(obs, where, no_grad=no_grad)
        answer, rew, terminated, truncated, infos = self.env.step(self.policy.map_action(act), where)
        obs_next = _nested(answer)
        info = {"env_id": ready} if max(map(len, infos)) == 1 else _tree.columns(infos.tolist())
        transition = Batch(
            obs=obs,
            act=act,
            rew=rew,
            terminated=terminated,
            truncated=truncated,
            obs_next=obs_next,
            info=info,
            **extra,
        )
        _, ep_return, ep_len, _ = self.buffer.add(transition, buffer_ids=ready)
        self._obs = _tree.put(self._obs, where, obs_next, self.env_num)
        self._remember(ready, infos.tolist())
        self._info = info if where is None else None
        return terminated | truncated, ep_return, ep_len

    def _act(self, obs: Any, where: Ids | None, *, no_grad: bool) -> tuple[Any, dict[str, Any]]:
        """The policy's action, and what is stored under ``policy``."""
        batch = Batch(obs=obs, info=self._info_of(where))
        with torch.no_grad() if no_grad else nullcontext():
            result = self.policy(batch, _tree.take(self._state, where))
        act = to_numpy(result.act)
        if self.exploration_noise:
            act = self.policy.exploration_noise(act, batch)
        stored = result.get("policy")
        extra = {} if stored is None else _tree.storable(stored)
        state = result.get("state")
        self._state = _tree.put(self._state, where, state, self.env_num)
        if state is not None:
            extra["hidden_state"] = _tree.storable(state)
        return act, {"policy": extra} if extra else {}

    def _reset_stale(self, ready: Ids, reset_kwargs: dict[str, Any]) -> None:
        fresh = ready[self._stale[ready]]
        if len(fresh):
            self._reset(fresh, reset_kwargs)
        elif "seed" in reset_kwargs:
            raise ValueError(
                "gym_reset_kwargs has a seed, but no environment starts afresh in this collect: seed reset_env(), "
                "or pass reset_before_collect=True (a seed at every later reset would repeat one episode)"
            )

    def _reset(self, ids: Ids, reset_kwargs: dict[str, Any]) -> None:
        """New episodes in ``ids``: observation, info and hidden state start anew; what ran in the buffer is closed."""
        answer, infos = self.env.reset(None if len(ids) == self.env_num else ids, **reset_kwargs)
        self.buffer.close_episodes(ids)
        self._obs = _tree.put(self._obs, None if len(ids) == self.env_num else ids, _nested(answer), self.env_num)
        self._state = _tree.clear(self._state, ids)
        self._stale[ids] = False
        self._remember(ids, [{**info, "env_id": i} for i, info in zip(ids.tolist(), infos, strict=True)])
        self._info = None

    def _remember(self, ids: Ids, infos: list[dict[str, Any]]) -> None:
        if len(ids) == self.env_num:
            self._infos = infos
        else:
            for i, info in zip(ids.tolist(), infos, strict=True):
                self._infos[i] = info

    def _info_of(self, where: Ids | None) -> dict[str, Any]:
        if where is not None:
            return _tree.columns([self._infos[i] for i in where.tolist()])
        if self._info is None:
            self._info = _tree.columns(self._infos)
        return self._info


def _nested(obs: NDArray[Any]) -> Any:
    """Dict observations arrive as an array of dicts, one for each environment, and are stored as one dict of arrays."""
    return _tree.columns(list(obs)) if obs.dtype == object and isinstance(obs[0], dict) else obs


def _positive(name: str, value: int | None) -> int:
    if not isinstance(value, int | np.integer) or value <= 0:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def _as_vector(env: gym.Env[Any, Any] | BaseVectorEnv) -> BaseVectorEnv:
    if isinstance(env, gym.Env) and not hasattr(env, "__len__"):
        warnings.warn("a single environment was given: it is wrapped in a DummyVectorEnv", stacklevel=3)
        single = env
        return DummyVectorEnv([lambda: single])
    if not isinstance(env, BaseVectorEnv):
        raise TypeError(
            f"expected an environment or a vector environment of rlfast.env, got {type(env)}: try DummyVectorEnv"
        )
    if env.autoreset_mode is not None:
        raise ValueError(
            f"this collector resets environments itself: leave out autoreset_mode (got {env.autoreset_mode})"
        )
    if env.is_async:
        raise ValueError("this collector steps all environments together: leave out wait_num and timeout")
    return env


def _check_buffer(buffer: ReplayBuffer, env_num: int) -> None:
    kind, size = type(buffer).__name__, buffer.maxsize
    if isinstance(buffer, ReplayBufferManager):
        rings = buffer.cached_buffer_num if isinstance(buffer, CachedReplayBuffer) else buffer.buffer_num
        if rings < env_num:
            raise ValueError(f"{kind} has {rings} rings for {env_num} environments: it needs one for each")
    elif env_num > 1:
        vector = "PrioritizedVectorReplayBuffer" if kind.startswith("Prioritized") else "VectorReplayBuffer"
        raise TypeError(
            f"{kind}(size={size}) cannot keep {env_num} environments apart: "
            f"use {vector}(total_size={size}, buffer_num={env_num})"
        )
    elif size <= 0:
        raise ValueError(f"{kind} has no room: its size is {size}")
