r"""Returns and advantages over rollouts, computed in Rust.

All functions take NumPy arrays or torch tensors. The results are of the type of the rewards: arrays, or tensors on the
same device. No gradient flows through them.

The first axis is time. A second axis, ``[T, N]``, has one independent column for each environment. A ``[T]`` rollout
may hold several episodes one after another. Row ``t`` is the step from observation ``t``:

* ``terminated[t]``: the episode ended with this step. ``next_values[t]`` is not used.
* ``truncated[t]``: the episode was cut off after this step. ``next_values[t]``, the value of its *final* observation
  (not of the first one of the next episode), estimates the return of the rest.
* Every episode that has not ended is truncated at the last row.

Floats are float32 or float64, and results have the widest type among them; rewards may be integers. Flags are bool, or
numbers that are 0 or 1. Lists are accepted too, and so is ``[T, 1]`` where the rewards are ``[T]``, and ``[T]`` where
they are ``[T, 1]``.
"""

from __future__ import annotations

import sys
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from rlfast import _core

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any] | torch.Tensor"
ArrayT = TypeVar("ArrayT", "NDArray[Any]", "torch.Tensor")


class VTraceReturns(NamedTuple):
    """The result of :func:`vtrace`: regression targets of the value function, and advantages of the policy gradient."""

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
    >>> value_next = np.array([0.5, 10.0, 0.5])  # the episode is truncated at step 1, in a state of high value
    >>> never, cut = np.zeros(3, bool), np.array([False, True, False])
    >>> gae(np.ones(3), value, value_next, never, cut, gamma=0.9, gae_lambda=0.8).round(3)
    array([7.79, 9.5 , 0.95])
    """
    result: ArrayT = _run("gae", (rewards, values, next_values), (terminated, truncated), gamma, gae_lambda)
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

    Where an episode was truncated, :math:`\gamma V(s_{t+1})` estimates the return of the rest, if ``next_values`` are
    given; else the rest counts as 0.

    :param rewards: ``[T]`` or ``[T, N]``.
    :param terminated: whether each step ended its episode, same shape.
    :param truncated: whether each step cut its episode, same shape. Default: none did.
    :param next_values: :math:`V(s_{t+1})`, same shape; used only where an episode was truncated. Default: 0.
    :param gamma: discount, from 0 to 1. Default: 0.99.
    :return: returns of that shape.
    :raises ValueError: if shapes differ, or ``gamma`` lies outside 0 to 1.
    :raises TypeError: if a float array or a flag array is of another kind.

    >>> import numpy as np
    >>> discounted_returns(np.ones(4), np.array([False, True, False, False]), gamma=0.5)
    array([1.5, 1. , 1.5, 1. ])
    """
    result: ArrayT = _run("discounted_returns", (rewards, next_values), (terminated, truncated), gamma)
    return result


def nstep_returns(
    rewards: ArrayT,
    next_values: Array,
    terminated: Array,
    truncated: Array | None = None,
    n_step: int = 1,
    gamma: float = 0.99,
) -> ArrayT:
    r"""N-step returns of every step of a rollout (Sutton and Barto, 2nd edition, equation 7.1).

    .. math:: G_t = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k V(s_{t+k})

    with the :math:`k \le n` steps that are left in the episode, and without the last term if it terminates there.

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
    result: ArrayT = _run("nstep_returns", (rewards, next_values), (terminated, truncated), index(n_step), gamma)
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
    :param log_ratios: :math:`\log\pi(a|x) - \log\mu(a|x)` of the policy that learns and the policy that acted, same
        shape.
    :param terminated: whether each step ended its episode, same shape.
    :param truncated: whether each step cut its episode, same shape. Default: none did.
    :param gamma: discount, from 0 to 1. Default: 0.99.
    :param trace_lambda: :math:`\lambda` of the paper's remark 2, from 0 to 1. Default: 1.
    :param rho_bar: :math:`\bar\rho`, which determines the value function that the targets converge to. Default: 1.
    :param c_bar: :math:`\bar c`, which determines how quickly they converge. Default: 1.
    :return: ``(targets, advantages)`` of that shape.
    :raises ValueError: if shapes differ or a number lies outside its range.
    :raises TypeError: if a float array or a flag array is of another kind.

    >>> import numpy as np
    >>> one, zero, ends = np.ones(3), np.zeros(3), np.array([False, False, True])
    >>> vtrace(one, zero, zero, np.log([1.0, 0.5, 4.0]), ends, gamma=1.0).targets
    array([2., 1., 1.])
    """
    floats, flags = (rewards, values, next_values, log_ratios), (terminated, truncated)
    return VTraceReturns(*_run("vtrace", floats, flags, gamma, trace_lambda, rho_bar, c_bar))


def normalize(advantages: ArrayT, eps: float = 1e-8) -> ArrayT:
    """Shift and scale advantages to mean 0 and sample standard deviation 1.

    :param advantages: an array or tensor of any shape.
    :param eps: added to the standard deviation. Default: 1e-8.
    :return: the same shape; fewer than two advantages become 0.

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


def as_flags(name: str, values: object) -> NDArray[np.bool_]:
    """Convert flags to an array of bool.

    :param name: the name of the argument, for messages.
    :param values: an array, a tensor or a list, of bool or of numbers that are 0 or 1.
    :return: an array of bool.
    :raises ValueError: a number is neither 0 nor 1.
    :raises TypeError: the values are not numbers.

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


def _run(name: str, floats: _Arrays, flags: _Arrays, *numbers: float) -> Any:
    """Run an estimator of the engine, converting its arguments if it refuses them.

    :return: the result, as an array, or as a tensor if ``floats[0]``, the rewards, is one.
    """
    try:
        return _core.estimate(name, floats, flags, numbers)
    except (TypeError, ValueError):
        pass  # the arguments may need conversion; an error after that is the one to report
    torch = sys.modules.get("torch")  # without torch, no argument is a tensor
    rewards = floats[0]
    floats = _of_one_type(tuple(_to_numpy(torch, array) for array in floats))
    shape = floats[0].shape
    flags = tuple(
        None if values is None else as_flags(name, values)
        for name, values in zip(("terminated", "truncated"), flags, strict=True)
    )
    floats, flags = (tuple(_shaped(array, shape) for array in arrays) for arrays in (floats, flags))
    result = _core.estimate(name, floats, flags, numbers)
    if torch is None or not isinstance(rewards, torch.Tensor):
        return result
    if isinstance(result, tuple):
        return tuple(torch.from_numpy(array).to(rewards.device) for array in result)
    return torch.from_numpy(result).to(rewards.device)


def _to_numpy(torch: Any, array: Any) -> Any:
    """Return the array of a tensor, and anything else unchanged."""
    if torch is None or not isinstance(array, torch.Tensor):
        return array
    array = array.detach().cpu()
    return (array.float() if array.dtype == torch.bfloat16 else array).numpy()  # NumPy has no such dtype


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """Reshape an array if its shape differs only by axes of length 1 at the end; else return it unchanged."""
    if array is None or array.shape == shape:
        return array
    shorter, longer = sorted((array.shape, shape))  # a shape comes before its own extensions
    same = longer[: len(shorter)] == shorter and all(size == 1 for size in longer[len(shorter) :])
    return array.reshape(shape) if same else array


def _of_one_type(floats: _Arrays) -> _Arrays:
    """Convert floats and integers to the widest float type among the arrays."""
    arrays = tuple(None if array is None else np.asarray(array) for array in floats)
    kinds = {array.dtype for array in arrays if array is not None}
    floating = [kind for kind in kinds if kind.kind == "f"]
    widest = np.result_type(*floating) if floating else np.dtype(np.float64)
    return tuple(
        np.asarray(array, widest) if array is not None and array.dtype.kind in "fiu" else array for array in arrays
    )
