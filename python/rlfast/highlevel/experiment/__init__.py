"""Experiments, and the builders that declare them, one for each algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

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

    _agent = agent.PGAgentFactory
    _kind = policy_params.PGParams

    def with_pg_params(self, params: policy_params.PGParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.PGParams, params=params)


class A2CExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with A2C; see :class:`ExperimentBuilder`."""

    _agent = agent.A2CAgentFactory
    _kind = policy_params.A2CParams

    def with_a2c_params(self, params: policy_params.A2CParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.A2CParams, params=params)


class PPOExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with PPO; see :class:`ExperimentBuilder`."""

    _agent = agent.PPOAgentFactory
    _kind = policy_params.PPOParams

    def with_ppo_params(self, params: policy_params.PPOParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.PPOParams, params=params)


class NPGExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with NPG; see :class:`ExperimentBuilder`."""

    _agent = agent.NPGAgentFactory
    _kind = policy_params.NPGParams

    def with_npg_params(self, params: policy_params.NPGParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.NPGParams, params=params)


class TRPOExperimentBuilder(networks.WithGaussianActor, networks.WithCritic):
    """Declares an experiment with TRPO; see :class:`ExperimentBuilder`."""

    _agent = agent.TRPOAgentFactory
    _kind = policy_params.TRPOParams

    def with_trpo_params(self, params: policy_params.TRPOParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.TRPOParams, params=params)


class DDPGExperimentBuilder(networks.WithDeterministicActor, networks.WithCritic):
    """Declares an experiment with DDPG; see :class:`ExperimentBuilder`."""

    _agent = agent.DDPGAgentFactory
    _kind = policy_params.DDPGParams

    def with_ddpg_params(self, params: policy_params.DDPGParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.DDPGParams, params=params)


class REDQExperimentBuilder(networks.WithGaussianActor, networks.WithEnsemble):
    """Declares an experiment with REDQ; see :class:`ExperimentBuilder`."""

    _agent = agent.REDQAgentFactory
    _kind = policy_params.REDQParams

    def with_redq_params(self, params: policy_params.REDQParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.REDQParams, params=params)


class SACExperimentBuilder(networks.WithGaussianActor, networks.WithTwoCritics):
    """Declares an experiment with SAC; see :class:`ExperimentBuilder`."""

    _agent = agent.SACAgentFactory
    _kind = policy_params.SACParams

    def with_sac_params(self, params: policy_params.SACParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.SACParams, params=params)


class DiscreteSACExperimentBuilder(networks.WithTwoCritics):
    """Declares an experiment with discrete SAC; see :class:`ExperimentBuilder`."""

    _agent = agent.DiscreteSACAgentFactory
    _actor_type = actor.ContinuousActorType.UNSUPPORTED
    _kind = policy_params.DiscreteSACParams

    def with_sac_params(self, params: policy_params.DiscreteSACParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.DiscreteSACParams, params=params)


class TD3ExperimentBuilder(networks.WithDeterministicActor, networks.WithTwoCritics):
    """Declares an experiment with TD3; see :class:`ExperimentBuilder`."""

    _agent = agent.TD3AgentFactory
    _kind = policy_params.TD3Params

    def with_td3_params(self, params: policy_params.TD3Params) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.TD3Params, params=params)


def _discrete(hidden_sizes: Sequence[int], activation: ModuleType = nn.ReLU) -> IntermediateModuleFactory:
    kind = actor.ContinuousActorType.UNSUPPORTED
    values = actor.ActorFactoryDefault(kind, hidden_sizes, activation, discrete_softmax=False)
    return actor.IntermediateModuleFactoryFromActorFactory(values)


class DQNExperimentBuilder(ExperimentBuilder):
    """Declares an experiment with DQN; see :class:`ExperimentBuilder`."""

    _agent = agent.DQNAgentFactory
    _kind = policy_params.DQNParams

    def _init(self) -> None:
        self.with_model_factory_default(networks.CRITIC_SIZES)

    def with_dqn_params(self, params: policy_params.DQNParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.DQNParams, params=params)

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


class IQNExperimentBuilder(ExperimentBuilder):
    """Declares an experiment with IQN; see :class:`ExperimentBuilder`."""

    _agent = agent.IQNAgentFactory
    _kind = policy_params.IQNParams

    def _init(self) -> None:
        self.with_preprocess_network_factory(_discrete(networks.CRITIC_SIZES))

    def with_iqn_params(self, params: policy_params.IQNParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, policy_params.IQNParams, params=params)

    def with_preprocess_network_factory(self, module_factory: IntermediateModuleFactory) -> Self:
        """Returns the builder, with what makes the network of features.

        :param module_factory: makes it.
        """
        return self._keep(self._parts, IntermediateModuleFactory, features=module_factory)

    def _create_agent_factory(self) -> agent.AgentFactory:
        params, features = self._parts["params"], self._parts["features"]
        self._networks["model"] = ImplicitQuantileNetworkFactory(features, params.hidden_sizes, params.num_cosines)
        return super()._create_agent_factory()
