"""Vector environments.

Adapters: ``play(makers, steps, mode, workers)`` steps environments with action 0, resets those that ended as the
library recommends, and returns, for each environment, the rows ``(obs, obs_next, rew, terminated, truncated)`` that a
learner stores. ``mode`` is Gymnasium's autoreset mode ("same", "next", "disabled") or "" for the library's own way; a
library that has not the one asked for raises ``DoesNotApply``. ``vector(makers, workers)`` returns an object with
``reset(seed)``, ``step(actions)`` and ``close()``; ``first_observations(seed, envs)`` gives the first observations of
two episodes of each of the library's environments.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np

from bench.museum.operations.rows import needs, scalar
from bench.museum.operations.scripted import SPACES, Counter, Fails, Strict, register

__all__ = [
    "actions_of_the_space",
    "episode_statistics",
    "failing_environment",
    "infos_that_differ",
    "limited_cartpole",
    "many_environments",
    "own_resets",
    "random_actions_in_mode",
    "random_state",
    "reward_statistics",
    "rows_played",
    "seeds",
    "step_before_reset",
    "stepping_the_finished",
    "turns_of_agents",
]


def rows_played(
    library: Any,
    *,
    lengths: list[int],
    end: str,
    steps: int,
    mode: str = "",
    shared: bool = False,
    workers: bool = False,
) -> Any:
    """The rows of each environment: ``obs>obs_next`` and the letter of an end. Episode ``k`` counts from ``100 k``."""
    makers = [partial(Counter, length=length, end=end, shared=shared) for length in lengths]
    played = needs(library, "play")(makers, steps, mode, workers)
    return [shown(rows) for rows in played]


def shown(rows: list[Any]) -> str:
    first = 100 * int(scalar(rows[0][0]) // 100)  # a library may have reset its environments before
    return " ".join(
        f"{round(scalar(obs)) - first}>{round(scalar(after)) - first}{'T' if terminated else 't' if truncated else ''}"
        for obs, after, _, terminated, truncated in rows
    )


def stepping_the_finished(library: Any, *, length: int) -> Any:
    """The result of stepping a finished environment without autoreset."""
    return needs(library, "step_after_the_end")([partial(Counter, length=length)] * 2, length + 1)


def episode_statistics(library: Any, *, mode: str, lengths: list[int], steps: int) -> Any:
    """Lengths and returns of finished episodes in the library's own statistics."""
    makers = [partial(Counter, length=length, end="t") for length in lengths]
    found = needs(library, "statistics")(makers, steps, mode)
    return sorted([round(float(episode_return), 4), int(length)] for episode_return, length in found)


def reward_statistics(library: Any, *, mode: str, length: int, steps: int, envs: int) -> Any:
    """The number of rewards that the reward normaliser has seen."""
    makers = [partial(Counter, length=length, end="T")] * envs
    return {"rewards": round(float(needs(library, "rewards_seen")(makers, steps, mode)))}


def failing_environment(library: Any, *, how: str, envs: int) -> Any:
    """What is reported when the second step of an environment fails."""
    makers = [partial(Counter, length=100) for _ in range(envs - 1)] + [partial(Fails, how)]
    vector = needs(library, "vector")(makers, True)
    vector.reset(0)
    vector.step(np.zeros(envs, int))
    try:
        vector.step(np.zeros(envs, int))
    except Exception as error:
        return {"raises": True, "names the cause": how != "raises" or "licence" in str(error)}
    return {"raises": False, "names the cause": False}


def step_before_reset(library: Any) -> Any:
    """Whether CartPole steps, with a reward, before its first reset."""
    return {"steps": bool(np.asarray(needs(library, "step_without_reset")()).any())}


def seeds(library: Any, *, seed: int, envs: int) -> Any:
    """Whether environments differ, runs repeat, and episodes differ."""
    make = needs(library, "first_observations")
    once, again, other = (np.asarray(make(number, envs), np.float64) for number in (seed, seed, seed + 1000))
    first, second = once
    return {
        "environments differ": len({tuple(obs.reshape(-1)) for obs in first}) == envs,
        "a seed repeats": bool(np.array_equal(once, again)),
        "another seed differs": not np.array_equal(first, other[0]),
        "episodes differ": not np.array_equal(first, second),
    }


def random_state(library: Any, *, seed: int) -> Any:
    """Whether NumPy's and Python's global random states are unchanged."""
    before = np.random.get_state()[1].tolist(), random.getstate()
    needs(library, "first_observations")(seed, 2)
    return {"numpy": np.random.get_state()[1].tolist() == before[0], "python": random.getstate() == before[1]}


def own_resets(library: Any, *, tasks: list[str], envs: int) -> Any:
    """The library's own environments that start every episode in the same state."""
    starts = needs(library, "own_starts")(tasks, envs)
    return sorted(task for task, rows in starts.items() if np.ptp(np.asarray(rows, np.float64), axis=0).max() == 0)


def infos_that_differ(library: Any, *, infos: list[list[Any]]) -> Any:
    """The infos of each environment."""
    makers = [partial(Counter, length=100, infos=[None, *values]) for values in infos]
    vector = needs(library, "vector")(makers, False)
    vector.reset(0)
    given = []
    for _ in infos[0]:
        vector.step(np.zeros(len(infos), int))
        given.append([item.item() if isinstance(item, np.generic) else item for item in vector.infos("value")])
    return given


def limited_cartpole(library: Any, *, envs: int, limit: int, steps: int) -> Any:
    """The ends of the rows of the library's own CartPole with a time limit, and the rewards of reset steps."""
    vector = needs(library, "limited_cartpole")(envs, limit)
    vector.reset()
    resets, rows, rewards = np.zeros(envs, bool), [""] * envs, 0.0
    for _ in range(steps):
        _, rew, terminated, truncated, _ = vector.step(np.zeros(envs, int))
        for place in range(envs):
            flag = "T" if terminated[place] else "t" if truncated[place] else "."
            rows[place] += "" if resets[place] else flag
        rewards += float(np.abs(np.asarray(rew)[resets]).sum())
        resets = np.asarray(terminated) | np.asarray(truncated)
    return {"rows": rows, "rewards of resets": rewards}


def many_environments(library: Any, *, envs: int) -> Any:
    """The number of rows of a vector step."""
    return {"rows": len(needs(library, "wide_step")(envs))}


def actions_of_the_space(library: Any, *, space: str, steps: int, how: str) -> Any:
    """The first action outside the space that reached an environment.

    :param how: "random": the library's random exploration; "extreme": actions of a policy that are -1 and 1.
    """
    environment = Strict(SPACES[space]())
    needs(library, f"{how}_actions")(environment, steps)
    return {"outside": environment.outside[:1], "enough": environment.seen >= steps}


def random_actions_in_mode(library: Any, *, space: str, steps: int, mode: str) -> Any:
    """The first action of random exploration outside its space, in one of Gymnasium's autoreset modes."""
    environment = Strict(SPACES[space]())
    needs(library, "random_actions_of_a_mode")(environment, steps, mode)
    return {"outside": environment.outside[:1], "enough": environment.seen >= steps}


def turns_of_agents(library: Any, *, lives: list[int]) -> Any:
    """The number of turns of each agent when agent ``i`` lives ``lives[i]`` turns."""
    return [int(turns) for turns in needs(library, "agents_turns")(lives)]


register("Counter", Counter)
