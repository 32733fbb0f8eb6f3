"""Experiments, and the builders that declare them, one for each algorithm."""

from collections.abc import Sequence
from typing import Any, Self

from torch import nn

from rlfast.highlevel import agent
from rlfast.highlevel.experiment import networks
from rlfast.highlevel.experiment.builder import ExperimentBuilder as ExperimentBuilder
from rlfast.highlevel.experiment.experiment import Experiment as Experiment
from rlfast.highlevel.experiment.experiment import ExperimentCollection as ExperimentCollection
from rlfast.highlevel.experiment.experiment import ExperimentConfig as ExperimentConfig
from rlfast.highlevel.experiment.experiment import ExperimentResult as ExperimentResult
from rlfast.highlevel.experiment.experiment import log as log
from rlfast.highlevel.module import actor
from rlfast.highlevel.module.core import ModuleFactory
from rlfast.highlevel.module.intermediate import IntermediateModuleFactory
from rlfast.highlevel.module.special import ImplicitQuantileNetworkFactory
from rlfast.highlevel.params import policy_params
from rlfast.utils.net.common import ModuleType


class PGExperimentBuilder(networks.WithGaussianActor):
    """Declares an experiment with PG; see :class:`ExperimentBuilder`."""

    _declares = agent.PGAgentFactory, policy_params.PGParams
    with_pg_params = ExperimentBuilder[policy_params.PGParams].with_params


class A2CExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with A2C; see :class:`ExperimentBuilder`."""

    _declares = agent.A2CAgentFactory, policy_params.A2CParams
    with_a2c_params = ExperimentBuilder[policy_params.A2CParams].with_params


class PPOExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with PPO; see :class:`ExperimentBuilder`."""

    _declares = agent.PPOAgentFactory, policy_params.PPOParams
    with_ppo_params = ExperimentBuilder[policy_params.PPOParams].with_params


class NPGExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with NPG; see :class:`ExperimentBuilder`."""

    _declares = agent.NPGAgentFactory, policy_params.NPGParams
    with_npg_params = ExperimentBuilder[policy_params.NPGParams].with_params


class TRPOExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with TRPO; see :class:`ExperimentBuilder`."""

    _declares = agent.TRPOAgentFactory, policy_params.TRPOParams
    with_trpo_params = ExperimentBuilder[policy_params.TRPOParams].with_params


class DDPGExperimentBuilder(networks.WithDeterministicActor, networks.WithCritic):
    """Declares an experiment with DDPG; see :class:`ExperimentBuilder`."""

    _declares = agent.DDPGAgentFactory, policy_params.DDPGParams
    with_ddpg_params = ExperimentBuilder[policy_params.DDPGParams].with_params


class REDQExperimentBuilder(networks.WithGaussianActor, networks.WithEnsemble):
    """Declares an experiment with REDQ; see :class:`ExperimentBuilder`."""

    _declares = agent.REDQAgentFactory, policy_params.REDQParams
    with_redq_params = ExperimentBuilder[policy_params.REDQParams].with_params


class SACExperimentBuilder(networks.WithGaussianActor, networks.WithTwoCritics):
    """Declares an experiment with SAC; see :class:`ExperimentBuilder`."""

    _declares = agent.SACAgentFactory, policy_params.SACParams
    with_sac_params = ExperimentBuilder[policy_params.SACParams].with_params


class DiscreteSACExperimentBuilder(networks.WithTwoCritics):
    """Declares an experiment with discrete SAC; see :class:`ExperimentBuilder`."""

    _declares = agent.DiscreteSACAgentFactory, policy_params.DiscreteSACParams
    _actor_type = actor.ContinuousActorType.UNSUPPORTED
    with_sac_params = ExperimentBuilder[policy_params.DiscreteSACParams].with_params


class TD3ExperimentBuilder(networks.WithDeterministicActor, networks.WithTwoCritics):
    """Declares an experiment with TD3; see :class:`ExperimentBuilder`."""

    _declares = agent.TD3AgentFactory, policy_params.TD3Params
    with_td3_params = ExperimentBuilder[policy_params.TD3Params].with_params


def _discrete(hidden_sizes: Sequence[int], activation: ModuleType = nn.ReLU) -> IntermediateModuleFactory:
    kind = actor.ContinuousActorType.UNSUPPORTED
    values = actor.ActorFactoryDefault(kind, hidden_sizes, activation, discrete_softmax=False)
    return actor.IntermediateModuleFactoryFromActorFactory(values)


class DQNExperimentBuilder(ExperimentBuilder[Any]):
    """Declares an experiment with DQN; see :class:`ExperimentBuilder`."""

    _declares = agent.DQNAgentFactory, policy_params.DQNParams
    with_dqn_params = ExperimentBuilder[policy_params.DQNParams].with_params

    def _init(self) -> None:
        self.with_model_factory_default(networks.CRITIC_SIZES)

    def with_model_factory(self, module_factory: ModuleFactory) -> Self:
        """Returns the builder, with what makes the network of values.

        :param module_factory: makes it.
        """
        return self._keep(self._networks, ModuleFactory, model=module_factory)

    def with_model_factory_default(self, hidden_sizes: Sequence[int], hidden_activation: ModuleType = nn.ReLU) -> Self:
        """Returns the builder, with these options of the usual network.

        :param hidden_sizes: the sizes of hidden layers.
        :param hidden_activation: their activation.
        """
        return self.with_model_factory(_discrete(hidden_sizes, hidden_activation))


class IQNExperimentBuilder(ExperimentBuilder[Any]):
    """Declares an experiment with IQN; see :class:`ExperimentBuilder`."""

    _declares = agent.IQNAgentFactory, policy_params.IQNParams
    with_iqn_params = ExperimentBuilder[policy_params.IQNParams].with_params

    def _init(self) -> None:
        self.with_preprocess_network_factory(_discrete(networks.CRITIC_SIZES))

    def with_preprocess_network_factory(self, module_factory: IntermediateModuleFactory) -> Self:
        """Returns the builder, with what makes the network of features.

        :param module_factory: makes it.
        """
        return self._keep(self._parts, IntermediateModuleFactory, features=module_factory)

    def _create_agent_factory(self) -> agent.AgentFactory:
        params, features = self._parts["params"], self._parts["features"]
        self._networks["model"] = ImplicitQuantileNetworkFactory(features, params.hidden_sizes, params.num_cosines)
        return super()._create_agent_factory()
