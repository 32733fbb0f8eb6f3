"""Experiments, and what makes the parts of their runs."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import torch

from rlfast.data import Collector, InfoStats
from rlfast.data.plain_data import summary
from rlfast.env import BaseVectorEnv
from rlfast.env.adapters import as_vector_env
from rlfast.experiment import RunConfig
from rlfast.experiment.build import Parts, build
from rlfast.experiment.declaration import PICKLE, Declaration
from rlfast.experiment.environments import env_seed, seed_envs
from rlfast.experiment.run import ConfigError, train
from rlfast.highlevel.agent import AgentFactory
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactory, EnvFactoryRegistered, Environments, EnvMode, environments_of
from rlfast.highlevel.experiment.description import NotPlainError, describe, restore
from rlfast.highlevel.logger import LoggerFactory, LoggerFactoryDefault
from rlfast.highlevel.module.core import TDevice
from rlfast.highlevel.persistence import PersistenceGroup, PolicyPersistence
from rlfast.highlevel.world import World
from rlfast.utils.logger import BaseLogger, LazyLogger
from rlfast.utils.logging import FileLoggerContext, datetime_tag, getLogger
from rlfast.utils.runtime.files import replace_file
from rlfast.utils.string import ToStringMixin

log = getLogger(__name__)


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
    """The name of the file of the best policy, beside the checkpoint of the newest."""
    allow_pickle: bool = False
    """Whether a policy that an older version pickled may be restored, which runs code that its file names."""


@dataclass
class ExperimentResult:
    """The result of an experiment."""

    world: World
    trainer_result: InfoStats | None
    """Totals and timing of training; None without training."""


class _Declared(Declaration):
    """Makes the parts of an experiment that settings do not say.

    :param experiment: the experiment.
    :param run_dir: the folder of the run.
    :param run_id: the id of a run that a logger continues.
    :param old: a folder to delete once the parts are made.
    :raises ConfigError: if the declaration cannot be run.
    """

    envs: Environments
    world: World

    def __init__(
        self, experiment: Experiment, run_dir: Path | None = None, run_id: str | None = None, old: Path | None = None
    ) -> None:
        self._experiment, self._run_id, self._old, self.held = experiment, run_id, old, ExitStack()
        options, agent = experiment.config, experiment.agent_factory
        try:
            with closing(experiment.env_factory.create_env(EnvMode.TRAIN)) as env:
                plan = agent.plan(environments_of(env))
                plan.add_environments(experiment.env_factory, env, options.seed)
                plan.add_callbacks(agent.trainer_callbacks, env)
                if isinstance(experiment.logger_factory, LoggerFactoryDefault):
                    experiment.logger_factory.get_logger_class()
                self.config = plan.config(seed=options.seed, device=str(options.device), run_dir=run_dir)
        except (ValueError, TypeError, AssertionError, ImportError, gym.error.Error) as error:
            raise ConfigError(str(error)) from error
        self._beyond = plan.beyond

    @property
    def beyond(self) -> Sequence[str]:
        return [f"{name}: {_class_of(part)}" for name, part in self._beyond.items()]

    def save(self, run_dir: Path) -> None:
        if not self._experiment.config.persistence_enabled:
            return  # the folder is deleted at the end, and the experiment need not be one that can be pickled
        self._experiment.save(str(run_dir))
        if self.beyond:  # to resume it, the command line needs the objects
            (run_dir / PICKLE).write_bytes(self._experiment._pickled())  # noqa: SLF001
        if self._experiment.config.log_file_enabled:
            path = run_dir / Experiment.LOG_FILENAME
            path.write_text(self._experiment.pprints() + "\n")
            self.held.enter_context(FileLoggerContext(str(path)))

    def vector_envs(self, config: RunConfig) -> Iterable[BaseVectorEnv]:
        experiment, factory = self._experiment, self._experiment.env_factory
        if "env_factory" not in self._beyond:
            self.envs = environments_of(factory.create_env(EnvMode.TRAIN))
            return super().vector_envs(config)
        watch = experiment.config.watch and type(factory).create_envs is not EnvFactory.create_envs
        self.envs = factory.create_envs(config.num_envs, config.eval_envs, watch)
        both = as_vector_env(self.envs.train_envs), as_vector_env(self.envs.test_envs)
        if getattr(factory, "envpool_factory", None) is None:
            for name, envs in zip(("train", "test"), both, strict=True):
                seed_envs(envs, env_seed(config, name), name)
        return both

    def environments(self, config: RunConfig) -> tuple[BaseVectorEnv, BaseVectorEnv]:
        self.envs.train_envs, self.envs.test_envs = both = super().environments(config)
        return both

    def policy(self, config: RunConfig, obs_space: object, act_space: object, data: object = None) -> Any:  # noqa: ARG002
        return self._experiment.agent_factory.create_policy(self.envs, config.device)

    def buffer_options(self) -> dict[str, Any]:
        return self._experiment.sampling_config.buffer_options()

    def loggers(self, run_dir: Path) -> list[BaseLogger]:
        factory = self._experiment.logger_factory or LoggerFactoryDefault()
        if type(factory) is LoggerFactoryDefault and factory.logger_type == "tensorboard":
            return []  # every run has one
        name, told = self._experiment.name or run_dir.name, {"experiment": self._experiment.pprints()}
        return [factory.create_logger(str(run_dir), name, self._run_id, told)]

    def trainer_options(self, parts: Parts, logger: BaseLogger) -> dict[str, Any]:
        experiment = self._experiment
        collectors: Any = (parts.train_collector, parts.test_collector)
        folders = (str(self.config.run_dir or ""), experiment.config.policy_restore_directory)
        self.world = World(self.envs, parts.policy, collectors[0], collectors[1], logger, *folders)
        persistence = self.persistence(enabled=experiment.config.persistence_enabled)
        return experiment.agent_factory.trainer_options(self.world, persistence)

    def persistence(self, *, enabled: bool) -> PolicyPersistence:
        group = PersistenceGroup(*self.envs.persistence, enabled=enabled)
        config = self._experiment.config
        return PolicyPersistence(group, enabled, config.policy_persistence_mode, allow_pickle=config.allow_pickle)

    def make(self) -> Parts:
        """Returns the parts of the experiment, for a script or to watch the policy; the world has most of them."""
        with ExitStack() as made:
            parts = made.enter_context(closing(build(self.config, self)))
            self.prepare(parts)
            made.pop_all()
        return parts

    def prepare(self, parts: Parts) -> None:
        self.trainer_options(parts, LazyLogger())  # makes the world
        folder = self.world.restore_directory
        try:
            if folder:
                self.persistence(enabled=False).restore(parts.policy, self.world, self._experiment.config.device)
        except (RuntimeError, ValueError, LookupError, AttributeError, ImportError) as error:
            raise ConfigError(f"{folder} has no policy for this: {summary(error)}") from error
        if self._old is not None:
            shutil.rmtree(self._old)

    def begin(self, trainer: Any) -> None:
        self.world.trainer = trainer

    def environment(self, config: RunConfig, render_mode: str | None = None) -> Any:
        if "env_factory" in self._beyond:
            raise ValueError(f"{_class_of(self._experiment.env_factory)} has no environments that film: use a script")
        return super().environment(config, render_mode)

    def evaluation_envs(self, config: RunConfig, number: int, make: Any) -> BaseVectorEnv:
        if "env_factory" not in self._beyond:
            return super().evaluation_envs(config, number, make)
        return as_vector_env(self._experiment.env_factory.create_venv(number, EnvMode.TEST))


def _read(path: Path) -> Experiment:
    try:
        experiment = restore(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged, or of another version: {summary(error)}") from error
    names = {field.name for field in fields(Experiment)}
    if not isinstance(experiment, Experiment) or {*vars(experiment)} != names:
        raise ValueError(f"{path} is damaged, or of another version: it describes a {type(experiment).__name__}")
    if not isinstance(experiment.config, ExperimentConfig):
        raise ValueError(f"{path} is damaged, or of another version: its settings are no ExperimentConfig")
    return experiment


def _class_of(part: object) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


@dataclass(eq=False, repr=False)
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
    EXPERIMENT_FILENAME = "experiment.json"

    config: ExperimentConfig
    env_factory: EnvFactory
    agent_factory: AgentFactory
    sampling_config: SamplingConfig
    logger_factory: LoggerFactory | None = None
    name: str | None = None

    def declaration(self, run_dir: Path | None = None, run_id: str | None = None) -> Declaration:
        """Returns the settings, and what makes the parts that they do not say.

        :param run_dir: the folder of the run.
        :param run_id: the id of a run that a logger continues.
        :raises ConfigError: if the declaration cannot be run.
        """
        return _Declared(self, run_dir, run_id)

    def run_config(self, run_dir: Path | None = None) -> RunConfig:
        """Returns the settings, which are those of the same run from the command line.

        :param run_dir: the folder of the run.
        :raises ConfigError: if the declaration cannot be run.
        """
        return _Declared(self, run_dir).config

    @classmethod
    def from_directory(cls, directory: str, restore_policy: bool = True, *, allow_pickle: bool = False) -> Experiment:
        """Returns the experiment of a folder.

        ``experiment.json`` describes experiments of this package's parts. Those with objects of a script, and those of
        older versions, are pickles.

        :param directory: the folder.
        :param restore_policy: whether running it begins with the policy of that folder.
        :param allow_pickle: whether pickles are loaded, and modules imported that the environment's id names. That runs
            code that the folder names: allow it only for folders that you trust.
        :raises FileNotFoundError: if the folder has no experiment.
        :raises ValueError: if it is damaged, or a pickle and ``allow_pickle`` is False.
        """
        path, pickled = Path(directory, cls.EXPERIMENT_FILENAME), Path(directory, cls.EXPERIMENT_PICKLE_FILENAME)
        if path.is_file():
            experiment = _read(path)
        elif not pickled.is_file():
            raise FileNotFoundError(f"{directory} has no {path.name} and no {pickled.name}: it holds no experiment")
        elif not allow_pickle:
            raise ValueError(
                f"{pickled} is a pickle, and to load it runs code that it names: pass allow_pickle=True if you trust "
                "where the folder comes from"
            )
        else:
            with pickled.open("rb") as file:
                experiment = pickle.load(file)  # noqa: S301 (allowed by the caller)
        experiment.config.allow_pickle = allow_pickle  # whatever the file says
        if isinstance(factory := experiment.env_factory, EnvFactoryRegistered):
            module = str(vars(factory).get("task")).rpartition(":")[0]
            if module and not allow_pickle:
                raise ValueError(
                    f"{directory}: the module {module!r} would be imported for its environment, which runs it: pass "
                    "allow_pickle=True if you trust where the folder comes from"
                )
        if restore_policy:
            experiment.config.policy_restore_directory = directory
        return experiment

    def save(self, directory: str) -> None:
        """Writes the experiment to a folder: as ``experiment.json`` if it consists of this package's parts, and else as
        a pickle, ``experiment.pkl``.

        :param directory: the folder.
        :raises ConfigError: if a part cannot be pickled.
        """
        name, content = self._written()
        replace_file(Path(directory, name), content)

    def _written(self) -> tuple[str, bytes]:
        """Returns the name and the contents of the file of the experiment."""
        try:
            return self.EXPERIMENT_FILENAME, describe(self).encode()
        except NotPlainError:
            return self.EXPERIMENT_PICKLE_FILENAME, self._pickled()

    def _pickled(self) -> bytes:
        try:
            return pickle.dumps(self)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(f"the experiment cannot be saved: {error}; define what it names in a module") from error

    def get_seeding_info_as_str(self) -> str:
        """Returns the seeds, for names of folders."""
        return f"experiment_seed={self.config.seed},train_seed={self.sampling_config.train_seed}"

    def _folder(self, name: str | None) -> Path | None:
        """Returns the folder of a run, after checks before anything starts."""
        restored, best = self.config.policy_restore_directory, self.config.policy_persistence_mode.get_filename()
        if restored and not any(Path(restored, file).exists() for file in (best, "checkpoint")):
            raise ConfigError(f"policy_restore_directory={restored!r} has neither {best} nor a checkpoint")
        if not self.config.persistence_enabled:
            return None
        self._written()
        distinct = f"{datetime_tag()}-{token_hex(3)}"  # several may start in one second
        return Path(self.config.persistence_base_dir, name or self.name or distinct)

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
        folder = self._folder(override_experiment_name)
        if folder is not None and raise_error_on_dirname_collision and folder.exists():
            raise FileExistsError(f"{folder} exists: choose another name")
        declared = _Declared(self, folder, logger_run_id)
        declared.make()
        world = declared.world
        for collector in (world.train_collector, world.test_collector) if reset_collectors else ():
            collector.reset_env()
        declared.begin(self.agent_factory.create_trainer(world, declared.persistence(enabled=False)))
        return world

    def run(
        self,
        experiment_name: str | None = None,
        logger_run_id: str | None = None,
        *,
        run_name: str | None = None,
        raise_error_on_dirname_collision: bool = True,
        **kwargs: Any,  # noqa: ARG002 (for subclasses)
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
        kept, restored = self._folder(experiment_name or run_name), self.config.policy_restore_directory
        with ExitStack() as held:
            folder = kept or Path(held.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)), "run")
            files = (folder / self.EXPERIMENT_FILENAME, folder / PICKLE)
            is_ours = any(file.exists() for file in files)
            replaces = self.config.train and not raise_error_on_dirname_collision and is_ours
            if replaces and restored and folder.samefile(restored):
                raise ConfigError(f"{folder} has the policy to restore, and would be deleted: choose another name")
            declared, info = _Declared(self, folder, logger_run_id, folder if replaces else None), None
            held.enter_context(declared.held)
            if self.config.train:
                config = replace(declared.config, save_buffer=declared.config.save_buffer and kept is not None)
                info = train(config, declared).info
            else:
                held.enter_context(closing(declared.make()))
            if self.config.watch:
                self._watch(declared.world)
        return ExperimentResult(declared.world, info)

    def _watch(self, world: World) -> None:
        if world.envs.watch_env is None:  # made now, as it may open a window; factories of one's own made it before
            world.envs.watch_env = self.env_factory.create_venv(1, EnvMode.WATCH)
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
