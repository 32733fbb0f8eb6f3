"""Factories of schedules of learning rates."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from rlfast.functional.schedules import Linear
from rlfast.highlevel.config import SamplingConfig
from rlfast.utils.string import ToStringMixin


class LRSchedulerFactory(ToStringMixin, ABC):
    """The interface of these factories."""

    @abstractmethod
    def create_scheduler(self, optim: torch.optim.Optimizer) -> LRScheduler:
        """Returns a scheduler.

        :param optim: what it sets the learning rate of.
        """


@dataclass(eq=False, repr=False)
class LRSchedulerFactoryLinear(LRSchedulerFactory):
    """Lowers learning rates to 0, linearly in the number of updates.

    :param sampling_config: has the numbers of epochs and steps.
    """

    sampling_config: SamplingConfig

    def create_scheduler(self, optim: torch.optim.Optimizer) -> LRScheduler:
        sampling = self.sampling_config
        updates = -(-sampling.step_per_epoch // sampling.step_per_collect) * sampling.num_epochs
        return LambdaLR(optim, Linear(1.0, 0.0, updates))
