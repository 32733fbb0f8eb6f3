"""Lets a policy act in environments, and puts what happens into a replay buffer."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer._columns import wrap_nested
from rlfast.data.collect import state as collector_state
from rlfast.data.collect.checks import CollectOptions, Tally, positive
from rlfast.data.collect.hook_calls import HookCalls
from rlfast.data.collect.limits import EpisodeLimit, EpisodeQuotas, Limit, StepLimit
from rlfast.data.collect.observed import seen
from rlfast.data.stats import CollectStats
from rlfast.utils.checks import ArgumentError, check_instance

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from rlfast.data.buffer.base import ReplayBuffer
    from rlfast.data.collect.checks import ActingPolicyProtocol
    from rlfast.data.collect.hook_calls import EpisodeFunction, StepFunction
    from rlfast.env import BaseVectorEnv


_KEYS = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")


class Collector(HookCalls):
    """Lets a policy act in a vector environment and stores every transition.

    The policy sees the observations of the environments that are ready; its action (with exploration noise, if asked
    for) is stored as it is, and what ``policy.map_action`` makes of it goes to the environments. ``obs_next`` is what
    the environment answered, also where the episode ended: the first observation after a reset never takes its place,
    whoever resets. Between calls with ``n_step`` the episodes go on where they were. The first call resets the
    environments, unless that was done before.

    A recurrent policy's ``state`` comes back to it in the next step. Stored with a row, under ``policy.hidden_state``,
    is the state *before* it, zero where an episode begins: what a network starts from when it sees the row again.

    Environments that reset themselves (an ``autoreset_mode``) are welcome. The steps of NEXT_STEP that only reset are
    neither stored nor counted. Where an environment broke and was rebuilt, the step is not stored, its episode ends in
    the buffer as truncated at the last true row, and it is in no statistics.

    :param policy: acts; see :class:`rlfast.policy.ActingPolicy`. An object of any class will do that is called with a
        batch and a state and has ``map_action`` and, where they are used, ``exploration_noise`` and
        ``map_action_inverse``.
    :param env: a vector environment; a single one is wrapped, with a warning.
    :param buffer: where transitions go; one ring for each environment. By default a vector buffer that remembers one
        transition of each. It is not reset.
    :param preprocess_fn: changes what environments answer before the policy or the buffer sees it. After a reset it is
        called with ``obs``, ``info`` and ``env_id``, after a step with ``obs_next``, ``rew``, ``terminated``,
        ``truncated``, ``done``, ``info``, ``policy``, ``env_id`` and ``act``, or those of them that it takes; it
        returns a ``Batch`` or a dict of what is to be different. (A bool here is ``exploration_noise``, which stands
        fourth in later versions of Tianshou.)
    :param exploration_noise: whether ``policy.exploration_noise`` is applied to the actions.
    :param on_episode_done_hook: called at the end of every episode with its transitions, as far as the buffer still has
        them. What it returns is added to their rows, if whole episodes are collected.
    :param on_step_hook: called after every step, before it is stored, with two batches, one row for each environment
        that answered: the actions (see :class:`~rlfast.data.collect.collector.CollectActionBatchProtocol`), and the
        transitions, in which it may change what is stored.
    :param raise_on_nan_in_buffer: see :class:`BaseCollector`.
    :param collect_stats_class: see :class:`~rlfast.data.CollectStats`.
    :raises TypeError: a plain buffer for several environments, an environment of an unknown kind, or what cannot act,
        store or be called.
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
        preprocess_fn: Callable[..., Any] | bool | None = None,
        exploration_noise: bool = False,
        on_episode_done_hook: EpisodeFunction | None = None,
        on_step_hook: StepFunction | None = None,
        raise_on_nan_in_buffer: bool = False,
        collect_stats_class: type[CollectStats] = CollectStats,
    ) -> None:
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
        """Starts a new episode in every environment; in the buffer, those that were running count as truncated.

        :param gym_reset_kwargs: given to the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        self._drop_answers()
        self._before = self._unseeded = None
        self._reset(np.arange(self.env_num), gym_reset_kwargs or {})
        return wrap_nested(self._obs), np.array(self._infos.dicts(), dtype=object)

    @property
    def data(self) -> Batch:
        """What the next actions are chosen on: ``obs`` and ``info`` of all environments, which are reset for that where
        they must be. The other keys of a transition are those of the newest step, or empty.
        """
        if self._stale.all():
            self.reset_env()
        elif self._stale.any():
            self._drop_answers()
            self._reset(np.flatnonzero(self._stale), {})
        known = {"obs": wrap_nested(self._obs), "info": wrap_nested(self._infos.columns(self._everyone))}
        batch = seen(known, self._everyone, self._before)
        return wrap({key: getattr(batch, key) for key in _KEYS})

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where collecting stands, as plain data: environments in their episodes, hidden states, random streams of
        action spaces, statistics of wrappers, and counters. The buffer has :meth:`~rlfast.data.ReplayBuffer.save`.

        An environment whose state cannot be written down (see :mod:`rlfast.env.state`) is noted as such.
        """
        return collector_state.state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> dict[int, str]:
        """Goes on where :meth:`state_dict` was taken; the buffer must be that of then as well.

        :param state: what :meth:`state_dict` gave, of as many environments.
        :return: the environments that could not be restored, and why: each begins a new episode, with a seed drawn from
            where NumPy's global generator stands (which is left there).
        :raises ValueError: the number of environments differs; nothing is changed then.
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
            limit = StepLimit(n_step, self._everyone, exact=exact)
        options = CollectOptions.of(random=random, render=render, no_grad=no_grad)
        return self._run(limit, options, gym_reset_kwargs or {})

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
        limit = EpisodeQuotas(positive("n_episode", n_episode), self.env_num)
        options = CollectOptions.of(random=random, render=render, no_grad=True)
        check_instance("gym_reset_kwargs", gym_reset_kwargs, dict, optional=True)
        self._check_open()
        self._stale[:] = True
        return self._run(limit, options, gym_reset_kwargs or {})

    def _run(self, limit: Limit, options: CollectOptions, reset_kwargs: dict[str, Any]) -> CollectStats:
        if options.random and not callable(getattr(self.policy, "map_action_inverse", None)):
            raise TypeError(f"random actions need a policy with map_action_inverse, got {self.policy!r:.200}")
        start = time.perf_counter()
        own = None if self.collect_stats_class is CollectStats else self.collect_stats_class()
        tally = Tally(own=own, whole_episodes=limit.discards)
        self._watch()
        try:
            if type(self).reset_env is not Collector.reset_env and self._stale.all():  # the user's own way to begin
                self.reset_env(reset_kwargs) if reset_kwargs else self.reset_env()
                reset_kwargs = {key: value for key, value in reset_kwargs.items() if key != "seed"}
            self._reset_stale(limit.ready, reset_kwargs)
            self._until(limit, tally, options, reset_kwargs)
        except BaseException:  # a step may have been taken and not stored: what follows must not be joined to it
            self._stale[:] = True
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

    def _until(self, limit: Limit, tally: Tally, options: CollectOptions, reset_kwargs: dict[str, Any]) -> None:
        """Steps until the limit is reached."""
        while not limit.reached:
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

    The policy acts for the environments that have answered, while the others go on. A collect ends when enough was
    answered; what is still being stepped then belongs to the next collect, and a collect by episodes discards it.

    Which environments come first is chance, so runs repeat only where the environment answers in order; and short
    episodes are overrepresented in ``collect(n_episode=...)``. Evaluate with :meth:`evaluate`, or better, with an
    environment that is not asynchronous.

    An environment without ``wait_num`` and ``timeout`` is stepped as by a :class:`Collector`.
    """

    def _check_env(self) -> None:
        if self._envs.is_async:
            warnings.warn("asynchronous environments may put more transitions into the buffer than asked", stacklevel=5)
