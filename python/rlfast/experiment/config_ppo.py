"""The settings of proximal policy optimization."""

from __future__ import annotations

from dataclasses import dataclass

from rlfast.experiment.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class PPOConfig(RunConfig):
    """Proximal policy optimization, for discrete, multi-discrete and continuous actions."""

    eval_interval: int = 8_192
    """Environment steps between two tests; each is followed by a checkpoint."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Units of the hidden layers of actor and critic."""
    learning_rate: float = 3e-4
    """Adam's step size."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Advantages: 0 for one-step, 1 for Monte Carlo (arXiv:1506.02438)."""
    collect_steps: int = 2_048
    """Environment steps in a roll-out."""
    repeat: int = 10
    """Passes over a roll-out."""
    batch_size: int = 64
    """Rows in a gradient step."""
    eps_clip: float = 0.2
    """How far the ratio of probabilities counts."""
    dual_clip: float | None = None
    """Bound of the loss where the advantage is negative (arXiv:1912.09729), above 1."""
    value_clip: bool = False
    """Clip the critic's step, too."""
    normalize_advantage: bool = True
    """Advantages of mean 0 and deviation 1 in each gradient step."""
    recompute_advantage: bool = False
    """Estimate advantages anew before each pass."""
    scale_returns: bool = False
    """Divide returns by their running standard deviation."""
    vf_coef: float = 0.5
    """Weight of the critic's loss."""
    ent_coef: float = 0.0
    """Weight of the entropy."""
    max_grad_norm: float = 0.5
    """Largest norm of a gradient."""
    log_std: float = 0.0
    """Where the logarithm of the standard deviation of continuous actions starts."""

    def __post_init__(self) -> None:
        """Checks types and ranges, as :class:`RunConfig` says."""
        super().__post_init__()
        self._at_least_one("collect_steps", "repeat", "batch_size")
        self._not_negative("learning_rate", "vf_coef", "ent_coef")
        self._fractions("gamma", "gae_lambda")
        self._layers(self.hidden_sizes)
        self._portion(self.collect_steps)


PPO_PRESETS = {
    "CartPole-v1": PPOConfig(
        stop_return=475.0, eval_interval=4_096, learning_rate=2e-3, gamma=0.98, collect_steps=1_024, batch_size=256
    ),
    "Pendulum-v1": PPOConfig(
        stop_return=-200.0, max_steps=300_000, learning_rate=1e-3, gamma=0.9, eval_interval=16_384
    ),
    "InvertedPendulum-v5": PPOConfig(stop_return=950.0, learning_rate=1e-3, log_std=-0.5),
}
