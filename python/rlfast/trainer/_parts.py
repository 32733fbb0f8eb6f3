"""Checks of the objects that trainers are given, by their methods rather than their classes."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, is_dataclass
from typing import Any

from rlfast.data.collect.collector import Collector
from rlfast.utils.arguments.checks import ArgumentError, check_methods

_TRAINER_OF = {
    "rollouts": ("whole roll-outs of its own actions", "OnpolicyTrainer"),
    "transitions": ("sampled transitions", "OffpolicyTrainer, or OfflineTrainer for a fixed buffer"),
}
_LOGGER = ("log_train_data", "log_test_data", "log_update_data", "log_info_data", "save_data")


def check_parts(
    policy: object, logger: object, buffer: object, train_collector: object, test_collector: object
) -> None:
    """Checks the objects that a trainer is given.

    :raises TypeError: an object lacks methods that are needed.
    :raises ValueError: a collector is closed, or both collectors have the same buffer.
    """
    check_methods("policy", policy, "policy that learns, such as DQNPolicy(...)", ("train", "eval", "update"))
    check_methods("logger", logger, "logger", _LOGGER)
    check_methods("buffer", buffer, "buffer", ("sample", "__len__"), optional=True)
    for name, collector in {"train_collector": train_collector, "test_collector": test_collector}.items():
        check_methods(name, collector, "collector", ("collect", "reset_stat"), optional=True)
        if getattr(collector, "is_closed", False) is True:
            raise ValueError(f"{name} is closed: make a new one")
    shared = getattr(train_collector, "buffer", None)
    if shared is not None and shared is getattr(test_collector, "buffer", None):
        raise ValueError(
            "train_collector and test_collector have the same buffer, which every test would empty: "
            "give the test_collector environments and a buffer of its own"
        )


def check_learning(policy: object, learns_from: str, trainer: str) -> None:
    """Checks that a policy learns from what a trainer gives it.

    :param learns_from: what the trainer gives; see :attr:`rlfast.policy.BasePolicy.learns_from`.
    :param trainer: the name of the trainer.
    :raises ValueError: the policy learns from something else.
    """
    needed = getattr(policy, "learns_from", None)
    if needed in _TRAINER_OF and needed != learns_from:
        what, other = _TRAINER_OF[needed]
        raise ArgumentError(f"{type(policy).__name__} learns from {what}, so {trainer} cannot train it: use {other}")


def collect_exact_steps(collector: Any, n_step: int, **options: Any) -> Any:
    """Collects exactly ``n_step`` steps if ``collector.collect`` takes ``exact``; else it may collect more.

    :param collector: the collector.
    :param n_step: the number of environment steps.
    :param options: further arguments of ``collector.collect``.
    :return: the statistics of the collect.
    """
    parameters = inspect.signature(collector.collect).parameters.values()
    passed_on = isinstance(collector, Collector) and any(one.kind is one.VAR_KEYWORD for one in parameters)
    if passed_on or any(one.name == "exact" for one in parameters):
        options["exact"] = True
    return collector.collect(n_step=n_step, **options)


def finite_rewards(collector: object) -> AbstractContextManager[None]:
    """Returns a context in which a collector refuses rewards of NaN and infinity, if it has such a context."""
    make = getattr(collector, "finite_rewards", None)
    return nullcontext() if make is None else make()


def tests_by_collect(collector: object) -> bool:
    """Whether tests must call ``collect``: the collector's class overrides it, but not ``evaluate``."""
    kind = type(collector)
    own_collect = getattr(kind, "collect", None) is not Collector.collect
    return own_collect and getattr(kind, "evaluate", None) in (None, Collector.evaluate)


def as_dict(record: object) -> dict[str, Any]:
    """Returns the fields of a statistics object as a dict, for loggers."""
    return asdict(record) if is_dataclass(record) and not isinstance(record, type) else dict(vars(record))
