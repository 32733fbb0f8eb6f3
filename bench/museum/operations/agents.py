"""A game of several agents, for PettingZoo."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np


def as_aec(lives: list[int]) -> tuple[Any, Any]:
    """Returns a game whose ``turns`` counts the actions of each agent, and its environment of turns."""
    from gymnasium.spaces import Box, Discrete
    from pettingzoo import ParallelEnv
    from pettingzoo.utils import parallel_to_aec

    class Game(ParallelEnv):  # type: ignore[misc]
        metadata: ClassVar = {"name": "game", "is_parallelizable": True}
        possible_agents = [f"agent {number}" for number in range(len(lives))]  # noqa: RUF012
        render_mode = None
        turns = dict.fromkeys(possible_agents, 0)

        def observation_space(self, agent: str) -> Any:
            return Box(0, 9, (1,), np.float32)

        def action_space(self, agent: str) -> Any:
            return Discrete(2)

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            self.time, self.agents = 0, self.possible_agents[:]
            return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

        def step(self, actions: dict[str, Any]) -> Any:
            self.time += 1
            live = self.agents
            for agent in live:
                Game.turns[agent] += 1
            dead = {agent: self.time >= lives[self.possible_agents.index(agent)] for agent in live}
            self.agents = [agent for agent in live if not dead[agent]]
            obs = {agent: np.full(1, self.time, np.float32) for agent in live}
            return obs, dict.fromkeys(live, 1.0), dead, dict.fromkeys(live, False), {agent: {} for agent in live}

    return Game, parallel_to_aec(Game())
