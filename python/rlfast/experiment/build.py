"""Builds what a run is made of, whatever it learns with."""

from __future__ import annotations

import math
import random
import warnings
import zlib
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from rlfast.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.env.registry import can_be_native, make_vec
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.config import OffPolicyConfig, OnPolicyConfig, QLearningConfig, RunConfig
from rlfast.experiment.networks import Networks, is_image
from rlfast.trainer import OffpolicyTrainer, OnpolicyTrainer
from rlfast.utils.plain import summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlfast.data import ReplayBuffer
    from rlfast.env import BaseVectorEnv
    from rlfast.policy import BasePolicy
    from rlfast.trainer import BaseTrainer

C = TypeVar("C", bound=RunConfig)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A policy, and what lets it act and learn."""

    policy: BasePolicy
    train_collector: Collector
    test_collector: Collector
    trainer: Callable[..., BaseTrainer]
    """Makes the trainer from the arguments that all algorithms share, which :mod:`rlfast.experiment.run` gives; those
    of its own are bound to it already, as by :func:`functools.partial`."""
    before_collect: Callable[[int, int], None]
    """Told the epoch and the environment step before each collect: for schedules."""

    def close(self) -> None:
        """Closes the environments."""
        self.train_collector.close()
        self.test_collector.close()


def build(config: RunConfig) -> Parts:
    """Makes environments, networks, policy, buffer and collectors, each with a random stream of its own.

    :raises ValueError: the configuration cannot be run: the algorithm has no network for such observations or actions,
        there is no such device, or, perhaps, there is no room.
    :raises gymnasium.error.Error: there is no such environment.
    """
    try:
        with ExitStack() as made:
            parts = _build(config, made)
            made.pop_all()
    except (RuntimeError, MemoryError, OverflowError) as error:  # what torch says of layers that are too large
        raise ValueError(f"what these settings ask for cannot be made: {summary(error)}") from error
    return parts


def _build(config: RunConfig, made: ExitStack) -> Parts:
    algorithm = algorithm_of(config)
    prepare_torch(config)
    train_envs, test_envs = (made.enter_context(closing(make_envs(config, name))) for name in ("train", "test"))
    obs_space, act_space = train_envs.observation_space[0], train_envs.action_space[0]
    policy = algorithm.build(config, Networks(config, algorithm.title, obs_space, act_space))
    policy.seed(stream_seed(config.seed, "policy"))
    policy.to(config.device)
    buffer = _buffer(config)

    def before_collect(_: int, env_step: int) -> None:
        if algorithm.schedules is not None:
            algorithm.schedules(config, policy, env_step)
        if isinstance(buffer, PrioritizedVectorReplayBuffer) and isinstance(config, QLearningConfig):
            buffer.set_beta(config.beta_at(env_step))

    return Parts(
        policy=policy,
        train_collector=Collector(policy, train_envs, buffer, exploration_noise=isinstance(config, OffPolicyConfig)),
        test_collector=Collector(policy, test_envs),
        trainer=_trainer(config),
        before_collect=before_collect,
    )


def _buffer(config: RunConfig) -> ReplayBuffer:
    if not isinstance(config, OffPolicyConfig):
        return VectorReplayBuffer(config.collect_steps, config.num_envs)
    seed = stream_seed(config.seed, "sampler")
    if getattr(config, "prioritized", False):
        exponents = {name: getattr(config, name) for name in ("alpha", "beta")}
        return PrioritizedVectorReplayBuffer(config.buffer_size, config.num_envs, **exponents, seed=seed)
    return VectorReplayBuffer(config.buffer_size, config.num_envs, seed=seed)


def _trainer(config: RunConfig) -> Callable[..., BaseTrainer]:
    given: dict[str, Any] = {"batch_size": config.batch_size, "step_per_collect": config.collect_steps}
    if isinstance(config, OnPolicyConfig):
        return partial(OnpolicyTrainer, repeat_per_collect=config.repeat, **given)
    if isinstance(config, OffPolicyConfig):
        given |= {"update_per_step": config.updates_per_step, "start_timesteps": config.start_steps}
        return partial(OffpolicyTrainer, **given)
    raise TypeError(f"{type(config).__qualname__} must be an OnPolicyConfig or an OffPolicyConfig")


def stream_seed(seed: int, name: str) -> int:
    """The seed of the random stream ``name`` of a run.

    >>> stream_seed(0, "sampler") == stream_seed(0, "sampler"), stream_seed(0, "sampler") == stream_seed(0, "policy")
    (True, False)
    """
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


class RunWarning(UserWarning):
    """What a run could not do, though it goes on."""


def check_device(device: str) -> None:
    """Puts a number there and reads it back.

    :raises ValueError: there is no such device, or it does not compute.
    """
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # the second: a torch built without CUDA
        raise ValueError(f"--device {device} cannot be used here: {str(error).splitlines()[0]}") from error


def placed(config: C, device: str | None) -> C:
    """The configuration of a run that exists already, for the devices of this machine.

    :param device: where the networks shall live. Default: where they lived, or on the CPU with a :class:`RunWarning`
        when there is no such device here.
    :raises ValueError: the device asked for cannot be used, or the configuration names none that torch knows.
    """
    if device is not None:
        config = replace(config, device=device)
    try:
        check_device(config.device)
    except ValueError:
        try:
            elsewhere = torch.device(config.device).type != "meta"
        except RuntimeError:  # the name of no device at all
            elsewhere = False
        if device is not None or not elsewhere:
            raise
        message = f"the run was trained on {config.device}, which is not here: the CPU takes over (--device chooses)"
        warnings.warn(message, RunWarning, stacklevel=3)
        config = replace(config, device="cpu")
    return config


def prepare_torch(config: RunConfig) -> None:
    """Sets the number of threads, and seeds the streams that belong to the whole process: some environments use them.

    :raises ValueError: there is no such device.
    """
    check_device(config.device)
    torch.set_num_threads(config.threads)
    torch.manual_seed(stream_seed(config.seed, "torch"))
    random.seed(stream_seed(config.seed, "python"))
    np.random.seed(stream_seed(config.seed, "numpy"))


def make_envs(config: RunConfig, name: str) -> BaseVectorEnv:
    """The environments to ``"train"`` or to ``"test"`` in, each seeded for itself.

    :raises gymnasium.error.Error: there is no such environment.
    :raises ValueError: it cannot be had from that backend.
    """
    number = config.num_envs if name == "train" else config.eval_envs
    backend = config.backend
    if backend == "auto":
        backend = "native" if can_be_native(config.env) else "in-process"
    envs = make_vec(config.env, number, backend=backend, autoreset_mode=None)
    envs.seed([stream_seed(config.seed, f"env/{name}/{i}") for i in range(number)])
    for i, space in enumerate(envs.action_space):
        space.seed(stream_seed(config.seed, f"actions/{name}/{i}"))
    space = envs.single_observation_space
    shape = space.shape or ()
    if name == "train" and len(shape) > 2 and not is_image(space):
        warnings.warn(
            f"observations of {config.env} are of shape {shape}, too small for convolutions: a fully connected network "
            f"takes them as {math.prod(shape):,} numbers; a script can have another",
            RunWarning,
            stacklevel=2,
        )
    return envs
