"""Samples of sequences: their parts, the outputs of networks at their steps, and their priorities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rlfast.data import to_numpy, to_torch
from rlfast.data.batch.batch import wrap
from rlfast.functional.sequences import nstep_sums_within, sequence_priority
from rlfast.utils.net._recurrent import Steps, outputs_of
from rlfast.utils.tree import leaves, map_leaves


@dataclass(frozen=True)
class Sequences:
    """Observations of B sequences, and N of their steps, at which networks are evaluated."""

    before: Any
    """Observations that only compute a hidden state, the burn-in (Kapturowski et al. 2019, section 3), ``[B, K, ...]``.
    """
    exists: torch.Tensor
    """Whether there is such an observation, bool ``[B, K]``."""
    obs: Any
    """Observations after them, ``[B, T, ...]``."""
    rows: torch.Tensor
    """The sequence of each step, int64 ``[N]``."""
    columns: torch.Tensor
    """The number of the step among ``obs``, int64 ``[N]``."""

    def flat(self) -> Any:
        """Return the observations of the steps, ``[N, ...]``."""
        return self.obs[self.rows, self.columns]

    def with_burn_in(self) -> "Sequences":
        """Return sequences that begin with the first step of the burn-in that exists, and have no burn-in."""
        exists = torch.cat([self.exists, self.exists.new_ones(len(self.exists), next(leaves(self.obs)).shape[1])], 1)
        missing = (~exists).sum(dim=1)
        line = torch.arange(len(exists), device=exists.device)[:, None]
        place = (missing[:, None] + torch.arange(exists.shape[1], device=exists.device)).clamp(max=exists.shape[1] - 1)
        obs = map_leaves(lambda *parts: torch.cat(parts, dim=1)[line, place], self.before, self.obs)
        columns = self.columns + self.exists.shape[1] - missing[self.rows]
        return Sequences(map_leaves(lambda leaf: leaf[:, :0], obs), exists[:, :0], obs, self.rows, columns)


def has_sequences(batch: Any) -> bool:
    """Return whether a sample was drawn with ``unit=Sequence(...)``."""
    return "loss_mask" in batch


def add_sums(batch: Any, n_step: int, gamma: float) -> None:
    """Add to a sample of sequences the sums of up to n rewards from each step on, within its sequence.

    :param batch: sequences of K + T steps, of which N are learned from; ``reward_sum``, ``discount`` and ``last_step``,
        each ``[N]``, are added.
    :param n_step: n, the largest number of rewards.
    :param gamma: discount.
    """
    mask, burn_in = _loss_mask(batch)
    rew, terminated = (to_numpy(batch[name])[:, burn_in:] for name in ("rew", "terminated"))
    sums = nstep_sums_within(rew, terminated, mask, n_step, gamma)
    for name, values in zip(("reward_sum", "discount", "last_step"), sums, strict=True):
        batch[name] = values[mask]


def flattened(batch: Any, device: torch.device) -> Any:
    """Return a sample of sequences as N rows, one for each step that is learned from, after :func:`add_sums`.

    :param batch: the sample.
    :param device: device of observations and states.
    :return: a ``Batch`` whose ``obs`` and ``obs_next`` are :class:`Sequences`, with the hidden state before their first
        observation as ``state`` and ``state_next``, if one was stored. ``weight`` is that of the sequence.
    """
    mask, burn_in = _loss_mask(batch)
    rows, columns = (torch.as_tensor(place, device=device) for place in np.nonzero(mask))
    obs, obs_next = to_torch(batch.obs, device=device), to_torch(batch.obs_next, device=device)
    exists = torch.as_tensor(to_numpy(batch.mask)[:, : burn_in + 1], device=device)
    names = [name for name in ("reward_sum", "discount", "returns") if name in batch]
    fields: dict[str, Any] = {name: torch.as_tensor(batch[name], device=device) for name in names}
    fields["obs"] = Sequences(obs[:, :burn_in], exists[:, :burn_in], obs[:, burn_in:], rows, columns)
    if "last_step" in batch:
        last = torch.as_tensor(batch.last_step, device=device)
        fields["obs_next"] = Sequences(obs[:, : burn_in + 1], exists, obs_next[:, burn_in:], rows, last)
    fields["act"] = batch.act[:, burn_in:][mask]
    if "weight" in batch:
        fields["weight"] = batch.weight[np.nonzero(mask)[0]]
    if "policy" in batch and "hidden_state" in batch.policy:
        fields["state"] = fields["state_next"] = to_torch(batch.policy.hidden_state[:, 0], device=device)
    return wrap(fields)


def at_steps(
    call: Callable[[Any, Any], tuple[Any, Any]], network: nn.Module, sequences: Sequences, state: object
) -> Any:
    """Return the outputs of a network at the steps of sequences.

    A recurrent network starts from the stored state and processes the burn-in without gradients, then the rest with
    gradients through time (Kapturowski et al. 2019, *Recurrent Experience Replay in Distributed Reinforcement
    Learning*, section 3). A network without memory gets the observations of the steps.

    :param call: calls the network with observations and a hidden state; returns its output and the next hidden state.
    :param network: the network.
    :param sequences: the sequences.
    :param state: hidden state before them; None for that at the start of an episode.
    :return: ``[N, ...]``, or a tuple of these.
    :raises TypeError: if the network has a memory, but does not consist of the recurrent networks of ``rlfast``.
    """
    if state is None and not any(isinstance(module, nn.RNNBase | nn.RNNCellBase) for module in network.modules()):
        return call(sequences.flat(), None)[0]
    with torch.no_grad():
        for step in range(sequences.exists.shape[1]):
            _, after = call(sequences.before[:, step], state)
            state = _where(sequences.exists[:, step], after, state)
    steps = Steps(sequences.rows, sequences.columns)
    with outputs_of(steps):
        output, _ = call(sequences.obs, state)
    if not steps.used:
        raise TypeError(
            f"{type(network).__name__} has a memory and gives the output of the last step only, but sequences need "
            "that of each: build it on rlfast.utils.net.common.Recurrent, or sample stacks of frames (stack_num)"
        )
    return output


def actor_output(actor: nn.Module, obs: object, state: object, info: object) -> Any:
    """Return the output of an actor, for each step of sequences by :func:`at_steps`.

    :param actor: called as ``actor(obs, state=..., info=...)``.
    :param obs: observations, ``[B, ...]``, or :class:`Sequences`.
    :param state: hidden state before them.
    :param info: infos of the observations.
    """
    if isinstance(obs, Sequences):
        return at_steps(lambda part, before: actor(part, state=before, info={}), actor, obs, state)
    return actor(obs, state=state, info=info)[0]


def critic_output(critic: nn.Module, obs: object, act: torch.Tensor) -> torch.Tensor:
    """Return the output of a critic, for each step of sequences by :func:`at_steps`.

    No hidden state of a critic is stored: it starts from zero, and learns through the burn-in as well.

    :param critic: called as ``critic(obs, act)``.
    :param obs: observations, ``[B, ...]``, or :class:`Sequences`.
    :param act: actions, ``[B, ...]``, or one for each of the N steps.
    """
    value: torch.Tensor
    if isinstance(obs, Sequences):
        value = at_steps(lambda part, _: (critic(part, act), None), critic, obs.with_burn_in(), None)
    else:
        value = critic(obs, act)
    return value


def priority_errors(batch: object, error_N: torch.Tensor, eta: float) -> torch.Tensor:
    """Return one error for each drawn row: that of its transition, or the priority of its sequence.

    :param batch: the sample.
    :param error_N: errors of its N steps; returned as they are for a sample of transitions.
    :param eta: see :func:`rlfast.functional.sequences.sequence_priority`.
    :return: ``[B]``.
    """
    if not has_sequences(batch):
        return error_N
    mask = torch.as_tensor(_loss_mask(batch)[0], device=error_N.device)
    return sequence_priority(error_N.new_zeros(mask.shape).masked_scatter(mask, error_N), mask, eta)


def _loss_mask(batch: Any) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], int]:
    """Return which steps after the burn-in are learned from, ``[B, T]``, and the number K of steps of the burn-in."""
    mask = to_numpy(batch.loss_mask)
    burn_in = int(mask.any(axis=0).argmax())  # the step after the burn-in is the drawn row, which exists
    return mask[:, burn_in:], burn_in


def _where(exists: torch.Tensor, after: object, before: object) -> Any:
    """Return the hidden states after a step for the sequences that have it, and those before it for the others."""

    def pick(new: torch.Tensor, old: torch.Tensor | None = None) -> torch.Tensor:
        old = torch.zeros_like(new) if old is None else old.to(new.dtype)
        return torch.where(exists.view(-1, *[1] * (new.dim() - 1)), new, old)

    return map_leaves(pick, after) if before is None else map_leaves(pick, after, before)
