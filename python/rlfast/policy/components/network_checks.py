"""Checks of the arguments of policies, and of what they learn and see."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from rlfast.data import to_numpy
from rlfast.data._leaves import dotted
from rlfast.data.schema import flatten
from rlfast.policy.components.action_masks import inner_obs
from rlfast.utils.arguments.checks import ArgumentError, NonFiniteError, ObservationError, check_instance
from rlfast.utils.net.common import BaseActor
from rlfast.utils.warning import warn_user

_LEARNED = ("obs", "obs_next", "act", "rew", "reward_sum")
"""Fields of a sample that losses depend on, in the order in which they are suspected."""
_ADVICE = "correct the environment, or replace such values in a wrapper"
_LARGE = 1e18
"""Squares of larger rewards are infinite in float32."""

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def check_networks(**networks: Any) -> None:
    """Check that networks are modules of torch.

    :param networks: the arguments of a policy by their names.
    :raises TypeError: if one of them is not an ``nn.Module``.
    """
    for name, network in networks.items():
        check_instance(name, network, nn.Module)


def check_losses(policy: nn.Module, stats: Any, batch: object, buffer: object, indices: object) -> None:
    """Check that losses are finite. A loss of NaN passes if all weights are finite: users' policies may report it for a
    loss that was not computed.

    :param policy: the policy, after the update.
    :param stats: the statistics of the update.
    :param batch: the sample.
    :param buffer: the buffer that it was drawn from.
    :param indices: the rows of the sample in the buffer.
    :raises NonFiniteError: a loss is infinite, or it is NaN and so are weights.
    """
    losses = stats.get_loss_stats_dict()
    bad = {name: loss for name, loss in losses.items() if isinstance(loss, float) and not math.isfinite(loss)}
    if not bad:
        return
    if _has_finite_weights(policy) and not any("loss" in name and math.isinf(loss) for name, loss in bad.items()):
        return
    what = ", ".join(f"{name} is {loss}" for name, loss in bad.items())
    raise NonFiniteError(f"{what} in an update of {type(policy).__name__}: {_cause(batch, buffer, indices)}")


def _cause(batch: Any, buffer: Any, indices: Any) -> str:
    """Return what made a loss infinite or NaN, and what to do."""
    if found := _not_finite({name: batch[name] for name in _LEARNED if name in batch}):
        name, value, row = found
        index = int(np.asarray(indices).reshape(len(indices), -1)[row, 0])
        return f"the sample has {name} = {value}{_place(buffer, index)}"
    rewards = to_numpy(getattr(buffer, "rew", batch.get("rew", 0.0)))  # those of other rows are in sums of rewards
    if found := _not_finite({"rew": rewards}):
        name, value, row = found
        return f"the buffer has {name} = {value}{_place(buffer, row)}"
    largest = np.abs(rewards).max() if np.size(rewards) else 0.0
    if largest > _LARGE:
        return f"rewards are as large as {largest:g}, too large to be squared in float32: scale them down"
    return (
        "all values of the sample are finite: lower the learning rate, limit gradients by max_grad_norm, scale rewards"
    )


def _not_finite(fields: Any) -> tuple[str, Any, int] | None:
    """Return the name, the value and the row of the first number that is not finite."""
    for path, leaf in flatten(fields)[0].items():
        values = to_numpy(leaf)
        if isinstance(values, np.ndarray) and values.dtype.kind == "f" and not np.isfinite(values).all():
            where = np.argwhere(~np.isfinite(values))[0]
            return dotted(path), values[tuple(where)], int(where[0])
    return None


def _has_finite_weights(policy: nn.Module) -> bool:
    return all(bool(torch.isfinite(weight).all()) for weight in policy.parameters())


def _place(buffer: object, index: int) -> str:
    """Return where a row of a buffer is from, and what to do."""
    edges = getattr(buffer, "subbuffer_edges", None)
    if edges is None or len(edges) < 2:
        return f", in row {index} of the buffer: {_ADVICE}"
    env = int(np.searchsorted(edges, index, "right")) - 1
    return f", in row {index} of the buffer, of environment {env}: {_ADVICE}"


def update_error(policy: nn.Module, error: Exception, batch: Any, buffer: object, indices: object) -> Exception:
    """Return the error to raise where an update failed.

    :param error: what was raised.
    :param batch: the sample; see :func:`check_losses` also for the other parameters.
    :return: an error that names what does not fit or is not finite, if that is seen; otherwise ``error``.
    """
    if better := _seen_in(policy, error, batch.obs):
        return better
    is_finite = _has_finite_weights(policy)
    if is_finite and _not_finite({name: batch[name] for name in _LEARNED if name in batch}) is None:
        return error
    what = f"an update of {type(policy).__name__} failed" + ("" if is_finite else ", as weights are NaN or infinite")
    return NonFiniteError(f"{what}: {_cause(batch, buffer, indices)}")


def acting_error(policy: nn.Module, error: Exception, obs: object) -> Exception:
    """Return the error to raise where a policy could not choose actions.

    :param policy: the policy.
    :param error: what was raised.
    :param obs: the observations, ``[B, ...]``.
    :return: an error that names what does not fit or is not finite, if that is seen; otherwise ``error``.
    """
    if better := _seen_in(policy, error, obs):
        return better
    if not _has_finite_weights(policy):
        return NonFiniteError(
            f"weights of {type(policy).__name__} are NaN or infinite, so it cannot act: they diverged"
        )
    shape = getattr(inner_obs(obs), "shape", ())
    for name, module in policy.named_modules() if [*shape[:1]] == [1] else ():
        if isinstance(module, _BATCH_NORMS) and module.running_mean is None:
            return ArgumentError(
                f"the layer {name}, {module}, of {type(policy).__name__} has no running statistics, and cannot "
                "normalize a batch of one observation: make it with track_running_stats=True"
            )
    return error


def _seen_in(policy: nn.Module, error: Exception, obs: object) -> Exception | None:
    """Return the error if it is one of ours, which says what is wrong, or one that says so of observations."""
    return error if isinstance(error, ArgumentError | NonFiniteError) else observation_error(policy, obs)


def observation_error(policy: Any, obs: object) -> ObservationError | None:
    """Return an error that says how observations differ from those that a policy takes; None if that is not seen.

    :param policy: the policy, which has failed with these observations.
    :param obs: the observations, ``[B, ...]``.
    """
    obs = inner_obs(obs)
    shape = getattr(obs, "shape", None)
    if not isinstance(obs, np.ndarray | torch.Tensor) or not shape:
        return None
    name, given = type(policy).__name__, tuple(shape[1:])
    space = getattr(policy, "observation_space", None)
    if isinstance(space, Box) and given != space.shape:
        return ObservationError(f"{name} takes observations of {space}, got a batch of observations of shape {given}")
    first = next((module for module in policy.modules() if not isinstance(module, nn.Flatten) and _reads(module)), None)
    if isinstance(first, nn.Linear) and first.in_features not in (math.prod(given), *given[-1:]):
        return ObservationError(
            f"the first layer of {name} takes {first.in_features} numbers, got a batch of observations of shape "
            f"{given}: make the network for the environment's observation_space"
        )
    if isinstance(first, nn.Conv2d) and (len(given) != 3 or first.in_channels != given[0]):
        return ObservationError(
            f"the first layer of {name} takes pictures of {first.in_channels} channels, (channels, height, width), got "
            f"a batch of observations of shape {given}"
        )
    return None


def _reads(module: nn.Module) -> bool:
    """Return whether a module computes by weights of its own."""
    return not any(module.children()) and next(module.parameters(recurse=False), None) is not None


def check_output(actor: nn.Module, action_space: gym.Space[Any]) -> None:
    """Warn if an actor of this library has an output size that does not fit the action space. Other actors are not
    checked.

    :param actor: the actor.
    :param action_space: the action space of one environment.
    :raises TypeError: if ``action_space`` is not a space.
    """
    check_instance("action_space", action_space, gym.Space)
    if not isinstance(actor, BaseActor):
        return
    if isinstance(action_space, Discrete):
        wanted = int(action_space.n)
    elif isinstance(action_space, MultiDiscrete):
        wanted = int(action_space.nvec.sum())
    else:
        wanted = math.prod(action_space.shape or ())
    given = actor.get_output_dim()
    if given != wanted:
        warn_user(
            f"the actor gives {given} numbers, but {action_space} needs {wanted}; the space of one of several "
            "environments is their single_action_space or action_space[0]"
        )


def check_stretching(actor: nn.Module, *, action_scaling: bool) -> None:
    """Warn if actions would be stretched to the bounds of the Box twice.

    :param actor: the actor, which may have ``max_action``.
    :param action_scaling: whether the policy stretches actions.
    """
    bound = getattr(actor, "max_action", 1.0)
    if action_scaling and abs(bound - 1.0) > 1e-5:
        warn_user(
            f"actions are stretched twice: by the actor, to max_action={bound}, and by action_scaling; give the "
            "actor max_action=1, or set action_scaling to False and action_bound_method to None"
        )
