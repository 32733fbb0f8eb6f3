"""Lets a policy act in environments, and puts what happens into a replay buffer."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from rlfast.data import _collector_state, _tree
from rlfast.data._asked import Asked
from rlfast.data._collecting import Manner, Tally, as_vector, check_buffer, check_policy, check_spaces, positive
from rlfast.data._goal import Episodes, Goal, Quotas, Steps
from rlfast.data._infos import LatestInfos, of_transitions
from rlfast.data._random_actions import RandomActions
from rlfast.data.batch import Batch, wrap
from rlfast.data.buffer._columns import wrap_nested
from rlfast.data.buffer.vector import VectorReplayBuffer
from rlfast.data.converter import to_numpy
from rlfast.utils.checks import check_function, check_instance, check_number

if TYPE_CHECKING:
    import gymnasium as gym
    from numpy.typing import NDArray

    from rlfast.data._collecting import ActingPolicyProtocol, EpisodeHook, StepHook
    from rlfast.data.buffer.base import ReplayBuffer
    from rlfast.data.stats import CollectStats
    from rlfast.env import BaseVectorEnv
    from rlfast.env.backend import Rows

    Ids = NDArray[np.int64]


class Collector:
    """Lets a policy act in a vector environment and stores every transition.

    The policy sees the observations of the environments that are ready; its action (with exploration noise, if asked
    for) is stored as it is, and what ``policy.map_action`` makes of it goes to the environments. ``obs_next`` is what
    the environment answered, also where the episode ended: the first observation after a reset never takes its place,
    whoever resets. Between calls with ``n_step`` the episodes go on where they were. The first call resets the
    environments by itself.

    Environments that reset themselves (an ``autoreset_mode``) are welcome. The steps of NEXT_STEP that only reset are
    neither stored nor counted. Where an environment broke and was rebuilt, the step is not stored, its episode ends in
    the buffer as truncated at the last true row, and it is in no statistics.

    :param policy: acts; see :class:`rlfast.policy.ActingPolicy`.
    :param env: a vector environment; a single one is wrapped, with a warning.
    :param buffer: where transitions go; one ring for each environment. By default a vector buffer that remembers one
        transition of each. It is not reset.
    :param exploration_noise: whether ``policy.exploration_noise`` is applied to the actions.
    :param on_step_hook: called after every step with two batches, one row for each environment that answered: the
        actions (``act`` and what the policy stores under ``policy``), and the transitions as they were stored.
    :param on_episode_done_hook: called at the end of every episode with its transitions, as far as the buffer still has
        them.
    :raises TypeError: a plain buffer for several environments, an environment of an unknown kind, or what is no policy,
        buffer or function.
    :raises ValueError: the buffer has fewer rings than there are environments, the policy is made for other actions or
        observations, or the environment is asynchronous.

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
        on_step_hook: StepHook | None = None,
        on_episode_done_hook: EpisodeHook | None = None,
    ) -> None:
        check_policy(policy)
        check_function("on_step_hook", on_step_hook, optional=True)
        check_function("on_episode_done_hook", on_episode_done_hook, optional=True)
        self.env = as_vector(env)
        self._check_env()
        check_spaces(policy, self.env)
        self.env_num = len(self.env)
        self.policy = policy
        self.exploration_noise = exploration_noise
        self.on_step_hook, self.on_episode_done_hook = on_step_hook, on_episode_done_hook
        self.buffer: ReplayBuffer = VectorReplayBuffer(self.env_num, self.env_num) if buffer is None else buffer
        check_buffer(self.buffer, self.env_num)
        self._action_space = self.env.action_space
        self._random_actions = RandomActions(self._action_space, self.env_num)
        self._resets_itself = self.env.autoreset_mode not in (None, AutoresetMode.DISABLED)
        self._everyone = np.arange(self.env_num)
        self._stale = np.ones(self.env_num, dtype=bool)  # environments to be reset before they are stepped
        self._asked = Asked(self.env_num)
        self._infos = LatestInfos(self.env_num)
        self._obs: Any = None
        self._state: Any = None  # the policy's hidden state
        self._is_closed = False
        self.reset_stat()

    def _check_env(self) -> None:
        if self.env.is_async:
            raise ValueError(
                "this collector steps all environments together: use AsyncCollector, or leave out wait_num and timeout"
            )

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
        self._drop_answers()
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

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where collecting stands, as plain data: environments in their episodes, hidden states, random streams of
        action spaces, statistics of wrappers, and counters. The buffer has :meth:`~rlfast.data.ReplayBuffer.save`.

        An environment whose state cannot be written down (see :mod:`rlfast.env.capture`) is noted as such.
        """
        return _collector_state.state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> dict[int, str]:
        """Goes on where :meth:`state_dict` was taken; the buffer must be that of then as well.

        :param state: what :meth:`state_dict` gave, of as many environments.
        :return: the environments that could not be restored, and why: each begins a new episode, with a seed drawn from
            where NumPy's global generator stands (which is left there).
        :raises ValueError: the number of environments differs; nothing is changed then.
        """
        return _collector_state.load(self, state)

    # -- collecting ----------------------------------------------------------------------------------------------------

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
            if positive("n_step", n_step) % self.env_num and not exact and not self.env.is_async:
                warnings.warn(
                    f"n_step={n_step} is not a multiple of the {self.env_num} environments: a few more are taken",
                    stacklevel=2,
                )
            goal = Steps(n_step, self._everyone, exact=exact)
        else:
            goal = Episodes(positive("n_episode", n_episode), self.env_num)
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
        goal = Quotas(positive("n_episode", n_episode), self.env_num)
        self._stale[:] = True
        return self._run(goal, random=random, render=render, no_grad=True, reset_kwargs=gym_reset_kwargs or {})

    def _run(
        self, goal: Goal, *, random: bool, render: float | None, no_grad: bool, reset_kwargs: dict[str, Any]
    ) -> CollectStats:
        if self._is_closed:
            raise RuntimeError("the collector is closed: make a new one")
        check_instance("gym_reset_kwargs", reset_kwargs, dict)
        check_number("render", render, optional=True)
        start = time.perf_counter()
        tally = Tally()
        try:
            self._reset_stale(goal.ready, reset_kwargs)
            later_kwargs = {key: value for key, value in reset_kwargs.items() if key != "seed"}
            self._until(goal, tally, Manner(random=random, render=render, no_grad=no_grad), later_kwargs)
        except BaseException:  # a step may have been taken and not stored: what follows must not be joined to it
            self._stale[:] = True
            raise
        if goal.discards:
            self._stale[:] = True
        seconds = max(time.perf_counter() - start, 1e-9)
        self.collect_step += tally.steps
        self.collect_episode += tally.episodes
        self.collect_time += seconds
        return tally.stats(seconds)

    def _until(self, goal: Goal, tally: Tally, manner: Manner, reset_kwargs: dict[str, Any]) -> None:
        """Steps until the goal is reached."""
        while not goal.reached:
            before = tally.steps
            rows = self._step(self._asked.idle(goal.ready), manner)
            ended = self._record(rows, tally)
            if manner.render is not None:
                self.env.render()
                time.sleep(manner.render)
            goal.advance(tally.steps - before, ended)
            if not self._resets_itself and True in self._stale.tobytes():
                again = goal.ready[self._stale[goal.ready]]
                if len(again):
                    self._reset(again, reset_kwargs)

    # -- acting ------------------------------------------------------------------------------------------------------

    def _step(self, ids: Ids, manner: Manner) -> Rows:
        """Chooses the actions of ``ids``, sends them off, and waits for answers: theirs, unless the environment is
        asynchronous.
        """
        if not len(ids):
            return self.env.recv()
        where = None if len(ids) == self.env_num else ids  # all environments: no row needs to be picked
        obs = _tree.take(self._obs, where)
        if manner.random:
            act = self.policy.map_action_inverse(self._random_actions(ids))
            fields = {"obs": wrap_nested(obs), "act": wrap_nested(act)}
        else:
            fields = self._choose(obs, ids, where, no_grad=manner.no_grad)
        act = self.policy.map_action(fields["act"])
        self._asked.put(ids, fields)
        if not self.env.is_async:
            return self.env.exchange(act, where)
        self.env.send(act, where)
        return self.env.recv()

    def _choose(self, obs: Any, ids: Ids, where: Ids | None, *, no_grad: bool) -> dict[str, Any]:
        """What the policy acted on, its action, and what is stored under ``policy``."""
        batch = wrap({"obs": wrap_nested(obs), "info": wrap_nested(self._infos.columns(ids))})  # all arrays: not parsed
        with torch.set_grad_enabled(not no_grad and torch.is_grad_enabled()):
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
        fields = {"obs": wrap_nested(obs), "act": act}
        return {**fields, "policy": wrap_nested(extra)} if extra else fields

    # -- recording ---------------------------------------------------------------------------------------------------

    def _record(self, rows: Rows, tally: Tally) -> Ids:
        """Stores the transitions, and remembers where the next actions start; which environments' episodes ended."""
        ids = rows.env_id
        ends = True in rows.terminated.tobytes() or True in rows.truncated.tobytes()  # the quickest way to ask
        transition = {
            **self._asked.take(ids),
            "rew": rows.rew,
            "terminated": rows.terminated,
            "truncated": rows.truncated,
            "obs_next": wrap_nested(_arrays(rows.obs_next)),
            "info": wrap_nested(of_transitions(rows)),
        }
        if rows.valid is None:
            ended = self._store(wrap(transition), ids, rows.done if ends else None, tally)
        else:
            ended = self._store_valid(transition, rows, tally)
        where = None if len(ids) == self.env_num else ids
        self._obs = _tree.put(self._obs, where, _arrays(rows.obs), self.env_num)
        self._infos.put(ids, rows.info)
        if rows.valid is not None:
            self._begin_anew(ids[rows.done | ~rows.valid], ids[rows.done])
        elif ends:
            self._begin_anew(ended, ended)
        return ended

    def _begin_anew(self, fresh: Ids, over: Ids) -> None:
        """In the environments ``fresh`` an episode begins, or will when those are reset whose last one is ``over``."""
        if self._state is not None:
            self._state = _tree.clear(self._state, fresh)
        if not self._resets_itself:
            self._stale[over] = True

    def _store_valid(self, transition: dict[str, Any], rows: Rows, tally: Tally) -> Ids:
        """Stores those rows that are transitions; episodes that broke off end with the row before."""
        valid, done = rows.valid, rows.done
        assert valid is not None  # noqa: S101 (the caller saw to it)
        broken = rows.env_id[done & ~valid]
        if len(broken):
            self.buffer.close_episodes(broken)
            tally.broken += len(broken)
        if not valid.any():
            return broken[:0]
        kept = np.flatnonzero(valid)
        return self._store(wrap(_tree.take(transition, kept)), rows.env_id[kept], done[kept], tally)

    def _store(self, transition: Batch, ids: Ids, done: NDArray[np.bool_] | None, tally: Tally) -> Ids:
        """One row for each of ``ids``; ``done`` is None where no episode ended."""
        index, ep_return, ep_len, _ = self.buffer.add(transition, buffer_ids=ids)
        tally.steps += len(ids)
        if self.on_step_hook is not None:
            actions = {key: value for key, value in transition.items() if key in ("act", "policy")}
            self.on_step_hook(wrap(actions), transition)
        if done is None:
            return ids[:0]
        lens = ep_len[done]
        tally.returns.append(ep_return[done])
        tally.lens.append(lens)
        if self.on_episode_done_hook is not None:
            for last, length in zip(index[done].tolist(), lens.tolist(), strict=True):
                self.on_episode_done_hook(self.buffer[self.buffer.rows_until(last, length)])
        return ids[done]

    # -- new episodes ------------------------------------------------------------------------------------------------

    def _reset_stale(self, ready: Ids, reset_kwargs: dict[str, Any]) -> None:
        if not (True in self._stale.tobytes() or "seed" in reset_kwargs):
            return
        if self._stale[self._asked.waiting].any():
            self._drop_answers()
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
        where = None if len(ids) == self.env_num else ids
        obs, info = self.env.reset_rows(where, **reset_kwargs)
        self.buffer.close_episodes(ids)
        self._obs = _tree.put(self._obs, where, _arrays(obs), self.env_num)
        if self._state is not None:
            self._state = _tree.clear(self._state, ids)
        self._stale[ids] = False
        self._infos.put(ids, info)

    def _drop_answers(self) -> None:
        """Waits for the environments that are stepping; what they answer is for nobody, so they must start afresh."""
        self._stale[self._asked.waiting] = True
        while self.env.waiting_id:
            with suppress(Exception):  # they are reset, whatever state they are in
                self.env.recv()
        self._asked.clear()


def _arrays(obs: Any) -> Any:
    """Observations as policies and buffers take them: an array, or dicts of arrays, also where spaces are tuples."""
    return obs if isinstance(obs, np.ndarray) else _tree.storable(obs)


def __getattr__(name: str) -> Any:
    if name in {"AsyncCollector", "CollectStats", "CollectStatsBase"}:  # scripts look for them here, too
        return getattr(import_module("rlfast.data"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
