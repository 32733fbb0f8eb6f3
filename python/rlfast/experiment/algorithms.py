"""What can be trained from the command line: one entry for each algorithm.

To add one: a subclass of :class:`~rlfast.experiment.config.RunConfig`, a module ``rlfast.experiment.NAME`` (dashes as
underscores) with a function ``build(config) -> Parts``, and an entry here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING

from rlfast.experiment.config import DQN_PRESETS, DQNConfig, RunConfig
from rlfast.experiment.config_ppo import PPO_PRESETS, PPOConfig
from rlfast.experiment.config_sac import SAC_PRESETS, SACConfig
from rlfast.utils.plain import summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlfast.experiment.parts import Parts


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """How an algorithm is called, configured and built."""

    name: str
    """On the command line and in ``config.json``: lower case, with dashes."""
    title: str
    """For people."""
    what: str
    """One line of help."""
    config: type[RunConfig]
    """Its settings."""
    presets: Mapping[str, RunConfig] = field(default_factory=dict)
    """Settings that are known to work, by environment."""

    def preset(self, env: str) -> RunConfig:
        """Settings that are known to work for an environment, and the defaults for all others.

        >>> ALGORITHMS["dqn"].preset("CartPole-v1").stop_return
        475.0
        """
        return replace(self.presets.get(env, self.config()), env=env)

    def build(self, config: RunConfig) -> Parts:
        """Everything that a run of ``config`` needs, each part with a random stream of its own.

        :raises ValueError: the configuration cannot be run; here, perhaps, for want of memory.
        """
        module = import_module(f"rlfast.experiment.{self.name.replace('-', '_')}")
        try:
            parts: Parts = module.build(config)
        except (RuntimeError, MemoryError, OverflowError) as error:  # what torch says of layers that are too large
            raise ValueError(f"what these settings ask for cannot be made: {summary(error)}") from error
        return parts


def find(name: str) -> Algorithm:
    """The algorithm of that name.

    :raises ValueError: there is none.
    """
    if name not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {name!r}: choose from {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def algorithm_of(config: RunConfig) -> Algorithm:
    """The algorithm that ``config`` configures.

    >>> algorithm_of(DQNConfig(seed=1)).name
    'dqn'
    """
    return next(algorithm for algorithm in ALGORITHMS.values() if type(config) is algorithm.config)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            name="dqn",
            title="DQN",
            what="deep Q-learning, for discrete actions",
            config=DQNConfig,
            presets=DQN_PRESETS,
        ),
        Algorithm(
            name="ppo",
            title="PPO",
            what="proximal policy optimization, for discrete and continuous actions",
            config=PPOConfig,
            presets=PPO_PRESETS,
        ),
        Algorithm(
            name="sac",
            title="SAC",
            what="soft actor-critic, for continuous actions",
            config=SACConfig,
            presets=SAC_PRESETS,
        ),
    )
}
