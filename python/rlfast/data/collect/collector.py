"""The collector: it lets a policy act in environments and stores the transitions in a replay buffer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, Self, TypeVar

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import create_empty_array
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, parse, wrap, wrap_nested
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.vector import VectorReplayBuffer
from rlfast.data.collect import checks, hooks
from rlfast.data.collect import state as collector_state
from rlfast.data.collect.episodes import Episodes, infos_of_transitions
from rlfast.data.collect.hooks import EpisodeFunction, StepFunction
from rlfast.data.collect.limits import EpisodeLimit, EpisodeQuotas, Limit, StepLimit, Tally
from rlfast.data.collect.native_steps import NativeSteps, acting_of, engines, random_acting
from rlfast.data.collect.observed import policy_input
from rlfast.data.collect.preprocessing import Preprocessing, as_arrays, as_info
from rlfast.data.collect.python_steps import PendingSteps, PythonSteps
from rlfast.data.collect.turns import take_turn
from rlfast.data.forms import Form
from rlfast.data.stats import CollectStats
from rlfast.env import BaseVectorEnv
from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info
from rlfast.env.spaces.random_actions import RandomActions
from rlfast.utils import tree
from rlfast.utils.arguments.checks import ArgumentError, check_function, check_instance, check_number
from rlfast.utils.runtime.native import NotNativeError, tried
from rlfast.utils.torch_utils import Acting
from rlfast.utils.warning import warn_user

Ids = NDArray[np.int64]
TCollectStats = TypeVar("TCollectStats", bound=CollectStats)
_KEYS = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")

# Suffixes of names:
# R: the environments that are stepped ("ready"), ascending. A collect of steps takes all N environments; a collect of
#    episodes takes at most as many as there are episodes left.
# O, A, H: the axes of an observation, an action, a hidden state.
# D: those of R whose episode ended in the step.


class Collector:
    """Let a policy act in a vector environment and store every transition.

    The policy is given the observations of the environments that are ready. Its action (with exploration noise, if
    enabled) is stored unchanged, and ``policy.map_action`` converts it for the environments. ``obs_next`` is the
    observation that the step returned, also at the end of an episode: it is never the first observation after a reset.
    Between calls with ``n_step`` the episodes continue, unless another collector has used the same environments or
    buffer meanwhile: then all environments begin new ones. The first call resets the environments, unless they were
    reset before.

    A recurrent policy's ``state`` is passed to it in the next step. Each row stores, under ``policy.hidden_state``,
    the state *before* its step, which is zero at the beginning of an episode: the initial state of the network when
    it learns from that row. An entry ``exploration`` of the state is passed on in the same way, but not stored.

    Environments that reset themselves (with an ``autoreset_mode``) are supported. In the mode NEXT_STEP, steps that
    only reset are neither stored nor counted. If an environment fails and is rebuilt, that step is not stored, its
    episode is truncated in the buffer at the last stored row, and no statistics include that episode.

    Subclasses may override the public methods, ``_collect`` and ``_assign_buffer``; all of them are called. A ``reset``
    of a subclass is also called by the constructor.

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
        ``exploration_noise``.)
    :param exploration_noise: whether ``policy.exploration_noise`` is applied to the actions.
    :param on_episode_done_hook: called at the end of every episode with those of its transitions that the buffer still
        has. The fields that it returns are added to their rows; this needs a collect with ``n_episode``.
    :param on_step_hook: called after every step, before it is stored, with two batches that have one row for each
        environment that was stepped: the actions (see
        :class:`~rlfast.data.collector.CollectActionBatchProtocol`), and the transitions, which it may change.
    :param raise_on_nan_in_buffer: whether a collect that leaves NaN or None in the buffer raises an error. This reads
        the whole buffer after each collect.
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

    _takes_async: ClassVar[bool] = False
    _overridden: ClassVar[frozenset[str]] = frozenset()  # which methods of those below

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = ("reset", "reset_env", "_collect", "run_on_step_hook", "run_on_episode_done")
        cls._overridden = frozenset(name for name in names if getattr(cls, name) is not getattr(Collector, name))

    def __class_getitem__(cls, _: object) -> type[Self]:
        """Accept ``Collector[CollectStats]``."""
        return cls

    def __init__(
        self,
        policy: checks.ActingPolicyProtocol,
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
        if isinstance(preprocess_fn, bool | np.bool_):
            preprocess_fn, exploration_noise = None, bool(preprocess_fn)
        self.native_acting = native_acting
        self.preprocess_fn = preprocess_fn
        self.set_on_episode_done_hook(on_episode_done_hook)
        self.set_on_step_hook(on_step_hook)
        checks.check_policy(policy, exploration_noise=bool(exploration_noise))
        self.policy, self.exploration_noise, self.collect_stats_class = policy, exploration_noise, collect_stats_class
        self.raise_on_nan_in_buffer, self.env = raise_on_nan_in_buffer, env
        checks.check_spaces(policy, self._envs)
        self._assign_buffer(buffer)
        self.is_closed = False
        self._checks_rewards = False  # within `finite_rewards`
        self._room: Ids | None = None  # within `without_overwriting`: rows that each ring buffer can still take
        self.reset_stat()
        if "reset" in self._overridden:  # otherwise the first collect resets, which may bring a seed
            self.reset(False)

    def _assign_buffer(self, buffer: ReplayBuffer | None) -> None:
        if buffer is None:
            buffer = VectorReplayBuffer(self.env_num, self.env_num)
        checks.check_buffer(buffer, self.env_num)
        self.buffer: ReplayBuffer = buffer

    # -- parts that may be replaced ----------------------------------------------------------------------------------

    @property
    def env(self) -> Any:
        """The vector environment. It may be replaced by another one, which begins with new episodes.

        :raises ValueError: it is asynchronous, or the buffer has fewer ring buffers than there are environments.
        """
        return self._env

    @env.setter
    def env(self, env: object) -> None:
        self._envs = checks.as_vector(env)
        self._env = self._envs if checks.is_single(env) else env
        self._given_env = env  # a single one is wrapped by each collector anew
        self.env_num = len(self._envs)
        self.action_space: Any = self._envs.action_space  # one for all environments, or a list with one for each
        if "buffer" in vars(self):
            checks.check_buffer(self.buffer, self.env_num)
        if self._envs.is_async:
            if not self._takes_async:
                raise ArgumentError(
                    "a Collector steps all environments together: use AsyncCollector, or leave out wait_num and timeout"
                )
            warn_user("asynchronous environments may put more transitions into the buffer than asked")
        self._resets_itself = self._envs.autoreset_mode not in (None, AutoresetMode.DISABLED)
        self._random_actions = RandomActions(self.action_space, self.env_num, self._envs.single_action_space)
        self._all_ids = np.arange(self.env_num)
        self._episodes = Episodes(self.env_num)
        self._pending = PendingSteps(self.env_num)

    @property
    def preprocess_fn(self) -> Any:
        """The function that changes the results of the environments before they are used, or None."""
        return self._preprocess_fn

    @preprocess_fn.setter
    def preprocess_fn(self, function: Callable[..., Any] | None) -> None:
        check_function("preprocess_fn", function, optional=True)
        self._preprocess_fn = function
        self._preprocessing = None if function is None else Preprocessing(function)

    @property
    def native_acting(self) -> bool | Literal["auto"]:
        """Whether actions are chosen in Rust: True, False or ``"auto"``."""
        return self._native_acting

    @native_acting.setter
    def native_acting(self, value: bool | Literal["auto"]) -> None:
        mode: object = value
        if not (isinstance(mode, bool) or (isinstance(mode, str) and mode == "auto")):
            raise ArgumentError(f'native_acting must be "auto", True or False, got {value!r:.50}')
        self._native_acting = value

    def set_on_step_hook(self, hook: StepFunction | None) -> None:
        """Set the function that is called after every step.

        :param hook: the function; None for none.
        :raises TypeError: ``hook`` cannot be called.
        """
        check_function("on_step_hook", hook, optional=True)
        self._on_step_hook = hook

    def get_on_step_hook(self) -> StepFunction | None:
        """Return the function that is called after every step, or None."""
        return self._on_step_hook

    def set_on_episode_done_hook(self, hook: EpisodeFunction | None) -> None:
        """Set the function that is called at the end of every episode.

        :param hook: the function; None for none.
        :raises TypeError: ``hook`` cannot be called.
        """
        check_function("on_episode_done_hook", hook, optional=True)
        self._on_episode_done_hook = hook

    def get_on_episode_done_hook(self) -> EpisodeFunction | None:
        """Return the function that is called at the end of every episode, or None."""
        return self._on_episode_done_hook

    def run_on_step_hook(self, action_batch: Any, rollout_batch: Any) -> None:
        """Call the step hook, if there is one. A subclass may override it instead of setting a hook.

        :param action_batch: the actions; see :class:`~rlfast.data.collector.CollectActionBatchProtocol`.
        :param rollout_batch: the transitions; changes to them are stored.
        """
        if self._on_step_hook is not None:
            self._on_step_hook(action_batch, rollout_batch)

    def run_on_episode_done(self, episode_batch: Any) -> dict[str, NDArray[Any]] | None:
        """Call the episode hook, if there is one. A subclass may override it instead of setting a hook.

        :param episode_batch: the transitions of the episode.
        :return: fields to add to the rows of the episode; None for none.
        """
        return None if self._on_episode_done_hook is None else self._on_episode_done_hook(episode_batch)

    # -- collecting --------------------------------------------------------------------------------------------------

    def collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        random: bool = False,
        render: float | None = None,
        no_grad: bool = True,
        reset_before_collect: bool | dict[str, Any] | None = False,
        gym_reset_kwargs: dict[str, Any] | None = None,
        *,
        exact: bool = False,
    ) -> CollectStats:
        """Collect a number of steps or of episodes.

        With ``n_episode``, episodes are counted in the order in which they end, so short ones are overrepresented; to
        estimate the mean return, use :meth:`evaluate`. After a collect with ``n_episode``, all environments
        begin new episodes.

        :param n_step: environment steps, summed over all environments. A number that is not a multiple of the number
            of environments is rounded up, with a warning.
        :param n_episode: episodes.
        :param random: whether actions are drawn from the action spaces instead of from the policy.
        :param render: seconds to wait after rendering each step; None, 0 and False do not render.
        :param no_grad: whether ``policy.forward`` runs without recording gradients.
        :param reset_before_collect: whether to reset environments and counters first. (A dict is taken as
            ``gym_reset_kwargs``.)
        :param gym_reset_kwargs: keyword arguments of the environments' ``reset``. A ``seed`` is used for one reset of
            each environment.
        :param exact: whether the last vector step takes only as many environments as are needed for ``n_step``.
        :return: the statistics of this collect.
        :raises TypeError: both or none of ``n_step`` and ``n_episode`` are given, or they are not numbers.
        :raises ValueError: ``n_step`` or ``n_episode`` is not positive.
        :raises RuntimeError: the collector is closed.
        """
        if isinstance(reset_before_collect, dict):
            gym_reset_kwargs, reset_before_collect = reset_before_collect, None
        if (n_step is None) == (n_episode is None):
            raise ArgumentError(f"give one of n_step and n_episode, got n_step={n_step} and n_episode={n_episode}")
        if n_step is not None:
            n_step = checks.positive("n_step", n_step, rounded=math.ceil)
            if n_step % self.env_num and not exact and not self._envs.is_async:
                warn_user(f"n_step={n_step} is not a multiple of the {self.env_num} environments: a few more are taken")
        else:
            n_episode = checks.positive("n_episode", n_episode)
        reset_kwargs = self._checked(gym_reset_kwargs, render)
        if reset_before_collect:
            self.reset(reset_buffer=False, gym_reset_kwargs=gym_reset_kwargs)
            reset_kwargs = {key: value for key, value in reset_kwargs.items() if key != "seed"}
        if "_collect" in self._overridden:
            self._begin(self._all_ids, reset_kwargs)
        options: dict[str, bool] = {} if no_grad is True else {"no_grad": no_grad}
        if exact:
            options["exact"] = True
        stats = self._collect(
            n_step=n_step,
            n_episode=n_episode,
            random=random,
            render=render,
            gym_reset_kwargs=reset_kwargs or None,
            **options,
        )
        if self.raise_on_nan_in_buffer:
            checks.check_nothing_missing(self.buffer)
        return stats

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
        """Collect, after :meth:`collect` has checked its arguments. Where a subclass overrides it, episodes have begun.

        :return: the statistics of this collect.
        """
        limit: Limit
        if n_episode is not None:
            limit = EpisodeLimit(n_episode, self.env_num)
        else:
            limit = StepLimit(n_step or 0, self._all_ids, exact=exact)
        return self._run(limit, gym_reset_kwargs or {}, random=random, no_grad=no_grad, render=render)

    def evaluate(
        self,
        n_episode: int,
        random: bool = False,
        render: float | None = None,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> CollectStats:
        """Play new episodes, a fixed number in each environment, so that the mean of their returns is unbiased.

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
        limit = EpisodeQuotas(checks.positive("n_episode", n_episode), self.env_num)
        reset_kwargs = self._checked(gym_reset_kwargs, render)
        self._episodes.stale |= ~self._episodes.unstepped if not reset_kwargs else True
        return self._run(limit, reset_kwargs, random=random, no_grad=True, render=render)

    def _checked(self, gym_reset_kwargs: dict[str, Any] | None, render: float | None) -> dict[str, Any]:
        """Check what a collect is given.

        :return: the arguments of resets.
        """
        check_number("render", render or None, optional=True)
        check_instance("gym_reset_kwargs", gym_reset_kwargs, dict, optional=True)
        if self.is_closed:
            raise RuntimeError("the collector is closed: make a new one")
        return gym_reset_kwargs or {}

    def _run(
        self, limit: Limit, reset_kwargs: dict[str, Any], *, random: bool, no_grad: bool, render: float | None
    ) -> CollectStats:
        """Act, step, store and begin new episodes until the limit is reached."""
        if random and not callable(getattr(self.policy, "map_action_inverse", None)):
            raise TypeError(f"random actions need a policy with map_action_inverse, got {self.policy!r:.200}")
        start, gradients, episodes = time.perf_counter(), torch.is_grad_enabled(), self._episodes
        self._choose_listeners()
        chooser, why = (None, "") if random else tried(self._native_chooser, no_grad=no_grad)
        if why and self._native_acting is True:
            raise ArgumentError(f'native_acting is True, but {why}: give "auto" or False')
        native = None if reset_kwargs or render else self._native_steps(limit, chooser, random=random)
        draws, noise = self._random_actions if random else None, self.exploration_noise
        acting = Acting(self.policy, no_grad=no_grad)
        python = PythonSteps(self.policy, self._envs, episodes, self._pending, chooser, draws, noise, acting)
        custom_stats = None if self.collect_stats_class is CollectStats else self.collect_stats_class()
        tally = Tally(custom_stats=custom_stats, whole_episodes=limit.discards)
        try:
            self._begin(limit.ready, reset_kwargs)
            while not limit.reached:
                if native is not None and native.take(limit, tally):  # many vector steps at once
                    continue
                acted, rows = python.take(limit.ready)  # obs_RO and act_RA, and what the environments returned
                transition, obs_RO, info_R = self._transition(acted, rows)
                done_R = rows.done
                stored, ended_D = self._store(transition, rows, done_R, tally, python)
                episodes.show(rows.env_id, obs_RO, info_R)  # of the next episode, where environments reset themselves
                self._end(rows, done_R)
                limit.advance(stored, ended_D)
                if render:
                    self._envs.render()
                    time.sleep(max(render, 0.0))
                if True in episodes.stale.tobytes():  # the quickest test
                    self._reset(limit.ready[episodes.stale[limit.ready]], reset_kwargs, running=False)
        except BaseException:  # a step may have been taken but not stored, so the running episodes cannot continue
            episodes.end_all()
            torch.set_grad_enabled(gradients)  # Ctrl-C may have kept a torch.no_grad() from ending
            self._discard_pending()
            if chooser is not None:
                chooser.forget()
            raise
        if limit.discards:
            episodes.end_all()
        seconds = max(time.perf_counter() - start, 1e-9)
        self.collect_step += tally.steps
        self.collect_episode += tally.episodes
        self.collect_time += seconds
        return tally.stats(seconds)

    def _transition(self, acted: dict[str, Any], rows: Rows) -> tuple[dict[str, Any], Any, Info]:
        """Put the columns of the transitions together, and apply ``preprocess_fn`` to them.

        :return: the columns; and the observations and infos that the next actions are chosen from.
        """
        next_RO = as_arrays(rows.obs_next)
        obs_RO = next_RO if rows.obs is rows.obs_next else as_arrays(rows.obs)
        transition = {
            **acted,
            "rew": rows.rew,
            "terminated": rows.terminated,
            "truncated": rows.truncated,
            "obs_next": wrap_nested(next_RO),
            "info": infos_of_transitions(rows),
        }
        info_R = rows.info
        if self._preprocessing is not None:
            transition["obs_next"] = wrap_nested(tree.writable(next_RO))
            obs_RO, info_R = self._preprocessing.of_rows(transition, rows)
        self._episodes.before = rows.env_id, transition
        return transition, obs_RO, info_R

    def _store(
        self, transition: dict[str, Any], rows: Rows, done: NDArray[np.bool_], tally: Tally, python: PythonSteps
    ) -> tuple[int, Ids]:
        """Add the transitions to the buffer, and count them.

        :return: their number, and the environments whose episode ended.
        """
        ids, returns = rows.env_id, rows.returns
        if rows.valid is not None:  # in some rows, an environment only reset, or it failed and was rebuilt
            broken = ids[done & ~rows.valid]
            if len(broken):
                self._close_episodes(broken)
                tally.broken += len(broken)
            kept = np.flatnonzero(rows.valid)
            if not len(kept):
                return 0, kept
            transition, ids, done = tree.take(transition, kept), ids[kept], done[kept]
            returns = None if returns is None else returns[kept]
        batch = wrap(transition)
        if self._room is not None:
            checks.check_room(self._room, self.buffer, ids)
            self._room[ids] -= 1
        if self._reports_steps:
            batch = self._report_step(batch, tally, python)
        if self._checks_rewards:
            checks.check_rewards(batch.rew, ids, self.collect_step + tally.steps)
        index, ep_return, ep_len, _ = self.buffer.add(batch, buffer_ids=ids)
        tally.steps += len(ids)
        if True not in done.tobytes():
            return len(ids), ids[:0]
        ended = done.nonzero()[0]
        tally.returns.append((ep_return if returns is None else returns)[ended])
        tally.lens.append(ep_len[ended])
        if self._reports_episodes:
            self._report_episodes(index[ended], tally)
        return len(ids), ids[ended]

    def _end(self, rows: Rows, done_R: NDArray[np.bool_]) -> None:
        """Record which episodes have ended, and which environments have begun another one by themselves."""
        fresh_R = done_R if rows.valid is None else done_R | ~rows.valid
        if True not in fresh_R.tobytes():
            return
        self._episodes.forget(rows.env_id[fresh_R])
        if not self._resets_itself:
            self._episodes.stale[rows.env_id[done_R]] = True
        self._start_noise(fresh_R)

    def _start_noise(self, first_R: NDArray[np.bool_] | None = None) -> None:
        """Tell a policy with noise which rows of its newest actions are followed by the first step of an episode.

        Rows of asynchronous environments come in another order than their actions were chosen in.

        :param first_R: the rows; None for all environments.
        """
        policy: Any = self.policy
        if self.exploration_noise and hasattr(type(policy), "start_episodes") and not self._envs.is_async:
            policy.start_episodes(np.ones(self.env_num, np.bool_) if first_R is None else first_R)

    def _close_episodes(self, ids: Ids) -> None:
        close = getattr(self.buffer, "close_episodes", None)
        if close is not None:  # a buffer of the user's own class may not have this method
            close(ids)

    # -- in Rust -----------------------------------------------------------------------------------------------------

    def _native_chooser(self, *, no_grad: bool = True) -> Any:
        """Return what chooses the policy's actions in Rust.

        :raises NotNativeError: the policy itself must choose them.
        """
        make = getattr(type(self.policy), "native_chooser", None)
        if self._native_acting is False:
            raise NotNativeError("native_acting is False")
        if make is None:
            raise NotNativeError(f"{type(self.policy).__name__} has no native_chooser")
        if not no_grad:
            raise NotNativeError("no_grad is False")
        if self._reports_steps:
            raise NotNativeError("hooks and custom statistics are given the policy's distribution")
        chooser = make(self.policy, self._obs_form())
        if self._episodes.hidden is not None and chooser.state_form is None:
            raise NotNativeError("there are hidden states, and the network has none")
        return chooser

    def _obs_form(self) -> Form:
        """Return the form of one observation.

        :raises NotNativeError: observations are no arrays.
        """
        newest = self._episodes.obs
        if newest is None:
            space = getattr(self._envs, "single_observation_space", None)
            if not isinstance(space, gym.Space):
                raise NotNativeError("observations are no arrays of one shape")
            newest = create_empty_array(space, 1)
        return Form.of(newest, batched=True)

    def _native_steps(self, limit: Limit, chooser: object, *, random: bool) -> NativeSteps | None:
        """Return what takes many vector steps at once, in Rust; None where each is taken in Python."""
        return None if limit.whole_steps is None else tried(self._whole_steps, chooser, random=random)[0]

    def _whole_steps(self, chooser: object, *, random: bool = False) -> NativeSteps:
        """Return what takes many vector steps at once.

        :param chooser: what chooses the policy's actions in Rust; None for random actions, or for the policy itself.
        :raises NotNativeError: policy, environments, buffer or hooks need Python for each step.
        """
        if chooser is None and not random:
            raise NotNativeError("the policy chooses in Python")
        if getattr(chooser, "state_form", None) is not None:
            raise NotNativeError("hidden states are stored in Python")
        if random and (self._native_acting is False or self._episodes.hidden is not None or self._reports_steps):
            raise NotNativeError("random actions are drawn in Python")
        if self._reports_episodes or self._preprocessing is not None:
            raise NotNativeError("there are hooks, custom statistics, or a preprocess_fn")
        envs, replay = engines(self._envs, self.buffer)
        if random:
            acting = random_acting(self.policy, self._random_actions)
        else:
            acting = acting_of(self.policy, chooser, self._envs, noise=self.exploration_noise)
        steps_before = self.collect_step if self._checks_rewards else None
        return NativeSteps(envs, replay, self._episodes, acting, chooser, self._room, steps_before)

    def __repr__(self) -> str:
        self._choose_listeners()
        chooser, why = tried(self._native_chooser)
        if chooser is None:
            how = f"acting by torch: {why}"
        else:
            native, why = tried(self._whole_steps, chooser)
            how = "collecting in Rust" if native else f"acting in Rust, one vector step at a time: {why}"
        return f"{type(self).__name__}({type(self.policy).__name__}, {self.env_num} environments, {how})"

    # -- hooks and statistics ----------------------------------------------------------------------------------------

    def _choose_listeners(self) -> None:
        """Determine whether steps, and whether episodes, are passed to hooks or statistics."""
        own = self.collect_stats_class is not CollectStats
        self._reports_steps = own or "run_on_step_hook" in self._overridden or self._on_step_hook is not None
        self._reports_episodes = own or "run_on_episode_done" in self._overridden or bool(self._on_episode_done_hook)

    def _report_step(self, transition: Batch, tally: Tally, python: PythonSteps) -> Batch:
        """Pass a step to the hook and the statistics.

        :return: the transitions with the changes that the hook made.
        """
        dist = python.dist if len(transition) == python.dist_rows else None
        normalized = self.policy.map_action(transition.act)
        actions, step = hooks.step_batches(transition, normalized, dist)
        self.run_on_step_hook(actions, step)
        if tally.custom_stats is not None:
            tally.custom_stats.update_at_step_batch(step)
        return hooks.stored_fields(step)

    def _report_episodes(self, last_D: Ids, tally: Tally) -> None:
        """Pass the episodes that ended with the rows ``last_D`` of the buffer to the hook and the statistics."""
        for last, ep_return, length in zip(last_D.tolist(), tally.returns[-1], tally.lens[-1].tolist(), strict=True):
            rows = self.buffer.rows_until(last, length)
            episode = self.buffer[rows]
            added = self.run_on_episode_done(episode)
            if added:
                hooks.add_to_episode(self.buffer, episode, rows, added, whole=tally.whole_episodes)
            if tally.custom_stats is not None:
                tally.custom_stats.update_at_episode_done(episode, ep_return)

    # -- new episodes ------------------------------------------------------------------------------------------------

    def _begin(self, ready_R: Ids, reset_kwargs: dict[str, Any]) -> None:
        """Begin new episodes in those of ``ready_R`` that must be reset."""
        episodes = self._episodes
        if take_turn(self, self._given_env, self.buffer):
            episodes.stale[:] = True
        episodes.use_seeds_once()
        if True not in episodes.stale.tobytes():
            return
        if episodes.stale[self._pending.waiting].any():
            self._discard_pending()
        if "reset_env" in self._overridden and episodes.stale.all():
            first: Any = self.reset_env(reset_kwargs) if reset_kwargs else self.reset_env()
            if first is not None and episodes.stale.all():  # it did not call the method below
                self._start_episodes(self._all_ids, parse(first[0]), as_info(first[1], self.env_num))
        self._reset(ready_R[episodes.stale[ready_R]], reset_kwargs)

    def reset_env(self, gym_reset_kwargs: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin a new episode in every environment; the running episodes are truncated in the buffer.

        :param gym_reset_kwargs: keyword arguments of the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        self._discard_pending()
        take_turn(self, self._given_env, self.buffer)
        self._episodes.before = None
        self._episodes.use_seeds_once()
        self._episodes.stale[:] = True  # until all of this is done
        self._reset(self._all_ids, gym_reset_kwargs or {})
        return wrap_nested(self._episodes.obs), np.array(self._episodes.info.dicts(), dtype=object)

    def _reset(self, ids: Ids, reset_kwargs: dict[str, Any], *, running: bool = True) -> None:
        """Begin new episodes in ``ids``, which are stale.

        :param running: whether episodes may be running in the buffer.
        """
        if not len(ids):
            return
        episodes = self._episodes
        obs, info = self._envs.reset_rows(episodes.where(ids), **episodes.seeded_once(ids, reset_kwargs))
        self._start_episodes(ids, obs, info, running=running)

    def _start_episodes(self, ids: Ids, obs: object, info: Info, *, running: bool = True) -> None:
        """Take the first observations and infos of new episodes, and close the running ones in the buffer."""
        obs = as_arrays(obs)
        if self._preprocessing is not None:
            obs, info = self._preprocessing.of_reset(tree.writable(obs), info, ids)
        if running:
            self._close_episodes(ids)
        if len(ids) == self.env_num:
            self._start_noise()
        self._episodes.begin(ids, obs, info)

    def _discard_pending(self) -> None:
        """Discard the results of pending steps, and mark their environments for a reset."""
        self._episodes.stale[self._pending.waiting] = True
        if self._envs.waiting_id:
            self._envs._abandon()  # noqa: SLF001 (the next call waits for them)
        self._pending.clear()

    @property
    def data(self) -> Batch:
        """The input of the policy for the next actions: ``obs`` and ``info`` of all environments.

        Environments whose episode has ended are reset first. The other keys of a transition hold the values of the
        newest step, or are empty.
        """
        episodes = self._episodes
        if episodes.stale.all():
            self.reset_env()
        elif episodes.stale.any():
            self._discard_pending()
            self._reset(np.flatnonzero(episodes.stale), {})
        known = {"obs": wrap_nested(episodes.obs), "info": episodes.infos(self._all_ids)}
        batch = policy_input(known, self._all_ids, episodes.before)
        return wrap({key: getattr(batch, key) for key in _KEYS})

    # -- resetting, saving and closing -------------------------------------------------------------------------------

    def reset(
        self,
        reset_buffer: bool = True,
        reset_stats: bool | dict[str, Any] | None = True,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Begin new episodes in all environments, and resets the buffer and the counters.

        :param reset_buffer: whether the buffer is emptied.
        :param reset_stats: whether the counters are set to zero. (A dict is taken as
            ``gym_reset_kwargs``.)
        :param gym_reset_kwargs: keyword arguments of the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        if isinstance(reset_stats, dict):
            gym_reset_kwargs = reset_stats
        if reset_buffer:
            self.reset_buffer()
        first: Any = self.reset_env(gym_reset_kwargs) if gym_reset_kwargs else self.reset_env()
        if reset_stats or reset_stats is None or reset_stats == {}:  # only False keeps them
            self.reset_stat()
        return first  # type: ignore[no-any-return]

    def reset_stat(self) -> None:
        """Set ``collect_step``, ``collect_episode`` and ``collect_time`` to zero."""
        self.collect_step, self.collect_episode, self.collect_time = 0, 0, 0.0

    def reset_buffer(self, keep_statistics: bool = False) -> None:
        """Empty the buffer.

        :param keep_statistics: whether running episodes keep the return and the length that they have so far.
        """
        self.buffer.reset(keep_statistics=keep_statistics)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the collector for a checkpoint, without its buffer.

        The state holds the environments within their episodes, hidden states, random generators of the action spaces,
        statistics of wrappers, and counters. For an environment whose state cannot be saved (see
        :mod:`rlfast.env.state`), it holds the reason. The buffer is saved by :meth:`rlfast.data.ReplayBuffer.save`.

        :return: a dict of plain data.
        """
        return collector_state.state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> dict[int, str]:
        """Restore a state. The buffer must be restored to the same moment separately.

        :param state: the return value of :meth:`state_dict`, of a collector with as many environments.
        :return: the indices of the environments that could not be restored, with the reasons. Each begins a new
            episode, with a seed that is drawn from a copy of NumPy's global generator.
        :raises ValueError: the state is of other environments: another number, other spaces or wrappers. Nothing is
            changed then.
        """
        return collector_state.load(self, state)

    @contextmanager
    def finite_rewards(self) -> Iterator[None]:
        """Return a context in which a reward of NaN or infinity raises NonFiniteError. Trainers collect in it."""
        self._checks_rewards = True
        try:
            yield
        finally:
            self._checks_rewards = False

    @contextmanager
    def without_overwriting(self) -> Iterator[None]:
        """Return a context in which a step raises ValueError if its row would overwrite one that was added in it."""
        self._room = checks.row_capacities(self.buffer, self.env_num)
        try:
            yield
        finally:
            self._room = None

    def close(self) -> None:
        """Close the environments. The collector cannot be used after that."""
        if not self.is_closed:
            self.is_closed = True
            self.env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


BaseCollector = Collector
"""Another name of the collector. A subclass may override ``_collect``."""


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

    _takes_async = True
