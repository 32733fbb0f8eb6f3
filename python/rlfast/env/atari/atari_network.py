"""Networks of Atari games and factories that make them for experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

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
from rlfast.utils.runtime.extras import lazy_names

__all__ = [  # noqa: F822 (three are imported on access)
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
    """The network of deep Q-learning with the arguments that experiments give it.

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
            c, h, w, action_shape, features_only=features_only, output_dim=output_dim_added_layer, layer_init=layer_init
        )

    def get_output_dim(self) -> int:
        """Returns the number of outputs."""
        return int(self.output_dim)


_FACTORIES = ("ActorFactoryAtariDQN", "IntermediateModuleFactoryAtariDQN", "IntermediateModuleFactoryAtariDQNFeatures")
__getattr__, __dir__ = lazy_names("rlfast.highlevel", {"atari": _FACTORIES})
