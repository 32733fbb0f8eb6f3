"""Rainbow: C51 with noisy networks, dueling streams, prioritized replay and returns of several steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_DISTRIBUTIONS, QLearningConfig
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import RainbowPolicy

TITLE = "Rainbow"
SUMMARY = "Rainbow: C51 with noisy networks, dueling and prioritized replay, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Rainbow: C51 with noisy networks, dueling streams, prioritized replay and returns of several steps."""

    atoms: PositiveInt = 51
    """Returns whose probabilities are learned, 2 or more."""
    v_min: FiniteFloat = -10.0
    """The smallest of them."""
    v_max: FiniteFloat = 10.0
    """The largest of them."""
    noisy_std: NonNegativeFloat = 0.5
    """How much noise the weights of noisy layers have at the start (arXiv:1706.10295)."""
    dueling: bool = True
    prioritized: bool = True
    alpha: NonNegativeFloat = 0.5
    eps_start: UnitFloat = 0.0
    eps_end: UnitFloat = 0.0


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0,
        learning_rate=3e-3,
        updates_per_step=0.125,
        target_update_freq=25,
        v_min=0.0,
        v_max=100.0,
        hidden_sizes=(128,),
        noisy_std=0.1,
        eps_start=1.0,
        eps_end=0.01,
        eps_steps=5_000,
    ),
    "Catch-v0": Config(
        **CATCH_DISTRIBUTIONS,
        v_min=-1.0,
        v_max=1.0,
        noisy_std=0.1,
        eps_start=1.0,
        eps_end=0.05,
    ),
    ALE: Config(
        **{**ATARI_VALUES, "learning_rate": 6.25e-5},
        noisy_std=0.1,
        beta_steps=5_000_000,
    ),
}


def build(config: Config, networks: Networks) -> RainbowPolicy:
    """The policy, with a noisy network of distributions of returns."""
    from rlfast.policy import RainbowPolicy
    from rlfast.utils.net.discrete import NoisyLinear
    from rlfast.utils.optim import adam

    noisy = partial(NoisyLinear, noisy_std=config.noisy_std)
    return RainbowPolicy(
        model=networks.action_values(dueling=config.dueling, atoms=config.atoms, softmax=True, linear_layer=noisy),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        num_atoms=config.atoms,
        v_min=config.v_min,
        v_max=config.v_max,
        compile=config.compile,
        **networks.spaces,
    )
