"""The base of the builders of experiments."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Self

from rlfast.highlevel.agent import AgentFactory
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactory
from rlfast.highlevel.experiment.experiment import Experiment, ExperimentCollection, ExperimentConfig
from rlfast.highlevel.logger import LoggerFactory
from rlfast.highlevel.optim import OptimizerFactory, OptimizerFactoryAdam
from rlfast.highlevel.params import policy_params
from rlfast.highlevel.params.policy_wrapper import PolicyWrapperFactory
from rlfast.highlevel.trainer import (
    EpochStopCallback,
    EpochTestCallback,
    EpochTrainCallback,
    TrainerCallbacks,
)


class ExperimentBuilder:
    """Declares an experiment; a class for each algorithm knows more.

    :param env_factory: makes the environments.
    :param experiment_config: what the experiment does.
    :param sampling_config: the numbers of steps.
    """

    _agent: ClassVar[type[Any]]
    _kind: ClassVar[type[Any]] = policy_params.Params

    def __init__(
        self,
        env_factory: EnvFactory,
        experiment_config: ExperimentConfig | None = None,
        sampling_config: SamplingConfig | None = None,
    ) -> None:
        if not isinstance(env_factory, EnvFactory):
            raise TypeError(f"an experiment needs an EnvFactory, got {env_factory!r:.100}")
        self._env_factory = env_factory
        self._config = ExperimentConfig() if experiment_config is None else experiment_config
        self._sampling_config = SamplingConfig() if sampling_config is None else sampling_config
        self._logger_factory: LoggerFactory | None = None
        self._optim_factory: OptimizerFactory = OptimizerFactoryAdam()
        self._policy_wrapper_factory: PolicyWrapperFactory[Any] | None = None
        self._trainer_callbacks = TrainerCallbacks()
        self._name: str | None = None
        self._settings: dict[str, Any] = {}
        self._params = self._kind()
        self._init()

    def _init(self) -> None:
        """Sets what a class declares."""

    def copy(self) -> Self:
        """Returns a copy."""
        return deepcopy(self)

    @property
    def experiment_config(self) -> ExperimentConfig:
        """What the experiment does."""
        return self._config

    @experiment_config.setter
    def experiment_config(self, config: ExperimentConfig) -> None:
        self._config = config

    @property
    def sampling_config(self) -> SamplingConfig:
        """The numbers of steps."""
        return self._sampling_config

    @sampling_config.setter
    def sampling_config(self, config: SamplingConfig) -> None:
        self._sampling_config = config

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
        self._logger_factory = logger_factory
        return self

    def with_policy_wrapper_factory(self, policy_wrapper_factory: PolicyWrapperFactory[Any]) -> Self:
        """Returns the builder, with what wraps the policy.

        :param policy_wrapper_factory: wraps it.
        """
        self._policy_wrapper_factory = policy_wrapper_factory
        return self

    def with_optim_factory(self, optim_factory: OptimizerFactory) -> Self:
        """Returns the builder, with what makes optimizers.

        :param optim_factory: makes them.
        """
        self._optim_factory = optim_factory
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
        self._trainer_callbacks.epoch_train_callback = callback
        return self

    def with_epoch_test_callback(self, callback: EpochTestCallback) -> Self:
        """Returns the builder, with what is called before each test.

        :param callback: is called.
        """
        self._trainer_callbacks.epoch_test_callback = callback
        return self

    def with_epoch_stop_callback(self, callback: EpochStopCallback) -> Self:
        """Returns the builder, with what decides whether training ends early.

        :param callback: decides.
        """
        self._trainer_callbacks.epoch_stop_callback = callback
        return self

    def with_name(self, name: str) -> Self:
        """Returns the builder, with the name of the experiment's folder.

        :param name: the name.
        """
        self._name = name
        return self

    def _with_params(self, params: Any) -> Self:
        if not isinstance(params, self._kind):
            raise TypeError(f"{type(self).__name__} takes {self._kind.__name__}, got {params!r:.100}")
        self._params = params
        return self

    def _networks(self) -> list[Any]:
        """Returns the factories of networks."""
        raise NotImplementedError(f"{type(self).__name__} is of no algorithm: use the builder of one")

    def _create_agent_factory(self) -> AgentFactory:
        made: AgentFactory = self._agent(self._params, self._sampling_config, *self._networks(), self._optim_factory)
        return made

    def build(self) -> Experiment:
        """Returns the experiment."""
        factory = self._create_agent_factory()
        factory.settings = dict(self._settings)
        factory.set_trainer_callbacks(copy(self._trainer_callbacks))
        factory.set_policy_wrapper_factory(self._policy_wrapper_factory)
        return Experiment(
            self._config, self._env_factory, factory, self._sampling_config, self._logger_factory, self._name
        )

    def build_seeded_collection(self, num_experiments: int) -> ExperimentCollection:
        """Returns experiments that differ in their seeds, each with a folder named after these.

        :param num_experiments: how many.
        """
        made = []
        for number in range(num_experiments):
            builder = self.copy()
            builder._config = replace(self._config, seed=self._config.seed + number)  # noqa: SLF001
            builder._sampling_config.train_seed += number * self._sampling_config.num_train_envs  # noqa: SLF001
            experiment = builder.build()
            experiment.name = "/".join(filter(None, (self._name, experiment.get_seeding_info_as_str())))
            made.append(experiment)
        return ExperimentCollection(made)
