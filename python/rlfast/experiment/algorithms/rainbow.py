"""Rainbow: C51 with noisy networks, dueling streams, prioritized replay and returns of several steps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rlfast.experiment.config import Presets, QLearningConfig, presets, search, settings
from rlfast.utils.arguments.validation import NonNegativeFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "Rainbow"
SUMMARY = "Rainbow: C51 with noisy networks, dueling and prioritized replay, for discrete actions"


@settings("RainbowPolicy")
class Config(QLearningConfig):
    """Rainbow: C51 with noisy networks, dueling streams, prioritized replay and returns of several steps."""

    noisy_std: NonNegativeFloat = 0.5
    """How much noise the weights of noisy layers have at the start (arXiv:1706.10295)."""
    dueling = True
    prioritized = True
    alpha = 0.5
    eps_start = 0.0
    eps_end = 0.0

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with a noisy network of distributions of returns."""
        from rlfast.utils.net.discrete import NoisyLinear

        noisy = partial(NoisyLinear, noisy_std=self.noisy_std)
        return networks.policy(model=networks.action_values(linear_layer=noisy), optim=networks.optim())


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "learning_rate": 3e-3,
        "updates_per_step": 0.125,
        "target_update_freq": 25,
        "v_min": 0.0,
        "v_max": 100.0,
        "hidden_sizes": (128,),
        "noisy_std": 0.1,
        "eps_start": 1.0,
        "eps_end": 0.01,
        "eps_steps": 5_000,
    },
    "Catch-v0": {
        **presets.CATCH_DISTRIBUTIONS,
        "v_min": -1.0,
        "v_max": 1.0,
        "noisy_std": 0.1,
        "eps_start": 1.0,
        "eps_end": 0.05,
    },
    presets.ALE: {**presets.ATARI_VALUES, "learning_rate": 6.25e-5, "noisy_std": 0.1, "beta_steps": 5_000_000},
}

SEARCH: search.Search = search.ranges(
    Config, search.VALUES, {"num_atoms": search.OneOf((21, 51, 101)), "noisy_std": search.Between(0.1, 0.6)}
)
