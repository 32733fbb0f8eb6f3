"""Networks of Atari games under the names of Tianshou 2.0, and factories that make them for experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.actor import ActorFactory
from rlfast.highlevel.module.core import TDevice
from rlfast.highlevel.module.intermediate import IntermediateModule, IntermediateModuleFactory
from rlfast.highlevel.params.dist_fn import DistributionFunctionFactoryCategorical
from rlfast.utils.net.atari import (
    C51,
    DQN,
    QRDQN,
    NatureCNN,
    Rainbow,
    ScaledObsInputActionReprNet,
    layer_init,
    scale_obs,
)
from rlfast.utils.net.discrete import Actor

__all__ = [
    "C51",
    "DQN",
    "QRDQN",
    "ActorFactoryAtariDQN",
    "C51Net",
    "DQNet",
    "IntermediateModuleFactoryAtariDQN",
    "IntermediateModuleFactoryAtariDQNFeatures",
    "QRDQNet",
    "Rainbow",
    "RainbowNet",
    "ScaledObsInputActionReprNet",
    "ScaledObsInputModule",
    "layer_init",
    "scale_obs",
]

C51Net, QRDQNet, RainbowNet = C51, QRDQN, Rainbow
ScaledObsInputModule = ScaledObsInputActionReprNet


class DQNet(NatureCNN):
    """The network of deep Q-learning with the arguments that it has in Tianshou 2.0.

    :param c: the number of channels: frames in a stack.
    :param h: the height, such as 84.
    :param w: the width, such as 84.
    :param action_shape: the number of actions.
    :param features_only: see :class:`~rlfast.utils.net.atari.NatureCNN`. Default: False.
    :param output_dim_added_layer: its ``output_dim``. Default: None.
    :param layer_init: called with each layer, returns the initialized layer. Default: the identity.

    >>> DQNet(4, 84, 84, 6, features_only=True, output_dim_added_layer=128).get_output_dim()
    128
    """

    def __init__(
        self,
        c: int,
        h: int,
        w: int,
        action_shape: Sequence[int] | int,
        features_only: bool = False,
        output_dim_added_layer: int | None = None,
        layer_init: Callable[[nn.Module], nn.Module] = lambda layer: layer,
    ) -> None:
        super().__init__(
            c,
            h,
            w,
            action_shape,
            features_only=features_only,
            output_dim=output_dim_added_layer,
            layer_init=layer_init,
        )

    def get_output_dim(self) -> int:
        """Returns the number of outputs."""
        return int(self.output_dim)


def _network(envs: Environments, **options: Any) -> DQNet:
    """Returns the network for the observations and actions of environments.

    :raises ValueError: if observations are not pictures, or actions are not discrete.
    """
    shape: Any = envs.get_observation_shape()
    if isinstance(shape, int) or len(shape) != 3:
        raise ValueError(f"the network takes pictures of shape (frames, height, width), observations have {shape}")
    if not envs.get_type().is_discrete():
        raise ValueError(f"the network needs discrete actions, those of the environment are {envs.get_action_space()}")
    channels, height, width = shape
    actions: Any = envs.get_action_shape()
    return DQNet(channels, height, width, actions, **options)


@dataclass(eq=False, repr=False)
class ActorFactoryAtariDQN(ActorFactory):
    """Makes actors that see pictures and give the logits of discrete actions, with orthogonal weights.

    :param scale_obs: whether observations are divided by 255. Default: True.
    :param features_only: whether the actor's layer stands on the convolutions. Default: False.
    :param output_dim_added_layer: with ``features_only``, the size of a layer between; None for none. Default: None.
    """

    USE_SOFTMAX_OUTPUT: ClassVar[bool] = False

    scale_obs: bool = True
    features_only: bool = False
    output_dim_added_layer: int | None = None

    def create_module(self, envs: Environments, device: TDevice) -> Actor:
        added = self.output_dim_added_layer
        net: Any = _network(envs, features_only=self.features_only, output_dim_added_layer=added, layer_init=layer_init)
        net = scale_obs(net) if self.scale_obs else net
        actions: Any = envs.get_action_shape()
        return Actor(net, actions, device=device, softmax_output=self.USE_SOFTMAX_OUTPUT).to(device)

    def create_dist_fn(self, envs: Environments) -> Any:
        return DistributionFunctionFactoryCategorical(self.USE_SOFTMAX_OUTPUT).create_dist_fn(envs)


@dataclass(eq=False, repr=False)
class IntermediateModuleFactoryAtariDQN(IntermediateModuleFactory):
    """Makes networks of deep Q-learning that see pictures.

    :param features_only: whether the output is that of the convolutions. Default: False.
    :param net_only: whether networks give their output without a hidden state. Default: False.
    """

    features_only: bool = False
    net_only: bool = False

    def create_intermediate_module(self, envs: Environments, device: TDevice) -> IntermediateModule:
        net = _network(envs, features_only=self.features_only).to(device)
        return IntermediateModule(net.net if self.net_only else net, net.output_dim)


class IntermediateModuleFactoryAtariDQNFeatures(IntermediateModuleFactoryAtariDQN):
    """Makes the convolutions of deep Q-learning, without a hidden state."""

    def __init__(self) -> None:
        super().__init__(features_only=True, net_only=True)
