"""Resets and steps of a subset of the environments in Gymnasium's protocol, as EnvPool does."""

from __future__ import annotations

from typing import Any

from rlfast.env.vector.arguments import Ids, VectorStep
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.gymnasium_protocol import batched


class SubsetVectorEnv(BaseVectorEnv):
    """A vector environment that accepts ``id`` in Gymnasium's protocol, too."""

    def reset(self, id: Ids | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """As :meth:`BaseVectorEnv.reset`, but accepts ``id`` in Gymnasium's protocol as well.

        :param id: the environments; None for all.
        :param kwargs: as for :meth:`BaseVectorEnv.reset`.
        :return: with ``id`` in Gymnasium's protocol, the observations of these environments, one row each in the order
            of ``id``, and infos with the ``env_id`` of each row.
        """
        id = kwargs.pop("env_id", id)
        if id is None or self.autoreset_mode is None:
            return super().reset(id, **kwargs)
        ids = self._idle(id)
        obs, info = self.reset_rows(ids, **kwargs)
        self._remember(obs, ids)
        return batched(self.single_observation_space, obs), {**info.columns(), "env_id": ids}

    def step(self, action: object, id: Ids | None = None) -> VectorStep:
        """As :meth:`BaseVectorEnv.step`, but accepts ``id`` in Gymnasium's protocol as well.

        :param action: one action for each entry of ``id``; with asynchronous environments, None receives results
            without starting steps.
        :param id: the environments; None for all.
        :return: with ``id`` in Gymnasium's protocol, one row for each environment that answered, and infos with the
            ``env_id`` of each row. The rows are in the order of ``id``; those of asynchronous environments are in the
            order of arrival.
        """
        if id is None or self.autoreset_mode is None:
            return super().step(action, id)
        rows = self._rows_after(action, id)
        obs, rew, terminated, truncated, infos = self._step_result(rows, whole=False)
        return obs, rew, terminated, truncated, {**infos, "env_id": rows.env_id}
