"""The base of the builders of experiments."""

from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self

from rlfast.highlevel import agent, config, env, logger, optim, trainer
from rlfast.highlevel.experiment.experiment import Experiment, ExperimentCollection, ExperimentConfig
from rlfast.highlevel.params.policy_params import Params
from rlfast.highlevel.params.policy_wrapper import PolicyWrapperFactory


class ExperimentBuilder(Generic[agent.TParams]):
    """Declares an experiment; a class for each algorithm knows more.

    :param env_factory: makes the environments.
    :param experiment_config: what the experiment does.
    :param sampling_config: the numbers of steps.
    """

    _declares: ClassVar[tuple[type[Any], type[Params]]] = agent.AgentFactory, Params
    """The classes of the agent's factory and of the settings of the algorithm."""
    experiment_config: ExperimentConfig
    """What the experiment does."""
    sampling_config: config.SamplingConfig
    """The numbers of steps."""

    def __init__(
        self,
        env_factory: env.EnvFactory,
        experiment_config: ExperimentConfig | None = None,
        sampling_config: config.SamplingConfig | None = None,
    ) -> None:
        self.experiment_config = experiment_config or ExperimentConfig()
        self.sampling_config = sampling_config or config.SamplingConfig()
        self._parts: dict[str, Any] = {"optim_factory": optim.OptimizerFactoryAdam(), "params": self._declares[1]()}
        self._networks: dict[str, Any] = {}
        self._callbacks = trainer.TrainerCallbacks()
        self._settings: dict[str, Any] = {}
        self._keep(self._parts, env.EnvFactory, env_factory=env_factory)
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

    def with_params(self, params: agent.TParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._keep(self._parts, self._declares[1], params=params)

    def with_logger_factory(self, logger_factory: logger.LoggerFactory) -> Self:
        """Returns the builder, with what makes a logger.

        :param logger_factory: makes it.
        """
        return self._keep(self._parts, logger.LoggerFactory, logger_factory=logger_factory)

    def with_policy_wrapper_factory(self, policy_wrapper_factory: PolicyWrapperFactory[Any]) -> Self:
        """Returns the builder, with what wraps the policy.

        :param policy_wrapper_factory: wraps it.
        """
        return self._keep(self._parts, PolicyWrapperFactory, policy_wrapper_factory=policy_wrapper_factory)

    def with_optim_factory(self, optim_factory: optim.OptimizerFactory) -> Self:
        """Returns the builder, with what makes optimizers.

        :param optim_factory: makes them.
        """
        return self._keep(self._parts, optim.OptimizerFactory, optim_factory=optim_factory)

    def with_optim_factory_default(
        self, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-08, weight_decay: float = 0
    ) -> Self:
        """Returns the builder, with these options of Adam.

        :param betas: see :class:`OptimizerFactoryAdam`, also for the others.
        :param eps: likewise.
        :param weight_decay: likewise.
        """
        return self.with_optim_factory(optim.OptimizerFactoryAdam(betas, eps, weight_decay))

    def with_epoch_train_callback(self, callback: trainer.EpochTrainCallback) -> Self:
        """Returns the builder, with what is called before each collect.

        :param callback: is called.
        """
        return self._keep(vars(self._callbacks), trainer.EpochTrainCallback, epoch_train_callback=callback)

    def with_epoch_test_callback(self, callback: trainer.EpochTestCallback) -> Self:
        """Returns the builder, with what is called before each test.

        :param callback: is called.
        """
        return self._keep(vars(self._callbacks), trainer.EpochTestCallback, epoch_test_callback=callback)

    def with_epoch_stop_callback(self, callback: trainer.EpochStopCallback) -> Self:
        """Returns the builder, with what decides whether training ends early.

        :param callback: decides.
        """
        return self._keep(vars(self._callbacks), trainer.EpochStopCallback, epoch_stop_callback=callback)

    def with_name(self, name: str) -> Self:
        """Returns the builder, with the name of the experiment's folder.

        :param name: the name.
        """
        return self._keep(self._parts, str, name=name)

    def _keep(self, where: dict[str, Any], kind: type[Any], **parts: Any) -> Self:
        """Returns the builder, with parts of the declaration.

        :raises TypeError: if one is of another kind.
        """
        for part in parts.values():
            if not isinstance(part, kind):
                wanted = f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}"
                raise TypeError(f"{type(self).__name__} needs {wanted}, got {part!r:.100}")
        where |= parts
        return self

    def _create_agent_factory(self) -> agent.AgentFactory:
        if self._declares[0] is agent.AgentFactory:
            raise NotImplementedError(f"{type(self).__name__} is of no algorithm: use the builder of one")
        params, networks, optim_factory = self._parts["params"], self._networks.values(), self._parts["optim_factory"]
        made: agent.AgentFactory = self._declares[0](params, self.sampling_config, *networks, optim_factory)
        return made

    def build(self) -> Experiment:
        """Returns the experiment."""
        factory, parts = self._create_agent_factory(), self._parts
        factory.settings = dict(self._settings)
        factory.set_trainer_callbacks(replace(self._callbacks))
        factory.set_policy_wrapper_factory(parts.get("policy_wrapper_factory"))
        others = parts.get("logger_factory"), parts.get("name")
        return Experiment(self.experiment_config, parts["env_factory"], factory, self.sampling_config, *others)

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
            experiment.name = "/".join(filter(None, (experiment.name, experiment.get_seeding_info_as_str())))
            made.append(experiment)
        return ExperimentCollection(made)
