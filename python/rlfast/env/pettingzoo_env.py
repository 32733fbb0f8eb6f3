"""PettingZoo's environments, in which several agents act in turn, as single environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.utils.arguments.checks import ArgumentError


class PettingZooEnv(gym.Env[Any, Any]):
    """Presents a PettingZoo environment (AEC) as one Gymnasium environment; each step is one agent's turn.

    An observation is a dict with ``agent_id``, the agent whose turn it is; ``obs``, the observation of this agent; and,
    for discrete actions, ``mask``, bools ``(n,)`` that are True for legal actions. The reward is a float64 vector with
    one entry for each of ``agents``. All vector environments in Tianshou's protocol can run it.

    ``observation_space`` and ``action_space`` are the spaces of a single agent.

    :param env: a PettingZoo environment (AEC) whose agents all have the same spaces.
    :raises ArgumentError: the agents have different spaces.

    >>> from pettingzoo.classic import tictactoe_v3                      # doctest: +SKIP
    >>> env = PettingZooEnv(tictactoe_v3.env())                          # doctest: +SKIP
    >>> obs, info = env.reset(seed=0)                                    # doctest: +SKIP
    >>> obs["agent_id"], obs["obs"].shape, obs["mask"].sum()             # doctest: +SKIP
    ('player_1', (3, 3, 2), np.int64(9))
    """

    shows_its_space = False
    """Observations are dicts, not elements of ``observation_space``, so worker processes send them pickled."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.agents: list[str] = list(env.possible_agents)
        self.agent_idx = {agent: i for i, agent in enumerate(self.agents)}
        self.observation_space = self._common_space("observation_space")
        self.action_space = self._common_space("action_space")
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.rewards: NDArray[np.float64] = np.zeros(len(self.agents))
        self.reset()

    def _common_space(self, name: str) -> gym.Space[Any]:
        spaces = {agent: getattr(self.env, name)(agent) for agent in self.agents}
        first: gym.Space[Any] = spaces[self.agents[0]]
        for agent, space in spaces.items():
            if space != first:
                raise ArgumentError(
                    f"all agents need the same {name}, but that of {self.agents[0]} is {first} and that of {agent} is "
                    f"{space}: use supersuit's pad_{name}s_v0 around the game first"
                )
        return first

    @property
    def num_agents(self) -> int:
        """How many agents play."""
        return len(self.agents)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new game.

        :param seed: the seed; None to continue with the present random state.
        :param options: given to the environment's ``reset``.
        :return: the observation and the info of the agent that acts first.
        """
        self.env.reset(seed=seed, options=options)
        self.rewards = np.zeros(len(self.agents))
        obs, *_, info = self._turn()
        return obs, info

    def step(self, action: Any) -> tuple[Any, NDArray[np.float64], bool, bool, dict[str, Any]]:
        """Makes the turn of the agent named by ``agent_id`` of the last observation.

        :param action: an element of ``action_space``.
        :return: ``(obs, rewards, terminated, truncated, info)``, where ``rewards`` has the rewards ``(agents,)`` of all
            agents, and the other values belong to the agent that acts next.
        """
        self.env.step(action)
        self.rewards = np.zeros(len(self.agents))
        for agent, reward in self.env.rewards.items():  # agents that have left the game are missing
            self.rewards[self.agent_idx[agent]] = reward
        obs, terminated, truncated, info = self._turn()
        return obs, self.rewards, terminated, truncated, info

    def _turn(self) -> tuple[dict[str, Any], bool, bool, dict[str, Any]]:
        agent_obs, _, terminated, truncated, info = self.env.last()
        agent = self.env.agent_selection
        obs = {"agent_id": agent, "obs": agent_obs}
        if isinstance(agent_obs, dict) and "action_mask" in agent_obs:
            obs |= {"obs": agent_obs["observation"], "mask": np.asarray(agent_obs["action_mask"]) == 1}
        elif isinstance(self.action_space, gym.spaces.Discrete):
            obs["mask"] = np.ones(int(self.action_space.n), dtype=bool)
        return obs, bool(terminated), bool(truncated), dict(info)

    def seed(self, seed: int | None = None) -> None:
        """Starts a new game with a seed.

        :param seed: the seed; None to continue with the present random state.
        """
        self.reset(seed=seed)

    def render(self) -> Any:
        """Renders the game; returns what PettingZoo's ``render`` returns."""
        return self.env.render()

    def close(self) -> None:
        """Closes the game."""
        self.env.close()
