"""The base of the builders of experiments."""

from __future__ import annotations

from copy import deepcopy
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
from rlfast.highlevel.trainer import EpochStopCallback, EpochTestCallback, EpochTrainCallback, TrainerCallbacks


class ExperimentBuilder:
    """Declares an experiment; a class for each algorithm knows more.

    :param env_factory: makes the environments.
    :param experiment_config: what the experiment does.
    :param sampling_config: the numbers of steps.
    """

    _agent: ClassVar[type[Any]]
    _kind: ClassVar[type[Any]] = policy_params.Params
    _env_factory: EnvFactory

    def __init__(
        self,
        env_factory: EnvFactory,
        experiment_config: ExperimentConfig | None = None,
        sampling_config: SamplingConfig | None = None,
    ) -> None:
        self._put("_env_factory", EnvFactory, env_factory)
        self._config = ExperimentConfig() if experiment_config is None else experiment_config
        self._sampling_config = SamplingConfig() if sampling_config is None else sampling_config
        self._logger_factory: LoggerFactory | None = None
        self._optim_factory: OptimizerFactory = OptimizerFactoryAdam()
        self._policy_wrapper_factory: PolicyWrapperFactory[Any] | None = None
        self._epoch_train_callback: EpochTrainCallback | None = None
        self._epoch_test_callback: EpochTestCallback | None = None
        self._epoch_stop_callback: EpochStopCallback | None = None
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
        return self._put("_logger_factory", LoggerFactory, logger_factory)

    def with_policy_wrapper_factory(self, policy_wrapper_factory: PolicyWrapperFactory[Any]) -> Self:
        """Returns the builder, with what wraps the policy.

        :param policy_wrapper_factory: wraps it.
        """
        return self._put("_policy_wrapper_factory", PolicyWrapperFactory, policy_wrapper_factory)

    def with_optim_factory(self, optim_factory: OptimizerFactory) -> Self:
        """Returns the builder, with what makes optimizers.

        :param optim_factory: makes them.
        """
        return self._put("_optim_factory", OptimizerFactory, optim_factory)

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
        return self._put("_epoch_train_callback", EpochTrainCallback, callback)

    def with_epoch_test_callback(self, callback: EpochTestCallback) -> Self:
        """Returns the builder, with what is called before each test.

        :param callback: is called.
        """
        return self._put("_epoch_test_callback", EpochTestCallback, callback)

    def with_epoch_stop_callback(self, callback: EpochStopCallback) -> Self:
        """Returns the builder, with what decides whether training ends early.

        :param callback: decides.
        """
        return self._put("_epoch_stop_callback", EpochStopCallback, callback)

    def with_name(self, name: str) -> Self:
        """Returns the builder, with the name of the experiment's folder.

        :param name: the name.
        """
        self._name = name
        return self

    def _put(self, name: str, kind: type[Any], value: Any) -> Self:
        """Sets what a method declares, and returns the builder.

        :raises TypeError: if it is of another kind.
        """
        if not isinstance(value, kind):
            wanted = f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
            raise TypeError(f"{type(self).__name__} needs {wanted}, got {value!r:.100}")
        setattr(self, name, value)
        return self

    def _with_params(self, params: Any) -> Self:
        return self._put("_params", self._kind, params)

    def _networks(self) -> list[Any]:
        """Returns the factories of networks."""
        return []

    def _create_agent_factory(self) -> AgentFactory:
        if not hasattr(self, "_agent"):
            raise NotImplementedError(f"{type(self).__name__} is of no algorithm: use the builder of one")
        made: AgentFactory = self._agent(self._params, self._sampling_config, *self._networks(), self._optim_factory)
        return made

    def build(self) -> Experiment:
        """Returns the experiment."""
        factory = self._create_agent_factory()
        factory.settings = dict(self._settings)
        callbacks = (self._epoch_train_callback, self._epoch_test_callback, self._epoch_stop_callback)
        factory.set_trainer_callbacks(TrainerCallbacks(*callbacks))
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
