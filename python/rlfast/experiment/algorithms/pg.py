"""REINFORCE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import PolicyGradientConfig, Presets, search, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "PG"
SUMMARY = "REINFORCE, for discrete and continuous actions"


@settings("PGPolicy", without=("gae_lambda", "max_batchsize"))
class Config(PolicyGradientConfig):
    """REINFORCE, for discrete, multi-discrete and continuous actions."""

    learning_rate = 1e-3
    repeat = 1
    reward_normalization = True

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an actor whose first weights are orthogonal."""
        actor, dist_fn = networks.actor()
        networks.initialize(actor)
        return networks.policy(actor=actor, dist_fn=dist_fn, optim=networks.optim())


PRESETS: Presets = {
    "CartPole-v1": {"stop_return": 475.0, "eval_interval": 8_192, "learning_rate": 2e-3, "max_steps": 300_000}
}

SEARCH: search.Search = search.ranges(Config, search.ROLL_OUTS, {"repeat": search.OneOf((1, 2, 4))})
