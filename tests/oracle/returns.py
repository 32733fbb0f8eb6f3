"""Returns and advantages by definition: explicit sums from each step, without recursion."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def gae(
    rew: Sequence[float],
    v: Sequence[float],
    v_next: Sequence[float],
    terminated: Sequence[bool],
    truncated: Sequence[bool],
    gamma: float,
    gae_lambda: float,
) -> NDArray[np.float64]:
    """Equation 16 of Schulman et al., arXiv:1506.02438: the sum of ``(gamma lambda)^k delta[t + k]``, which ends with
    the episode. ``v_next[t]`` is the value of the observation that step ``t`` ended in, reset or not."""
    deltas = [
        r + (0.0 if term else gamma * nv) - sv for r, sv, nv, term in zip(rew, v, v_next, terminated, strict=True)
    ]
    advantage = []
    for t in range(len(rew)):
        total = 0.0
        for k, step in enumerate(range(t, len(rew))):
            total += (gamma * gae_lambda) ** k * deltas[step]
            if terminated[step] or truncated[step]:
                break
        advantage.append(total)
    return np.array(advantage)


def discounted(rew: Sequence[float], done: Sequence[bool], gamma: float) -> NDArray[np.float64]:
    """The sum of ``gamma^k r[t + k]`` to the end of the episode or of the data."""
    result = []
    for t in range(len(rew)):
        total = 0.0
        for k, step in enumerate(range(t, len(rew))):
            total += gamma**k * rew[step]
            if done[step]:
                break
        result.append(total)
    return np.array(result)


def vtrace(
    rho: Sequence[float],
    rew: Sequence[float],
    v: Sequence[float],
    v_next: Sequence[float],
    terminated: Sequence[bool],
    truncated: Sequence[bool],
    gamma: float,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> NDArray[np.float64]:
    """Equation 1 of Espeholt et al., arXiv:1802.01561: ``v[s] + sum_t gamma^(t-s) (prod c) rho delta``."""
    result = []
    for s in range(len(rew)):
        total, product = v[s], 1.0
        for t in range(s, len(rew)):
            delta = rew[t] + (0.0 if terminated[t] else gamma * v_next[t]) - v[t]
            total += gamma ** (t - s) * product * min(rho_bar, rho[t]) * delta
            product *= min(c_bar, rho[t])
            if terminated[t] or truncated[t]:
                break
        result.append(total)
    return np.array(result)
