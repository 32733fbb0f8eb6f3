"""Normalisation, actions, noise, distributions and target networks.

Adapters: ``normalizer(size)`` returns an object with ``update(rows)``, ``normalize(rows)``, ``moments() -> (mean,
variance)`` and, if it can be saved, ``restored()``; ``frozen_normalizer`` plays as :func:`frozen_statistics` says.
``map_action(space, action)`` maps from [-1, 1]. ``polyak(target, source, tau)`` works in place on modules of PyTorch.
``squashed_log_prob(mean, log_std, action)``, ``gaussian_log_prob(mean, log_std, action)``, ``gaussian_noise(std,
count)``, ``trpo_kl(limit)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.museum.adapters import DoesNotApply
from bench.museum.operations.rows import needs
from bench.museum.operations.scripted import SPACES

__all__ = [
    "deviation_of_noise",
    "frozen_statistics",
    "gaussian_density",
    "kl_of_a_step",
    "mapped_actions",
    "moments_of",
    "normalized_constant",
    "normalizer_saved",
    "squashed_density",
    "target_after",
    "target_of_batch_norm",
]


def stream(count: int, offset: float) -> np.ndarray:
    return np.random.default_rng(0).normal(offset, [1.0, 10.0], (count, 2))


def moments_of(library: Any, *, parts: list[int], offset: float) -> Any:
    """Whether the mean and variance of a stream of ``parts`` rows equal those of the whole."""
    values = stream(sum(parts), offset)
    normalizer = needs(library, "normalizer")(2)
    for part in np.split(values, np.cumsum(parts)[:-1]):
        normalizer.update(part)
    mean, variance = (np.asarray(moment, np.float64).reshape(-1) for moment in normalizer.moments())
    return {
        "mean": bool(np.allclose(mean, values.mean(0), rtol=1e-3, atol=1e-3)),
        "variance": bool(np.allclose(variance, values.var(0), rtol=0.02)),
    }


def normalized_constant(library: Any, *, count: int) -> Any:
    """Whether ``count`` equal rows are normalised to finite numbers."""
    normalizer = needs(library, "normalizer")(2)
    rows = np.full((count, 2), 3.0)
    normalizer.update(rows)
    found = np.asarray(normalizer.normalize(rows), np.float64)
    return {"finite": bool(np.isfinite(found).all()), "small": bool(np.abs(found).max() < 11)}


def normalizer_saved(library: Any) -> Any:
    """Whether a loaded normaliser equals the saved one."""
    normalizer = needs(library, "normalizer")(2)
    if not hasattr(normalizer, "restored"):
        raise DoesNotApply("normalisers are not saved")
    normalizer.update(stream(200, 5.0))
    before, after = normalizer.moments(), normalizer.restored().moments()
    return {"same": bool(all(np.allclose(b, a) for b, a in zip(before, after, strict=True)))}


def frozen_statistics(library: Any, *, offset: float) -> Any:
    """Whether evaluation leaves the statistics unchanged and normalises final observations."""
    return needs(library, "frozen")(offset)


def mapped_actions(library: Any, *, space: str, actions: list[list[float]]) -> Any:
    """The environment's actions for a policy's ``actions``."""
    box = SPACES[space]()
    return [np.asarray(needs(library, "map_action")(box, np.array(action, np.float32))).tolist() for action in actions]


def squashed_density(library: Any, *, action: float) -> Any:
    """Whether the log-probability under a squashed Gaussian is finite."""
    return {"finite": bool(np.isfinite(float(needs(library, "squashed_log_prob")(0.0, 0.0, action))))}


def gaussian_density(library: Any, *, mean: float, std: float, action: float) -> Any:
    """The log-probability of an action under a Gaussian policy."""
    return float(needs(library, "gaussian_log_prob")(mean, std, action))


def deviation_of_noise(library: Any, *, std: float, count: int) -> Any:
    """The deviation of exploration noise, to two digits."""
    return round(float(np.std(needs(library, "gaussian_noise")(std, count))), 2)


def kl_of_a_step(library: Any, *, limit: float) -> Any:
    """The KL divergence that a TRPO step reports."""
    kl = float(needs(library, "trpo_kl")(limit))
    return {"negative": kl < 0, "within twice the limit": kl <= 2 * limit}


def target_after(library: Any, *, target: float, source: float, tau: float, times: int) -> Any:
    """A weight of the target network and of the source after soft updates."""
    import torch

    lagged, network = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    torch.nn.init.constant_(lagged.weight, target)
    torch.nn.init.constant_(network.weight, source)
    for _ in range(times):
        needs(library, "polyak")(lagged, network, tau)
    return {"target": float(lagged.weight.detach()), "source": float(network.weight.detach())}


def target_of_batch_norm(library: Any, *, mean: float) -> Any:
    """The running mean of the target network after a full update."""
    import torch

    lagged, network = torch.nn.BatchNorm1d(1), torch.nn.BatchNorm1d(1)
    torch.nn.init.constant_(network.running_mean, mean)
    needs(library, "polyak")(lagged, network, 1.0)
    return float(lagged.running_mean)
