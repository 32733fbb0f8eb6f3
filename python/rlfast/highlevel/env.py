"""Factories of environments."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Self, TypeAlias

import gymnasium as gym

from rlfast.env import BaseVectorEnv, DummyVectorEnv, RayVectorEnv, ShmemVectorEnv, SubprocVectorEnv
from rlfast.env.adapters import as_vector_env
from rlfast.env.registry import make_vec
from rlfast.env.specs import find_spec, make_registered
from rlfast.experiment.environments import seed_envs
from rlfast.utils.net.common import TActionShape
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.string import ToStringMixin, dict_string

TObservationShape: TypeAlias = int | Sequence[int]
log = logging.getLogger(__name__)


class EnvType(Enum):
    """Kinds of actions."""

    CONTINUOUS = "continuous"
    DISCRETE = "discrete"

    def is_discrete(self) -> bool:
        """Returns whether actions are discrete."""
        return self is EnvType.DISCRETE

    def is_continuous(self) -> bool:
        """Returns whether actions are continuous."""
        return self is EnvType.CONTINUOUS

    def _assert(self, kind: EnvType, who: object) -> None:
        if self is not kind:
            raise AssertionError(f"{type(who).__name__} needs {kind.value} actions, these are {self.value}")

    def assert_continuous(self, requiring_entity: object) -> None:
        """Checks that actions are continuous.

        :param requiring_entity: what needs that.
        :raises AssertionError: if they are not.
        """
        self._assert(EnvType.CONTINUOUS, requiring_entity)

    def assert_discrete(self, requiring_entity: object) -> None:
        """Checks that actions are discrete.

        :param requiring_entity: what needs that.
        :raises AssertionError: if they are not.
        """
        self._assert(EnvType.DISCRETE, requiring_entity)

    @staticmethod
    def from_env(env: gym.Env[Any, Any]) -> EnvType:
        """Returns the kind of an environment's actions. Multi-discrete actions count as discrete.

        :param env: the environment.
        :raises ValueError: if they are of neither kind.
        """
        if isinstance(env.action_space, gym.spaces.Box):
            return EnvType.CONTINUOUS
        if isinstance(env.action_space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
            return EnvType.DISCRETE
        raise ValueError(f"actions must be discrete or continuous, got {env.action_space}")


class EnvMode(Enum):
    """What an environment is for."""

    TRAIN = "train"
    TEST = "test"
    WATCH = "watch"


class VectorEnvType(Enum):
    """Where environments are stepped: one after the other, in worker processes, by Ray, or in Rust."""

    DUMMY = "dummy"
    SUBPROC = "subproc"
    SUBPROC_SHARED_MEM = "shmem"
    SUBPROC_SHARED_MEM_DEFAULT_CONTEXT = "shmem"  # noqa: PIE796 (two names)
    SUBPROC_SHARED_MEM_FORK_CONTEXT = "shmem_fork"
    SUBPROC_SHARED_MEM_AUTO = "shmem_auto"
    """In worker processes, or in this one if that is as fast."""
    RAY = "ray"
    NATIVE = "native"
    """In Rust; only for the environments of :class:`rlfast.env.NativeVectorEnv`."""
    AUTO = "auto"
    """In Rust if the environment is there, else where it is fastest: the default of the command line."""

    @property
    def backend(self) -> str | None:
        """The ``backend`` of :func:`rlfast.make_vec`; None if it has none."""
        here = {VectorEnvType.DUMMY: "in-process", VectorEnvType.NATIVE: "native", VectorEnvType.AUTO: "auto"}
        return here.get(self, None if self is VectorEnvType.RAY else "process")

    def create_venv(self, factories: Sequence[Callable[[], gym.Env[Any, Any]]]) -> BaseVectorEnv:
        """Returns a vector environment.

        :param factories: make its environments.
        :raises ValueError: if environments of Python cannot be stepped there.
        """
        match self:
            case VectorEnvType.DUMMY:
                return DummyVectorEnv(factories)
            case VectorEnvType.SUBPROC | VectorEnvType.SUBPROC_SHARED_MEM:
                return SubprocVectorEnv(factories)
            case VectorEnvType.SUBPROC_SHARED_MEM_FORK_CONTEXT:
                return SubprocVectorEnv(factories, context="fork")
            case VectorEnvType.SUBPROC_SHARED_MEM_AUTO | VectorEnvType.AUTO:
                return ShmemVectorEnv(factories)
            case VectorEnvType.RAY:
                return RayVectorEnv(factories)
        raise ValueError(f"{self} steps environments that Gymnasium has by id: use EnvFactoryRegistered")


@dataclass(eq=False, repr=False)
class Environments(ToStringMixin):
    """The environments of an experiment.

    :param env: one of them, for its spaces.
    :param train_envs: those of training.
    :param test_envs: those of tests.
    :param watch_env: one to watch; None for none.
    """

    env: gym.Env[Any, Any]
    train_envs: BaseVectorEnv
    test_envs: BaseVectorEnv
    watch_env: BaseVectorEnv | None = None
    persistence: Sequence[Any] = field(init=False, default=())

    @staticmethod
    def from_factory_and_type(
        factory_fn: Callable[[EnvMode], gym.Env[Any, Any]],
        env_type: EnvType,
        venv_type: VectorEnvType,
        num_training_envs: int,
        num_test_envs: int,
        create_watch_env: bool = False,
    ) -> Environments:
        """Returns environments that a function makes.

        :param factory_fn: makes one environment.
        :param env_type: the kind of its actions.
        :param venv_type: where environments are stepped.
        :param num_training_envs: the number of training environments.
        :param num_test_envs: the number of test environments.
        :param create_watch_env: whether there is one to watch.
        """
        kind = _KINDS[env_type]
        return kind.from_factory(factory_fn, venv_type, num_training_envs, num_test_envs, create_watch_env)

    @classmethod
    def from_factory(
        cls,
        factory_fn: Callable[[EnvMode], gym.Env[Any, Any]],
        venv_type: VectorEnvType,
        num_training_envs: int,
        num_test_envs: int,
        create_watch_env: bool = False,
    ) -> Self:
        """Returns environments of this class that a function makes; see :meth:`from_factory_and_type`.

        :param factory_fn: makes an environment for a mode.
        :param venv_type: the kind of the vector environments.
        :param num_training_envs: the number of environments for training.
        :param num_test_envs: the number of environments for tests.
        :param create_watch_env: whether one to watch is made.
        """
        env = factory_fn(EnvMode.TRAIN)
        train_envs = venv_type.create_venv([partial(factory_fn, EnvMode.TRAIN)] * num_training_envs)
        test_envs = venv_type.create_venv([partial(factory_fn, EnvMode.TEST)] * num_test_envs)
        watch_env = VectorEnvType.DUMMY.create_venv([partial(factory_fn, EnvMode.WATCH)]) if create_watch_env else None
        return cls(env, train_envs, test_envs, watch_env)

    def _tostring_object_info(self) -> str:
        return dict_string(self.info())

    def info(self) -> dict[str, Any]:
        """Returns what is logged of them."""
        return {"action_shape": self.get_action_shape(), "state_shape": self.get_observation_shape()}

    def set_persistence(self, *p: Any) -> None:
        """Sets what saves and restores the environments' own state with a policy.

        :param p: objects of :class:`~rlfast.highlevel.persistence.Persistence`.
        """
        self.persistence = p

    def get_action_shape(self) -> TActionShape:
        """Returns the shape of an action, or the number of discrete actions."""
        return _shape(self.env.action_space)

    def get_observation_shape(self) -> TObservationShape:
        """Returns the shape of an observation, or the number of discrete ones."""
        return _shape(self.env.observation_space)

    def get_action_space(self) -> gym.Space[Any]:
        """Returns the action space of one environment."""
        return self.env.action_space

    def get_observation_space(self) -> gym.Space[Any]:
        """Returns the observation space of one environment."""
        return self.env.observation_space

    def get_type(self) -> EnvType:
        """Returns the kind of actions."""
        return EnvType.from_env(self.env)


def _shape(space: Any) -> int | tuple[int, ...]:
    return int(space.n) if isinstance(space, gym.spaces.Discrete) else space.shape


@dataclass(eq=False, repr=False)
class ContinuousEnvironments(Environments):
    """Environments with continuous actions; see :class:`Environments`.

    :param env: one of them.
    :raises ValueError: if actions are of another kind.
    """

    state_shape = property(Environments.get_observation_shape)
    action_shape = property(Environments.get_action_shape)

    def __post_init__(self) -> None:
        if not isinstance(self.env.action_space, gym.spaces.Box):
            raise ValueError(f"actions must be continuous, got {self.env.action_space}")
        self.max_action = float(self.env.action_space.high.flat[0])

    def info(self) -> dict[str, Any]:
        return super().info() | {"max_action": self.max_action}


class DiscreteEnvironments(Environments):
    """Environments with discrete actions; see :class:`Environments`."""

    observation_shape = property(Environments.get_observation_shape)
    action_shape = property(Environments.get_action_shape)

    def get_type(self) -> EnvType:
        return EnvType.DISCRETE


_KINDS = {EnvType.CONTINUOUS: ContinuousEnvironments, EnvType.DISCRETE: DiscreteEnvironments}


class EnvPoolFactory:
    """Makes vector environments of EnvPool, for :class:`EnvFactoryRegistered`."""

    def _transform_task(self, task: str) -> str:
        return task

    def _transform_kwargs(self, kwargs: dict[str, Any], mode: EnvMode) -> dict[str, Any]:  # noqa: ARG002
        return {name: value for name, value in kwargs.items() if name != "render_mode"}

    def create_venv(self, task: str, num_envs: int, mode: EnvMode, seed: int, kwargs: dict[str, Any]) -> BaseVectorEnv:
        """Returns a vector environment.

        :param task: id of the environment.
        :param num_envs: the number of environments.
        :param mode: what they are for.
        :param seed: their seed.
        :param kwargs: the arguments of ``gymnasium.make``.
        """
        with needed_by("EnvPoolFactory"):
            import envpool
        given = self._transform_kwargs(kwargs, mode)
        made = envpool.make_gymnasium(self._transform_task(task), num_envs=num_envs, seed=seed, **given)
        return as_vector_env(made)


class EnvFactory(ToStringMixin, ABC):
    """The interface of factories of environments.

    :param venv_type: where environments are stepped; one to watch is stepped in this process.
    """

    train_seed: int | None = None
    test_seed: int | None = None

    def __init__(self, venv_type: VectorEnvType) -> None:
        self.venv_type = venv_type

    @abstractmethod
    def create_env(self, mode: EnvMode) -> gym.Env[Any, Any]:
        """Returns one environment.

        :param mode: what it is for.
        """

    def create_venv(self, num_envs: int, mode: EnvMode, seed: int | None = None) -> BaseVectorEnv:
        """Returns a vector environment.

        :param num_envs: the number of environments.
        :param mode: what they are for; one to watch is alone.
        :param seed: what their seeds are drawn from; None leaves that to the experiment.
        """
        here = mode is EnvMode.WATCH
        make = [partial(self.create_env, mode)] * (1 if here else num_envs)
        venv = (VectorEnvType.DUMMY if here else self.venv_type).create_venv(make)
        if seed is not None:
            seed_envs(venv, seed, mode.value)
        return venv

    def create_envs(
        self, num_training_envs: int, num_test_envs: int, create_watch_env: bool = False, seed: int | None = None
    ) -> Environments:
        """Returns the environments of an experiment.

        :param num_training_envs: the number of training environments.
        :param num_test_envs: the number of test environments.
        :param create_watch_env: whether there is one to watch.
        :param seed: what their seeds are drawn from; None leaves that to the experiment.
        """
        more = {} if seed is None else {"seed": seed}  # older subclasses do not take it
        env = self.create_env(EnvMode.TRAIN)
        train_envs = self.create_venv(num_training_envs, EnvMode.TRAIN, **more)
        test_envs = self.create_venv(num_test_envs, EnvMode.TEST, **more)
        watch_env = self.create_venv(1, EnvMode.WATCH, **more) if create_watch_env else None
        return environments_of(env, train_envs, test_envs, watch_env)


def environments_of(env: gym.Env[Any, Any], *others: Any) -> Environments:
    """Returns :class:`Environments` for the kind of actions.

    :param env: see :class:`Environments`, also for the others.
    :param others: those of training, those of tests, and one to watch.
    """
    return _KINDS[EnvType.from_env(env)](env, *(others or (None, None)))


class EnvFactoryRegistered(EnvFactory):
    """Makes environments that Gymnasium has by an id.

    :param task: the id.
    :param venv_type: where environments are stepped.
    :param seed: seed of training and of test environments, which nevertheless differ. Default: the experiment's.
    :param train_seed: seed of training environments, instead of ``seed``.
    :param test_seed: seed of test environments, instead of ``seed``.
    :param envpool_factory: makes vector environments of EnvPool instead.
    :param render_mode_train: how training environments render.
    :param render_mode_test: how test environments render.
    :param render_mode_watch: how the one to watch renders.
    :param make_kwargs: further arguments of ``gymnasium.make``.
    """

    def __init__(
        self,
        *,
        task: str,
        venv_type: VectorEnvType,
        seed: int | None = None,
        train_seed: int | None = None,
        test_seed: int | None = None,
        envpool_factory: EnvPoolFactory | None = None,
        render_mode_train: str | None = None,
        render_mode_test: str | None = None,
        render_mode_watch: str = "human",
        **make_kwargs: Any,
    ) -> None:
        super().__init__(venv_type)
        self.task = task
        self.seed = seed
        self.train_seed = seed if train_seed is None else train_seed
        self.test_seed = seed if test_seed is None else test_seed
        self.envpool_factory = envpool_factory
        self.render_modes = dict(zip(EnvMode, (render_mode_train, render_mode_test, render_mode_watch), strict=True))
        self.make_kwargs = make_kwargs

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: state.get("seed") for name in ("train_seed", "test_seed")} | state)

    def _create_kwargs(self, mode: EnvMode) -> dict[str, Any]:
        return {**self.make_kwargs, "render_mode": self.render_modes.get(mode)}

    def create_env(self, mode: EnvMode) -> gym.Env[Any, Any]:
        return make_registered(find_spec(self.task), **self._create_kwargs(mode))

    def create_venv(self, num_envs: int, mode: EnvMode, seed: int | None = None) -> BaseVectorEnv:
        given = self._create_kwargs(mode)
        root = seed if seed is not None else self.train_seed if mode is EnvMode.TRAIN else self.test_seed
        if self.envpool_factory is not None:
            return self.envpool_factory.create_venv(self.task, num_envs, mode, root or 0, given)
        if mode is EnvMode.WATCH or self.venv_type not in (VectorEnvType.NATIVE, VectorEnvType.AUTO):
            return super().create_venv(num_envs, mode, root)
        given = {name: value for name, value in given.items() if value is not None}
        venv = make_vec(self.task, num_envs, backend=self.venv_type.value, autoreset_mode=None, **given)
        if root is not None:
            seed_envs(venv, root, mode.value)
        return venv
