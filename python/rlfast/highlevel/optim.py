"""Factories of optimizers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

from rlfast.utils.optim import adam
from rlfast.utils.string import ToStringMixin

TParams: TypeAlias = Iterable[torch.Tensor] | Iterable[dict[str, Any]]


class OptimizerWithLearningRateProtocol(Protocol):
    """The constructor of an optimizer."""

    def __call__(self, parameters: object, lr: float, **kwargs: Any) -> torch.optim.Optimizer:
        """Returns an optimizer."""


class OptimizerFactory(ToStringMixin, ABC):
    """The interface of factories of optimizers."""

    def create_optimizer(self, module: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
        """Returns an optimizer of all parameters of a module.

        :param module: the module.
        :param lr: the learning rate.
        """
        return self.create_optimizer_for_params(module.parameters(), lr)

    @abstractmethod
    def create_optimizer_for_params(self, params: TParams, lr: float) -> torch.optim.Optimizer:
        """Returns an optimizer.

        :param params: the parameters.
        :param lr: the learning rate.
        """


class OptimizerFactoryTorch(OptimizerFactory):
    """Makes optimizers of any class.

    :param optim_class: the class, such as ``torch.optim.SGD``.
    :param kwargs: arguments of its constructor, without parameters and learning rate.
    """

    def __init__(self, optim_class: OptimizerWithLearningRateProtocol, **kwargs: Any) -> None:
        self.optim_class = optim_class
        self.kwargs = kwargs

    def create_optimizer_for_params(self, params: TParams, lr: float) -> torch.optim.Optimizer:
        return self.optim_class(params, lr=lr, **self.kwargs)


@dataclass(eq=False, repr=False)
class OptimizerFactoryAdam(OptimizerFactory):
    """Makes optimizers by :func:`rlfast.utils.optim.adam`.

    :param betas: the decay rates of the averages of gradients and of their squares.
    :param eps: what is added to denominators.
    :param weight_decay: the weight of an L2 penalty.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-08
    weight_decay: float = 0

    def create_optimizer_for_params(self, params: Any, lr: float) -> torch.optim.Optimizer:
        return adam(lr, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay)(params)


@dataclass(eq=False, repr=False)
class OptimizerFactoryRMSprop(OptimizerFactory):
    """Makes optimizers of ``torch.optim.RMSprop``, which describes the parameters.

    :param alpha: the decay rate of the average of squared gradients.
    :param eps: what is added to denominators.
    :param weight_decay: the weight of an L2 penalty.
    :param momentum: the momentum.
    :param centered: whether gradients are divided by their standard deviation.
    """

    alpha: float = 0.99
    eps: float = 1e-08
    weight_decay: float = 0
    momentum: float = 0
    centered: bool = False

    def create_optimizer_for_params(self, params: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.RMSprop(params, lr=lr, **vars(self))
