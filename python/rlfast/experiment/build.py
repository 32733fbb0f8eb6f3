"""Building the parts of a run: environments, networks, policy, buffer, collectors and trainer."""

from __future__ import annotations

import random
import warnings
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from rlfast.data import PrioritizedVectorReplayBuffer, Sequence, VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.data.plain_data import summary
from rlfast.experiment.config import (
    DataConfig,
    ExplorationConfig,
    OfflineConfig,
    OfflineRewardConfig,
    OffPolicyConfig,
    OnPolicyConfig,
    QLearningConfig,
    RunConfig,
    RunWarning,
    SequenceConfig,
    stream_seed,
)
from rlfast.experiment.data import load_data, normalize_by_data
from rlfast.experiment.declaration import Declaration, check_fit, check_stacks
from rlfast.experiment.environments import make_envs, normalizing_obs, scaling_rewards, single_action_space
from rlfast.experiment.schedules import LearningRates
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer, OnpolicyTrainer
from rlfast.utils import RunningMeanStd

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from rlfast.data import ReplayBuffer
    from rlfast.env import BaseVectorEnv
    from rlfast.policy import BasePolicy
    from rlfast.trainer import BaseTrainer

C = TypeVar("C", bound=RunConfig)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of a run."""

    policy: BasePolicy
    train_collector: Collector | None
    """None for a run that learns from data alone."""
    test_collector: Collector
    trainer: Callable[..., BaseTrainer]
    """A function that makes the trainer from the arguments that all trainers share, with all other arguments bound."""
    declaration: Declaration
    """What made them."""
    before_collect: Callable[[int, int], None] | None = None
    """A function for schedules, called with the epoch and the environment step before each collect."""
    before_test: Callable[[int, int | None], None] | None = None
    """A function that is called with the same arguments before each test."""

    def close(self) -> None:
        """Closes the environments."""
        if self.train_collector is not None:
            self.train_collector.close()
        self.test_collector.close()


def build(config: RunConfig, declaration: Declaration | None = None) -> Parts:
    """Makes environments, networks, policy, buffer and collectors, each with its own random stream.

    :param config: the settings of the run.
    :param declaration: makes what the settings do not say. Default: they say all.
    :return: the parts.
    :raises ValueError: if the settings cannot be run: the algorithm has no network for the observations or actions, the
        device does not exist, there is not enough memory, or the run is one of :mod:`rlfast.distributed`.
    :raises gymnasium.error.Error: if the environment does not exist.
    """
    if config.ray is not None:
        raise ValueError(f"--ray {config.ray} needs rlfast.distributed.train, or resume, in the place of this function")
    try:
        with ExitStack() as made:
            parts = _build(config, made, declaration or Declaration())
            made.pop_all()
    except (RuntimeError, MemoryError, OverflowError) as error:  # such as torch's for layers that are too large
        raise ValueError(f"what these settings ask for cannot be made: {summary(error)}") from error
    return parts


def _build_offline(config: OfflineConfig, made: ExitStack, declaration: Declaration) -> Parts:
    prepare_torch(config)
    names = ("test", "train") if config.collects else ("test",)
    envs = [made.enter_context(closing(make_envs(config, name))) for name in names]
    obs_space, act_space = envs[0].single_observation_space, envs[0].action_space[0]
    data = _data(config, obs_space, act_space)
    if config.normalize_obs:
        scaled = [normalizing_obs(config, one, statistics=RunningMeanStd().state_dict()) for one in envs]
        if data is not None:
            normalize_by_data(data, *scaled)
        envs = [*scaled]
    policy = declaration.policy(config, obs_space, act_space)
    if isinstance(config, OfflineRewardConfig) and config.collects:
        test_envs, train_envs = envs
        return _with_collecting(config, policy, test_envs, train_envs, data, declaration)
    policy.seed(stream_seed(config.seed, "policy"))
    policy.to(config.device)
    return Parts(
        policy=policy,
        train_collector=None,
        test_collector=Collector(policy, envs[0]),
        trainer=partial(OfflineTrainer, batch_size=config.batch_size, buffer=data),
        declaration=declaration,
    )


def _with_collecting(
    config: OfflineRewardConfig,
    policy: Any,
    test_envs: BaseVectorEnv,
    train_envs: BaseVectorEnv,
    data: ReplayBuffer | None,
    declaration: Declaration,
) -> Parts:
    """Returns the parts of a run of an offline algorithm that also collects."""
    if (noise := config.explorer()) is not None:
        policy.set_exp_noise(noise)
    policy.seed(stream_seed(config.seed, "policy"))
    policy.to(config.device)
    seed = stream_seed(config.seed, "replay")
    collector = Collector(
        policy,
        scaling_rewards(train_envs, config.reward_scale),
        VectorReplayBuffer(config.buffer_size, 1, stack_num=1 if data is None else data.stack_num, seed=seed),
        exploration_noise=True,
    )
    trainer = partial(
        OffpolicyTrainer,
        batch_size=config.batch_size,
        step_per_collect=1,
        update_per_step=config.updates_per_step,
        start_timesteps=config.start_steps,
        start_random=False,
        buffer=data,
        data_share=config.data_share,
    )
    return parts_of(config, policy, collector, Collector(policy, test_envs), trainer, declaration)


def explore_in_tests(config: RunConfig, policy: Any) -> bool:
    """Sets how often an action of tests is random, if any are.

    :param config: the settings of the run.
    :param policy: the policy.
    :return: whether any are. The collector of tests adds exploration then.
    """
    eps = config.eval_eps if isinstance(config, ExplorationConfig) else 0.0
    if eps > 0:
        policy.set_eps(eps)
    return eps > 0


def _data(config: RunConfig, obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> ReplayBuffer | None:
    """Returns the data of a run; None for a run without, or a policy that only acts."""
    if not isinstance(config, DataConfig) or config.data is None:
        return None
    scale = config.reward_scale if isinstance(config, OfflineRewardConfig) else 1.0
    return load_data(config.data, obs_space, act_space, stream_seed(config.seed, "sampler"), scale)


def _build(config: RunConfig, made: ExitStack, declaration: Declaration) -> Parts:
    if isinstance(config, OfflineConfig):
        return _build_offline(config, made, declaration)
    prepare_torch(config)
    train_envs, test_envs = (made.enter_context(closing(envs)) for envs in declaration.environments(config))
    obs_space, act_space = train_envs.single_observation_space, single_action_space(train_envs)
    data = _data(config, obs_space, act_space)
    policy = declaration.policy(config, obs_space, act_space, data)
    if declaration.beyond:  # networks that settings say fit
        check_fit(policy, obs_space, act_space)
        passes = {"batch_size": config.batch_size, "repeat": 1} if isinstance(config, OnPolicyConfig) else {}
        check_stacks(policy, obs_space, declaration.buffer_options(), passes)
    policy.seed(stream_seed(config.seed, "policy"))
    policy.to(config.device)
    train_collector, test_collector = collectors_of(config, policy, train_envs, test_envs, declaration.buffer_options())
    return parts_of(config, policy, train_collector, test_collector, trainer_of(config, data), declaration)


def parts_of(
    config: RunConfig,
    policy: BasePolicy,
    train_collector: Any,
    test_collector: Collector,
    trainer: Callable[..., BaseTrainer],
    declaration: Declaration,
) -> Parts:
    """Returns the parts of a run that collects, with the functions that change settings in its course.

    :param config: the settings of the run.
    :param policy: the policy.
    :param train_collector: what collects the rows to learn from, with their ``buffer``.
    :param test_collector: the collector of tests.
    :param trainer: see :attr:`Parts.trainer`.
    :param declaration: what made them.
    """

    def before_test(*_: object) -> None:
        explore_in_tests(config, policy)

    return Parts(
        policy=policy,
        train_collector=train_collector,
        test_collector=test_collector,
        trainer=trainer,
        before_collect=partial(before_collect, config, policy, train_collector.buffer, LearningRates(config, policy)),
        before_test=before_test,
        declaration=declaration,
    )


def before_collect(
    config: RunConfig, policy: BasePolicy, buffer: object, learning_rates: LearningRates, _: int, env_step: int
) -> None:
    """Sets what changes in the course of a run: the function of :attr:`Parts.before_collect`, once the other arguments
    are bound.

    :param config: the settings of the run.
    :param policy: the policy.
    :param buffer: the replay buffer.
    :param learning_rates: the schedules of learning rates.
    :param env_step: environment steps so far.
    """
    learning_rates(env_step)
    config.set_schedules(policy, env_step)
    if isinstance(config, QLearningConfig) and hasattr(buffer, "set_beta"):
        buffer.set_beta(config.beta_at(env_step))


def collectors_of(
    config: RunConfig,
    policy: BasePolicy,
    train_envs: BaseVectorEnv,
    test_envs: BaseVectorEnv,
    buffer_options: dict[str, Any],
) -> tuple[Collector, Collector]:
    """Returns the collectors of training and of tests.

    :param config: the settings of the run.
    :param policy: the policy.
    :param train_envs: the training environments.
    :param test_envs: the test environments.
    :param buffer_options: arguments of the replay buffer beside those of the settings.
    """
    noise = isinstance(config, OffPolicyConfig | ExplorationConfig)  # others draw their actions from a distribution
    buffer = _buffer(config, buffer_options)
    return (
        Collector(policy, train_envs, buffer, exploration_noise=noise),
        Collector(policy, test_envs, exploration_noise=explore_in_tests(config, policy)),
    )


def _buffer(config: RunConfig, options: dict[str, Any]) -> ReplayBuffer:
    if not isinstance(config, OffPolicyConfig):
        return VectorReplayBuffer(config.collect_steps, config.num_envs, **options)
    given: dict[str, Any] = {"seed": stream_seed(config.seed, "sampler"), "storage": config.storage}
    if isinstance(config, SequenceConfig):
        given["unit"] = Sequence(config.sequence_length, config.burn_in)
    else:
        given["stack_num"] = getattr(config, "burn_in", 0) + 1
    given |= options
    if getattr(config, "prioritized", False):
        exponents = {name: getattr(config, name) for name in ("alpha", "beta")}
        return PrioritizedVectorReplayBuffer(config.buffer_size, config.num_envs, **exponents, **given)
    return VectorReplayBuffer(config.buffer_size, config.num_envs, **given)


def trainer_of(config: RunConfig, data: ReplayBuffer | None = None) -> Callable[..., BaseTrainer]:
    """Returns a function that makes the trainer from the arguments that all trainers share.

    :param config: the settings of the run, on- or off-policy.
    :param data: what off-policy runs learn from beside what they collect; None for nothing.
    """
    given: dict[str, Any] = {"batch_size": config.batch_size, "step_per_collect": config.collect_steps}
    if isinstance(config, OnPolicyConfig):
        return partial(OnpolicyTrainer, repeat_per_collect=config.repeat, **given)
    if isinstance(config, OffPolicyConfig):
        given |= {"update_per_step": config.updates_per_step, "start_timesteps": config.start_steps}
        given["start_random"] = config.start_random
        if data is not None:
            given |= {"buffer": data, "data_share": getattr(config, "data_share", 0.5)}
        return partial(OffpolicyTrainer, **given)
    raise TypeError(f"{type(config).__qualname__} must be an OnPolicyConfig or an OffPolicyConfig")


def check_device(device: str) -> None:
    """Checks that a device works, by writing a number to it and reading it back.

    :param device: name of the device.
    :raises ValueError: if it does not exist or does not work.
    """
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # AssertionError: torch without CUDA
        reason = str(error).splitlines()[0].partition(". ")[0].rstrip(".")
        raise ValueError(f"--device {device} cannot be used here: {reason}; choose --device cpu") from error


def on_this_machine(config: C, device: str | None) -> C:
    """Returns the settings of an existing run with a device of this machine.

    :param config: the settings.
    :param device: the device of the networks. Default: that of the settings, or the CPU, with a :class:`RunWarning`, if
        this machine does not have it.
    :raises ValueError: if ``device`` cannot be used, or the settings name a device that torch does not know.
    """
    if device is not None:
        config = replace(config, device=device)
    try:
        check_device(config.device)
    except ValueError:
        try:
            elsewhere = torch.device(config.device).type != "meta"
        except RuntimeError:  # not the name of a device
            elsewhere = False
        if device is not None or not elsewhere:
            raise
        message = f"the run was trained on {config.device}, which is not here: the CPU takes over (--device chooses)"
        warnings.warn(message, RunWarning, stacklevel=3)
        config = replace(config, device="cpu")
    return config


def prepare_torch(config: RunConfig) -> None:
    """Sets the number of threads, and seeds the random streams of the process, which some environments use.

    :param config: the settings of the run.
    :raises ValueError: if the device does not exist.
    """
    check_device(config.device)
    torch.set_num_threads(config.threads)
    torch.manual_seed(stream_seed(config.seed, "torch"))
    random.seed(stream_seed(config.seed, "python"))
    np.random.seed(stream_seed(config.seed, "numpy"))
