"""A collector of roll-outs, in an actor, that acts as a part of one collector with all environments."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.data.forms import Form
from rlfast.distributed.collectors.collector_worker import CollectorWorker, Report
from rlfast.distributed.collectors.weights import Weights
from rlfast.env import BaseVectorEnv
from rlfast.policy import BasePolicy
from rlfast.policy.native.choosers import Chooser
from rlfast.utils import tree
from rlfast.utils.runtime.native import NotNativeError


class Streams(NamedTuple):
    """The states of the random streams that choose actions."""

    policy: dict[str, Any] | None
    torch_of_policy: torch.Tensor | None
    torch: torch.Tensor

    @classmethod
    def of(cls, policy: BasePolicy) -> Streams:
        """Returns the states of a policy's streams, and of torch's global one.

        :param policy: the policy.
        """
        own = policy._torch_rng  # noqa: SLF001 (as a checkpoint of the policy does)
        return cls(policy.random_state(), None if own is None else own.get_state(), torch.get_rng_state())

    def restore(self, policy: BasePolicy) -> None:
        """Restores the states.

        :param policy: the policy.
        """
        policy.set_random_state(self.policy)
        policy._torch_rng = None  # noqa: SLF001
        if self.torch_of_policy is not None:
            policy._torch_rng = torch.Generator()  # noqa: SLF001
            policy._torch_rng.set_state(self.torch_of_policy)  # noqa: SLF001
        torch.set_rng_state(self.torch)

    def equals(self, other: Streams) -> bool:
        """Whether these are the states of the other.

        :param other: the other.
        """
        pairs = zip(self[1:], other[1:], strict=True)
        return repr(self.policy) == repr(other.policy) and all(
            a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs
        )


class JointPolicy:
    """A policy that chooses the actions of some environments by drawing those of all of them.

    It draws as many random numbers as one collector with all environments would, and gives each environment those that
    it would have there. The rows of other environments are copies of its own; they change no other row.

    :param policy: the policy.
    :param first: the number of the first environment.
    :param total: the number of all environments.
    """

    def __init__(self, policy: BasePolicy, first: int, total: int) -> None:
        self._policy, self._first, self._total = policy, first, total

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def joint(self, rows: int) -> tuple[NDArray[np.int64], slice]:
        """Returns which row stands for each environment, and the places of our own.

        :param rows: the number of our own rows.
        """
        return np.clip(np.arange(self._total) - self._first, 0, rows - 1), slice(self._first, self._first + rows)

    def __call__(self, batch: Batch, state: Batch | None = None, **options: Any) -> Batch:
        """Chooses actions; see :meth:`rlfast.policy.BasePolicy.forward`."""
        given, own = self.joint(len(batch))
        result: Any = self._policy(batch[given], tree.take(state, given), **options)
        kept = Batch(act=result.act[own])
        for name in ("state", "policy"):
            if (value := result.get(name)) is not None:
                kept[name] = tree.take(value, own)
        return kept

    def native_chooser(self, shape: tuple[int, ...] | Form) -> JointChooser:
        """Returns what chooses actions in Rust; see :meth:`rlfast.policy.ActingPolicy.native_chooser`.

        :param shape: the form of one observation.
        """
        return JointChooser(self, self._policy.native_chooser(shape))

    def native_map(self) -> None:
        """Refuse whole collects in Rust.

        :raises NotNativeError: they would draw for these environments alone.
        """
        raise NotNativeError("a joint policy draws for all environments")

    def native_exploration(self) -> Any:
        """Returns what noise there is; see :meth:`rlfast.policy.BasePolicy.native_exploration`."""
        return self._policy.native_exploration()

    def exploration_noise(self, act: NDArray[Any], batch: Batch) -> Any:
        """Adds noise to actions; see :meth:`rlfast.policy.ActingPolicy.exploration_noise`."""
        given, own = self.joint(len(batch))
        return self._policy.exploration_noise(act[given], batch[given])[own]


class JointChooser:
    """Chooses the actions of a :class:`JointPolicy` in Rust, one vector step at a time.

    :param policy: the policy.
    :param chooser: chooses those of all environments.
    """

    is_random = True

    def __init__(self, policy: JointPolicy, chooser: Chooser) -> None:
        self._policy, self._chooser = policy, chooser
        self.state_form = chooser.state_form

    def step(self, obs: object, state: object = None) -> tuple[NDArray[Any] | None, Any]:
        """Chooses actions; see :meth:`rlfast.policy.native.choosers.Chooser.step`.

        :param obs: the observations of our own environments.
        :param state: their hidden state. Default: zeros.
        """
        rows = self._chooser.form.rows(obs)
        if rows is None:
            return None, None  # of another form, for which the policy draws itself
        given, own = self._policy.joint(rows)
        act, after = self._chooser.step(tree.take(obs, given), tree.take(state, given))
        return (None, None) if act is None else (act[own], tree.take(after, own))

    def forget(self) -> None:
        """Drops unused random numbers; see :meth:`rlfast.policy.native.choosers.Chooser.forget`."""
        self._chooser.forget()


class RolloutOrder(NamedTuple):
    """What a collector is to do."""

    steps: int
    env_step: int
    weights: Weights
    streams: Streams


class Rollout(NamedTuple):
    """What it has done."""

    rows: VectorReplayBuffer
    """The rows, in a ring for each environment."""
    report: Report
    streams: Streams
    """The streams after it, the same in all collectors."""


class RolloutWorker(CollectorWorker):
    """Collects roll-outs. It is the object of an actor.

    :param config: what it is for.
    """

    def _make_collector(self, envs: BaseVectorEnv, rows: VectorReplayBuffer, noise: bool) -> Collector:
        policy: Any = JointPolicy(self.policy, self._config.first_env, self._config.all_envs)
        return Collector(policy, envs, rows, exploration_noise=noise)

    def roll_out(self, order: RolloutOrder) -> Rollout:
        """Collects, and returns the rows.

        :param order: what to do.
        """
        begin = time.perf_counter()
        self._take(order.weights)
        self._run.set_schedules(self.policy, order.env_step)
        order.streams.restore(self.policy)
        self.collector.reset_buffer(keep_statistics=True)
        with self.collector.finite_rewards():
            stats = self.collector.collect(n_step=order.steps)
        rows: Any = self.collector.buffer
        return Rollout(rows, self._report(stats, None, time.perf_counter() - begin), Streams.of(self.policy))
