"""Factories of networks of features."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import nn

from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.core import ModuleFactory, TDevice
from rlfast.utils.string import ToStringMixin


@dataclass
class IntermediateModule:
    """A network of features, and their number."""

    module: nn.Module
    output_dim: int


class IntermediateModuleFactory(ToStringMixin, ModuleFactory, ABC):
    """The interface of factories of networks of features."""

    @abstractmethod
    def create_intermediate_module(self, envs: Environments, device: TDevice) -> IntermediateModule:
        """Returns a network, and the number of its features.

        :param envs: the environments.
        :param device: where it is.
        """

    def create_module(self, envs: Environments, device: TDevice) -> nn.Module:
        return self.create_intermediate_module(envs, device).module
