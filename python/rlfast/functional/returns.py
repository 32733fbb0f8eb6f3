r"""Returns and advantages over roll-outs, computed in Rust.

All take NumPy arrays or torch tensors and give what the rewards are: an array, or a tensor on their device. What comes
out is a constant to autograd.

The first axis is time; further axes, ``[T, N]``, are columns that do not touch each other, one to an environment. A
flat ``[T]`` roll-out may hold many episodes one after another. Step ``t`` leads out of observation ``t``:

* ``terminated[t]``: the episode ended there, and nothing comes after. ``next_values[t]`` is not even read.
* ``truncated[t]``: the episode was cut there. ``next_values[t]``, the value of its *final* observation (not of the
  first one of the next episode), stands for what was not seen.
* The last row cuts every episode that has not ended.

Floats are float32 or float64 and are computed in the widest type among them; integer rewards are welcome. Flags are
bool, or numbers that are 0 or 1. Lists are taken for arrays, and ``[T, 1]`` for ``[T]`` where the rewards are ``[T]``,
and the other way round.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from rlfast import _core

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any] | torch.Tensor"
ArrayT = TypeVar("ArrayT", "NDArray[Any]", "torch.Tensor")


class VTraceReturns(NamedTuple):
    """What :func:`vtrace` gives: regression targets of the value function and advantages of the policy gradient."""

    targets: Any
    advantages: Any


def gae(
    rewards: ArrayT,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array | None = None,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
) -> ArrayT:
    r"""Generalized advantage estimation (Schulman et al., arXiv:1506.02438, equations 10 and 16).

    .. math::
        \delta_t = r_t + \gamma V(s_{t+1}) - V(s_t), \qquad A_t = \delta_t + \gamma\lambda A_{t+1}

    The recursion ends with the episode. ``gae(...) + values`` are the :math:`\mathrm{TD}(\lambda)` returns, the targets
    of the value function.

    :param rewards: ``[T]`` or ``[T, N]``.
    :param values: :math:`V(s_t)`, same shape.
    :param next_values: :math:`V(s_{t+1})` of the observation that each step led to, same shape.
    :param terminated: whether each step ended its episode, same shape.
    :param truncated: whether each step cut its episode, same shape. Default: none did.
    :param gamma: discount, from 0 to 1. Default: 0.99.
    :param gae_lambda: 0 for one-step, 1 for Monte Carlo advantages. Default: 0.95.
    :return: advantages of that shape.
    :raises ValueError: if shapes differ, or ``gamma`` or ``gae_lambda`` lie outside 0 to 1.
    :raises TypeError: if a float array or a flag array is of another kind.

    >>> import numpy as np
    >>> value = np.full(3, 0.5)
    >>> value_next = np.array([0.5, 10.0, 0.5])  # the episode is cut at step 1, in a good place
    >>> never, cut = np.zeros(3, bool), np.array([False, True, False])
    >>> gae(np.ones(3), value, value_next, never, cut, gamma=0.9, gae_lambda=0.8).round(3)
    array([7.79, 9.5 , 0.95])
    """
    result: ArrayT = _run(_core.gae, (rewards, values, next_values), (terminated, truncated), gamma, gae_lambda)
    return result


def discounted_returns(
    rewards: ArrayT,
    terminated: Array,
    truncated: Array | None = None,
    next_values: Array | None = None,
    gamma: float = 0.99,
) -> ArrayT:
    r"""Discounted returns (Sutton and Barto, 2nd edition, equation 3.9).

    .. math:: G_t = r_t + \gamma G_{t+1}

    Where an episode was cut, :math:`\gamma V(s_{t+1})` stands for the rest of it, if ``next_values`` are given; else
    the rest counts as nothing.

    :param rewards: ``[T]`` or ``[T, N]``.
    :param terminated: whether each step ended its episode, same shape.
    :param truncated: whether each step cut its episode, same shape. Default: none did.
    :param next_values: :math:`V(s_{t+1})`, same shape; read only where an episode was cut. Default: 0.
    :param gamma: discount, from 0 to 1. Default: 0.99.
    :return: returns of that shape.
    :raises ValueError: if shapes differ, or ``gamma`` lies outside 0 to 1.
    :raises TypeError: if a float array or a flag array is of another kind.

    >>> import numpy as np
    >>> discounted_returns(np.ones(4), np.array([False, True, False, False]), gamma=0.5)
    array([1.5, 1. , 1.5, 1. ])
    """
    result: ArrayT = _run(_core.discounted_returns, (rewards, next_values), (terminated, truncated), gamma)
    return result


def nstep_returns(
    rewards: ArrayT,
    next_values: Array,
    terminated: Array,
    truncated: Array | None = None,
    n_step: int = 1,
    gamma: float = 0.99,
) -> ArrayT:
    r"""N-step returns of every step of a roll-out (Sutton and Barto, 2nd edition, equation 7.1).

    .. math:: G_t = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k V(s_{t+k})

    over the :math:`k \le n` steps that the episode has left; without the last term if it terminated there.

    :param rewards: ``[T]`` or ``[T, N]``.
    :param next_values: :math:`V(s_{t+1})` of the observation that each step led to, same shape.
    :param terminated: whether each step ended its episode, same shape.
    :param truncated: whether each step cut its episode, same shape. Default: none did.
    :param n_step: n, at least 1. Default: 1.
    :param gamma: discount, from 0 to 1. Default: 0.99.
    :return: returns of that shape.
    :raises ValueError: if shapes differ, ``n_step`` is below 1 or ``gamma`` lies outside 0 to 1.
    :raises TypeError: if a float array or a flag array is of another kind.

    >>> import numpy as np
    >>> ends, value_next = np.array([False, False, True, False]), np.array([0.0, 8.0, 16.0, 32.0])
    >>> nstep_returns(np.ones(4), value_next, ends, n_step=2, gamma=0.5)
    array([ 3.5,  1.5,  1. , 17. ])
    """
    result: ArrayT = _run(_core.nstep_returns, (rewards, next_values), (terminated, truncated), n_step, gamma)
    return result


def vtrace(
    rewards: ArrayT,
    values: Array,
    next_values: Array,
    log_ratios: Array,
    terminated: Array,
    truncated: Array | None = None,
    gamma: float = 0.99,
    *,
    trace_lambda: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> VTraceReturns:
    r"""V-trace: off-policy corrected targets and advantages (Espeholt et al., arXiv:1802.01561, equation 1).

    .. math::
        v_s = V(x_s) + \sum_{t \ge s} \gamma^{t-s} \Bigl(\prod_{i=s}^{t-1} c_i\Bigr)
              \rho_t \bigl(r_t + \gamma V(x_{t+1}) - V(x_t)\bigr), \qquad
        A_s = \rho_s \bigl(r_s + \gamma v_{s+1} - V(x_s)\bigr)

    with :math:`\rho_t = \min(\bar\rho, \pi/\mu)` and :math:`c_t = \lambda \min(\bar c, \pi/\mu)`; the sum ends with
    the episode.

    :param rewards: ``[T]`` or ``[T, N]``.
    :param values: :math:`V(x_t)`, same shape.
    :param next_values: :math:`V(x_{t+1})` of the observation that each step led to, same shape.
    :param log_ratios: :math:`\log\pi(a|x) - \log\mu(a|x)` of the learner's policy and the one that acted, same shape.
    :param terminated: whether each step ended its episode, same shape.
    :param truncated: whether each step cut its episode, same shape. Default: none did.
    :param gamma: discount, from 0 to 1. Default: 0.99.
    :param trace_lambda: the paper's remark 2, from 0 to 1. Default: 1.
    :param rho_bar: bound of the ratio that weighs a temporal difference; it decides what is learnt. Default: 1.
    :param c_bar: bound of the ratio that carries it back; it decides how fast. Default: 1.
    :return: ``(targets, advantages)`` of that shape.
    :raises ValueError: if shapes differ or a number lies outside its range.
    :raises TypeError: if a float array or a flag array is of another kind.

    >>> import numpy as np
    >>> one, zero, ends = np.ones(3), np.zeros(3), np.array([False, False, True])
    >>> vtrace(one, zero, zero, np.log([1.0, 0.5, 4.0]), ends, gamma=1.0).targets
    array([2., 1., 1.])
    """
    floats, flags = (rewards, values, next_values, log_ratios), (terminated, truncated)
    return VTraceReturns(*_run(_core.vtrace, floats, flags, gamma, trace_lambda, rho_bar, c_bar))


def normalize(advantages: ArrayT, eps: float = 1e-8) -> ArrayT:
    """Advantages shifted to mean 0 and scaled to a sample standard deviation of 1.

    :param advantages: any shape.
    :param eps: added to the deviation. Default: 1e-8.
    :return: the same shape. Fewer than two of them have no deviation: they become 0.

    >>> import numpy as np
    >>> normalize(np.array([1.0, 2.0, 3.0])).round(6)
    array([-1.,  0.,  1.])
    """
    if len(advantages.reshape(-1)) < 2:
        return advantages * 0
    centred = advantages - advantages.mean()
    deviation = ((centred**2).sum() / (len(centred.reshape(-1)) - 1)) ** 0.5
    result: ArrayT = centred / (deviation + eps)
    return result


_Arrays = tuple[Any, ...]


def as_flags(name: str, values: Any) -> NDArray[np.bool_]:
    """Flags as an array of bool.

    :param name: of the argument.
    :param values: an array, a tensor or a list, of bool or of numbers that are 0 or 1.
    :raises ValueError: one is neither.
    :raises TypeError: they are no numbers.

    >>> as_flags("done", [0, 1.0]).tolist()
    [False, True]
    """
    if type(values) is np.ndarray and values.dtype == np.bool_:
        return values
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    if array.dtype == object:
        array = np.array(array.tolist())
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be flags, bool or 0 and 1, got an array of {array.dtype}")
    flags = array.astype(bool)
    if not np.array_equal(flags, array):
        raise ValueError(f"{name} must be flags, 0 or 1, got {array[flags != array].flat[0]}")
    return flags


def _run(kernel: Callable[..., Any], floats: _Arrays, flags: _Arrays, *numbers: float) -> Any:
    """What the kernel gives for NumPy arrays of one float type, in the kind of ``floats[0]``, the rewards."""
    try:
        return kernel(*floats, *flags, *numbers)
    except (TypeError, ValueError):
        pass  # they are not such arrays; made into some, what is still wrong with them is worth reporting
    torch = sys.modules.get("torch")  # who has not imported torch has no tensors
    rewards = floats[0]
    floats = _of_one_type(tuple(_to_numpy(torch, array) for array in floats))
    shape = floats[0].shape
    flags = tuple(
        None if values is None else as_flags(name, values)
        for name, values in zip(("terminated", "truncated"), flags, strict=True)
    )
    floats, flags = (tuple(_shaped(array, shape) for array in arrays) for arrays in (floats, flags))
    result = kernel(*floats, *flags, *numbers)
    if torch is None or not isinstance(rewards, torch.Tensor):
        return result
    if isinstance(result, tuple):
        return tuple(torch.from_numpy(array).to(rewards.device) for array in result)
    return torch.from_numpy(result).to(rewards.device)


def _to_numpy(torch: Any, array: Any) -> Any:
    """The array under a tensor. What is no tensor is left as it is."""
    if torch is None or not isinstance(array, torch.Tensor):
        return array
    array = array.detach().cpu()
    return (array.float() if array.dtype == torch.bfloat16 else array).numpy()  # NumPy has no such dtype


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """The array in a shape that differs from its own by axes of length 1 at the end; any other as it is."""
    if array is None or array.shape == shape or array.size != math.prod(shape):
        return array
    longer, shorter = sorted((array.shape, shape), key=len, reverse=True)
    same = longer[: len(shorter)] == shorter and all(size == 1 for size in longer[len(shorter) :])
    return array.reshape(shape) if same else array


def _of_one_type(floats: _Arrays) -> _Arrays:
    """The same arrays in the widest float type among them, integers in that type too."""
    arrays = tuple(None if array is None else np.asarray(array) for array in floats)
    kinds = {array.dtype for array in arrays if array is not None}
    if len(kinds) == 1 and kinds <= _FLOATS:
        return arrays
    floating = [kind for kind in kinds if kind.kind == "f"]
    widest = np.result_type(*floating) if floating else np.dtype(np.float64)
    return tuple(array.astype(widest) if array is not None and array.dtype.kind in "fiu" else array for array in arrays)


_FLOATS = {np.dtype(np.float32), np.dtype(np.float64)}
