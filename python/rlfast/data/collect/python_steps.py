"""Vector steps that are taken one by one: a policy acts and the environments step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap_nested
from rlfast.data.collect.checks import ActingPolicyProtocol, choice_error
from rlfast.data.collect.episodes import Episodes
from rlfast.data.collect.observed import policy_input
from rlfast.data.converter import to_numpy
from rlfast.data.masks import mask_of
from rlfast.env import BaseVectorEnv
from rlfast.env.backends.base import Rows
from rlfast.env.backends.rows import ordered
from rlfast.env.spaces.actions import check_shape
from rlfast.utils import tree
from rlfast.utils.runtime.native import tried
from rlfast.utils.torch_utils import Acting

Ids = NDArray[np.int64]


class PendingSteps:
    """Keeps the observations and actions that were sent until environments return the rest of the transitions.

    :param env_num: the number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._rows: dict[str, Any] = {}  # a row for each environment
        self._open = np.zeros(env_num, dtype=bool)  # which of them are pending steps

    @property
    def waiting(self) -> Ids:
        """The environments with a pending step."""
        return np.flatnonzero(self._open)

    def idle(self, ids: Ids) -> Ids:
        """Return those of ``ids`` that have no pending step."""
        return ids[~self._open[ids]]

    def put(self, ids: Ids, fields: dict[str, Any]) -> None:
        """Record that steps were sent to ``ids``; ``fields`` has a row for each."""
        known, env_num = self._rows if self._open.any() else {}, len(self._open)
        self._rows = {key: tree.put(known.get(key), ids, rows, env_num) for key, rows in fields.items()}
        self._open[ids] = True

    def take(self, ids: Ids) -> dict[str, Any]:
        """Record that the steps of ``ids`` have returned, and return the rows that were put for them, in order."""
        self._open[ids] = False
        rows: dict[str, Any] = tree.take(self._rows, ids)
        return rows

    def clear(self) -> None:
        """Forget all pending steps."""
        self._open[:] = False


@dataclass(slots=True)
class PythonSteps:
    """Takes the vector steps of one collect; see :class:`~rlfast.data.Collector` for the suffixes of names."""

    policy: ActingPolicyProtocol
    envs: BaseVectorEnv
    episodes: Episodes
    pending: PendingSteps
    chooser: Any
    """Chooses the policy's actions in Rust; None where the policy itself chooses."""
    random: Callable[..., Any] | None
    """Draws random actions for some environments and their masks, in place of the policy's; None for the policy's."""
    noise: bool
    """Whether the policy's exploration noise is added."""
    acting: Acting
    """The context in which the policy acts."""
    action_space: Any = field(init=False)
    action_shape: Any = field(init=False)
    dist: Any = None
    """The policy's newest action distribution; None if it gave none."""
    dist_rows: int = 0
    """The number of environments that it is of."""

    def __post_init__(self) -> None:
        self.action_space = getattr(self.policy, "action_space", None)
        self.action_shape = getattr(self.action_space, "shape", None)

    def take(self, ready_R: Ids) -> tuple[dict[str, Any], Rows]:
        """Choose actions for ``ready_R``, send them, and wait for results: asynchronous ones are whichever come first.

        :return: ``obs``, ``act``, and ``policy`` if the policy gave something to store; and the results. Both have
            their rows in the same order.
        """
        envs, episodes = self.envs, self.episodes
        if not envs.is_async:
            acted = self.act(ready_R)
            return acted, envs.exchange(self.mapped(acted["act"]), episodes.where(ready_R))
        idle_R = self.pending.idle(ready_R)
        if len(idle_R):
            acted = self.act(idle_R)
            act_RA = self.mapped(acted["act"])
            self.pending.put(idle_R, acted)
            envs.send(act_RA, episodes.where(idle_R))
        rows = envs.recv()
        if len(rows.env_id) == episodes.env_num:
            rows = ordered(rows, np.arange(episodes.env_num))
        return self.pending.take(rows.env_id), rows

    def act(self, ids_R: Ids) -> dict[str, Any]:
        """Choose actions.

        :return: the fields ``obs`` and ``act``, and ``policy`` if the policy gave something to store.
        """
        episodes = self.episodes
        where = episodes.where(ids_R)
        episodes.unstepped[ids_R] = False
        obs_RO = episodes.obs if where is None else tree.take(episodes.obs, where)
        if self.random is not None:
            observed = wrap_nested(obs_RO)
            act_RA = self.policy.map_action_inverse(self.random(ids_R, mask_of(observed)))
            episodes.forget(ids_R)  # the policy does not see these observations
            return {"obs": observed, "act": wrap_nested(act_RA)}
        act_RA, stored = (None, {}) if self.chooser is None else self._choose_natively(obs_RO, where)
        noise = self.noise and (act_RA is None or any(tried(cast(Any, self.policy).native_exploration)))
        if act_RA is None or noise:
            seen = tree.writable(obs_RO)  # networks and users may write to it
            known = {"obs": wrap_nested(seen), "info": episodes.infos(ids_R)}
            batch = policy_input(known, ids_R, episodes.before)
            if act_RA is None:
                act_RA, stored = self._ask_policy(batch, obs_RO, ids_R, where)
            if noise:
                act_RA = self.policy.exploration_noise(act_RA, batch)
        fields = {"obs": wrap_nested(obs_RO), "act": act_RA}
        return {**fields, "policy": wrap_nested(stored)} if stored else fields

    def _ask_policy(self, batch: Batch, obs_RO: object, ids_R: Ids, where: Ids | None) -> tuple[Any, dict[str, Any]]:
        """Call the policy, and keep its hidden state.

        :return: the actions, and what is stored of the choice; with the hidden state before the step, from which the
            network starts when it learns from that row.
        """
        policy: Any = self.policy
        hidden_RH = self.episodes.hidden
        if hidden_RH is not None:
            hidden_RH = tree.take(hidden_RH, where)
        try:
            with self.acting:
                result = policy(batch, hidden_RH) if callable(policy) else policy.forward(batch, hidden_RH)
        except Exception as error:
            if (better := choice_error(error, obs_RO, ids_R, self.envs)) is error:
                raise
            raise better from error
        if isinstance(result, dict):
            result = Batch(result)
        fields = result.__dict__
        stored = fields.get("policy")
        extra = {} if stored is None else tree.storable(stored)
        self.dist, self.dist_rows = fields.get("dist"), len(ids_R)
        act_RA, next_RH = result.act, fields.get("state")
        if next_RH is not None or self.episodes.hidden is not None:
            extra |= self._keep_hidden(hidden_RH, next_RH, where)
        return act_RA if isinstance(act_RA, np.ndarray) else to_numpy(act_RA), extra

    def _choose_natively(self, obs_RO: object, where: Ids | None) -> tuple[Any, dict[str, Any]]:
        """Choose actions in Rust.

        :return: the actions, None where the policy must choose them; and what is stored of the choice.
        """
        if self.chooser.state_form is None:
            return self.chooser.step(obs_RO)[0], {}
        hidden_RH = tree.take(self.episodes.hidden, where)
        act_RA, next_RH = self.chooser.step(obs_RO, hidden_RH)
        return act_RA, {} if act_RA is None else self._keep_hidden(hidden_RH, next_RH, where)

    def _keep_hidden(self, hidden_RH: object, next_RH: object, where: Ids | None) -> dict[str, Any]:
        """Keep a hidden state for the next step.

        :return: the one before the step as it is stored, if there is one.
        """
        self.episodes.hidden = tree.put(self.episodes.hidden, where, next_RH, self.episodes.env_num)
        if next_RH is None:
            return {}
        before_RH = tree.without(next_RH if hidden_RH is None else hidden_RH, tree.EXPLORATION)
        if before_RH is None:
            return {}
        before_RH = tree.storable(before_RH)
        return {"hidden_state": tree.zeros(before_RH) if hidden_RH is None else before_RH}

    def mapped(self, act_RA: object) -> Any:
        """Return actions in the environment's form.

        :raises ArgumentError: they have no axis for the environments, as one action for all has.
        """
        mapped_RA = self.policy.map_action(act_RA)
        space, shape = self.action_space, self.action_shape
        if shape and getattr(mapped_RA, "ndim", None) == len(shape) == getattr(act_RA, "ndim", None):
            check_shape(mapped_RA, space, batch=True)
        return mapped_RA
