"""Tianshou 1.0's path to types of environments."""

from __future__ import annotations

from typing import Any, TypeAlias

import gymnasium as gym
from numpy.typing import NDArray

from rlfast.env.pettingzoo_env import PettingZooEnv
from rlfast.env.process.protocol import cloudpickled

ENV_TYPE: TypeAlias = gym.Env | PettingZooEnv
"""An environment."""
gym_new_venv_step_type: TypeAlias = tuple[  # noqa: PYI042 - Tianshou's name
    NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]
]
"""What a step of a vector environment gives."""


class CloudpickleWrapper:
    """Lets pickle take what only cloudpickle can, such as functions without a name.

    :param data: anything.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(CloudpickleWrapper(lambda: 3))).data()
    3
    """

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getstate__(self) -> bytes:
        return cloudpickled(self.data)

    def __setstate__(self, data: bytes) -> None:
        import cloudpickle

        self.data = cloudpickle.loads(data)
