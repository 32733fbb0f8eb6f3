"""Critics of actions, their target networks and their regression."""

from collections.abc import Callable
from copy import deepcopy
from functools import reduce
from operator import add
from typing import Any, ClassVar

import torch
from torch import nn

from rlfast.data import to_torch_as
from rlfast.functional.losses import squared_loss
from rlfast.policy._checks import check_networks
from rlfast.policy._replaced import Replaceable, stock
from rlfast.policy.lagged import LaggedNetworks
from rlfast.policy.replay_learner import Sample
from rlfast.utils.optim import OptimizerFactory, clone_optimizer, descend, make_optimizer


@stock("_mse_optimizer")
class Critics(Replaceable, LaggedNetworks):
    """A policy's critics, each an attribute of it, such as ``critic``, with its optimizer, ``critic_optim``, and its
    target network, ``critic_old``.
    """

    critic_names: ClassVar[tuple[str, ...]] = ("critic",)
    """Of the critics."""
    lagged_names: ClassVar[tuple[str, ...]] = ("critic",)
    """Of the networks that have a target network."""
    tau: float
    """Share of the way that target networks go in each step."""

    def add_critics(
        self,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic2: nn.Module | None = None,
        critic2_optim: torch.optim.Optimizer | OptimizerFactory | None = None,
    ) -> None:
        """Take the critics over, one or, as :attr:`critic_names` says, two, and make their optimizers and target
        networks.

        :param critic2: None for one like the first, with parameters of its own.
        :param critic2_optim: None for one like that of the first.
        :raises ValueError: for an optimizer of a ``critic2`` that is not given.
        """
        check_networks(critic=critic, critic2=critic if critic2 is None else critic2)
        if critic2 is None and isinstance(critic2_optim, torch.optim.Optimizer):
            raise ValueError(
                "critic2_optim holds no parameters of the critic2 that is made here: give both, or neither"
            )
        self.critic = critic
        if "critic2" in self.critic_names:
            self.critic2 = another(critic) if critic2 is None else critic2
        self.critic_optim = make_optimizer(critic_optim, critic.parameters())
        self.critic_old = self.lagged_copy(critic)
        if "critic2" in self.critic_names:
            if critic2_optim is None and self.critic_optim is not None:
                critic2_optim = clone_optimizer(self.critic_optim, self.critic2.parameters())
            self.critic2_optim = make_optimizer(critic2_optim, self.critic2.parameters())
            self.critic2_old = self.lagged_copy(self.critic2)

    @property
    def critics(self) -> list[nn.Module]:
        """The trained critics."""
        return [getattr(self, name) for name in self.critic_names]

    def rate(self, obs: Any, act: torch.Tensor, *, old: bool = False) -> list[torch.Tensor]:
        """Give the value of actions by each critic, ``[B]``.

        :param old: whether to ask the target networks.
        """
        return [getattr(self, f"{name}_old" if old else name)(obs, act).flatten() for name in self.critic_names]

    def regress(self, sample: Sample) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Do a gradient step for each critic towards the returns.

        :return: the losses before the steps, and the mean error ``[B]``, returns minus values.
        """
        pairs = [(getattr(self, name), getattr(self, f"{name}_optim")) for name in self.critic_names]
        if not torch.compiler.is_compiling() and self.is_replaced("_mse_optimizer"):
            errors, losses = zip(*(self._mse_optimizer(sample.batch, *pair) for pair in pairs), strict=True)
            return [loss.detach() for loss in losses], -_mean(errors).detach().flatten()
        errors, losses = zip(*(_step(sample, *pair) for pair in pairs), strict=True)
        return [*losses], _mean(errors).detach()

    @staticmethod
    def _mse_optimizer(
        batch: Any, critic: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Do one gradient step for a critic; the method that subclasses override.

        :return: the errors, value minus return, ``[B]``, and the loss before the step.
        """
        value = critic(batch.obs, batch.act).flatten()
        error = value - to_torch_as(batch.returns, value).flatten()
        weight = to_torch_as(batch.weight, value) if "weight" in batch else None
        loss = squared_loss(error, weight)
        descend(loss, optimizer)
        return error, loss

    def sync_weight(self) -> None:
        """Move the target networks a step towards the trained ones."""
        for name in self.lagged_names:
            self.soft_update(getattr(self, f"{name}_old"), getattr(self, name), self.tau)


def _step(sample: Sample, critic: nn.Module, optim: Any) -> tuple[torch.Tensor, torch.Tensor]:
    error_B = sample.returns - critic(sample.obs, sample.act).flatten()
    loss = squared_loss(error_B, sample.weight)
    descend(loss, optim)
    return error_B, loss.detach()


def _mean(errors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return errors[0] if len(errors) == 1 else reduce(add, errors) / len(errors)


def another(network: nn.Module) -> nn.Module:
    """Give a network of the same structure with new parameters: critics that begin equal would stay equal.

    >>> one = nn.Linear(2, 2)
    >>> torch.equal(another(one).weight, one.weight)
    False
    """
    other = deepcopy(network)
    for layer in other.modules():
        reset: Callable[[], None] | Any = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
    return other
