"""What all collectors share: environments, a buffer, counters, and the arguments of ``collect``."""

from __future__ import annotations

import inspect
import math
import types
import warnings
from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from rlfast.data.buffer.vector import VectorReplayBuffer
from rlfast.data.collect.checks import (
    as_vector,
    check_buffer,
    check_nothing_missing,
    check_policy,
    check_spaces,
    is_single,
    positive,
)
from rlfast.data.stats import CollectStats
from rlfast.utils.checks import ArgumentError, check_instance

if TYPE_CHECKING:
    import gymnasium as gym

    from rlfast.data.buffer.base import ReplayBuffer
    from rlfast.data.collect.checks import ActingPolicyProtocol
    from rlfast.env import BaseVectorEnv

TCollectStats = TypeVar("TCollectStats", bound=CollectStats)


class _ResetOnce(ABCMeta):
    """Calls a ``reset`` that a subclass overrides once it is made, as Tianshou 1.0's constructor does.

    What such a method sets up is there then. Others need no reset before the first collect.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if made.__class__.reset is not BaseCollector.reset:
            _reset_but_for_the_buffer(made)
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor, for those who look at signatures."""
        return inspect.signature(types.MethodType(cls.__init__, cls))  # type: ignore[misc]  # of this class itself


class BaseCollector(metaclass=_ResetOnce):
    """Fills a buffer with what happens in environments; :class:`~rlfast.data.Collector` lets a policy act in them.

    Subclasses say in :meth:`_collect` how. Environments are reset when the first collect begins, unless they were
    before.

    :param policy: acts.
    :param env: a vector environment; a single one is wrapped, with a warning.
    :param buffer: where transitions go; one ring for each environment. By default a vector buffer that remembers one
        transition of each. It is not reset.
    :param exploration_noise: whether ``policy.exploration_noise`` is applied to the actions.
    :param collect_stats_class: of what :meth:`collect` gives; see :class:`~rlfast.data.CollectStats`.
    :param raise_on_nan_in_buffer: whether a collect that leaves NaN or None in the buffer is an error. All of the
        buffer is looked at after each collect.
    :raises TypeError: a plain buffer for several environments, an environment of an unknown kind, or what cannot act,
        store or be called.
    :raises ValueError: the buffer has fewer rings than there are environments.
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
        """The vector environment. Another one may be put in its place: it begins with new episodes."""
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
        """Called when there are new environments."""

    def _assign_buffer(self, buffer: ReplayBuffer | None) -> None:
        if buffer is None:
            buffer = VectorReplayBuffer(self.env_num, self.env_num)
        check_buffer(buffer, self.env_num)
        self.buffer: ReplayBuffer = buffer

    @property
    def action_space(self) -> Any:
        """The environments' action spaces, as the vector environment gives them."""
        return self._action_space

    # -- resetting ---------------------------------------------------------------------------------------------------

    def reset(
        self,
        reset_buffer: bool = True,
        reset_stats: bool | dict[str, Any] | None = True,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> tuple[Any, Any]:
        """Starts all over: new episodes, and, as asked, an empty buffer and counters at zero.

        :param reset_buffer: whether the buffer is emptied.
        :param reset_stats: whether the counters are put at zero. (A dict here is ``gym_reset_kwargs``, which stands
            second in Tianshou 1.0.)
        :param gym_reset_kwargs: given to the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        if isinstance(reset_stats, dict):
            gym_reset_kwargs = reset_stats
        if reset_buffer:
            self.reset_buffer()
        first: Any = self.reset_env(gym_reset_kwargs) if gym_reset_kwargs else self.reset_env()
        if reset_stats or reset_stats is None or reset_stats == {}:  # 1.0 resets them always
            self.reset_stat()
        return first  # type: ignore[no-any-return]

    def reset_stat(self) -> None:
        """Puts ``collect_step``, ``collect_episode`` and ``collect_time`` at zero."""
        self.collect_step, self.collect_episode, self.collect_time = 0, 0, 0.0

    def reset_buffer(self, keep_statistics: bool = False) -> None:
        """Empties the buffer.

        :param keep_statistics: whether running episodes keep their return and length so far.
        """
        self.buffer.reset(keep_statistics=keep_statistics)

    def reset_env(self, gym_reset_kwargs: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Starts a new episode in every environment.

        :param gym_reset_kwargs: given to the environments' ``reset``.
        :return: the first observations, and an array of the info dicts.
        """
        self._was_reset = True
        obs, info = self.env.reset(**(gym_reset_kwargs or {}))
        return obs, np.asarray(info, dtype=object)

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

    @abstractmethod
    def _collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        random: bool = False,
        render: float | None = None,
        gym_reset_kwargs: dict[str, Any] | None = None,
    ) -> CollectStats:
        """What :meth:`collect` does once its arguments are checked: one of ``n_step`` and ``n_episode`` is given."""

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

        Episodes count in the order in which they end, and each environment contributes; to estimate the mean return,
        use :meth:`Collector.evaluate`. After ``n_episode`` all environments start afresh.

        :param n_step: environment steps, over all environments. Where it is not a multiple of their number, a few more
            are taken, with a warning.
        :param n_episode: episodes.
        :param random: whether actions are drawn from the action spaces, without asking the policy.
        :param render: seconds to wait after rendering each step; None, 0 and False do not render.
        :param no_grad: whether ``policy.forward`` runs without recording gradients.
        :param reset_before_collect: whether to reset environments and counters before. (A dict here is
            ``gym_reset_kwargs``, which stands sixth in Tianshou 1.0.)
        :param gym_reset_kwargs: given to the environments' ``reset``. A ``seed`` is used once in each environment.
        :param exact: whether the last of ``n_step`` steps only the environments that are needed.
        :raises TypeError: both or none of ``n_step`` and ``n_episode`` are given, or what is no number.
        :raises ValueError: it is not positive.
        """
        if isinstance(reset_before_collect, dict):
            gym_reset_kwargs, reset_before_collect = reset_before_collect, None
        if (n_step is None) == (n_episode is None):
            raise ArgumentError(f"give one of n_step and n_episode, got n_step={n_step} and n_episode={n_episode}")
        if n_step is not None:
            n_step = positive("n_step", n_step, rounded=math.ceil)
            if n_step % self.env_num and not exact and not self._envs.is_async:
                warnings.warn(
                    f"n_step={n_step} is not a multiple of the {self.env_num} environments: a few more are taken",
                    stacklevel=2,
                )
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
        """Called before the first collect, if nobody has reset the environments."""
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
