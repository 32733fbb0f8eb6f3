"""Factories of networks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import torch

from rlfast.experiment.config import RunConfig
from rlfast.experiment.networks import Networks
from rlfast.highlevel.env import Environments
from rlfast.utils.net.atari import layer_init
from rlfast.utils.net.common import ModuleType

TDevice: TypeAlias = str | torch.device


def init_linear_orthogonal(module: torch.nn.Module) -> None:
    """Initializes the weights of linear layers orthogonally, and their biases with zeros.

    :param module: has the layers.
    """
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear):
            layer_init(layer)


class ModuleFactory(ABC):
    """The interface of factories of networks."""

    @abstractmethod
    def create_module(self, envs: Environments, device: TDevice) -> torch.nn.Module:
        """Returns a network.

        :param envs: the environments.
        :param device: where it is.
        """


class DefaultNetworks(Networks):
    """The networks of runs from the command line, for the spaces of environments.

    :param envs: the environments.
    :param device: where networks are.
    :param hidden_sizes: the sizes of hidden layers.
    :param activation: the activation of hidden layers.
    """

    def __init__(
        self, envs: Environments, device: TDevice, hidden_sizes: Sequence[int], activation: ModuleType = torch.nn.ReLU
    ) -> None:
        config = RunConfig(hidden_sizes=tuple(hidden_sizes), device=str(device), env=str(envs.env))
        super().__init__(config, "the default network", envs.get_observation_space(), envs.get_action_space())
        self._activation = activation
