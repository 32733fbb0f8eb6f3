"""What all collectors share: environments, a buffer, counters, and the arguments of ``collect``."""

from __future__ import annotations

import inspect
import math
import types
from abc import ABCMeta, abstractmethod
from typing import Any, Self, TypeVar

import gymnasium as gym
import numpy as np

from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.vector import VectorReplayBuffer
from rlfast.data.collect.checks import (
    ActingPolicyProtocol,
    as_vector,
    check_buffer,
    check_nothing_missing,
    check_policy,
    check_spaces,
    is_single,
    positive,
)
from rlfast.data.stats import CollectStats
from rlfast.env import BaseVectorEnv
from rlfast.utils.arguments.checks import ArgumentError, check_instance
from rlfast.utils.warning import warn_user

TCollectStats = TypeVar("TCollectStats", bound=CollectStats)


class _ResetOnce(ABCMeta):
    """Calls ``reset`` after the constructor of a subclass that overrides it, as Tianshou 1.0's constructor does.

    So the attributes that such a method sets exist from the start. Other classes are reset by their first collect.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if made.__class__.reset is not BaseCollector.reset:
            _reset_but_for_the_buffer(made)
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """The signature of the constructor, for ``inspect.signature``."""
        return inspect.signature(types.MethodType(cls.__init__, cls))  # type: ignore[misc]  # the constructor of this class itself


class BaseCollector(metaclass=_ResetOnce):
    """The base class of collectors, which fill a buffer with transitions; :class:`~rlfast.data.Collector` is one.

    A subclass implements :meth:`_collect`. Environments are reset when the first collect begins, unless they were
    reset before.

    :param policy: chooses the actions.
    :param env: a vector environment; a single one is wrapped, with a warning.
    :param buffer: receives the transitions; it has one ring buffer for each environment. By default it is a vector
        buffer that holds one transition of each environment. It is not reset.
    :param exploration_noise: whether ``policy.exploration_noise`` is applied to the actions.
    :param collect_stats_class: the class of the statistics that :meth:`collect` returns; see
        :class:`~rlfast.data.CollectStats`.
    :param raise_on_nan_in_buffer: whether a collect that leaves NaN or None in the buffer raises an error. This reads
        the whole buffer after each collect.
    :raises TypeError: the buffer is not a vector buffer and there are several environments, the environment is of an
        unknown kind, or an argument lacks methods that are needed.
    :raises ValueError: the buffer has fewer ring buffers than there are environments.
    """

    def __init__(
        self,
        policy: ActingPolicyProtocol,
        env: gym.Env[Any, Any] | BaseVectorEnv,
        buffer: ReplayBuffer | None = None,
        exploration_noise: bool = False,
        collect_stats_class: type[CollectStats] = CollectStats,
        raise_on_nan_in_buffer: bool = False,
    ) -> None:
        check_policy(policy, exploration_noise=bool(exploration_noise))
        self.policy = policy
        self.exploration_noise = exploration_noise
        self.collect_stats_class = collect_stats_class
        self.raise_on_nan_in_buffer = raise_on_nan_in_buffer
        self.env = env
        check_spaces(policy, self._envs)
        self._assign_buffer(buffer)
        self._is_closed = self._was_reset = False
        self.reset_stat()

    def __class_getitem__(cls, _: Any) -> type[Self]:
        """Accept ``Collector[CollectStats]``, as scripts for later versions of Tianshou spell it."""
        return cls

    @property
    def env(self) -> Any:
        """The vector environment. It may be replaced by another one, which begins with new episodes."""
        return self._env

    @env.setter
    def env(self, env: Any) -> None:
        self._envs = as_vector(env)
        self._env = self._envs if is_single(env) else env
        self.env_num = len(self._envs)
        self._action_space = self._envs.action_space
        self._was_reset = False
        if "buffer" in vars(self):
            check_buffer(self.buffer, self.env_num)
        self._begin()

    def _begin(self) -> None:
        """Prepares for new environments: called by the constructor, and when ``env`` is replaced."""

    def _assign_buffer(self, buffer: ReplayBuffer | None) -> None:
        if buffer is None:
            buffer = VectorReplayBuffer(self.env_num, self.env_num)
        check_buffer(buffer, self.env_num)
        self.buffer: ReplayBuffer = buffer

    @property
    def action_space(self) -> Any:
        """The action space of the vector environment: one space, or a list with one space for each environment."""
        return self._action_space

    # -- resetting ---------------------------------------------------------------------------------------------------

    def reset(
        self,
        reset_buffer: bool = True,
        reset_stats: bool | dict[str, Any] | None = True,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Begins new episodes in all environments, and resets the buffer and the counters.

        :param reset_buffer: whether the buffer is emptied.
        :param reset_stats: whether the counters are set to zero. (A dict is taken as ``gym_reset_kwargs``, which is
            the second parameter in Tianshou 1.0.)
        :param gym_reset_kwargs: keyword arguments of the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        if isinstance(reset_stats, dict):
            gym_reset_kwargs = reset_stats
        if reset_buffer:
            self.reset_buffer()
        first: Any = self.reset_env(gym_reset_kwargs) if gym_reset_kwargs else self.reset_env()
        if reset_stats or reset_stats is None or reset_stats == {}:  # Tianshou 1.0 always resets them
            self.reset_stat()
        return first  # type: ignore[no-any-return]

    def reset_stat(self) -> None:
        """Sets ``collect_step``, ``collect_episode`` and ``collect_time`` to zero."""
        self.collect_step, self.collect_episode, self.collect_time = 0, 0, 0.0

    def reset_buffer(self, keep_statistics: bool = False) -> None:
        """Empties the buffer.

        :param keep_statistics: whether running episodes keep the return and the length that they have so far.
        """
        self.buffer.reset(keep_statistics=keep_statistics)

    def reset_env(self, gym_reset_kwargs: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begins a new episode in every environment.

        :param gym_reset_kwargs: keyword arguments of the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        self._was_reset = True
        obs, info = self.env.reset(**(gym_reset_kwargs or {}))
        return obs, np.asarray(info, dtype=object)

    def close(self) -> None:
        """Closes the environments. The collector cannot be used after that."""
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

    @abstractmethod
    def _collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        random: bool = False,
        render: float | None = None,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> CollectStats:
        """Collects; called by :meth:`collect` after it has checked that one of ``n_step`` and ``n_episode`` is given.

        :return: the statistics of this collect.
        """

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
        """Collects a number of steps or of episodes.

        With ``n_episode``, episodes are counted in the order in which they end, so short ones are overrepresented; to
        estimate the mean return, use :meth:`Collector.evaluate`. After a collect with ``n_episode``, all environments
        begin new episodes.

        :param n_step: environment steps, summed over all environments. A number that is not a multiple of the number
            of environments is rounded up, with a warning.
        :param n_episode: episodes.
        :param random: whether actions are drawn from the action spaces instead of from the policy.
        :param render: seconds to wait after rendering each step; None, 0 and False do not render.
        :param no_grad: whether ``policy.forward`` runs without recording gradients.
        :param reset_before_collect: whether to reset environments and counters first. (A dict is taken as
            ``gym_reset_kwargs``, which is the sixth parameter in Tianshou 1.0.)
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
            n_step = positive("n_step", n_step, rounded=math.ceil)
            if n_step % self.env_num and not exact and not self._envs.is_async:
                warn_user(f"n_step={n_step} is not a multiple of the {self.env_num} environments: a few more are taken")
        else:
            n_episode = positive("n_episode", n_episode)
        self._check_open()
        check_instance("gym_reset_kwargs", gym_reset_kwargs, dict, optional=True)
        if reset_before_collect:
            self.reset(reset_buffer=False, gym_reset_kwargs=gym_reset_kwargs)
            gym_reset_kwargs = {key: value for key, value in (gym_reset_kwargs or {}).items() if key != "seed"}
        elif not self._was_reset:
            self._begin_first(gym_reset_kwargs)
        options: dict[str, Any] = {} if no_grad is True else {"no_grad": no_grad}
        if exact:
            options["exact"] = True
        stats = self._collect(
            n_step=n_step,
            n_episode=n_episode,
            random=random,
            render=render,
            gym_reset_kwargs=gym_reset_kwargs,
            **options,
        )
        if self.raise_on_nan_in_buffer:
            check_nothing_missing(self.buffer)
        return stats

    def _begin_first(self, gym_reset_kwargs: dict[str, Any] | None) -> None:
        """Prepares the first collect if the environments were not reset yet; here it resets them."""
        self.reset_env(gym_reset_kwargs)
        self._was_reset = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the collector is closed: make a new one")


def _reset_but_for_the_buffer(collector: Any) -> None:
    parameters = inspect.signature(collector.reset).parameters
    if any(one.name == "reset_buffer" or one.kind is one.VAR_KEYWORD for one in parameters.values()):
        collector.reset(reset_buffer=False)
    elif parameters:
        collector.reset(False)
    else:
        collector.reset()
