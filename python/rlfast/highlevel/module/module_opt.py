"""Networks with their optimizers."""

from dataclasses import dataclass

import torch

from rlfast.utils.net.common import ActorCritic


@dataclass
class ModuleOpt:
    """A network and its optimizer."""

    module: torch.nn.Module
    optim: torch.optim.Optimizer


@dataclass
class ActorCriticOpt:
    """An actor and a critic, and their optimizer."""

    actor_critic_module: ActorCritic
    optim: torch.optim.Optimizer

    @property
    def actor(self) -> torch.nn.Module:
        """The actor."""
        return self.actor_critic_module.actor

    @property
    def critic(self) -> torch.nn.Module:
        """The critic."""
        return self.actor_critic_module.critic
