"""Factories of networks of single algorithms."""

from collections.abc import Sequence
from dataclasses import dataclass

from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.core import ModuleFactory, TDevice
from rlfast.highlevel.module.intermediate import IntermediateModuleFactory
from rlfast.utils.net.discrete import ImplicitQuantileNetwork
from rlfast.utils.string import ToStringMixin


@dataclass(eq=False, repr=False)
class ImplicitQuantileNetworkFactory(ModuleFactory, ToStringMixin):
    """Makes :class:`rlfast.utils.net.discrete.ImplicitQuantileNetwork`, which describes the parameters.

    :param preprocess_net_factory: makes the network of features.
    :param hidden_sizes: the sizes of hidden layers.
    :param num_cosines: the number of cosines.
    """

    preprocess_net_factory: IntermediateModuleFactory
    hidden_sizes: Sequence[int] = ()
    num_cosines: int = 64

    def create_module(self, envs: Environments, device: TDevice) -> ImplicitQuantileNetwork:
        features = self.preprocess_net_factory.create_intermediate_module(envs, device)
        options = (self.hidden_sizes, self.num_cosines, features.output_dim, device)
        return ImplicitQuantileNetwork(features.module, envs.get_action_shape(), *options).to(device)
