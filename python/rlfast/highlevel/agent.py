"""Factories of policies, collectors and trainers."""

from __future__ import annotations

import logging
from abc import ABC
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any, ClassVar, Generic, TypeVar

from torch import nn

from rlfast.data import Collector
from rlfast.experiment import RunConfig
from rlfast.experiment.algorithms import find
from rlfast.experiment.build import collectors_of, parts_of, trainer_of
from rlfast.experiment.declaration import Declaration
from rlfast.experiment.networks import Networks
from rlfast.experiment.training import make_trainer
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import Environments
from rlfast.highlevel.module.actor import ActorFactory
from rlfast.highlevel.module.core import ModuleFactory, TDevice, init_linear_orthogonal
from rlfast.highlevel.module.critic import CriticEnsembleFactory, CriticFactory
from rlfast.highlevel.module.module_opt import ActorCriticOpt, ModuleOpt
from rlfast.highlevel.optim import OptimizerFactory
from rlfast.highlevel.params import dist_fn, policy_params
from rlfast.highlevel.params.policy_wrapper import PolicyWrapperFactory
from rlfast.highlevel.persistence import PolicyPersistence
from rlfast.highlevel.settings import Settings
from rlfast.highlevel.trainer import TrainerCallbacks, TrainingContext
from rlfast.highlevel.world import World
from rlfast.policy import BasePolicy
from rlfast.trainer import BaseTrainer
from rlfast.utils.net.common import ActorCritic
from rlfast.utils.string import ToStringMixin

CHECKPOINT_DICT_KEY_MODEL = "model"
CHECKPOINT_DICT_KEY_OBS_RMS = "obs_rms"
TParams = TypeVar("TParams", bound=policy_params.Params)
TActorCriticParams = TypeVar("TActorCriticParams", bound=policy_params.Params)
TActorDualCriticsParams = TypeVar("TActorDualCriticsParams", bound=policy_params.Params)
TDiscreteCriticOnlyParams = TypeVar("TDiscreteCriticOnlyParams", bound=policy_params.Params)
TPolicy = TypeVar("TPolicy", bound=BasePolicy)
log = logging.getLogger(__name__)


def _by_part(part: str, usual: Callable[..., Any], *given: Any) -> Any:
    """Returns a method that makes a network of :class:`DeclaredNetworks`: by its factory, if settings do not say it.

    :param part: ``"actor"``, ``"critic"`` or ``"model"``. The critics' factories take turns, as a policy may have two.
    :param usual: the method of :class:`Networks`, for a network that settings say.
    :param given: arguments of the factory beside environments, device and the number of critics.
    """

    def network(self: DeclaredNetworks, *numbers: Any, **options: Any) -> Any:
        name = next(self._critics) if part == "critic" else f"{part}_factory"
        if name not in self._beyond:
            return usual(self, *numbers, **options)
        return self._by_factory(name, *(numbers if part == "critic" else ()), *given)

    return network


class DeclaredNetworks(Networks):
    """The networks and optimizers of a policy, by factories where settings do not say them.

    :param agent: has the factories.
    :param settings: the settings, and what is beyond.
    :param config: the settings of the run.
    :param envs: the environments.
    """

    def __init__(self, agent: AgentFactory, settings: Settings, config: RunConfig, envs: Environments) -> None:
        title = find(agent.algorithm).title
        super().__init__(config, title, envs.get_observation_space(), envs.get_action_space())
        self._agent, self._envs, self._beyond = agent, envs, settings.beyond
        self._made: dict[str, Any] = {}
        self._critics = iter(name for name in agent.factories if name.startswith("critic"))
        if any(hasattr(factory, "actor_future") for factory in agent.factories.values()):
            self._by_factory("actor_factory")  # the actor, whose features critics share

    def _by_factory(self, name: str, *arguments: Any) -> Any:
        if name not in self._made:
            factory = self._agent.factories[name]
            self._made[name] = factory.create_module(self._envs, self.config.device, *arguments)
        return self._made[name]

    def actor(self) -> tuple[nn.Module, Any]:
        # A distribution of the user's own takes what the factory's actor gives.
        if "actor_factory" not in self._beyond and getattr(self._agent.params, "dist_fn", "default") == "default":
            return super().actor()
        actor = self._by_factory("actor_factory")
        own = self._agent.factories["actor_factory"].create_dist_fn(self._envs)
        usual = dist_fn.DistributionFunctionFactoryDefault(getattr(actor, "softmax_output", False))
        return actor, own or usual.create_dist_fn(self._envs)

    deterministic_actor = _by_part("actor", Networks.deterministic_actor)
    normal_actor = _by_part("actor", Networks.normal_actor)
    choice_actor = _by_part("actor", Networks.choice_actor)
    state_value = _by_part("critic", Networks.state_value, False)
    action_value = _by_part("critic", Networks.action_value, True)
    choice_values = _by_part("critic", Networks.choice_values, False, True)
    action_values_by = _by_part("critic", Networks.action_values_by, True)
    action_values = _by_part("model", Networks.action_values)
    quantiles = _by_part("model", Networks.quantiles)

    def initialize(self, actor: nn.Module, *critics: nn.Module) -> None:
        usual = [one for one in (actor, *critics) if one not in self._made.values()]
        if actor in usual:
            super().initialize(*usual)
        else:
            init_linear_orthogonal(nn.ModuleList(usual))

    def policy(self, **parts: object) -> BasePolicy:
        return super().policy(**parts | (self._declared(parts) if "params" in self._beyond else {}))

    def _declared(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Returns optimizers and other arguments of the policy that settings do not say."""
        agent, params = self._agent, self._agent.params
        made: dict[str, Any] = {}
        parts: dict[str, Any] = {}
        for name, part in {"actor": "actor", "critic": "critic1", "critic2": "critic2"}.items():
            if f"{name}_optim" in arguments:
                rate = getattr(params, f"{name}_lr" if hasattr(params, f"{name}_lr") else f"{part}_lr")
                parts[part] = ModuleOpt(arguments[name], agent.optim_factory.create_optimizer(arguments[name], rate))
                made[f"{name}_optim"] = parts[part].optim
        if "optim" in arguments:
            networks = [arguments[name] for name in ("model", "actor", "critic") if name in arguments]
            whole = networks[0] if len(networks) == 1 else ActorCritic(*networks)
            made["optim"] = parts["optim"] = agent.optim_factory.create_optimizer(whole, params.lr)
        shared: dict[str, Any] = {"envs": self._envs, "device": self.config.device}
        data = policy_params.ParamTransformerData(**shared, optim_factory=agent.optim_factory, **parts)
        kwargs: dict[str, Any] = params.create_kwargs(data)
        if getattr(params, "dist_fn", None) == "default":
            del kwargs["dist_fn"]  # the actor's own
        return kwargs | made


class AgentFactory(ToStringMixin, ABC):
    """Makes the policy, the collectors and the trainer of an experiment.

    :param sampling_config: the numbers of steps.
    :param optim_factory: makes optimizers.
    """

    algorithm: ClassVar[str]
    """The name of the algorithm on the command line."""
    params: Any

    def __init__(self, sampling_config: SamplingConfig, optim_factory: OptimizerFactory) -> None:
        self.sampling_config = sampling_config
        self.optim_factory = optim_factory
        AgentFactory.__post_init__(self)

    def __post_init__(self) -> None:
        self.policy_wrapper_factory: PolicyWrapperFactory[Any] | None = None
        self.trainer_callbacks = TrainerCallbacks()
        self.settings: dict[str, Any] = {}

    @property
    def factories(self) -> dict[str, Any]:
        """The factories of networks, by name."""
        kinds = ("actor", "critic", "model")
        return {name: one for name, one in vars(self).items() if name.startswith(kinds) and name.endswith("_factory")}

    def plan(self, envs: Environments) -> Settings:
        """Returns what settings say of the policy and of its training, and what they do not.

        :param envs: the environments.
        :raises ValueError: if networks or settings do not fit the actions.
        """
        if not hasattr(self, "algorithm"):
            raise ValueError(f"{type(self).__name__} needs an attribute algorithm, the name of one: such as 'ppo'")
        plan = Settings(self.algorithm, self.settings)
        plan.add_sampling(self.sampling_config)
        plan.add_params(self.params, envs, self.optim_factory)
        plan.add_networks(envs, {name: one for name, one in self.factories.items() if one is not None})
        if self.policy_wrapper_factory is not None:
            plan.beyond["policy_wrapper_factory"] = self.policy_wrapper_factory
        return plan

    def set_policy_wrapper_factory(self, policy_wrapper_factory: PolicyWrapperFactory[Any] | None) -> None:
        """Sets what wraps the policy.

        :param policy_wrapper_factory: wraps it; None for nothing.
        """
        self.policy_wrapper_factory = policy_wrapper_factory

    def set_trainer_callbacks(self, callbacks: TrainerCallbacks) -> None:
        """Sets what is called in the course of training.

        :param callbacks: are called.
        """
        self.trainer_callbacks = callbacks

    def _create_policy(self, envs: Environments, device: TDevice) -> BasePolicy:
        plan = self.plan(envs)
        config = plan.config(device=str(device), env=str(envs.env))
        return config.build(DeclaredNetworks(self, plan, config, envs))

    def create_policy(self, envs: Environments, device: TDevice) -> BasePolicy:
        """Returns the policy.

        :param envs: the environments.
        :param device: where it is.
        """
        policy = self._create_policy(envs, device)
        if self.policy_wrapper_factory is not None:
            policy = self.policy_wrapper_factory.create_wrapped_policy(policy, envs, self.optim_factory, device)
        return policy

    def create_train_test_collector(
        self, policy: BasePolicy, envs: Environments, reset_collectors: bool = True
    ) -> tuple[Collector, Collector]:
        """Returns the collectors of training and of tests. The first steps are collected when training begins.

        :param policy: the policy.
        :param envs: the environments.
        :param reset_collectors: whether the environments are reset.
        """
        config, options = self.plan(envs).config(), self.sampling_config.buffer_options()
        collectors = collectors_of(config, policy, envs.train_envs, envs.test_envs, options)
        for collector in collectors if reset_collectors else ():
            collector.reset_env()
        return collectors

    def trainer_options(self, world: World, policy_persistence: PolicyPersistence) -> dict[str, Any]:
        """Returns the arguments of a trainer that settings do not say: for callbacks, episodes and the best policy.

        :param world: the parts of the experiment.
        :param policy_persistence: saves the best policy.
        """
        context = TrainingContext(world.policy, world.envs, world.logger)
        options: dict[str, Any] = {"save_best_fn": policy_persistence.get_save_best_fn(world)}
        if self.sampling_config.episode_per_collect is not None:
            options |= {"episode_per_collect": self.sampling_config.episode_per_collect, "step_per_collect": None}
        for name in ("train", "test", "stop"):
            callback = getattr(self.trainer_callbacks, f"epoch_{name}_callback")
            if callback is not None:
                options[f"{name}_fn"] = callback.get_trainer_fn(context)
        return options

    def create_trainer(self, world: World, policy_persistence: PolicyPersistence) -> BaseTrainer:
        """Returns the trainer.

        :param world: the parts of the experiment.
        :param policy_persistence: saves the best policy.
        """
        config, collectors = self.plan(world.envs).config(), (world.train_collector, world.test_collector)
        parts = parts_of(config, world.policy, *collectors, trainer_of(config), Declaration())
        return make_trainer(config, parts, world.logger, **self.trainer_options(world, policy_persistence))


class OnPolicyAgentFactory(AgentFactory):
    """Makes parts of an algorithm that learns from its newest steps alone; see :class:`AgentFactory`."""


class OffPolicyAgentFactory(AgentFactory):
    """Makes parts of an algorithm that learns from a replay buffer; see :class:`AgentFactory`."""


@dataclass(eq=False, repr=False)
class _OfParams(AgentFactory):
    params: Any
    sampling_config: SamplingConfig


@dataclass(eq=False, repr=False)
class _OfActor(_OfParams):
    actor_factory: ActorFactory


@dataclass(eq=False, repr=False)
class PGAgentFactory(_OfActor, OnPolicyAgentFactory):
    """Makes parts of REINFORCE; see :class:`AgentFactory`.

    :param params: the settings of the algorithm.
    :param sampling_config: the numbers of steps.
    :param actor_factory: makes the actor.
    :param optim_factory: makes optimizers.
    """

    algorithm = "pg"

    optim_factory: OptimizerFactory


@dataclass(eq=False, repr=False)
class ActorCriticAgentFactory(_OfActor, OnPolicyAgentFactory, Generic[TActorCriticParams, TPolicy]):
    """Makes parts of an algorithm with an actor and a critic; see :class:`AgentFactory`.

    :param params: the settings of the algorithm.
    :param sampling_config: the numbers of steps.
    :param actor_factory: makes the actor.
    :param critic_factory: makes the critic.
    :param optimizer_factory: makes optimizers.
    """

    critic_factory: CriticFactory
    optimizer_factory: InitVar[OptimizerFactory]

    critic_use_action = False

    def __post_init__(self, optimizer_factory: OptimizerFactory) -> None:
        AgentFactory.__init__(self, self.sampling_config, optimizer_factory)

    def create_actor_critic_module_opt(self, envs: Environments, device: TDevice, lr: float) -> ActorCriticOpt:
        """Returns an actor, a critic and their optimizer.

        :param envs: the environments.
        :param device: where they are.
        :param lr: the learning rate.
        """
        actor = self.actor_factory.create_module(envs, device)
        critic = self.critic_factory.create_module(envs, device, use_action=self.critic_use_action)
        both = ActorCritic(actor, critic)
        return ActorCriticOpt(both, self.optim_factory.create_optimizer(both, lr))


class A2CAgentFactory(ActorCriticAgentFactory[Any, Any]):
    """Makes parts of A2C; see :class:`ActorCriticAgentFactory`."""

    algorithm = "a2c"


class PPOAgentFactory(ActorCriticAgentFactory[Any, Any]):
    """Makes parts of PPO; see :class:`ActorCriticAgentFactory`."""

    algorithm = "ppo"


class NPGAgentFactory(ActorCriticAgentFactory[Any, Any]):
    """Makes parts of NPG; see :class:`ActorCriticAgentFactory`."""

    algorithm = "npg"


class TRPOAgentFactory(ActorCriticAgentFactory[Any, Any]):
    """Makes parts of TRPO; see :class:`ActorCriticAgentFactory`."""

    algorithm = "trpo"


@dataclass(eq=False, repr=False)
class DiscreteCriticOnlyAgentFactory(_OfParams, OffPolicyAgentFactory, Generic[TDiscreteCriticOnlyParams, TPolicy]):
    """Makes parts of an algorithm with values of discrete actions; see :class:`AgentFactory`.

    :param params: the settings of the algorithm.
    :param sampling_config: the numbers of steps.
    :param model_factory: makes the network of values.
    :param optim_factory: makes optimizers.
    """

    model_factory: ModuleFactory
    optim_factory: OptimizerFactory


class DQNAgentFactory(DiscreteCriticOnlyAgentFactory[Any, Any]):
    """Makes parts of DQN; see :class:`DiscreteCriticOnlyAgentFactory`."""

    algorithm = "dqn"


class IQNAgentFactory(DiscreteCriticOnlyAgentFactory[Any, Any]):
    """Makes parts of IQN; see :class:`DiscreteCriticOnlyAgentFactory`."""

    algorithm = "iqn"


@dataclass(eq=False, repr=False)
class DDPGAgentFactory(_OfActor, OffPolicyAgentFactory):
    """Makes parts of DDPG; see :class:`AgentFactory`.

    :param params: the settings of the algorithm.
    :param sampling_config: the numbers of steps.
    :param actor_factory: makes the actor.
    :param critic_factory: makes the critic.
    :param optim_factory: makes optimizers.
    """

    algorithm = "ddpg"

    critic_factory: CriticFactory
    optim_factory: OptimizerFactory


@dataclass(eq=False, repr=False)
class REDQAgentFactory(_OfActor, OffPolicyAgentFactory):
    """Makes parts of REDQ; see :class:`AgentFactory`.

    :param params: the settings of the algorithm.
    :param sampling_config: the numbers of steps.
    :param actor_factory: makes the actor.
    :param critic_ensemble_factory: makes the critics.
    :param optim_factory: makes optimizers.
    """

    algorithm = "redq"

    critic_ensemble_factory: CriticEnsembleFactory
    optim_factory: OptimizerFactory


@dataclass(eq=False, repr=False)
class ActorDualCriticsAgentFactory(_OfActor, OffPolicyAgentFactory, Generic[TActorDualCriticsParams, TPolicy]):
    """Makes parts of an algorithm with an actor and two critics; see :class:`AgentFactory`.

    :param params: the settings of the algorithm.
    :param sampling_config: the numbers of steps.
    :param actor_factory: makes the actor.
    :param critic1_factory: makes the first critic.
    :param critic2_factory: makes the second critic.
    :param optim_factory: makes optimizers.
    """

    critic1_factory: CriticFactory
    critic2_factory: CriticFactory
    optim_factory: OptimizerFactory


class SACAgentFactory(ActorDualCriticsAgentFactory[Any, Any]):
    """Makes parts of SAC; see :class:`ActorDualCriticsAgentFactory`."""

    algorithm = "sac"


class DiscreteSACAgentFactory(ActorDualCriticsAgentFactory[Any, Any]):
    """Makes parts of discrete SAC; see :class:`ActorDualCriticsAgentFactory`."""

    algorithm = "discrete-sac"


class TD3AgentFactory(ActorDualCriticsAgentFactory[Any, Any]):
    """Makes parts of TD3; see :class:`ActorDualCriticsAgentFactory`."""

    algorithm = "td3"
