"""Finding settings of a run that were given and change nothing in it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from gymnasium import spaces

from rlfast.env.specs import is_atari
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.config import OfflineRewardConfig, OffPolicyConfig, QLearningConfig, TemperatureConfig, flag
from rlfast.utils.net.atari import NatureCNN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlfast.experiment.config import RunConfig
    from rlfast.policy import BasePolicy


def unused_settings(config: RunConfig, policy: BasePolicy) -> Iterator[str]:
    """Gives a sentence for each reason why settings that differ from those of the preset change nothing.

    :param config: the settings of the run.
    :param policy: its policy.
    """
    preset = algorithm_of(config).preset(config.env)
    given = {one.name for one in fields(config) if getattr(config, one.name) != getattr(preset, one.name)}
    for names, reason in unread_settings(config, policy):
        if idle := [flag(name) for name in names if name in given]:
            yield f"without effect: {', '.join(idle)} ({reason})"
    total = "online_steps" if isinstance(config, OfflineRewardConfig) else "max_steps"
    if config.collects and getattr(config, "start_steps", 0) >= config.steps:
        yield f"nothing is learned: --start-steps {config.start_steps} leave none of {flag(total)} {config.steps}"


def unread_settings(config: RunConfig, policy: BasePolicy) -> Iterator[tuple[tuple[str, ...], str]]:
    """Gives names of settings that nothing reads, with the reason.

    :param config: the settings of the run.
    :param policy: its policy.
    """
    if config.ray is None:
        yield ("chunk_steps", "weights_every", "insert_ahead"), "the run is one process, without --ray"
    if not is_atari(config.env):
        yield ("env_backend",), f"{config.env} is no game of Atari"
    if not any(isinstance(module, NatureCNN) for module in policy.modules()):
        yield ("channels", "orthogonal", "dtype"), f"observations of {config.env} are no pictures"
    yield from _unread_by_actor(config, policy)
    if not any(getattr(config, one.name) == "exponential" for one in fields(config) if one.name.endswith("_schedule")):
        yield ("schedule_factor",), "no schedule is exponential"
    if isinstance(config, OffPolicyConfig) and config.start_steps == 0:
        yield ("start_random",), "there are no --start-steps"
    if isinstance(config, OfflineRewardConfig) and not config.collects:
        online = ("data_share", "updates_per_step", "start_steps", "buffer_size", "noise")
        yield online, "the run learns from data alone, without --online-steps"
    if isinstance(config, QLearningConfig):
        if not config.prioritized:
            yield ("alpha", "beta", "beta_end", "beta_steps"), "the buffer is not --prioritized"
        if config.recurrent:
            yield ("activation",), "a recurrent network has no other hidden layers"
    if isinstance(config, TemperatureConfig) and not config.auto_alpha:
        yield ("target_entropy", "alpha_learning_rate"), "the temperature is not learned, by --no-auto-alpha"


def _unread_by_actor(config: RunConfig, policy: BasePolicy) -> Iterator[tuple[tuple[str, ...], str]]:
    of_sde = "sde_sample_freq", "sde_log_std"
    if not isinstance(policy.action_space, spaces.Box):
        yield ("log_std", "conditioned_sigma", "bounded", "sde", *of_sde), f"actions of {config.env} are not continuous"
    elif getattr(config, "sde", False):
        yield ("log_std", "conditioned_sigma"), "--sde takes the deviation from the observation"
    else:
        yield of_sde, "the noise is independent in each step, without --sde"
        if getattr(config, "conditioned_sigma", False):
            yield ("log_std",), "--conditioned-sigma takes the deviation from the observation"
