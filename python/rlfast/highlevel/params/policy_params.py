"""The settings of algorithms; the classes of :mod:`rlfast.policy` describe what has no text here."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import torch

from rlfast.exploration import BaseNoise
from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.core import TDevice
from rlfast.highlevel.module.module_opt import ModuleOpt
from rlfast.highlevel.optim import OptimizerFactory
from rlfast.highlevel.params.alpha import AutoAlphaFactory
from rlfast.highlevel.params.dist_fn import DistributionFunctionFactory, DistributionFunctionFactoryDefault
from rlfast.highlevel.params.env_param import EnvValueFactory
from rlfast.highlevel.params.lr_scheduler import LRSchedulerFactory
from rlfast.highlevel.params.noise import NoiseFactory
from rlfast.policy.modelfree.pg import TDistributionFunction
from rlfast.utils import MultipleLRSchedulers
from rlfast.utils.arguments.settings import settings_of
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
    def change_value(self, value: object, data: ParamTransformerData) -> Any:
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

    def change_value(self, value: object, data: ParamTransformerData) -> Any:
        return value.create_noise(data.envs) if isinstance(value, NoiseFactory) else value


class ParamTransformerFloatEnvParamFactory(ParamTransformerChangeValue):
    """Replaces the factory of a number by the number."""

    def change_value(self, value: object, data: ParamTransformerData) -> Any:
        return value.create_value(data.envs) if isinstance(value, EnvValueFactory) else value


class ParamTransformerDistributionFunction(ParamTransformerChangeValue):
    """Replaces ``"default"``, or the factory of a distribution function, by the function."""

    def change_value(self, value: object, data: ParamTransformerData) -> Any:
        factory = DistributionFunctionFactoryDefault() if value == "default" else value
        return factory.create_dist_fn(data.envs) if isinstance(factory, DistributionFunctionFactory) else factory


class ParamTransformerActionScaling(ParamTransformerChangeValue):
    """Replaces ``"default"`` by whether actions are continuous."""

    def change_value(self, value: object, data: ParamTransformerData) -> Any:
        return data.envs.get_type().is_continuous() if value == "default" else value


class GetParamTransformersProtocol(Protocol):
    """What knows how to transform its settings."""

    def _get_param_transformers(self) -> list[ParamTransformer]: ...


class _Settings:
    """Makes subclasses dataclasses of their own settings and of those of a policy.

    ``only`` some of the policy's settings are taken; those of ``first`` stand before the others.
    """

    def __init_subclass__(
        cls, policy: str | None = None, only: Sequence[str] | None = None, first: Sequence[str] = ()
    ) -> None:
        found = {} if policy is None else {one.name: one for one in settings_of(f"rlfast.policy.{policy}")}
        found = {name: one for name, one in found.items() if name != "compile" and (only is None or name in only)}
        for name in found.keys() - cls.__annotations__.keys():
            setattr(cls, name, getattr(cls, name, found[name].default))
        hints = {name: one.hint for name, one in found.items()} | cls.__annotations__
        cls.__annotations__ = {name: hints[name] for name in first} | hints
        dataclass(cls)

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __init__(self, **settings: object) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


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


class ParamsMixinActionScaling(_Settings, policy="DDPGPolicy", only=("action_scaling", "action_bound_method")):
    """How actions get to the environment: scaled by default if they are continuous."""

    action_scaling = "default"


class ParamsMixinExplorationNoise(_Settings):
    """Noise that explores."""

    exploration_noise: BaseNoise | Literal["default"] | NoiseFactory | None = None


class ParamsMixinGeneralAdvantageEstimation(_Settings, policy="A2CPolicy", only=("gae_lambda", "max_batchsize")):
    """Estimation of advantages."""


class PGParams(
    Params,
    ParamsMixinActionScaling,
    ParamsMixinLearningRateWithScheduler,
    policy="PGPolicy",
    only=("discount_factor", "reward_normalization", "deterministic_eval"),
):
    """The settings of :class:`rlfast.policy.PGPolicy`."""

    dist_fn: TDistributionFunction | DistributionFunctionFactory | Literal["default"] = "default"
    """Makes distributions from what the actor gives; "default" for the usual one of the actions."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({"dist_fn": "default"} | state)


class A2CParams(PGParams, ParamsMixinGeneralAdvantageEstimation, policy="A2CPolicy"):
    """The settings of :class:`rlfast.policy.A2CPolicy`."""


class PPOParams(A2CParams, policy="PPOPolicy"):
    """The settings of :class:`rlfast.policy.PPOPolicy`."""


class NPGParams(PGParams, ParamsMixinGeneralAdvantageEstimation, policy="NPGPolicy"):
    """The settings of :class:`rlfast.policy.NPGPolicy`."""


class TRPOParams(NPGParams, policy="TRPOPolicy"):
    """The settings of :class:`rlfast.policy.TRPOPolicy`."""


class SACParams(
    Params,
    ParamsMixinActorAndDualCritics,
    ParamsMixinExplorationNoise,
    ParamsMixinActionScaling,
    policy="SACPolicy",
    first=("tau", "gamma", "alpha", "estimation_step", "deterministic_eval"),
):
    """The settings of :class:`rlfast.policy.SACPolicy`."""

    alpha: float | AutoAlphaFactory = 0.2


class DiscreteSACParams(
    Params, ParamsMixinActorAndDualCritics, policy="DiscreteSACPolicy", first=("tau", "gamma", "alpha")
):
    """The settings of :class:`rlfast.policy.DiscreteSACPolicy`."""

    alpha: float | AutoAlphaFactory = 0.2


class DQNParams(Params, ParamsMixinLearningRateWithScheduler, policy="DQNPolicy"):
    """The settings of :class:`rlfast.policy.DQNPolicy`."""


class IQNParams(DQNParams, policy="IQNPolicy"):
    """The settings of :class:`rlfast.policy.IQNPolicy` and of its network."""

    hidden_sizes: Sequence[int] = ()
    num_cosines: int = 64


class DDPGParams(
    Params, ParamsMixinActorAndCritic, ParamsMixinExplorationNoise, ParamsMixinActionScaling, policy="DDPGPolicy"
):
    """The settings of :class:`rlfast.policy.DDPGPolicy`."""


class REDQParams(
    DDPGParams,
    policy="REDQPolicy",
    first=("ensemble_size", "subset_size", "alpha", "actor_delay", "deterministic_eval", "target_mode"),
):
    """The settings of :class:`rlfast.policy.REDQPolicy`."""

    alpha: float | AutoAlphaFactory = 0.2


class TD3Params(
    Params,
    ParamsMixinActorAndDualCritics,
    ParamsMixinExplorationNoise,
    ParamsMixinActionScaling,
    policy="TD3Policy",
    first=("tau", "gamma", "policy_noise", "noise_clip"),
):
    """The settings of :class:`rlfast.policy.TD3Policy`; ``policy_noise`` and ``noise_clip`` may be factories, too."""
