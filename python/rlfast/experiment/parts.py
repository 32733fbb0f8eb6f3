"""What a run is built of, whatever it learns with."""

from __future__ import annotations

import math
import random
import warnings
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from rlfast.env.registry import can_be_native, make_vec
from rlfast.experiment.config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlfast.data.collect.collector import Collector
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
    before_collect: Callable[[int], None] | None = None
    """Told the environment step before each collect: for schedules."""

    def close(self) -> None:
        """Closes the environments."""
        self.train_collector.close()
        self.test_collector.close()


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
    shape = envs.single_observation_space.shape or ()
    if name == "train" and len(shape) > 2:
        warnings.warn(
            f"observations of {config.env} are of shape {shape}: the fully connected network of this command takes "
            f"them as {math.prod(shape):,} numbers, and learns little from images; a script can have a convolutional "
            "network",
            RunWarning,
            stacklevel=2,
        )
    return envs
