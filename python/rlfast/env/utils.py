"""Another import path of type aliases for environments and of :class:`CloudpickleWrapper`."""

from __future__ import annotations

from typing import Any, TypeAlias

import gymnasium as gym
from numpy.typing import NDArray

from rlfast.env.pettingzoo_env import PettingZooEnv
from rlfast.env.process.serialization import by_value

ENV_TYPE: TypeAlias = gym.Env | PettingZooEnv
"""The type of a single environment."""
gym_new_venv_step_type: TypeAlias = tuple[  # noqa: PYI042 (a public name)
    NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]
]
"""The type of ``(obs, rew, terminated, truncated, info)``, which a step of a vector environment returns."""


class CloudpickleWrapper:
    """Lets :mod:`pickle` pickle objects that only cloudpickle can pickle, such as lambdas.

    :param data: the object; the attribute ``data`` of the unpickled wrapper is a copy of it.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(CloudpickleWrapper(lambda: 3))).data()
    3
    """

    def __init__(self, data: object) -> None:
        self.data = data

    def __getstate__(self) -> bytes:
        return by_value(self.data)

    def __setstate__(self, data: bytes) -> None:
        import cloudpickle

        self.data = cloudpickle.loads(data)
