"""The base of the builders of experiments."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

from rlfast.highlevel.agent import AgentFactory
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactory
from rlfast.highlevel.experiment.experiment import Experiment, ExperimentCollection, ExperimentConfig
from rlfast.highlevel.logger import LoggerFactory
from rlfast.highlevel.optim import OptimizerFactory, OptimizerFactoryAdam
from rlfast.highlevel.params.policy_params import Params
from rlfast.highlevel.params.policy_wrapper import PolicyWrapperFactory
from rlfast.highlevel.trainer import EpochStopCallback, EpochTestCallback, EpochTrainCallback, TrainerCallbacks

Part = TypeVar("Part")


class ExperimentBuilder:
    """Declares an experiment; a class for each algorithm knows more.

    :param env_factory: makes the environments.
    :param experiment_config: what the experiment does.
    :param sampling_config: the numbers of steps.
    """

    _agent: ClassVar[type[Any]]
    _kind: ClassVar[type[Params]] = Params
    experiment_config: ExperimentConfig
    """What the experiment does."""
    sampling_config: SamplingConfig
    """The numbers of steps."""

    def __init__(
        self,
        env_factory: EnvFactory,
        experiment_config: ExperimentConfig | None = None,
        sampling_config: SamplingConfig | None = None,
    ) -> None:
        self._env_factory = self._checked(EnvFactory, env_factory)
        self.experiment_config = experiment_config or ExperimentConfig()
        self.sampling_config = sampling_config or SamplingConfig()
        self._logger_factory: LoggerFactory | None = None
        self._optim_factory: OptimizerFactory = OptimizerFactoryAdam()
        self._policy_wrapper_factory: PolicyWrapperFactory[Any] | None = None
        self._callbacks = TrainerCallbacks()
        self._name: str | None = None
        self._settings: dict[str, Any] = {}
        self._params: Any = self._kind()
        self._networks: dict[str, Any] = {}
        self._init()

    def _init(self) -> None:
        """Sets the usual factories of networks, in the order in which the agent's factory takes them."""

    def copy(self) -> Self:
        """Returns a copy."""
        return deepcopy(self)

    def with_settings(self, **settings: Any) -> Self:
        """Returns the builder, with settings of ``rlfast train``, such as ``compile`` or ``prioritized``.

        :param settings: the settings, which count more than what else is declared.
        """
        self._settings |= settings
        return self

    def with_logger_factory(self, logger_factory: LoggerFactory) -> Self:
        """Returns the builder, with what makes a logger.

        :param logger_factory: makes it.
        """
        self._logger_factory = self._checked(LoggerFactory, logger_factory)
        return self

    def with_policy_wrapper_factory(self, policy_wrapper_factory: PolicyWrapperFactory[Any]) -> Self:
        """Returns the builder, with what wraps the policy.

        :param policy_wrapper_factory: wraps it.
        """
        self._policy_wrapper_factory = self._checked(PolicyWrapperFactory, policy_wrapper_factory)
        return self

    def with_optim_factory(self, optim_factory: OptimizerFactory) -> Self:
        """Returns the builder, with what makes optimizers.

        :param optim_factory: makes them.
        """
        self._optim_factory = self._checked(OptimizerFactory, optim_factory)
        return self

    def with_optim_factory_default(
        self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0
    ) -> Self:
        """Returns the builder, with these options of Adam.

        :param betas: see :class:`OptimizerFactoryAdam`, also for the others.
        :param eps: likewise.
        :param weight_decay: likewise.
        """
        return self.with_optim_factory(OptimizerFactoryAdam(betas, eps, weight_decay))

    def with_epoch_train_callback(self, callback: EpochTrainCallback) -> Self:
        """Returns the builder, with what is called before each collect.

        :param callback: is called.
        """
        self._callbacks.epoch_train_callback = self._checked(EpochTrainCallback, callback)
        return self

    def with_epoch_test_callback(self, callback: EpochTestCallback) -> Self:
        """Returns the builder, with what is called before each test.

        :param callback: is called.
        """
        self._callbacks.epoch_test_callback = self._checked(EpochTestCallback, callback)
        return self

    def with_epoch_stop_callback(self, callback: EpochStopCallback) -> Self:
        """Returns the builder, with what decides whether training ends early.

        :param callback: decides.
        """
        self._callbacks.epoch_stop_callback = self._checked(EpochStopCallback, callback)
        return self

    def with_name(self, name: str) -> Self:
        """Returns the builder, with the name of the experiment's folder.

        :param name: the name.
        """
        self._name = name
        return self

    def _checked(self, kind: type[Any], value: Part) -> Part:
        """Returns what a method declares.

        :raises TypeError: if it is of another kind.
        """
        if not isinstance(value, kind):
            wanted = f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
            raise TypeError(f"{type(self).__name__} needs {wanted}, got {value!r:.100}")
        return value

    def _with_params(self, params: Params) -> Self:
        self._params = self._checked(self._kind, params)
        return self

    def _with_network(self, kind: type[Any], factory: Any, *names: str) -> Self:
        self._networks |= dict.fromkeys(names, self._checked(kind, factory))
        return self

    def _create_agent_factory(self) -> AgentFactory:
        if not hasattr(self, "_agent"):
            raise NotImplementedError(f"{type(self).__name__} is of no algorithm: use the builder of one")
        networks = self._networks.values()
        made: AgentFactory = self._agent(self._params, self.sampling_config, *networks, self._optim_factory)
        return made

    def build(self) -> Experiment:
        """Returns the experiment."""
        factory = self._create_agent_factory()
        factory.settings = dict(self._settings)
        factory.set_trainer_callbacks(replace(self._callbacks))
        factory.set_policy_wrapper_factory(self._policy_wrapper_factory)
        parts = (self._env_factory, factory, self.sampling_config, self._logger_factory, self._name)
        return Experiment(self.experiment_config, *parts)

    def build_seeded_collection(self, num_experiments: int) -> ExperimentCollection:
        """Returns experiments that differ in their seeds, each with a folder named after these.

        :param num_experiments: how many.
        """
        made = []
        for number in range(num_experiments):
            builder = self.copy()
            builder.experiment_config.seed += number
            builder.sampling_config.train_seed += number * self.sampling_config.num_train_envs
            experiment = builder.build()
            experiment.name = "/".join(filter(None, (self._name, experiment.get_seeding_info_as_str())))
            made.append(experiment)
        return ExperimentCollection(made)
