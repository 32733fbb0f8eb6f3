"""The settings of algorithms; the classes of :mod:`rlfast.policy` describe what has no text here."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol, dataclass_transform

import torch

from rlfast.exploration import BaseNoise
from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.core import TDevice
from rlfast.highlevel.module.module_opt import ModuleOpt
from rlfast.highlevel.optim import OptimizerFactory
from rlfast.highlevel.params.alpha import AutoAlphaFactory
from rlfast.highlevel.params.dist_fn import DistributionFunctionFactory, DistributionFunctionFactoryDefault
from rlfast.highlevel.params.env_param import EnvValueFactory, FloatEnvValueFactory
from rlfast.highlevel.params.lr_scheduler import LRSchedulerFactory
from rlfast.highlevel.params.noise import NoiseFactory
from rlfast.policy.modelfree.pg import TDistributionFunction
from rlfast.utils import MultipleLRSchedulers
from rlfast.utils.string import ToStringMixin


@dataclass(kw_only=True)
class ParamTransformerData:
    """What transformers may use; an algorithm has some of these networks and optimizers."""

    envs: Environments
    device: TDevice
    optim_factory: OptimizerFactory
    optim: torch.optim.Optimizer | None = None
    actor: ModuleOpt | None = None
    critic1: ModuleOpt | None = None
    critic2: ModuleOpt | None = None


class ParamTransformer(ABC):
    """The interface of what turns settings into arguments of a policy."""

    @abstractmethod
    def transform(self, params: dict[str, Any], data: ParamTransformerData) -> None:
        """Changes settings.

        :param params: the settings by name, which are changed.
        :param data: what it may use.
        """

    @staticmethod
    def get(d: dict[str, Any], key: str, drop: bool = False) -> Any:
        """Returns a setting.

        :param d: the settings.
        :param key: the name of one.
        :param drop: whether it is removed.
        """
        return d.pop(key) if drop else d[key]


class ParamTransformerDrop(ParamTransformer):
    """Removes settings.

    :param keys: their names.
    """

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def transform(self, kwargs: dict[str, Any], data: ParamTransformerData) -> None:  # noqa: ARG002
        """Removes them.

        :param kwargs: the settings.
        :param data: not used.
        """
        for key in self.keys:
            del kwargs[key]


@dataclass(eq=False, repr=False)
class ParamTransformerChangeValue(ParamTransformer):
    """Changes one setting.

    :param key: its name.
    """

    key: str

    def transform(self, params: dict[str, Any], data: ParamTransformerData) -> None:
        params[self.key] = self.change_value(params[self.key], data)

    @abstractmethod
    def change_value(self, value: Any, data: ParamTransformerData) -> Any:
        """Returns the new value.

        :param value: the old one.
        :param data: what it may use.
        """


@dataclass(eq=False, repr=False)
class ParamTransformerMultiLRScheduler(ParamTransformer):
    """Replaces factories of schedulers by one scheduler; None if there is no factory.

    :param optim_key_list: optimizers, and the names of the factories.
    :param key_scheduler: the name of the scheduler.
    """

    optim_key_list: list[tuple[torch.optim.Optimizer, str]]
    key_scheduler: str

    def transform(self, params: dict[str, Any], data: ParamTransformerData) -> None:  # noqa: ARG002
        factories = [(optim, params.pop(key)) for optim, key in self.optim_key_list]
        made = [factory.create_scheduler(optim) for optim, factory in factories if factory is not None]
        params[self.key_scheduler] = MultipleLRSchedulers(*made) if len(made) > 1 else (made or [None])[0]


class _OfParts(ParamTransformer):
    """Likewise, for the optimizers of :class:`ParamTransformerData`.

    The attributes of an instance are the names of the factories, one for each of ``_parts``, and then of the scheduler.
    """

    _parts: ClassVar[tuple[str, ...]]
    """The fields of the data with the optimizers."""

    def transform(self, params: dict[str, Any], data: ParamTransformerData) -> None:
        *keys, scheduler = vars(self).values()
        parts = [getattr(data, part) for part in self._parts]
        pairs = [(getattr(part, "optim", part), key) for part, key in zip(parts, keys, strict=True)]
        ParamTransformerMultiLRScheduler(pairs, scheduler).transform(params, data)


@dataclass(eq=False, repr=False)
class ParamTransformerLRScheduler(_OfParts):
    """Replaces the factory of a scheduler by the scheduler.

    :param key_scheduler_factory: the name of the factory.
    :param key_scheduler: the name of the scheduler.
    """

    key_scheduler_factory: str
    key_scheduler: str

    _parts = ("optim",)


class ParamTransformerActorAndCriticLRScheduler(_OfParts):
    """Likewise, for an actor and a critic.

    :param key_scheduler_factory_actor: the name of the actor's factory.
    :param key_scheduler_factory_critic: the name of the critic's factory.
    :param key_scheduler: the name of the scheduler.
    """

    _parts = ("actor", "critic1")

    def __init__(self, key_scheduler_factory_actor: str, key_scheduler_factory_critic: str, key_scheduler: str) -> None:
        self.key_factory_actor = key_scheduler_factory_actor
        self.key_factory_critic = key_scheduler_factory_critic
        self.key_scheduler = key_scheduler


class ParamTransformerActorDualCriticsLRScheduler(_OfParts):
    """Likewise, for an actor and two critics.

    :param key_scheduler_factory_actor: the name of the actor's factory.
    :param key_scheduler_factory_critic1: the name of the first critic's factory.
    :param key_scheduler_factory_critic2: the name of the second critic's factory.
    :param key_scheduler: the name of the scheduler.
    """

    _parts = ("actor", "critic1", "critic2")

    def __init__(
        self,
        key_scheduler_factory_actor: str,
        key_scheduler_factory_critic1: str,
        key_scheduler_factory_critic2: str,
        key_scheduler: str,
    ) -> None:
        self.key_factory_actor = key_scheduler_factory_actor
        self.key_factory_critic1 = key_scheduler_factory_critic1
        self.key_factory_critic2 = key_scheduler_factory_critic2
        self.key_scheduler = key_scheduler


@dataclass(eq=False, repr=False)
class ParamTransformerAutoAlpha(ParamTransformer):
    """Replaces the factory of a temperature by the temperature.

    :param key: its name.
    """

    key: str

    def transform(self, kwargs: dict[str, Any], data: ParamTransformerData) -> None:
        """Replaces it.

        :param kwargs: the settings.
        :param data: what it may use.
        """
        if isinstance(kwargs[self.key], AutoAlphaFactory):
            kwargs[self.key] = kwargs[self.key].create_auto_alpha(data.envs, data.optim_factory, data.device)


class ParamTransformerNoiseFactory(ParamTransformerChangeValue):
    """Replaces the factory of noise by the noise."""

    def change_value(self, value: Any, data: ParamTransformerData) -> Any:
        return value.create_noise(data.envs) if isinstance(value, NoiseFactory) else value


class ParamTransformerFloatEnvParamFactory(ParamTransformerChangeValue):
    """Replaces the factory of a number by the number."""

    def change_value(self, value: Any, data: ParamTransformerData) -> Any:
        return value.create_value(data.envs) if isinstance(value, EnvValueFactory) else value


class ParamTransformerDistributionFunction(ParamTransformerChangeValue):
    """Replaces ``"default"``, or the factory of a distribution function, by the function."""

    def change_value(self, value: Any, data: ParamTransformerData) -> Any:
        factory = DistributionFunctionFactoryDefault() if value == "default" else value
        return factory.create_dist_fn(data.envs) if isinstance(factory, DistributionFunctionFactory) else factory


class ParamTransformerActionScaling(ParamTransformerChangeValue):
    """Replaces ``"default"`` by whether actions are continuous."""

    def change_value(self, value: Any, data: ParamTransformerData) -> Any:
        return data.envs.get_type().is_continuous() if value == "default" else value


class GetParamTransformersProtocol(Protocol):
    """What knows how to transform its settings."""

    def _get_param_transformers(self) -> list[ParamTransformer]: ...


@dataclass_transform()
class _Settings:
    """Makes subclasses dataclasses."""

    def __init_subclass__(cls) -> None:
        dataclass(cls)


class Params(_Settings, ToStringMixin):
    """The base class of settings."""

    def create_kwargs(self, data: ParamTransformerData) -> dict[str, Any]:
        """Returns arguments of the policy.

        :param data: what transformers may use.
        """
        params = {field.name: getattr(self, field.name) for field in fields(self)}
        for transformer in self._get_param_transformers():
            transformer.transform(params, data)
        return params

    def _get_param_transformers(self) -> list[ParamTransformer]:
        """Returns the transformers of all settings by their names; subclasses may change the list."""
        names = {field.name for field in fields(self)}
        found: list[ParamTransformer] = [kind(name) for name, kind in _TRANSFORMERS.items() if name in names]
        if rates := [name for name in ("lr", "actor_lr", "critic_lr", "critic1_lr", "critic2_lr") if name in names]:
            kinds: Any = {1: ParamTransformerLRScheduler, 2: ParamTransformerActorAndCriticLRScheduler}
            kind = kinds.get(len(rates), ParamTransformerActorDualCriticsLRScheduler)
            found.append(kind(*(f"{rate}_scheduler_factory" for rate in rates), "lr_scheduler"))
        return [*found, ParamTransformerDrop(*rates, *({"hidden_sizes", "num_cosines"} & names))]


_TRANSFORMERS: dict[str, type[Any]] = {
    "action_scaling": ParamTransformerActionScaling,
    "alpha": ParamTransformerAutoAlpha,
    "dist_fn": ParamTransformerDistributionFunction,
    "exploration_noise": ParamTransformerNoiseFactory,
    "noise_clip": ParamTransformerFloatEnvParamFactory,
    "policy_noise": ParamTransformerFloatEnvParamFactory,
}


class ParamsMixinLearningRateWithScheduler(_Settings):
    """A learning rate."""

    lr: float = 1e-3
    lr_scheduler_factory: LRSchedulerFactory | None = None


class ParamsMixinActorAndCritic(_Settings):
    """Learning rates of an actor and a critic."""

    actor_lr: float = 1e-3
    critic_lr: float = 1e-3
    actor_lr_scheduler_factory: LRSchedulerFactory | None = None
    critic_lr_scheduler_factory: LRSchedulerFactory | None = None


class ParamsMixinActorAndDualCritics(_Settings):
    """Learning rates of an actor and two critics."""

    actor_lr: float = 1e-3
    critic1_lr: float = 1e-3
    critic2_lr: float = 1e-3
    actor_lr_scheduler_factory: LRSchedulerFactory | None = None
    critic1_lr_scheduler_factory: LRSchedulerFactory | None = None
    critic2_lr_scheduler_factory: LRSchedulerFactory | None = None


class ParamsMixinActionScaling(_Settings):
    """How actions get to the environment."""

    action_scaling: bool | Literal["default"] = "default"
    """Whether actions in [-1, 1] are scaled to the action space; "default" for whether they are continuous."""
    action_bound_method: Literal["clip", "tanh"] | None = "clip"


class ParamsMixinExplorationNoise(_Settings):
    """Noise that explores."""

    exploration_noise: BaseNoise | Literal["default"] | NoiseFactory | None = None


class ParamsMixinGeneralAdvantageEstimation(_Settings):
    """Estimation of advantages."""

    gae_lambda: float = 0.95
    max_batchsize: int = 256


class PGParams(Params, ParamsMixinActionScaling, ParamsMixinLearningRateWithScheduler):
    """The settings of :class:`rlfast.policy.PGPolicy`."""

    discount_factor: float = 0.99
    reward_normalization: bool = False
    deterministic_eval: bool = False
    dist_fn: TDistributionFunction | DistributionFunctionFactory | Literal["default"] = "default"
    """Makes distributions from what the actor gives; "default" for the usual one of the actions."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({"dist_fn": "default"} | state)


class A2CParams(PGParams, ParamsMixinGeneralAdvantageEstimation):
    """The settings of :class:`rlfast.policy.A2CPolicy`."""

    vf_coef: float = 0.5
    ent_coef: float = 0.01
    max_grad_norm: float | None = None


class PPOParams(A2CParams):
    """The settings of :class:`rlfast.policy.PPOPolicy`."""

    eps_clip: float = 0.2
    dual_clip: float | None = None
    value_clip: bool = False
    advantage_normalization: bool = True
    recompute_advantage: bool = False


class NPGParams(PGParams, ParamsMixinGeneralAdvantageEstimation):
    """The settings of :class:`rlfast.policy.NPGPolicy`."""

    optim_critic_iters: int = 5
    actor_step_size: float = 0.5
    advantage_normalization: bool = True


class TRPOParams(NPGParams):
    """The settings of :class:`rlfast.policy.TRPOPolicy`."""

    max_kl: float = 0.01
    backtrack_coeff: float = 0.8
    max_backtracks: int = 10


class _TargetParams(Params):
    tau: float = 0.005
    gamma: float = 0.99


class _SACParams(_TargetParams, ParamsMixinActorAndDualCritics):
    alpha: float | AutoAlphaFactory = 0.2
    estimation_step: int = 1


class SACParams(_SACParams, ParamsMixinExplorationNoise, ParamsMixinActionScaling):
    """The settings of :class:`rlfast.policy.SACPolicy`."""

    deterministic_eval: bool = True


class DiscreteSACParams(_SACParams):
    """The settings of :class:`rlfast.policy.DiscreteSACPolicy`."""


class DQNParams(Params, ParamsMixinLearningRateWithScheduler):
    """The settings of :class:`rlfast.policy.DQNPolicy`."""

    discount_factor: float = 0.99
    estimation_step: int = 1
    target_update_freq: int = 0
    reward_normalization: bool = False
    is_double: bool = True
    clip_loss_grad: bool = False


class IQNParams(DQNParams):
    """The settings of :class:`rlfast.policy.IQNPolicy` and of its network."""

    sample_size: int = 32
    online_sample_size: int = 8
    target_sample_size: int = 8
    num_quantiles: int = 200
    hidden_sizes: Sequence[int] = ()
    num_cosines: int = 64


class DDPGParams(_TargetParams, ParamsMixinActorAndCritic, ParamsMixinExplorationNoise, ParamsMixinActionScaling):
    """The settings of :class:`rlfast.policy.DDPGPolicy`."""

    estimation_step: int = 1


class REDQParams(DDPGParams):
    """The settings of :class:`rlfast.policy.REDQPolicy`."""

    ensemble_size: int = 10
    subset_size: int = 2
    alpha: float | AutoAlphaFactory = 0.2
    actor_delay: int = 20
    deterministic_eval: bool = True
    target_mode: Literal["mean", "min"] = "min"


class TD3Params(_TargetParams, ParamsMixinActorAndDualCritics, ParamsMixinExplorationNoise, ParamsMixinActionScaling):
    """The settings of :class:`rlfast.policy.TD3Policy`."""

    policy_noise: float | FloatEnvValueFactory[Any] = 0.2
    noise_clip: float | FloatEnvValueFactory[Any] = 0.5
    update_actor_freq: int = 2
    estimation_step: int = 1
