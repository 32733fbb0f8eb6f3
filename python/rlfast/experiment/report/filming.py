"""Films of a policy while it is trained."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import gymnasium as gym
import torch

from rlfast.data.collect.state import wrapper_states
from rlfast.experiment.agents import Agent, film, minimal_config
from rlfast.experiment.build import build
from rlfast.experiment.config import RunWarning, stream_seed
from rlfast.trainer import Callback
from rlfast.utils.runtime.seeding import global_random_state, set_global_random_state

if TYPE_CHECKING:
    from pathlib import Path

    from rlfast.data.stats import CollectStats
    from rlfast.experiment.build import Parts
    from rlfast.experiment.config import RunConfig
    from rlfast.policy import BasePolicy
    from rlfast.trainer.callbacks import Training

FOLDER = "videos"
"""Name of the folder of films, in the run's folder."""


class Filming(Callback):
    """Films an episode after the first test of each interval, with a copy of the policy: training goes on as without.

    :param config: the settings of the run, with a ``video_interval``.
    :param parts: the parts of the run.
    :param run_dir: the folder of the run.
    """

    def __init__(self, config: RunConfig, parts: Parts, run_dir: Path) -> None:
        self._config, self._parts, self._folder = config, parts, run_dir / FOLDER
        self._interval = config.video_interval or config.max_steps
        self._newest: int | None = None  # the beginning of the newest interval that was filmed, or could not be

    def on_test(self, trainer: Training, stats: CollectStats) -> None:  # noqa: ARG002
        """Films, unless there is a film of this interval, or warns.

        :param trainer: the trainer.
        :param stats: the statistics of the test.
        """
        begun = trainer.env_step // self._interval * self._interval
        folder = self._folder / f"step-{begun}"
        if begun == self._newest or folder.exists():
            return
        self._newest = begun
        streams, threads = global_random_state(), torch.get_num_threads()
        try:
            film(self._agent(trainer.policy), stream_seed(self._config.seed, f"env/video/{begun}"), folder)
        except (ImportError, ValueError, OSError, gym.error.Error) as error:
            warnings.warn(f"the film of step {trainer.env_step:,} is missing: {error}", RunWarning, stacklevel=2)
        finally:
            set_global_random_state(streams)
            torch.set_num_threads(threads)

    def _agent(self, policy: BasePolicy) -> Agent:
        config = replace(self._config, num_envs=1, eval_envs=1, progress=False)
        parts = build(minimal_config(config), self._parts.declaration)
        parts.close()
        parts.policy.load_state_dict(policy.state_dict())
        parts.policy.eval()
        wrappers = wrapper_states(self._parts.test_collector.env)
        statistics = wrappers if config.normalize_obs or self._parts.declaration.beyond else None
        return Agent(policy=parts.policy, config=config, declaration=self._parts.declaration, statistics=statistics)
