"""Conservative Q-learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineControlConfig, Presets, TemperatureConfig, presets, search, settings
from rlfast.utils.arguments.validation import NonNegativeFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "CQL"
SUMMARY = "conservative Q-learning, from data with continuous actions"


@settings("CQLPolicy")
class Config(OfflineControlConfig, TemperatureConfig):
    """Conservative Q-learning."""

    alpha = 1.0
    backup_entropy = False
    actor_learning_rate: NonNegativeFloat | None = None
    """Learning rate of Adam, of the actor after its steps of imitation, in which it is learning_rate. Default: the
    same."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an actor of squashed normal distributions and two critics."""
        from torch.optim.lr_scheduler import MultiStepLR

        optim, actor = networks.optim(), networks.normal_actor()
        rate = self.learning_rate if self.actor_learning_rate is None else self.actor_learning_rate
        changes = self.imitation_steps > 0 and 0 < self.learning_rate != rate
        actor_optim = (optim if changes else networks.adam(rate))(actor.parameters())
        schedule = MultiStepLR(actor_optim, [self.imitation_steps], rate / self.learning_rate) if changes else None
        return networks.policy(
            actor=actor,
            actor_optim=actor_optim,
            **networks.two(networks.action_value),
            alpha=networks.alpha(),
            lr_scheduler=schedule,
        )


PRESETS: Presets = {
    "Pendulum-v1": {
        **presets.PENDULUM_DATA,
        "max_steps": 10_000,
        "eval_interval": 2_500,
        "learning_rate": 1e-3,
        "alpha_learning_rate": 1e-3,
        "target_entropy": -4.0,  # the expert's data are narrow, and a wide policy leaves them
        "cql_weight": 20.0,
        "with_lagrange": False,
        "num_repeat_actions": 4,
        "compile": True,
    }
}

SEARCH: search.Search = search.ranges(
    Config,
    search.OFFLINE,
    {"cql_weight": search.Between(0.5, 10.0, log=True), "lagrange_threshold": search.OneOf((5.0, 10.0, 20.0))},
)
