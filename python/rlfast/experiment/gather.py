"""Gathering of data by the policy of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.data import VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.env.specs import find_spec
from rlfast.experiment.agents import read_agent, taking_raw_observations
from rlfast.experiment.config import stream_seed
from rlfast.experiment.environments import make_envs
from rlfast.experiment.run_dir import read_beyond
from rlfast.policy import RandomPolicy

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from rlfast.data.stats import CollectStats
    from rlfast.experiment.config import RunConfig
    from rlfast.policy import BasePolicy


def gather(
    run_dir: str | os.PathLike[str],
    steps: int,
    out: str | os.PathLike[str],
    *,
    best: bool = False,
    eps: float = 0.0,
    noise: float = 0.0,
    seed: int | None = None,
    allow_import: bool = False,
) -> CollectStats:
    """Plays the policy of a run's checkpoint, as in tests, and writes its transitions to a file.

    Observations are those of the environment, without ``--normalize-obs``. The episodes that have not ended after
    ``steps`` transitions count as truncated: one of each environment. There are as many environments as in tests, or
    fewer, so that each has time for four episodes of the greatest length.

    :param run_dir: folder of the run.
    :param steps: number of transitions, rounded up to a multiple of the number of environments.
    :param out: the file: a snapshot of a buffer, or HDF5 if it ends with ``.hdf5`` or ``.h5``.
    :param best: as for :func:`rlfast.load`.
    :param eps: probability of a random action. Default: 0.
    :param noise: standard deviation of normal noise on continuous actions, where these reach from -1 to 1. Default: 0.
    :param seed: seed of environments and of random actions; None for that of the run.
    :param allow_import: as for :func:`rlfast.load`.
    :return: the statistics of the episodes.
    :raises FileNotFoundError: if there is no such run, it has no checkpoint, or the folder of ``out`` does not exist.
    :raises IsADirectoryError: if ``out`` is a folder.
    :raises ValueError: if the run cannot be used, or an argument is out of range.
    """
    if steps < 1 or not 0 <= eps <= 1 or not noise >= 0:
        raise ValueError(f"steps must be positive, eps in [0, 1] and noise not negative, got {steps}, {eps}, {noise}")
    run_dir, out = Path(run_dir), Path(out)
    if not out.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent}")
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder: give the name of a file")
    if beyond := read_beyond(run_dir):
        raise ValueError(f"{run_dir} was declared by Python objects ({'; '.join(beyond)}): gather in a script")
    agent = read_agent(run_dir, best=best, device=None, allow_import=allow_import)
    root = agent.config.seed if seed is None else seed
    config = replace(agent.config, seed=stream_seed(root, "gather"))
    if limit := getattr(find_spec(config.env), "max_episode_steps", None):
        config = replace(config, eval_envs=min(config.eval_envs, max(1, steps // (4 * limit))))
    return _play(taking_raw_observations(agent), config, steps, out, eps, noise)


def _play(policy: BasePolicy, config: RunConfig, steps: int, out: Path, eps: float, noise: float) -> CollectStats:
    envs = make_envs(config, "test")
    number = len(envs)
    steps = -(-steps // number) * number
    buffer = VectorReplayBuffer(steps, number, seed=config.seed)
    policy.eval()
    policy.seed(config.seed)
    rng = np.random.default_rng(config.seed)
    uniform = RandomPolicy(action_space=policy.action_space)
    uniform.map_action_inverse = policy.map_action_inverse  # type: ignore[method-assign]
    uniform.seed(config.seed)

    def explore(_: BasePolicy, act: NDArray[Any], batch: object) -> Any:
        if noise:
            act = np.clip(act + rng.normal(scale=noise, size=act.shape), -1, 1).astype(act.dtype)
        if eps:
            chosen = (rng.random(len(act)) < eps).reshape(-1, *[1] * (act.ndim - 1))
            act = np.where(chosen, uniform(batch).act, act).astype(act.dtype)
        return act

    if noise and policy.action_type != "continuous":
        raise ValueError("noise is for continuous actions: give eps")
    kind = type(policy)
    policy.__class__ = type(kind.__name__, (kind,), {"exploration_noise": explore})
    with Collector(policy, envs, buffer, exploration_noise=True) as collector:
        stats = collector.collect(n_step=steps)
    buffer.close_episodes()
    if out.suffix in (".hdf5", ".h5"):
        buffer.save_hdf5(out)
    else:
        buffer.save(out)
    return stats
