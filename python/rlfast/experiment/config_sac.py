"""The settings of soft actor-critic."""

from __future__ import annotations

from dataclasses import dataclass

from rlfast.experiment.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class SACConfig(RunConfig):
    """Soft actor-critic, for continuous actions."""

    env: str = "Pendulum-v1"
    """Gymnasium environment, with continuous actions and vector observations."""
    num_envs: int = 1
    """Training environments, stepped together."""
    hidden_sizes: tuple[int, ...] = (256, 256)
    """Units of the hidden layers of actor and critics."""
    learning_rate: float = 3e-4
    """Adam's step size, of actor and critics."""
    gamma: float = 0.99
    """Discount factor."""
    n_step: int = 1
    """Rewards summed before bootstrapping."""
    tau: float = 0.005
    """How far the target critics move at each gradient step."""
    alpha: float = 0.2
    """The temperature, or where it starts."""
    auto_alpha: bool = True
    """Learn the temperature, so that the entropy stays at its target."""
    target_entropy: float | None = None
    """That target. Default: minus the number of action dimensions."""
    alpha_learning_rate: float = 3e-4
    """Adam's step size, of the temperature."""
    buffer_size: int = 1_000_000
    """Transitions kept."""
    batch_size: int = 256
    """Transitions in a gradient step."""
    start_steps: int = 1_000
    """Random environment steps before the first update."""
    collect_steps: int = 1
    """Environment steps between updates."""
    updates_per_step: float = 1.0
    """Gradient steps for each environment step."""

    def __post_init__(self) -> None:
        """Checks types and ranges, as :class:`RunConfig` says."""
        super().__post_init__()
        self._at_least_one("n_step", "buffer_size", "batch_size", "collect_steps")
        self._not_negative("learning_rate", "alpha_learning_rate", "start_steps", "updates_per_step")
        self._fractions("gamma", "tau")
        self._layers(self.hidden_sizes)
        self._portion(self.collect_steps, self.updates_per_step)
        self._room(self.buffer_size)
        if not self.alpha > 0:
            raise ValueError(f"--alpha must be above 0, got {self.alpha}")


SAC_PRESETS = {
    "Pendulum-v1": SACConfig(
        stop_return=-200.0,
        max_steps=20_000,
        num_envs=8,
        eval_interval=1_000,
        collect_steps=8,
        updates_per_step=0.25,
        hidden_sizes=(64, 64),
        learning_rate=2e-3,
        alpha_learning_rate=2e-3,
        alpha=0.5,
        gamma=0.95,
        tau=0.02,
        buffer_size=100_000,
    ),
    "InvertedPendulum-v5": SACConfig(
        env="InvertedPendulum-v5", stop_return=950.0, hidden_sizes=(128, 128), learning_rate=1e-3, max_steps=50_000
    ),
}
