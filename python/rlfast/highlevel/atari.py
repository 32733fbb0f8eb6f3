"""Atari games, their networks and their end of training, as parts of declared experiments."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from rlfast.env.atari.atari_network import DQNet
from rlfast.env.atari.emulator import AtariEnv
from rlfast.env.atari.vector import make_atari_vec
from rlfast.experiment.environments import seed_envs
from rlfast.highlevel.env import EnvFactory, EnvFactoryRegistered, Environments, EnvMode, EnvPoolFactory, VectorEnvType
from rlfast.highlevel.module.actor import ActorFactory
from rlfast.highlevel.module.core import TDevice
from rlfast.highlevel.module.intermediate import IntermediateModule, IntermediateModuleFactory
from rlfast.highlevel.params.dist_fn import DistributionFunctionFactoryCategorical
from rlfast.highlevel.trainer import EpochStopCallback, TrainingContext
from rlfast.utils.net.atari import layer_init, scale_obs
from rlfast.utils.net.discrete import Actor

if TYPE_CHECKING:
    import gymnasium as gym

    from rlfast.env import BaseVectorEnv


class AtariEnvFactory(EnvFactoryRegistered):
    """Makes Atari games, preprocessed as :func:`rlfast.env.atari.make_atari_vec` does it.

    In training, lives are episodes and rewards are clipped; in tests and when watched, they are not.

    :param task: a name or id, such as ``"PongNoFrameskip-v4"``.
    :param frame_stack: number of frames in an observation. Default: 4.
    :param scale: whether observations are float32 in [0, 1]. Default: False.
    :param use_envpool_if_available: whether EnvPool steps the games, if it is installed. Default: False, as our own
        vector environment is faster.
    :param venv_type: ``DUMMY`` for games in this process, ``RAY`` for Ray's; others for worker processes, or this
        process if that is as fast. Default: ``VectorEnvType.AUTO``.
    """

    def __init__(
        self,
        task: str,
        frame_stack: int = 4,
        scale: bool = False,
        use_envpool_if_available: bool = False,
        venv_type: VectorEnvType = VectorEnvType.AUTO,
    ) -> None:
        envpool_factory = EnvPoolFactory() if use_envpool_if_available and find_spec("envpool") else None
        super().__init__(task=task, venv_type=venv_type, envpool_factory=envpool_factory)
        self.frame_stack = frame_stack
        self.scale = scale

    def _options(self, mode: EnvMode) -> dict[str, Any]:
        training = mode is EnvMode.TRAIN
        common = {"frame_stack": self.frame_stack, "scale": self.scale}
        return {**common, "episodic_life": training, "clip_rewards": training}

    def create_env(self, mode: EnvMode) -> gym.Env[Any, Any]:
        render_mode: Any = self.render_modes[mode]
        return AtariEnv(self.task, render_mode=render_mode, **self._options(mode))

    def create_venv(self, num_envs: int, mode: EnvMode, seed: int | None = None) -> BaseVectorEnv:
        if mode is EnvMode.WATCH or self.venv_type is VectorEnvType.RAY:
            return EnvFactory.create_venv(self, num_envs, mode, seed)
        options = self._options(mode)
        if self.envpool_factory is not None:
            return make_atari_vec(self.task, num_envs, backend="envpool", seed=seed or 0, **options)
        if self.venv_type is VectorEnvType.DUMMY:
            options["vector_kwargs"] = {"placement": "in-process"}
        venv = make_atari_vec(self.task, num_envs, **options)
        if seed is not None:
            seed_envs(venv, seed, mode.value)
        return venv


@dataclass(eq=False, repr=False)
class AtariEpochStopCallback(EpochStopCallback):
    """Ends training at the mean return that the game's registration names; 20 in Pong, which has none.

    :param task: a name or id of the game; other games without such a return are trained to the end.
    """

    task: str

    def should_stop(self, mean_rewards: float, context: TrainingContext) -> bool:
        threshold = getattr(context.envs.env.spec, "reward_threshold", None)
        if threshold is None and "Pong" in self.task:
            threshold = 20.0
        return threshold is not None and mean_rewards >= threshold


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
