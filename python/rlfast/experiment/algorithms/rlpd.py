"""Reinforcement learning with prior data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlfast.experiment.algorithms import redq
from rlfast.experiment.config import DataConfig, Presets, presets, search, settings
from rlfast.utils.arguments.validation import FiniteFloat, UnitFloat

if TYPE_CHECKING:
    from rlfast.policy import Alpha

TITLE = "RLPD"
SUMMARY = "soft actor-critic that learns from data and its own transitions, for continuous actions"


@settings()
class Config(redq.Config, DataConfig):
    """Soft actor-critic that learns from data and its own transitions, for continuous actions."""

    normalize_obs: Literal[False] = False
    """Always False: the observations of the data are those of the environment."""
    normalize_reward: Literal[False] = False
    """Always False: the rewards of the data are those of the environment."""
    recurrent: Literal[False] = False
    """Always False: data have no hidden states."""
    start_steps = 5_000
    alpha = 1.0
    target_entropy: FiniteFloat | None = None
    """The target of the entropy. Default: minus half the number of action dimensions."""
    layer_norm: bool = True
    """Whether hidden layers of critics are normalized (LayerNorm), which keeps values of unknown actions bounded."""
    data_share: UnitFloat = 0.5
    """Share of the data in each batch; the rest is drawn from the run's replay buffer."""

    def make_alpha(self, target: float) -> Alpha:
        """Returns the temperature, fixed or learned.

        :param target: twice the target of the entropy, without a ``target_entropy``.
        """
        return super().make_alpha(target / 2)


PRESETS: Presets = {
    "Pendulum-v1": {
        **presets.PENDULUM_SOFT,
        "actor_delay": 4,
        "ensemble_size": 5,
        "batch_size": 128,
        "start_steps": 200,
        "eval_interval": 200,
        "updates_per_step": 1.0,
        "tau": 0.02,
    },
    "HalfCheetah-v5": {
        "max_steps": 60_000,
        "eval_interval": 5_000,
        "eval_episodes": 10,
        "eval_envs": 10,
        "buffer_size": 60_000,
        "updates_per_step": 5.0,
        "actor_delay": 5,
        "compile": True,
    },
}

SEARCH: search.Search = search.ranges(
    Config,
    search.CONTINUOUS,
    {"updates_per_step": search.OneOf((5.0, 10.0, 20.0)), "data_share": search.OneOf((0.25, 0.5, 0.75))},
)
