"""The algorithms of the command line: each module of this package defines one, found by the module's name.

A module has ``TITLE`` and ``SUMMARY`` for people; ``Config``, the class of its settings, which are those of the
policy's constructor and of the run, with a method ``build(networks)`` that makes the policy; ``PRESETS``, settings
by environment that are known to work; and ``SEARCH``, the ranges that ``rlfast tune`` searches. Modules that need torch
are imported within functions, so that ``--help`` is fast.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from rlfast.experiment.config import Presets, RunConfig
from rlfast.experiment.config.presets import ALE
from rlfast.experiment.config.search import Search

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """The name and the settings of an algorithm."""

    name: str
    """The name on the command line and in ``config.json``: that of the module, with dashes."""
    title: str
    """The name for people."""
    summary: str
    """One line of help."""
    config: type[RunConfig]
    """The class of its settings."""
    values: Presets
    """Settings that are known to work and are not the defaults, by environment."""
    search: Search
    """The ranges that ``rlfast tune`` searches."""

    @cached_property
    def presets(self) -> dict[str, RunConfig]:
        """All settings that are known to work, by environment."""
        return {env: self.config(**values) for env, values in self.values.items()}

    def build(self, networks: Networks) -> BasePolicy:
        """Makes the policy.

        :param networks: makes the networks and optimizers of a run with settings of this algorithm.
        """
        policy: BasePolicy = networks.config.build(networks)
        return policy

    def preset(self, env: str) -> RunConfig:
        """Returns settings that are known to work for an environment, or the defaults for other environments.

        :param env: id of the environment.
        :return: the settings.

        >>> ALGORITHMS["dqn"].preset("CartPole-v1").stop_return
        475.0
        """
        known = self.presets.get(env)
        if known is None:
            from rlfast.env.specs import is_atari

            known = self.presets.get(ALE) if is_atari(env) else None
        return replace(known or self.config(), env=env)


@cache
def _algorithm(module_name: str) -> Algorithm:
    module = import_module(f"{__name__}.{module_name}")
    return Algorithm(
        name=module_name.replace("_", "-"),
        title=module.TITLE,
        summary=module.SUMMARY,
        config=module.Config,
        values=module.PRESETS,
        search=module.SEARCH,
    )


class _Algorithms(Mapping[str, Algorithm]):
    """All algorithms by their names. The module of one is imported when it is asked for: most programs need one."""

    def __init__(self) -> None:
        self._modules = {found.name.replace("_", "-"): found.name for found in pkgutil.iter_modules(__path__)}

    def __getitem__(self, name: str) -> Algorithm:
        return _algorithm(self._modules[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


ALGORITHMS = _Algorithms()
"""The algorithms by their names on the command line, such as ``ALGORITHMS["ppo"]``."""


def find(name: str) -> Algorithm:
    """Returns the algorithm with this name.

    :param name: the name on the command line.
    :raises ValueError: if there is none.
    """
    if name not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {name!r}: choose from {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def algorithm_of(config: RunConfig) -> Algorithm:
    """Returns the algorithm of settings.

    :param config: the settings.
    :raises TypeError: if they are those of no algorithm.

    >>> algorithm_of(ALGORITHMS["dqn"].config(seed=1)).name
    'dqn'
    """
    package, _, module = type(config).__module__.rpartition(".")
    if package != __name__ or type(config) is not (algorithm := _algorithm(module)).config:
        raise TypeError(f"{type(config).__qualname__} has the settings of no algorithm: choose ALGORITHMS[name].config")
    return algorithm
