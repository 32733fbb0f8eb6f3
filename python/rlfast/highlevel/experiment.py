"""Experiments, and the builders that declare them."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import closing
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import gymnasium as gym
import torch
from torch import nn

from rlfast.data import Batch, InfoStats
from rlfast.data.collect.collector import Collector
from rlfast.data.plain_data import summary
from rlfast.env import BaseVectorEnv
from rlfast.env.adapters import as_vector_env
from rlfast.experiment.build import Parts, build
from rlfast.experiment.config import RunConfig
from rlfast.experiment.declaration import PICKLE, Declaration
from rlfast.experiment.environments import normalized, seed_envs
from rlfast.experiment.run import ConfigError, train
from rlfast.highlevel import agent
from rlfast.highlevel.agent import AgentFactory
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactory, Environments, EnvMode, environments_of
from rlfast.highlevel.logger import LoggerFactory, LoggerFactoryDefault
from rlfast.highlevel.module.actor import (
    ActorFactory,
    ActorFactoryDefault,
    ActorFactoryTransientStorageDecorator,
    ActorFuture,
    ContinuousActorType,
    IntermediateModuleFactoryFromActorFactory,
)
from rlfast.highlevel.module.core import ModuleFactory, TDevice
from rlfast.highlevel.module.critic import (
    CriticEnsembleFactory,
    CriticEnsembleFactoryDefault,
    CriticFactory,
    CriticFactoryDefault,
    CriticFactoryReuseActor,
)
from rlfast.highlevel.module.intermediate import IntermediateModuleFactory
from rlfast.highlevel.module.special import ImplicitQuantileNetworkFactory
from rlfast.highlevel.optim import OptimizerFactory, OptimizerFactoryAdam
from rlfast.highlevel.params import policy_params
from rlfast.highlevel.params.policy_wrapper import PolicyWrapperFactory
from rlfast.highlevel.persistence import PersistenceGroup, PolicyPersistence
from rlfast.highlevel.settings import Settings, buffer_options
from rlfast.highlevel.trainer import (
    EpochStopCallback,
    EpochTestCallback,
    EpochTrainCallback,
    TrainerCallbacks,
    TrainingContext,
)
from rlfast.highlevel.world import World
from rlfast.utils import logging
from rlfast.utils.logger import BaseLogger, LazyLogger
from rlfast.utils.logging import FileLoggerContext, datetime_tag
from rlfast.utils.net.common import ModuleType
from rlfast.utils.runtime.seeding import global_random_state, set_global_random_state
from rlfast.utils.string import ToStringMixin

log = logging.getLogger(__name__)


@dataclass
class ExperimentConfig:
    """What an experiment does, beside its algorithm."""

    seed: int = 42
    """Seed of all random numbers."""
    device: TDevice = "cuda" if torch.cuda.is_available() else "cpu"
    """Device of the networks."""
    policy_restore_directory: str | None = None
    """Folder of a run whose policy is restored at the start."""
    train: bool = True
    """Whether to train."""
    watch: bool = True
    """Whether to watch the policy afterwards."""
    watch_num_episodes: int = 10
    """Number of episodes to watch."""
    watch_render: float = 0.0
    """Seconds between frames of these."""
    persistence_base_dir: str = "log"
    """Folder of the folders of runs."""
    persistence_enabled: bool = True
    """Whether the run has a folder."""
    log_file_enabled: bool = True
    """Whether log messages are written to a file there."""
    policy_persistence_mode: PolicyPersistence.Mode = PolicyPersistence.Mode.POLICY
    """What is saved of the best policy, beside the checkpoint of the newest."""


@dataclass
class ExperimentResult:
    """The result of an experiment."""

    world: World
    trainer_result: InfoStats | None
    """Totals and timing of training; None without training."""


class _Declared(Declaration):
    """Makes the parts of an experiment that settings do not say."""

    def __init__(self, experiment: Experiment, config: RunConfig, plan: Settings, run_id: str | None = None) -> None:
        self._experiment, self._plan, self._run_id = experiment, plan, run_id
        self._config = config
        self._loggers: list[BaseLogger] = []
        self.world: World | None = None
        self.log_file = FileLoggerContext("", enabled=False)

    @property
    def beyond(self) -> Sequence[str]:
        return [f"{name}: {self._experiment.describe(name)}" for name in self._plan.beyond]

    def save(self, run_dir: Path) -> None:
        self._experiment.save(str(run_dir))
        if self._experiment.config.log_file_enabled:
            path = run_dir / Experiment.LOG_FILENAME
            path.write_text(self._experiment.pprints() + "\n")
            self.log_file = FileLoggerContext(str(path))
            self.log_file.__enter__()

    def environments(self, config: RunConfig) -> tuple[BaseVectorEnv, BaseVectorEnv]:
        experiment, factory = self._experiment, self._experiment.env_factory
        if "env_factory" in self._plan.beyond:
            self.envs = factory.create_envs(config.num_envs, config.eval_envs, experiment.config.watch)
            train_envs, test_envs = as_vector_env(self.envs.train_envs), as_vector_env(self.envs.test_envs)
            if getattr(factory, "envpool_factory", None) is None:
                for name, envs in (("train", train_envs), ("test", test_envs)):
                    root = getattr(factory, f"{name}_seed", None)
                    seed_envs(envs, config.seed if root is None else root, name)
            train_envs, test_envs = normalized(config, train_envs, test_envs)
        else:
            train_envs, test_envs = super().environments(config)
            watch = factory.create_venv(1, EnvMode.WATCH) if experiment.config.watch else None
            self.envs = environments_of(factory.create_env(EnvMode.TRAIN), None, None, watch)
        self.envs.train_envs, self.envs.test_envs = train_envs, test_envs
        return train_envs, test_envs

    def policy(self, config: RunConfig, obs_space: Any, act_space: Any, data: Any = None) -> Any:  # noqa: ARG002
        policy = self._experiment.agent_factory.create_policy(self.envs, config.device)
        _check_fit(policy, self.envs)
        return policy

    def buffer_options(self) -> dict[str, Any]:
        return buffer_options(self._experiment.sampling_config)

    def loggers(self, run_dir: Path) -> list[BaseLogger]:
        factory = self._experiment.logger_factory
        if type(factory) is LoggerFactoryDefault and factory.logger_type == "tensorboard":
            return []  # every run has one
        name = self._experiment.name or run_dir.name
        made = factory.create_logger(str(run_dir), name, self._run_id, {"experiment": self._experiment.pprints()})
        return [made]

    def trainer_options(self, parts: Parts, logger: BaseLogger) -> dict[str, Any]:
        experiment, run_dir = self._experiment, str(self._config.run_dir or "")
        restore = experiment.config.policy_restore_directory
        collectors: Any = (parts.train_collector, parts.test_collector)
        self.world = World(self.envs, parts.policy, collectors[0], collectors[1], logger, run_dir, restore)
        persistence = self.persistence(enabled=experiment.config.persistence_enabled)
        context = TrainingContext(parts.policy, self.envs, logger)
        options = experiment.agent_factory.trainer_options(context, parts.before_collect)
        return options | {"save_best_fn": persistence.get_save_best_fn(self.world)}

    def persistence(self, *, enabled: bool) -> PolicyPersistence:
        group = PersistenceGroup(*self.envs.persistence, enabled=enabled)
        return PolicyPersistence(group, enabled, self._experiment.config.policy_persistence_mode)

    def begin(self, trainer: Any) -> None:
        assert self.world is not None  # noqa: S101 (made with the trainer)
        self.world.trainer = trainer
        if self._experiment.config.policy_restore_directory and not trainer.env_step:
            self.persistence(enabled=False).restore(self.world.policy, self.world, self._experiment.config.device)

    def environment(self, config: RunConfig, render_mode: str | None = None) -> Any:
        if "env_factory" in self._plan.beyond:
            raise ValueError(f"{self._experiment.describe('env_factory')} has no environments that film: use a script")
        return super().environment(config, render_mode)

    def evaluation(self, config: RunConfig, number: int, statistics: Any, make: Any = None) -> BaseVectorEnv:
        if "env_factory" not in self._plan.beyond:
            return super().evaluation(config, number, statistics, make)
        envs = as_vector_env(self._experiment.env_factory.create_venv(number, EnvMode.TEST))
        wrapped: Any = envs
        states = list(statistics or ())
        while states and hasattr(wrapped, "load_state_dict"):
            wrapped.load_state_dict(states.pop(0))
            wrapped = getattr(wrapped, "venv", None)
        return envs


def _check_fit(policy: Any, envs: Environments) -> None:
    """Checks that a policy's networks take observations, and give what actions need.

    :raises ValueError: if they do not.
    """
    space: Any = envs.get_action_space()
    streams = global_random_state()
    policy.eval()
    try:
        with torch.no_grad():
            result = policy(Batch([Batch(obs=envs.get_observation_space().sample(), info={})]))
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"the networks cannot take an observation: {summary(error)}") from error
    policy.train()
    set_global_random_state(streams)
    logits = result.get("logits", None)
    if isinstance(space, gym.spaces.Discrete):
        if isinstance(logits, torch.Tensor) and logits.shape[1] != space.n:
            raise ValueError(f"a network gives {logits.shape[1]} numbers, and there are {space.n} actions")
    elif isinstance(space, gym.spaces.Box) and tuple(result.act.shape[1:]) != space.shape:
        raise ValueError(f"a network gives actions of shape {tuple(result.act.shape[1:])}, they are of {space.shape}")


class Experiment(ToStringMixin):
    """An experiment: a run of :mod:`rlfast.experiment` that factories declare.

    :param config: what it does.
    :param env_factory: makes the environments.
    :param agent_factory: makes policy, collectors and trainer.
    :param sampling_config: the numbers of steps.
    :param logger_factory: makes a logger beside those of every run, which write CSV, JSON and TensorBoard's files.
    :param name: the name of its folder. Default: date and time.
    """

    LOG_FILENAME = "log.txt"
    EXPERIMENT_PICKLE_FILENAME = PICKLE

    def __init__(
        self,
        config: ExperimentConfig,
        env_factory: EnvFactory,
        agent_factory: AgentFactory,
        sampling_config: SamplingConfig,
        logger_factory: LoggerFactory | None = None,
        name: str | None = None,
    ) -> None:
        self.config = config
        self.env_factory = env_factory
        self.agent_factory = agent_factory
        self.sampling_config = sampling_config
        self.logger_factory = LoggerFactoryDefault() if logger_factory is None else logger_factory
        self.name = name

    def describe(self, part: str) -> str:
        """Returns the class of a part of the declaration.

        :param part: its name.
        """
        holders = (self, self.agent_factory, self.agent_factory.trainer_callbacks)
        found = next((getattr(one, part) for one in holders if hasattr(one, part)), None)
        found = getattr(found, "actor_factory", found)
        return f"{type(found).__module__}.{type(found).__qualname__}".removeprefix("builtins.")

    def declaration(self, run_dir: Path | None = None, run_id: str | None = None) -> Declaration:
        """Returns the settings, and what makes the parts that they do not say.

        :param run_dir: the folder of the run.
        :param run_id: the id of a run that a logger continues.
        :raises ConfigError: if the declaration cannot be run.
        """
        return self._declared(run_dir, run_id)

    def run_config(self, run_dir: Path | None = None) -> RunConfig:
        """Returns the settings, which are those of the same run from the command line.

        :param run_dir: the folder of the run.
        :raises ConfigError: if the declaration cannot be run.
        """
        return self._declared(run_dir, None)._config  # noqa: SLF001 (of this module)

    def _declared(self, run_dir: Path | None, run_id: str | None) -> _Declared:
        try:
            with closing(self.env_factory.create_env(EnvMode.TRAIN)) as env:
                plan = self.agent_factory.plan(environments_of(env))
                plan.add_environments(self.env_factory, env)
                plan.add_callbacks(self.agent_factory.trainer_callbacks, env)
                plan.values |= self.agent_factory.settings
                config = plan.config(seed=self.config.seed, device=str(self.config.device), run_dir=run_dir)
        except (ValueError, TypeError, AssertionError) as error:
            raise ConfigError(str(error)) from error
        return _Declared(self, config, plan, run_id)

    @classmethod
    def from_directory(cls, directory: str, restore_policy: bool = True) -> Experiment:
        """Returns the experiment of a folder that you trust: it is a pickle, and loading one runs code.

        :param directory: the folder.
        :param restore_policy: whether running it begins with the policy of that folder.
        """
        with Path(directory, cls.EXPERIMENT_PICKLE_FILENAME).open("rb") as file:
            experiment: Experiment = pickle.load(file)  # noqa: S301 (the user's own)
        if restore_policy:
            experiment.config.policy_restore_directory = directory
        return experiment

    def save(self, directory: str) -> None:
        """Pickles the experiment.

        :param directory: the folder.
        :raises ConfigError: if a part cannot be pickled.
        """
        Path(directory, self.EXPERIMENT_PICKLE_FILENAME).write_bytes(self._pickled())

    def _pickled(self) -> bytes:
        try:
            return pickle.dumps(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(f"the experiment cannot be saved: {error}; define what it names in a module") from error

    def get_seeding_info_as_str(self) -> str:
        """Returns the seeds, for names of folders."""
        return f"experiment_seed={self.config.seed},train_seed={self.sampling_config.train_seed}"

    def _folder(self, name: str | None, *, must_be_new: bool) -> Path | None:
        if not self.config.persistence_enabled:
            return None
        folder = Path(self.config.persistence_base_dir, name or self.name or datetime_tag())
        if not must_be_new and (folder / self.EXPERIMENT_PICKLE_FILENAME).exists():
            shutil.rmtree(folder)
        self._pickled()  # raises an error before anything starts
        return folder

    def create_experiment_world(
        self,
        override_experiment_name: str | None = None,
        logger_run_id: str | None = None,
        raise_error_on_dirname_collision: bool = True,
        reset_collectors: bool = True,
    ) -> World:
        """Returns the parts of the experiment, for scripts that run it themselves; nothing is written.

        :param override_experiment_name: the name of its folder.
        :param logger_run_id: the id of a run that a logger continues.
        :param raise_error_on_dirname_collision: whether that folder must be new.
        :param reset_collectors: whether the environments are reset.
        :raises FileExistsError: if that folder exists.
        """
        folder = self._folder(override_experiment_name, must_be_new=True)
        if folder is not None and raise_error_on_dirname_collision and folder.exists():
            raise FileExistsError(f"{folder} exists: choose another name")
        declared = self._declared(folder, logger_run_id)
        parts = build(declared._config, declared)  # noqa: SLF001
        declared.trainer_options(parts, LazyLogger())
        assert declared.world is not None  # noqa: S101 (made by the line above)
        if reset_collectors:
            declared.world.train_collector.reset_env()
            declared.world.test_collector.reset_env()
        persistence = declared.persistence(enabled=False)
        declared.world.trainer = self.agent_factory.create_trainer(declared.world, persistence)
        declared.begin(declared.world.trainer)
        return declared.world

    def run(
        self,
        experiment_name: str | None = None,
        logger_run_id: str | None = None,
        *,
        run_name: str | None = None,
        raise_error_on_dirname_collision: bool = True,
        **kwargs: Any,
    ) -> ExperimentResult:
        """Trains, and watches the policy.

        The folder is that of every run: ``rlfast eval`` and ``rlfast train --resume`` open it.

        :param experiment_name: the name of the folder, which may be a path. Default: that of the experiment.
        :param logger_run_id: the id of a run that a logger continues.
        :param run_name: another name of ``experiment_name``.
        :param raise_error_on_dirname_collision: whether the folder must be new; False deletes an old one.
        :param kwargs: not used.
        :return: the result.
        :raises ConfigError: if the declaration cannot be run; nothing was started then.
        """
        del kwargs
        folder = self._folder(experiment_name or run_name, must_be_new=raise_error_on_dirname_collision)
        kept = folder is not None
        folder = folder or Path(tempfile.mkdtemp(prefix="rlfast"), "run")
        try:
            declared = self._declared(folder, logger_run_id)
            config = replace(declared._config, save_buffer=declared._config.save_buffer and kept)  # noqa: SLF001
            if not self.config.train:
                return self._only_watch(declared)
            try:
                result = train(config, declared)
            finally:
                declared.log_file.__exit__(None, None, None)
            assert declared.world is not None  # noqa: S101 (made with the trainer)
            self._watch(declared)
            return ExperimentResult(declared.world, result.info)
        finally:
            if not kept:
                shutil.rmtree(folder.parent, ignore_errors=True)

    def _only_watch(self, declared: _Declared) -> ExperimentResult:
        parts = build(declared._config, declared)  # noqa: SLF001
        with closing(parts):
            declared.trainer_options(parts, LazyLogger())
            assert declared.world is not None  # noqa: S101 (made by the line above)
            if self.config.policy_restore_directory:
                persistence = declared.persistence(enabled=False)
                persistence.restore(parts.policy, declared.world, self.config.device)
            self._watch(declared)
            return ExperimentResult(declared.world, None)

    def _watch(self, declared: _Declared) -> None:
        world = declared.world
        if not self.config.watch or world is None or world.envs.watch_env is None:
            return
        world.policy.eval()
        with Collector(world.policy, world.envs.watch_env) as collector:
            stats = collector.collect(n_episode=self.config.watch_num_episodes, render=self.config.watch_render)
        log.info("watched %s episodes: returns %s, lengths %s", len(stats.returns), stats.returns, stats.lens)


@dataclass(eq=False, repr=False)
class ExperimentCollection:
    """Experiments that run one after the other.

    :param experiments: the experiments.
    """

    experiments: list[Experiment]

    def run(self, launcher: Any = None) -> list[ExperimentResult]:
        """Runs them, and returns their results.

        :param launcher: an object whose ``launch`` runs them instead.
        """
        if launcher is not None:
            return launcher.launch(experiments=self.experiments)  # type: ignore[no-any-return]
        return [one.run() for one in self.experiments]


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


class _WithActor(ExperimentBuilder):
    _actor_type = ContinuousActorType.GAUSSIAN

    def _init(self) -> None:
        super()._init()
        self._actor_future = ActorFuture()
        self._actor_factory: ActorFactory = ActorFactoryDefault(self._actor_type)

    def get_actor_future(self) -> ActorFuture:
        """Returns where the actor will be."""
        return self._actor_future

    def with_actor_factory(self, actor_factory: ActorFactory) -> Self:
        """Returns the builder, with what makes the actor.

        :param actor_factory: makes it.
        """
        self._actor_factory = actor_factory
        return self

    def _networks(self) -> list[Any]:
        return [ActorFactoryTransientStorageDecorator(self._actor_factory, self._actor_future)]


class _WithGaussianActor(_WithActor):
    def with_actor_factory_default(
        self,
        hidden_sizes: Sequence[int],
        hidden_activation: ModuleType = nn.ReLU,
        continuous_unbounded: bool = False,
        continuous_conditioned_sigma: bool = False,
    ) -> Self:
        """Returns the builder, with these options of the usual actor.

        :param hidden_sizes: see :class:`ActorFactoryDefault`, also for the others.
        :param hidden_activation: likewise.
        :param continuous_unbounded: likewise.
        :param continuous_conditioned_sigma: likewise.
        """
        options = (hidden_sizes, hidden_activation, continuous_unbounded, continuous_conditioned_sigma)
        return self.with_actor_factory(ActorFactoryDefault(self._actor_type, *options))


class _WithDeterministicActor(_WithActor):
    _actor_type = ContinuousActorType.DETERMINISTIC

    def with_actor_factory_default(self, hidden_sizes: Sequence[int], hidden_activation: ModuleType = nn.ReLU) -> Self:
        """Returns the builder, with these options of the usual actor.

        :param hidden_sizes: see :class:`ActorFactoryDefault`, also for the others.
        :param hidden_activation: likewise.
        """
        return self.with_actor_factory(ActorFactoryDefault(self._actor_type, hidden_sizes, hidden_activation))


_SIZES = CriticFactoryDefault.DEFAULT_HIDDEN_SIZES


class _WithCritics(_WithActor):
    _number = 1

    def _init(self) -> None:
        super()._init()
        self._critic_factories: list[CriticFactory] = [CriticFactoryDefault()] * self._number

    def _with(self, factory: CriticFactory, *places: int) -> Self:
        for place in places:
            self._critic_factories[place] = factory
        return self

    def _with_actors(self, *places: int) -> Self:
        return self._with(CriticFactoryReuseActor(self._actor_future), *places)

    def _networks(self) -> list[Any]:
        return [*super()._networks(), *self._critic_factories]


class _WithCritic(_WithCritics):
    def with_critic_factory(self, critic_factory: CriticFactory) -> Self:
        """Returns the builder, with what makes the critic.

        :param critic_factory: makes it.
        """
        return self._with(critic_factory, 0)

    def with_critic_factory_default(
        self, hidden_sizes: Sequence[int] = _SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with these options of the usual critic.

        :param hidden_sizes: see :class:`CriticFactoryDefault`, also for the other.
        :param hidden_activation: likewise.
        """
        return self._with(CriticFactoryDefault(hidden_sizes, hidden_activation), 0)

    def with_critic_factory_use_actor(self) -> Self:
        """Returns the builder, where the critic shares the actor's features."""
        return self._with_actors(0)


class _WithTwoCritics(_WithCritics):
    _number = 2

    def with_common_critic_factory(self, critic_factory: CriticFactory) -> Self:
        """Returns the builder, with what makes both critics.

        :param critic_factory: makes them.
        """
        return self._with(critic_factory, 0, 1)

    def with_common_critic_factory_default(
        self, hidden_sizes: Sequence[int] = _SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with these options of the usual critics.

        :param hidden_sizes: see :class:`CriticFactoryDefault`, also for the other.
        :param hidden_activation: likewise.
        """
        return self._with(CriticFactoryDefault(hidden_sizes, hidden_activation), 0, 1)

    def with_common_critic_factory_use_actor(self) -> Self:
        """Returns the builder, where both critics share the actor's features."""
        return self._with_actors(0, 1)

    def with_critic1_factory(self, critic_factory: CriticFactory) -> Self:
        """Returns the builder, with what makes the first critic.

        :param critic_factory: makes it.
        """
        return self._with(critic_factory, 0)

    def with_critic1_factory_default(
        self, hidden_sizes: Sequence[int] = _SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with options of the first critic; see :meth:`with_common_critic_factory_default`."""
        return self._with(CriticFactoryDefault(hidden_sizes, hidden_activation), 0)

    def with_critic1_factory_use_actor(self) -> Self:
        """Returns the builder, where the first critic shares the actor's features."""
        return self._with_actors(0)

    def with_critic2_factory(self, critic_factory: CriticFactory) -> Self:
        """Returns the builder, with what makes the second critic.

        :param critic_factory: makes it.
        """
        return self._with(critic_factory, 1)

    def with_critic2_factory_default(
        self, hidden_sizes: Sequence[int] = _SIZES, hidden_activation: ModuleType = nn.ReLU
    ) -> Self:
        """Returns the builder, with options of the second critic; see :meth:`with_common_critic_factory_default`."""
        return self._with(CriticFactoryDefault(hidden_sizes, hidden_activation), 1)

    def with_critic2_factory_use_actor(self) -> Self:
        """Returns the builder, where the second critic shares the actor's features."""
        return self._with_actors(1)


class _WithEnsemble(_WithActor):
    def _init(self) -> None:
        super()._init()
        self.critic_ensemble_factory: CriticEnsembleFactory = CriticEnsembleFactoryDefault()

    def with_critic_ensemble_factory(self, factory: CriticEnsembleFactory) -> Self:
        """Returns the builder, with what makes the critics.

        :param factory: makes them.
        """
        self.critic_ensemble_factory = factory
        return self

    def with_critic_ensemble_factory_default(self, hidden_sizes: Sequence[int] = _SIZES) -> Self:
        """Returns the builder, with these options of the usual critics.

        :param hidden_sizes: the sizes of hidden layers.
        """
        return self.with_critic_ensemble_factory(CriticEnsembleFactoryDefault(hidden_sizes))

    def _networks(self) -> list[Any]:
        return [*super()._networks(), self.critic_ensemble_factory]


class PGExperimentBuilder(_WithGaussianActor):
    """Declares an experiment with PG; see :class:`ExperimentBuilder`."""

    _agent = agent.PGAgentFactory
    _kind = policy_params.PGParams

    def with_pg_params(self, params: policy_params.PGParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class A2CExperimentBuilder(_WithGaussianActor, _WithCritic):
    """Declares an experiment with A2C; see :class:`ExperimentBuilder`."""

    _agent = agent.A2CAgentFactory
    _kind = policy_params.A2CParams

    def with_a2c_params(self, params: policy_params.A2CParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class PPOExperimentBuilder(_WithGaussianActor, _WithCritic):
    """Declares an experiment with PPO; see :class:`ExperimentBuilder`."""

    _agent = agent.PPOAgentFactory
    _kind = policy_params.PPOParams

    def with_ppo_params(self, params: policy_params.PPOParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class NPGExperimentBuilder(_WithGaussianActor, _WithCritic):
    """Declares an experiment with NPG; see :class:`ExperimentBuilder`."""

    _agent = agent.NPGAgentFactory
    _kind = policy_params.NPGParams

    def with_npg_params(self, params: policy_params.NPGParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class TRPOExperimentBuilder(_WithGaussianActor, _WithCritic):
    """Declares an experiment with TRPO; see :class:`ExperimentBuilder`."""

    _agent = agent.TRPOAgentFactory
    _kind = policy_params.TRPOParams

    def with_trpo_params(self, params: policy_params.TRPOParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class DDPGExperimentBuilder(_WithDeterministicActor, _WithCritic):
    """Declares an experiment with DDPG; see :class:`ExperimentBuilder`."""

    _agent = agent.DDPGAgentFactory
    _kind = policy_params.DDPGParams

    def with_ddpg_params(self, params: policy_params.DDPGParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class REDQExperimentBuilder(_WithGaussianActor, _WithEnsemble):
    """Declares an experiment with REDQ; see :class:`ExperimentBuilder`."""

    _agent = agent.REDQAgentFactory
    _kind = policy_params.REDQParams

    def with_redq_params(self, params: policy_params.REDQParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class SACExperimentBuilder(_WithGaussianActor, _WithTwoCritics):
    """Declares an experiment with SAC; see :class:`ExperimentBuilder`."""

    _agent = agent.SACAgentFactory
    _kind = policy_params.SACParams

    def with_sac_params(self, params: policy_params.SACParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class DiscreteSACExperimentBuilder(_WithTwoCritics):
    """Declares an experiment with discrete SAC; see :class:`ExperimentBuilder`."""

    _agent = agent.DiscreteSACAgentFactory
    _actor_type = ContinuousActorType.UNSUPPORTED
    _kind = policy_params.DiscreteSACParams

    def with_sac_params(self, params: policy_params.DiscreteSACParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


class TD3ExperimentBuilder(_WithDeterministicActor, _WithTwoCritics):
    """Declares an experiment with TD3; see :class:`ExperimentBuilder`."""

    _agent = agent.TD3AgentFactory
    _kind = policy_params.TD3Params

    def with_td3_params(self, params: policy_params.TD3Params) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)


def _discrete(hidden_sizes: Sequence[int], activation: ModuleType = nn.ReLU) -> IntermediateModuleFactory:
    kind = ContinuousActorType.UNSUPPORTED
    return IntermediateModuleFactoryFromActorFactory(
        ActorFactoryDefault(kind, hidden_sizes, activation, discrete_softmax=False)
    )


class DQNExperimentBuilder(ExperimentBuilder):
    """Declares an experiment with DQN; see :class:`ExperimentBuilder`."""

    _agent = agent.DQNAgentFactory
    _kind = policy_params.DQNParams

    def _init(self) -> None:
        self._model_factory: ModuleFactory = _discrete(_SIZES)

    def with_dqn_params(self, params: policy_params.DQNParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)

    def with_model_factory(self, module_factory: ModuleFactory) -> Self:
        """Returns the builder, with what makes the network of values.

        :param module_factory: makes it.
        """
        self._model_factory = module_factory
        return self

    def with_model_factory_default(self, hidden_sizes: Sequence[int], hidden_activation: ModuleType = nn.ReLU) -> Self:
        """Returns the builder, with these options of the usual network.

        :param hidden_sizes: the sizes of hidden layers.
        :param hidden_activation: their activation.
        """
        return self.with_model_factory(_discrete(hidden_sizes, hidden_activation))

    def _networks(self) -> list[Any]:
        return [self._model_factory]


class IQNExperimentBuilder(ExperimentBuilder):
    """Declares an experiment with IQN; see :class:`ExperimentBuilder`."""

    _agent = agent.IQNAgentFactory
    _kind = policy_params.IQNParams

    def _init(self) -> None:
        self._preprocess_network_factory: IntermediateModuleFactory = _discrete(_SIZES)

    def with_iqn_params(self, params: policy_params.IQNParams) -> Self:
        """Returns the builder, with these settings of the algorithm.

        :param params: the settings.
        """
        return self._with_params(params)

    def with_preprocess_network_factory(self, module_factory: IntermediateModuleFactory) -> Self:
        """Returns the builder, with what makes the network of features.

        :param module_factory: makes it.
        """
        self._preprocess_network_factory = module_factory
        return self

    def _networks(self) -> list[Any]:
        params = self._params
        return [
            ImplicitQuantileNetworkFactory(self._preprocess_network_factory, params.hidden_sizes, params.num_cosines)
        ]
