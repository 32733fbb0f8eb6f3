"""Evaluation of a trained policy, and videos of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlfast.data.collect.collector import Collector
from rlfast.experiment.build import build, explore_in_tests, on_this_machine
from rlfast.experiment.checkpoint import load_normalization, load_policy, load_wrappers
from rlfast.experiment.config import stream_seed
from rlfast.experiment.declaration import read_declaration
from rlfast.experiment.run_dir import check_env, read_beyond, read_config

if TYPE_CHECKING:
    from pathlib import Path

    from rlfast.data.stats import CollectStats
    from rlfast.experiment.config import RunConfig
    from rlfast.experiment.declaration import Declaration
    from rlfast.policy import BasePolicy


def evaluate(
    run_dir: Path,
    episodes: int = 100,
    *,
    seed: int | None = None,
    video: Path | None = None,
    device: str | None = None,
    allow_import: bool = False,
) -> CollectStats:
    """Plays new episodes with the policy in a run's checkpoint, without exploration.

    Their seeds differ from those of the run's training and test environments. The same call gives the same returns.

    :param run_dir: folder of the run.
    :param episodes: number of episodes, played in as many environments as the run's tests have.
    :param seed: seed of the environments; None for that of the run.
    :param video: a folder for a video of one more episode; needs ``pip install 'rlfast[video]'`` and the libraries with
        which the environment renders.
    :param device: device of the policy. Default: that of the run, or the CPU, with a warning, if this machine does not
        have it.
    :param allow_import: whether the module in an id such as ``"module:Env-v0"`` may be imported, which runs it.
    :return: the statistics of the episodes.
    :raises FileNotFoundError: if there is no such run, or it has no checkpoint.
    :raises ValueError: if the run or its checkpoint cannot be used, ``episodes`` is not positive, ``seed`` is negative,
        or a module would have to be imported.
    :raises gymnasium.error.Error: if the environment does not exist or cannot be rendered.
    :raises ImportError: if a library for videos is missing.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    if seed is not None and seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    given = on_this_machine(read_config(run_dir), device)
    check_env(run_dir, given.env, allow_import=allow_import)
    config = replace(given, num_envs=1, eval_envs=1, progress=False)
    number = min(episodes, given.eval_envs)
    declaration = read_declaration(run_dir, read_beyond(run_dir), allow_import=allow_import)
    parts = build(minimal_config(config), declaration)
    try:
        load_policy(run_dir / "checkpoint", parts.policy)
        parts.policy.eval()
        root = config.seed if seed is None else seed
        seeds = [stream_seed(root, f"env/eval/{i}") for i in range(number)]
        statistics = [load_normalization(run_dir / "checkpoint")] if config.normalize_obs else None
        if declaration.beyond:
            statistics = load_wrappers(run_dir / "checkpoint")
        noise = explore_in_tests(config, parts.policy)
        parts.policy.seed(stream_seed(root, "policy/eval"))
        envs = declaration.evaluation(config, number, statistics)
        with Collector(parts.policy, envs, exploration_noise=noise) as collector:
            collector.reset_env({"seed": seeds})
            stats = collector.evaluate(episodes)
        if video is not None:
            _film(parts.policy, declaration, config, statistics, stream_seed(root, "env/video"), video)
    finally:
        parts.close()
    return stats


def minimal_config(config: Any) -> Any:
    """Returns the settings with the smallest buffer, without data, in one process."""
    config = replace(config, ray=None, collectors=1, shards=1, learners=1)
    if hasattr(config, "data"):
        return replace(config, data=None)
    return replace(config, buffer_size=1) if hasattr(config, "buffer_size") else config


def _film(
    policy: BasePolicy, declaration: Declaration, config: RunConfig, statistics: Any, seed: int, folder: Path
) -> None:
    def film() -> gym.Env[Any, Any]:
        env = declaration.environment(config, "rgb_array")
        return gym.wrappers.RecordVideo(env, str(folder), episode_trigger=lambda _: True, disable_logger=True)

    try:
        envs, noise = declaration.evaluation(config, 1, statistics, film), explore_in_tests(config, policy)
        with Collector(policy, envs, exploration_noise=noise) as collector:
            collector.evaluate(1, gym_reset_kwargs={"seed": seed})
    except gym.error.DependencyNotInstalled as error:  # its message names an extra of Gymnasium
        with suppress(OSError):  # there may be other films
            folder.rmdir()
        raise ImportError(
            'a film needs libraries that are missing; install them: pip install "rlfast[video]"'
        ) from error
