"""The rows of one agent in a buffer whose agents act in turn."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlfast.data import Batch, ReplayBuffer
from rlfast.policy.components.returns import Index


class Turns(NamedTuple):
    """What followed B actions of an agent, until its next turn."""

    reward: NDArray[np.float64]
    """Sums of the agent's rewards, its own action's and those of the agents after it, ``[B]``."""
    last: Index
    """The last row before the agent's next turn, ``[B]``. Its ``obs_next`` is what the agent sees next."""
    terminated: NDArray[np.bool_]
    """Whether the episode ended in a terminal state before the next turn, ``[B]``."""
    truncated: NDArray[np.bool_]
    """Whether it was cut off, ``[B]``."""
    known: NDArray[np.bool_]
    """Whether the next turn, or the end of the episode, has come already, ``[B]``."""

    def of(self, place: NDArray[Any]) -> "Turns":
        """Return some of the turns."""
        parts: list[Any] = [part[place] for part in self]
        return Turns(*parts)


_COLUMNS: dict[str, tuple[str, type]] = {
    "rew": ("reward", np.float64),
    "terminated": ("terminated", np.bool_),
    "truncated": ("truncated", np.bool_),
}
"""Fields of :class:`Turns` of all rows, by the names of the buffer's columns, and their dtypes."""


class AgentRows:
    """A buffer as one agent knows it: from one of its turns to the next, what the others do is part of the environment.

    Rows keep their indices in the buffer. The methods that algorithms call see transitions of this agent alone: rewards
    are summed until its next turn, the next observation is that of its next turn, and an episode that ends in another's
    turn ends with the agent's last row. All other attributes are the buffer's.

    :param buffer: the buffer. The ``obs`` of its rows have ``agent_id``, and their ``rew`` one column for each agent.
    :param agent: the ``agent_id``.
    :param column: the agent's column of ``rew``.
    """

    def __init__(self, buffer: ReplayBuffer, agent: str, column: int) -> None:
        self._buffer = buffer
        self._agent = agent
        self._column = column

    def __getattr__(self, name: str) -> Any:
        if name == "_buffer":  # while a copy is made
            raise AttributeError(name)
        if name == "done":
            return self.terminated | self.truncated
        return self._whole(*_COLUMNS[name]) if name in _COLUMNS else getattr(self._buffer, name)

    def __len__(self) -> int:
        return len(self._buffer)

    def turns(self, rows: Index) -> Turns:
        """Return what followed the agent's actions.

        :param rows: rows of this agent, ``[B]``.
        """
        reward, last = self._reward(rows), rows.copy()
        open_ = ~self._ends(rows) & ~self._sees_next(rows)
        while open_.any():
            place = np.flatnonzero(open_)
            after = np.asarray(self._buffer.next(last[place]))
            newest = after == last[place]
            open_[place[newest]] = False
            place, after = place[~newest], after[~newest]
            last[place] = after
            reward[place] += self._reward(after)
            open_[place] = ~self._ends(after) & ~self._sees_next(after)
        terminated, truncated = self._own_flags(last)
        shows_end = truncated & self._at(last, "done")  # who is cut off in a game that goes on sees no last observation
        return Turns(reward, last, terminated, truncated, terminated | shows_end | self._sees_next(last))

    def transitions(self, batch: Any, turns: Turns) -> Any:
        """Replace in rows what differs for this agent.

        :param batch: rows of the buffer, ``[B]``.
        :param turns: what followed them.
        :return: the same batch.
        """
        batch.rew = turns.reward
        batch.terminated, batch.truncated = turns.terminated, turns.truncated
        batch.done = turns.terminated | turns.truncated
        batch.obs = seen(batch.obs)
        batch.obs_next = seen(self._buffer.get(turns.last, "obs_next"))
        if "policy" in batch:
            batch.policy = self.own_state(batch.policy)
        return batch

    # -- what algorithms call ------------------------------------------------------------------------------------------

    def __getitem__(self, index: object) -> Any:
        rows = np.asarray(index, np.int64).reshape(-1)
        return self.transitions(self._buffer[rows], self.turns(rows))

    def get(self, index: object, key: str, default_value: object = None, stack_num: int | None = None) -> Any:
        """Return one field of rows; see :meth:`rlfast.data.ReplayBuffer.get`."""
        rows = np.asarray(index, np.int64).reshape(-1)
        if key == "obs_next":
            return seen(self._buffer.get(self.turns(rows).last, key))
        if key in ("rew", "terminated", "truncated", "done"):
            return self[rows][key]
        value = self._buffer.get(rows, key, default_value, stack_num)
        if key == "obs":
            return seen(value)
        return self.own_state(value) if key == "policy" else value

    def next(self, index: object) -> Index:
        """Return the agent's next row in the episode; the row itself if there is none."""
        rows = np.array(index, np.int64).reshape(-1)
        after, is_later = self._after(self.turns(rows))
        rows[is_later] = after[is_later]
        return rows

    def prev(self, index: object) -> Index:
        """Return the agent's row before each row in the episode; the row itself if there is none."""
        rows = np.array(index, np.int64).reshape(-1)
        before, place = rows.copy(), np.arange(len(rows))
        while len(place):
            earlier = np.asarray(self._buffer.prev(before[place]))
            moved = earlier != before[place]
            place, earlier = place[moved], earlier[moved]
            before[place] = earlier
            mine = self._acts(earlier)
            rows[place[mine]] = earlier[mine]
            place = place[~mine]
        return rows

    def unfinished_index(self) -> Index:
        """Return the agent's newest row of each running episode whose next turn is known."""
        newest = np.asarray(self._buffer.unfinished_index(), np.int64)
        rows = np.where(self._acts(newest), newest, self.prev(newest))
        rows = rows[self._acts(rows)]
        return np.where(self.turns(rows).known, rows, self.prev(rows))

    def nstep(
        self, indices: Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
        """Return sums of rewards over n of the agent's turns; see :meth:`rlfast.data.ReplayBuffer.nstep`."""
        last = np.array(indices, np.int64)
        total, factor, terminated = np.zeros(len(last)), np.ones(len(last)), np.zeros(len(last), bool)
        place, rows, turns = np.arange(len(last)), last.copy(), self.turns(last)
        for step in range(n_step):
            last[place], terminated[place] = rows, turns.terminated
            total[place] += factor[place] * turns.reward
            factor[place] *= gamma
            after, is_later = self._after(turns)
            if step + 1 == n_step or not is_later.any():
                break
            place, rows = place[is_later], after[is_later]
            turns = self.turns(rows)
            place, rows, turns = place[turns.known], rows[turns.known], turns.of(turns.known)
        return total, np.where(terminated, 0.0, factor), last

    # -- parts of rows -------------------------------------------------------------------------------------------------

    def own_state(self, policy: object) -> Any:
        """Replace the hidden states of all agents by that of this one, in what policies have stored."""
        if not isinstance(policy, Batch) or "hidden_state" not in policy:
            return policy
        state = policy.hidden_state.get(self._agent)
        others = {key: value for key, value in policy.items() if key != "hidden_state"}
        return Batch(others) if state is None else Batch(others, hidden_state=state)

    def _after(self, turns: Turns) -> tuple[Index, NDArray[np.bool_]]:
        """Return the row after each turn, and whether it is one of the same episode."""
        after = np.asarray(self._buffer.next(turns.last))
        return after, ~(turns.terminated | turns.truncated) & (after != turns.last)

    def _whole(self, name: str, dtype: Any) -> Any:
        rows = self._buffer.sample_indices(0)
        rows = rows[self._acts(rows)]
        column = np.zeros(self._buffer.maxsize, dtype)
        column[rows] = getattr(self.turns(rows), name)
        return column

    def _reward(self, rows: Index) -> NDArray[np.float64]:
        reward = np.asarray(self._buffer.get(rows, "rew", stack_num=1), np.float64)
        return reward[:, self._column]

    def _at(self, rows: Index, flag: str) -> NDArray[np.bool_]:
        return np.asarray(self._buffer.get(rows, flag, stack_num=1), np.bool_)

    def _own_flags(self, rows: Index) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether the agent has terminated, and whether it was cut off, in rows or before.

        An agent may leave a game that goes on: infos of :class:`~rlfast.env.PettingZooEnv` have flags of each agent.
        """
        terminated, truncated = self._at(rows, "terminated"), self._at(rows, "truncated")
        info = self._buffer.get(rows, "info", Batch(), stack_num=1)
        if not (isinstance(info, Batch) and "terminations" in info and "truncations" in info):
            return terminated, truncated
        left, cut = (np.asarray(info[key], np.bool_)[:, self._column] for key in ("terminations", "truncations"))
        own = left | cut
        return np.where(own, left, terminated), np.where(own, cut & ~left, truncated)

    def _ends(self, rows: Index) -> NDArray[np.bool_]:
        terminated, truncated = self._own_flags(rows)
        return terminated | truncated

    def _acts(self, rows: Index) -> NDArray[np.bool_]:
        return is_turn_of(self._agent, self._buffer.get(rows, "obs", stack_num=1))

    def _sees_next(self, rows: Index) -> NDArray[np.bool_]:
        sees = is_turn_of(self._agent, self._buffer.get(rows, "obs_next", stack_num=1))
        if self._buffer.options.get("ignore_obs_next"):  # the newest rows have their own observations there
            sees &= ~np.isin(rows, self._buffer.unfinished_index())
        return sees


def is_turn_of(agent: str, obs: Any) -> NDArray[np.bool_]:
    """Return in which observations it is the turn of an agent.

    :param agent: the agent.
    :param obs: observations with ``agent_id``, ``[B]``.
    """
    return np.asarray(np.asarray(obs.agent_id) == agent, np.bool_).reshape(-1)


def seen(obs: object) -> Any:
    """Return observations as a single agent has them: ``obs`` and ``mask``, or ``obs.obs`` alone without a mask."""
    if not isinstance(obs, Batch) or "obs" not in obs:
        return obs
    return Batch(obs=obs.obs, mask=obs.mask) if "mask" in obs else obs.obs
