"""What can be trained from the command line: each module of this package is an algorithm, found by its name.

It has ``TITLE`` and ``SUMMARY`` for people, its settings ``Config``, ``PRESETS`` for environments on which they are
known to work, ``build(config, networks)``, which makes the policy, and, where something changes in the course of a run,
``schedules(config, policy, env_step)``, called before each collect. What needs torch is imported within functions, so
that help comes at once.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import RunConfig

if TYPE_CHECKING:
    from rlfast.policy import BasePolicy


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """How an algorithm is called, configured and built."""

    name: str
    """On the command line and in ``config.json``: that of the module, with dashes."""
    title: str
    """For people."""
    summary: str
    """One line of help."""
    config: type[RunConfig]
    """Its settings."""
    presets: Mapping[str, RunConfig]
    """Settings that are known to work, by environment."""
    build: Callable[..., BasePolicy]
    """Makes the policy from the settings and :class:`~rlfast.experiment.networks.Networks`."""
    schedules: Callable[[Any, Any, int], None] | None
    """Sets what changes with the environment steps; None if nothing does."""

    def preset(self, env: str) -> RunConfig:
        """Settings that are known to work for an environment, and the defaults for all others.

        >>> ALGORITHMS["dqn"].preset("CartPole-v1").stop_return
        475.0
        """
        return replace(self.presets.get(env, self.config()), env=env)


def _algorithm(module_name: str) -> Algorithm:
    module = import_module(f"{__name__}.{module_name}")
    return Algorithm(
        name=module_name.replace("_", "-"),
        title=module.TITLE,
        summary=module.SUMMARY,
        config=module.Config,
        presets=module.PRESETS,
        build=module.build,
        schedules=getattr(module, "schedules", None),
    )


ALGORITHMS = {one.name: one for one in (_algorithm(found.name) for found in pkgutil.iter_modules(__path__))}


def find(name: str) -> Algorithm:
    """The algorithm of that name.

    :raises ValueError: there is none.
    """
    if name not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {name!r}: choose from {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def algorithm_of(config: RunConfig) -> Algorithm:
    """The algorithm that ``config`` configures.

    >>> algorithm_of(ALGORITHMS["dqn"].config(seed=1)).name
    'dqn'
    """
    return next(algorithm for algorithm in ALGORITHMS.values() if type(config) is algorithm.config)
