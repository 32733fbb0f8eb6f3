"""Saving and restoring the state of a collector: environments, episodes, hidden states, random generators."""

# ruff: noqa: SLF001 (a part of the collector, in a file of its own)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Box

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.collect.episodes import Episodes
from rlfast.data.plain_data import is_plain
from rlfast.env import BaseVectorEnv
from rlfast.env.backends.info import Info
from rlfast.env.state import set_space_streams, space_streams

_BATCH = "~Batch"
_TEXTS = "~texts"  # such as the names of agents
_COUNTERS = ("collect_step", "collect_episode", "collect_time")


class Collecting(Protocol):
    """What is saved and restored of a :class:`~rlfast.data.Collector`."""

    env_num: int
    collect_step: int
    collect_episode: int
    collect_time: float
    _envs: BaseVectorEnv
    _episodes: Episodes
    action_space: Any


def state_of(collector: Collecting) -> dict[str, Any]:
    """See :meth:`Collector.state_dict`."""
    episodes = collector._episodes
    info = episodes.info
    infos, obs = {"columns": info._columns, "dicts": info.dicts()}, _plain(episodes.obs)
    shown = is_plain(obs) and is_plain(infos)
    return {
        "counters": {name: getattr(collector, name) for name in _COUNTERS},
        "envs": [_env_state(collector, i, shown=shown) for i in range(collector.env_num)],
        "spaces": [space_streams(space) for space in _spaces(collector)],
        "wrappers": wrapper_states(collector._envs),
        "obs": obs if shown else None,
        "infos": infos if shown else None,
        "hidden": _plain(episodes.hidden),
    }


def check(collector: Collecting, state: dict[str, Any]) -> None:
    """Check that a state fits a collector.

    :raises ValueError: the state is of other environments: another number, other wrappers or spaces, or observations
        of another shape; or a counter is not a number.
    """
    if len(state["envs"]) != collector.env_num:
        raise ValueError(f"the state is of {len(state['envs'])} environments, this collector has {collector.env_num}")
    for what, ours in (("spaces", _spaces(collector)), ("wrappers", _wrappers(collector._envs))):
        if len(state[what]) != len(ours):
            raise ValueError(f"the state is of environments with {len(state[what])} {what}, these have {len(ours)}")
    space, obs = getattr(collector._envs, "single_observation_space", None), state["obs"]
    if isinstance(space, Box) and isinstance(obs, np.ndarray) and obs.shape[1:] != space.shape:
        raise ValueError(f"the state is of environments with observations {obs.shape[1:]}, these have {space.shape}")
    for name in _COUNTERS:
        if not isinstance(state["counters"][name], int | float):
            raise ValueError(f"{name} of a collector cannot be {state['counters'][name]!r:.50}")


def load(collector: Collecting, state: dict[str, Any]) -> dict[int, str]:
    """See :meth:`Collector.load_state_dict`."""
    check(collector, state)
    reasons = ((i, _restore_env(collector, i, own)) for i, own in enumerate(state["envs"]))
    lost = {i: why for i, why in reasons if why is not None}
    if lost:
        seeds = np.random.RandomState()
        seeds.set_state(np.random.get_state())
        collector._envs.reset_rows(list(lost), seed=seeds.randint(2**31, size=len(lost)).tolist())
        collector._episodes.stale[list(lost)] = True
    for space, streams in zip(_spaces(collector), state["spaces"], strict=True):
        set_space_streams(space, streams)
    for wrapper, own in zip(_wrappers(collector._envs), state["wrappers"], strict=True):
        wrapper.load_state_dict(own)
    for name in _COUNTERS:
        setattr(collector, name, state["counters"][name])
    episodes = collector._episodes
    episodes.obs, episodes.hidden = _unplain(state["obs"]), _unplain(state["hidden"])
    if state["infos"] is None:
        episodes.info = Info(collector.env_num)
    elif state["infos"]["columns"] is None:
        episodes.info = Info.of(state["infos"]["dicts"])
    else:
        episodes.info = Info(collector.env_num, columns=state["infos"]["columns"])
    return lost


def _env_state(collector: Collecting, i: int, *, shown: bool) -> dict[str, Any]:
    if not shown:
        return {"why": "its observations or infos hold objects"}
    if i in collector._envs.waiting_id:
        return {"why": "it was stepping"}
    try:
        flags = {name: bool(getattr(collector._episodes, name)[i]) for name in ("stale", "unstepped")}
        state = {"env": collector._envs.get_state([i])[0], **flags}
    except NotImplementedError as error:
        return {"why": str(error)}
    return state if is_plain(state) else {"why": "its state holds objects"}


def _restore_env(collector: Collecting, i: int, state: dict[str, Any]) -> str | None:
    """Restore one environment.

    :return: None, or the reason why it cannot be restored.
    """
    if "why" in state:
        return str(state["why"])
    try:
        collector._envs.set_state([state["env"]], [i])
    except (NotImplementedError, ValueError) as error:
        return str(error)
    collector._episodes.stale[i], collector._episodes.unstepped[i] = state["stale"], state.get("unstepped", False)
    return None


def _spaces(collector: Collecting) -> Sequence[Any]:
    """Return the action spaces: one for each environment, or a single one for all of them together."""
    spaces = collector.action_space
    return spaces if isinstance(spaces, list) else [spaces]


def wrapper_states(env: BaseVectorEnv) -> list[Any]:
    """Return the states of vector environment wrappers, such as statistics of observations, the outermost first.

    :param env: the vector environment.
    """
    return [wrapper.state_dict() for wrapper in _wrappers(env)]


def _wrappers(env: BaseVectorEnv) -> list[Any]:
    """Return the vector environment wrappers that have a state, such as statistics of observations."""
    found = []
    layer: Any = env
    while layer is not None:
        if hasattr(type(layer), "state_dict"):
            found.append(layer)
        layer = vars(layer).get("venv")
    return found


def _plain(tree: Any) -> Any:
    """Return ``tree`` with every ``Batch`` and every array of texts as a dict; :func:`_unplain` is the inverse."""
    if isinstance(tree, np.ndarray) and tree.dtype == object and all(type(text) is str for text in tree.flat):
        return {_TEXTS: tree.tolist()}
    if isinstance(tree, Batch):
        return {_BATCH: {key: _plain(value) for key, value in tree.__dict__.items()}}
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    return type(tree)(map(_plain, tree)) if type(tree) in (tuple, list) else tree


def _unplain(tree: Any) -> Any:
    """Return the nested values that :func:`_plain` was given."""
    if isinstance(tree, dict) and _TEXTS in tree:
        return np.array(tree[_TEXTS], dtype=object)
    if isinstance(tree, dict):
        inner = {key: _unplain(value) for key, value in tree.get(_BATCH, tree).items()}
        return wrap(inner) if _BATCH in tree else inner
    return type(tree)(map(_unplain, tree)) if type(tree) in (tuple, list) else tree
