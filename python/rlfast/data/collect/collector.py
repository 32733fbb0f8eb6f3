"""Collectors: they let a policy act in environments and store the transitions in a replay buffer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch

from rlfast.data.batch.batch import Batch, wrap, wrap_nested
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.collect import state as collector_state
from rlfast.data.collect.checks import ActingPolicyProtocol, CollectOptions, Tally, positive
from rlfast.data.collect.hook_calls import EpisodeFunction, StepFunction
from rlfast.data.collect.limits import EpisodeLimit, EpisodeQuotas, Limit, StepLimit
from rlfast.data.collect.native import NativeCollecting
from rlfast.data.collect.observed import policy_input
from rlfast.data.stats import CollectStats
from rlfast.env import BaseVectorEnv
from rlfast.utils.arguments.checks import ArgumentError, check_instance
from rlfast.utils.warning import warn_user

_KEYS = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")


class Collector(NativeCollecting):
    """Lets a policy act in a vector environment and stores every transition.

    The policy is given the observations of the environments that are ready. Its action (with exploration noise, if
    enabled) is stored unchanged, and ``policy.map_action`` converts it for the environments. ``obs_next`` is the
    observation that the step returned, also at the end of an episode: it is never the first observation after a reset.
    Between calls with ``n_step`` the episodes continue. The first call resets the environments, unless they were reset
    before.

    A recurrent policy's ``state`` is passed to it in the next step. Each row stores, under ``policy.hidden_state``,
    the state *before* its step, which is zero at the beginning of an episode: the initial state of the network when
    it learns from that row.

    Environments that reset themselves (with an ``autoreset_mode``) are supported. In the mode NEXT_STEP, steps that
    only reset are neither stored nor counted. If an environment fails and is rebuilt, that step is not stored, its
    episode is truncated in the buffer at the last stored row, and no statistics include that episode.

    :param policy: chooses the actions; see :class:`rlfast.policy.ActingPolicy`. It may be an object of any class that
        can be called with a batch and a state and has ``map_action`` and, where they are used, ``exploration_noise``
        and ``map_action_inverse``.
    :param env: a vector environment; a single one is wrapped, with a warning.
    :param buffer: receives the transitions; it has one ring buffer for each environment. By default it is a vector
        buffer that holds one transition of each environment. It is not reset.
    :param preprocess_fn: changes the results of the environments before the policy and the buffer get them. It is
        called after a reset with ``obs``, ``info`` and ``env_id``, and after a step with ``obs_next``, ``rew``,
        ``terminated``, ``truncated``, ``done``, ``info``, ``policy``, ``env_id`` and ``act``, or with those of them
        that it has parameters for. It returns a ``Batch`` or a dict of the changed fields. (A bool is taken as
        ``exploration_noise``, which is the fourth parameter in later versions of Tianshou.)
    :param exploration_noise: whether ``policy.exploration_noise`` is applied to the actions.
    :param on_episode_done_hook: called at the end of every episode with those of its transitions that the buffer still
        has. The fields that it returns are added to their rows; this needs a collect with ``n_episode``.
    :param on_step_hook: called after every step, before it is stored, with two batches that have one row for each
        environment that was stepped: the actions (see
        :class:`~rlfast.data.collector.CollectActionBatchProtocol`), and the transitions, which it may change.
    :param raise_on_nan_in_buffer: see :class:`BaseCollector`.
    :param collect_stats_class: see :class:`~rlfast.data.CollectStats`.
    :param native_acting: whether actions are chosen in Rust, without torch. ``"auto"`` (default) does so where it can,
        and where the actions are those that the policy itself would choose. True raises an error where it cannot; False
        never does. ``repr(collector)`` tells what a collect does now, and why.
    :raises TypeError: the buffer is not a vector buffer and there are several environments, the environment is of an
        unknown kind, or an argument lacks methods that are needed.
    :raises ValueError: the buffer has fewer ring buffers than there are environments, or the environment is
        asynchronous.

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
        preprocess_fn: Callable[..., Any] | bool | None = None,
        exploration_noise: bool = False,
        on_episode_done_hook: EpisodeFunction | None = None,
        on_step_hook: StepFunction | None = None,
        raise_on_nan_in_buffer: bool = False,
        collect_stats_class: type[CollectStats] = CollectStats,
        *,
        native_acting: bool | Literal["auto"] = "auto",
    ) -> None:
        self.native_acting = native_acting
        if isinstance(preprocess_fn, bool | np.bool_):
            preprocess_fn, exploration_noise = None, bool(preprocess_fn)
        self.preprocess_fn = preprocess_fn
        self.set_on_episode_done_hook(on_episode_done_hook)
        self.set_on_step_hook(on_step_hook)
        super().__init__(policy, env, buffer, exploration_noise, collect_stats_class, raise_on_nan_in_buffer)

    def _check_env(self) -> None:
        if self._envs.is_async:
            raise ArgumentError(
                "this collector steps all environments together: use AsyncCollector, or leave out wait_num and timeout"
            )

    def _begin(self) -> None:
        self._check_env()
        super()._begin()

    def reset_env(self, gym_reset_kwargs: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begins a new episode in every environment; the running episodes are truncated in the buffer.

        :param gym_reset_kwargs: keyword arguments of the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        self._discard_pending()
        self._before = self._unseeded = None
        self._reset(np.arange(self.env_num), gym_reset_kwargs or {})
        return wrap_nested(self._obs), np.array(self._infos.dicts(), dtype=object)

    @property
    def data(self) -> Batch:
        """The input of the policy for the next actions: ``obs`` and ``info`` of all environments.

        Environments whose episode has ended are reset first. The other keys of a transition hold the values of the
        newest step, or are empty.
        """
        if self._stale.all():
            self.reset_env()
        elif self._stale.any():
            self._discard_pending()
            self._reset(np.flatnonzero(self._stale), {})
        known = {"obs": wrap_nested(self._obs), "info": wrap_nested(self._infos.columns(self._all_ids))}
        batch = policy_input(known, self._all_ids, self._before)
        return wrap({key: getattr(batch, key) for key in _KEYS})

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the collector for a checkpoint, without its buffer.

        The state holds the environments within their episodes, hidden states, random generators of the action spaces,
        statistics of wrappers, and counters. For an environment whose state cannot be saved (see
        :mod:`rlfast.env.state`), it holds the reason. The buffer is saved by :meth:`rlfast.data.ReplayBuffer.save`.

        :return: a dict of plain data.
        """
        return collector_state.state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> dict[int, str]:
        """Restores a state. The buffer must be restored to the same moment separately.

        :param state: the return value of :meth:`state_dict`, of a collector with as many environments.
        :return: the indices of the environments that could not be restored, with the reasons. Each begins a new
            episode, with a seed that is drawn from a copy of NumPy's global generator.
        :raises ValueError: the state is of other environments: another number, other spaces or wrappers. Nothing is
            changed then.
        """
        return collector_state.load(self, state)

    # -- collecting ----------------------------------------------------------------------------------------------------

    def _collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        random: bool = False,
        render: float | None = None,
        gym_reset_kwargs: dict[str, Any] | None = None,
        *,
        no_grad: bool = True,
        exact: bool = False,
    ) -> CollectStats:
        if n_episode is not None:
            limit: Limit = EpisodeLimit(n_episode, self.env_num)
        else:
            assert n_step is not None  # noqa: S101 (one of them is given)
            limit = StepLimit(n_step, self._all_ids, exact=exact)
        options = CollectOptions.of(random=random, render=render, no_grad=no_grad)
        return self._run(limit, options, gym_reset_kwargs or {})

    def evaluate(
        self,
        n_episode: int,
        random: bool = False,
        render: float | None = None,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> CollectStats:
        """Plays new episodes, a fixed number in each environment, so that the mean of their returns is unbiased.

        Exactly ``n_episode`` resets are made; one that was made before counts, if its environment was not stepped since
        and there are no ``gym_reset_kwargs``. The transitions are stored as in :meth:`collect`. Afterwards all
        environments begin new episodes.

        :param n_episode: episodes; if it is not a multiple of the number of environments, the first environments play
            one more.
        :param random: as in :meth:`collect`.
        :param render: as in :meth:`collect`.
        :param gym_reset_kwargs: as in :meth:`collect`.
        :return: the statistics of these episodes.
        :raises ValueError: ``n_episode`` is not positive.
        :raises RuntimeError: the collector is closed.
        """
        limit = EpisodeQuotas(positive("n_episode", n_episode), self.env_num)
        options = CollectOptions.of(random=random, render=render, no_grad=True)
        check_instance("gym_reset_kwargs", gym_reset_kwargs, dict, optional=True)
        self._check_open()
        self._stale |= ~self._unstepped if not gym_reset_kwargs else True
        return self._run(limit, options, gym_reset_kwargs or {})

    def _run(self, limit: Limit, options: CollectOptions, reset_kwargs: dict[str, Any]) -> CollectStats:
        if options.random and not callable(getattr(self.policy, "map_action_inverse", None)):
            raise TypeError(f"random actions need a policy with map_action_inverse, got {self.policy!r:.200}")
        start, gradients = time.perf_counter(), torch.is_grad_enabled()
        custom_stats = None if self.collect_stats_class is CollectStats else self.collect_stats_class()
        tally = Tally(custom_stats=custom_stats, whole_episodes=limit.discards)
        self._choose_listeners()
        self._choose_chooser(options)
        try:
            if type(self).reset_env is not Collector.reset_env and self._stale.all():  # a user's reset_env
                self.reset_env(reset_kwargs) if reset_kwargs else self.reset_env()
                reset_kwargs = {key: value for key, value in reset_kwargs.items() if key != "seed"}
            self._reset_stale(limit.ready, reset_kwargs)
            self._run_until(limit, tally, options, reset_kwargs)
        except BaseException:  # a step may have been taken but not stored, so the running episodes cannot go on
            self._stale[:] = True
            torch.set_grad_enabled(gradients)  # Ctrl-C may have kept a torch.no_grad() from ending
            self._discard_pending()
            if self._chooser is not None:
                self._chooser.forget()
            raise
        finally:
            self._unseeded = None
        if limit.discards:
            self._stale[:] = True
            self._before = None
        seconds = max(time.perf_counter() - start, 1e-9)
        self.collect_step += tally.steps
        self.collect_episode += tally.episodes
        self.collect_time += seconds
        return tally.stats(seconds)  # type: ignore[no-any-return]

    def _run_until(self, limit: Limit, tally: Tally, options: CollectOptions, reset_kwargs: dict[str, Any]) -> None:
        """Steps the environments, and resets those whose episode ended, until the limit is reached."""
        while not limit.reached:
            if self._collect_whole_steps(limit, tally, options, reset_kwargs):
                continue
            before = tally.steps
            rows = self._step(self._pending_steps.idle(limit.ready), options)
            ended = self._record(rows, tally)
            if options.render is not None:
                self._envs.render()
                time.sleep(max(options.render, 0.0))
            limit.advance(tally.steps - before, ended)
            if not self._resets_itself and True in self._stale.tobytes():
                again = limit.ready[self._stale[limit.ready]]
                if len(again):
                    self._reset(again, reset_kwargs)


class AsyncCollector(Collector):
    """A :class:`Collector` for an asynchronous vector environment (``wait_num`` or ``timeout``).

    The policy acts for the environments whose step has finished, while the others are still being stepped. A collect
    ends when enough steps have finished. Steps that are pending then belong to the next collect, but after a collect
    with ``n_episode`` they are discarded.

    The order in which environments finish is random, so a run is reproducible only if the environments finish in
    order. Short episodes are overrepresented in ``collect(n_episode=...)``. To evaluate a policy, use
    :meth:`evaluate`, or better, an environment that is not asynchronous.

    A vector environment without ``wait_num`` and ``timeout`` is stepped as by a :class:`Collector`.
    """

    def _check_env(self) -> None:
        if self._envs.is_async:
            warn_user("asynchronous environments may put more transitions into the buffer than asked")
