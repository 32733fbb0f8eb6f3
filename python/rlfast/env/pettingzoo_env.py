"""Games of several agents who take turns, as PettingZoo has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PettingZooEnv(gym.Env[Any, Any]):
    """A game of PettingZoo (AEC) as one environment: whoever's turn it is acts.

    An observation is a dict of ``agent_id``, whose turn it is; ``obs``, what that agent sees; and, where actions are
    discrete, ``mask``, ``(n,)`` bools of those that are legal. The reward is a vector, one entry for each of
    ``agents``: what the step gave to each. It runs in vector environments of all kinds, in Tianshou's protocol.

    ``observation_space`` and ``action_space`` are those of each agent, as PettingZoo has them.

    :param env: all its agents have the same spaces.
    :raises ValueError: they have not.

    >>> from pettingzoo.classic import tictactoe_v3                      # doctest: +SKIP
    >>> env = PettingZooEnv(tictactoe_v3.env())                          # doctest: +SKIP
    >>> obs, info = env.reset(seed=0)                                    # doctest: +SKIP
    >>> obs["agent_id"], obs["obs"].shape, obs["mask"].sum()             # doctest: +SKIP
    ('player_1', (3, 3, 2), np.int64(9))
    """

    shows_its_space = False
    """Observations are no elements of ``observation_space``: worker processes send them pickled."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.agents: list[str] = list(env.possible_agents)
        self.agent_idx = {agent: i for i, agent in enumerate(self.agents)}
        self.observation_space = self._same("observation_space")
        self.action_space = self._same("action_space")
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.rewards: NDArray[np.float64] = np.zeros(len(self.agents))
        self.reset()

    def _same(self, name: str) -> gym.Space[Any]:
        spaces = {agent: getattr(self.env, name)(agent) for agent in self.agents}
        first: gym.Space[Any] = spaces[self.agents[0]]
        for agent, space in spaces.items():
            if space != first:
                raise ValueError(
                    f"all agents need the same {name}, but that of {self.agents[0]} is {first} and that of {agent} is "
                    f"{space}: use supersuit's pad_{name}s_v0 around the game first"
                )
        return first

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new game.

        :return: the observation of whoever begins, and the info of the same agent.
        """
        self.env.reset(seed=seed, options=options)
        self.rewards = np.zeros(len(self.agents))
        obs, *_, info = self._now()
        return obs, info

    def step(self, action: Any) -> tuple[Any, NDArray[np.float64], bool, bool, dict[str, Any]]:
        """Acts for whoever's turn it is, ``agent_id`` of the last observation.

        :param action: of ``action_space``; the game is over for an agent that is terminated or truncated.
        :return: what the next agent sees and whether the game is over for it, and the rewards ``(agents,)`` of all.
        """
        self.env.step(action)
        self.rewards = np.zeros(len(self.agents))
        for agent, reward in self.env.rewards.items():  # agents that have left the game get nothing
            self.rewards[self.agent_idx[agent]] = reward
        obs, terminated, truncated, info = self._now()
        return obs, self.rewards, terminated, truncated, info

    def _now(self) -> tuple[dict[str, Any], bool, bool, dict[str, Any]]:
        seen, _, terminated, truncated, info = self.env.last()
        agent = self.env.agent_selection
        obs = {"agent_id": agent, "obs": seen}
        if isinstance(seen, dict) and "action_mask" in seen:
            obs |= {"obs": seen["observation"], "mask": np.asarray(seen["action_mask"]) == 1}
        elif isinstance(self.action_space, gym.spaces.Discrete):
            obs["mask"] = np.ones(int(self.action_space.n), dtype=bool)
        return obs, bool(terminated), bool(truncated), dict(info)

    def seed(self, seed: int | None = None) -> None:
        """Starts a new game with this seed."""
        self.reset(seed=seed)

    def render(self) -> Any:
        """What the game shows."""
        return self.env.render()

    def close(self) -> None:
        """Releases the game."""
        self.env.close()
