"""Recurrent replay distributed DQN, for environments whose observations lack a part of the state."""

from __future__ import annotations

from rlfast.experiment.config import Presets, SequenceConfig, search, settings

TITLE = "R2D2"
SUMMARY = "recurrent Q-learning from prioritized sequences, for discrete actions and partial observations"


@settings("R2D2Policy", without=("clip_loss_grad", "compile"))
class Config(SequenceConfig):
    """Recurrent replay distributed DQN: prioritized sequences, burn-in from stored states, and rescaled values."""

    dueling = True
    prioritized = True
    alpha = 0.9
    beta = 0.6
    beta_end = 0.6
    discount_factor = 0.99
    estimation_step = 5
    max_grad_norm = 40.0


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 400.0,
        "observe": (0, 2),
        "learning_rate": 3e-3,
        "sequence_length": 12,
        "burn_in": 4,
        "batch_size": 32,
        "collect_steps": 32,
        "updates_per_step": 0.125,
        "target_update_freq": 100,
        "buffer_size": 40_000,
        "eps_steps": 8_000,
        "eps_end": 0.02,
    }
}

SEARCH: search.Search = search.ranges(
    Config,
    search.VALUES,
    {
        "sequence_length": search.OneOf((10, 20, 40)),
        "burn_in": search.OneOf((0, 5, 10)),
        "eta": search.OneOf((0.5, 0.9)),
    },
)
