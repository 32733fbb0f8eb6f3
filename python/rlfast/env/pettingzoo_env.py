"""PettingZoo's environments, in which several agents act in turn, as single environments."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from rlfast.utils.arguments.checks import ArgumentError


class PettingZooEnv(gym.Env[Any, Any]):
    """Presents a PettingZoo environment (AEC) as one Gymnasium environment; each step is one agent's turn.

    An observation is a dict with ``agent_id``, the agent whose turn it is; ``obs``, the observation of this agent; and,
    for discrete actions, ``mask``, bools ``(n,)`` that are True for legal actions. The reward is a float64 vector with
    one entry for each of ``agents``. All vector environments without an autoreset mode can run it.

    An agent that leaves the game (it dies, or its time is over) has no further turn, and the others play on: the
    episode ends when no agent is left. After each step, the info has ``terminations`` and ``truncations``, bools
    ``(agents,)``: which agents have left the game so far, and how.

    ``observation_space`` and ``action_space`` are the spaces of a single agent.

    :param env: a PettingZoo environment (AEC) whose agents all have the same spaces.
    :raises ArgumentError: the agents have different spaces, or act all at once.

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
        if not hasattr(env, "observe"):
            raise ArgumentError(f"agents of a {type(env).__name__} act at once: use pettingzoo.utils.parallel_to_aec")
        self.metadata = dict(env.metadata)
        self.render_mode = getattr(env, "render_mode", None)
        self.spec = EnvSpec(re.sub(r"[^\w:.-]", "_", str(self.metadata.get("name") or type(env).__name__)))
        self.rewards: NDArray[np.float64] = np.zeros(len(self.agents))
        self._ends = np.zeros((2, len(self.agents)), dtype=bool)  # which agents have terminated, which were cut off
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
        self._ends = np.zeros((2, len(self.agents)), dtype=bool)
        return self._observe()

    def step(self, action: int | NDArray[Any] | None) -> tuple[Any, NDArray[np.float64], bool, bool, dict[str, Any]]:
        """Makes the turn of the agent named by ``agent_id`` of the last observation.

        :param action: an element of ``action_space``.
        :return: ``(obs, rewards, terminated, truncated, info)``: the observation and the info of the agent that acts
            next; the rewards ``(agents,)`` of all agents; and whether the game is over. A game whose last agents were
            cut off, not all of them terminated, is truncated.
        :raises ArgumentError: an agent stays in the game after its end.
        """
        acted = self.env.agent_selection
        last = ~self._ends.any(axis=0)  # the agents that play this turn; if it ends the game, these are the last ones
        self.env.step(action)
        self.rewards = np.zeros(len(self.agents))
        for agent, reward in self.env.rewards.items():  # agents that have left the game are missing
            self.rewards[self.agent_idx[agent]] = reward
        live = self._note_ends()
        for _ in self.agents:
            if not live or self.env.agent_selection in live:
                break
            self.env.step(None)  # PettingZoo removes an agent that has left when its turn comes
            live = self._note_ends()
        if live and self.env.agent_selection not in live:
            raise ArgumentError(f"{self.env.agent_selection} has a turn again after its end, while {live} are playing")
        obs, info = self._observe(acted)
        terminations, truncations = self._ends.copy()
        info |= {"terminations": terminations, "truncations": truncations}
        truncated = not live and any(truncations[last] & ~terminations[last])
        return obs, self.rewards, not live and not truncated, truncated, info

    def _note_ends(self) -> list[str]:
        """Records which agents have left the game; returns those that play on."""
        for kind, flags in enumerate((self.env.terminations, self.env.truncations)):
            for agent, over in flags.items():  # agents that have left the game are missing
                self._ends[kind, self.agent_idx[agent]] |= bool(over)
        return [agent for agent in self.env.agents if not self._ends[:, self.agent_idx[agent]].any()]

    def _observe(self, acted: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the observation and the info of the agent that acts next; of ``acted`` if no agent is left."""
        agent = self.env.agent_selection if self.env.agents else acted
        agent_obs, info = self.env.observe(agent), self.env.infos.get(agent, {})
        obs = {"agent_id": agent, "obs": agent_obs}
        if isinstance(agent_obs, dict) and "action_mask" in agent_obs:
            obs |= {"obs": agent_obs["observation"], "mask": np.asarray(agent_obs["action_mask"]) == 1}
        elif isinstance(self.action_space, gym.spaces.Discrete):
            obs["mask"] = np.ones(int(self.action_space.n), dtype=bool)
        return obs, dict(info)

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
