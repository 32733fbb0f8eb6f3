"""The driver of vector environments: rlfast's, Gymnasium's two, and EnvPool's with and without rlfast's adapter.

``VARIANT`` selects one of them.
"""

from __future__ import annotations

from importlib.metadata import version
from itertools import cycle, islice
from typing import Any

import numpy as np

VARIANT = ""


def versions() -> dict[str, str]:
    library = "gymnasium" if VARIANT in {"sync", "vector_entry_point"} else VARIANT.rpartition(" ")[2]
    return {library: version(library), "numpy": np.__version__}


def make(id: str, num_envs: int) -> Any:
    """Returns the vector environment of the variant, with its default arguments."""
    if VARIANT == "rlfast":
        from rlfast.env import NativeVectorEnv

        return NativeVectorEnv(id, num_envs)
    if VARIANT.endswith("envpool"):
        import envpool

        envs = envpool.make_gymnasium(id, num_envs=num_envs, seed=0)
        if VARIANT == "envpool":
            return envs
        from rlfast.env import as_vector_env

        return as_vector_env(envs)
    import gymnasium

    return gymnasium.make_vec(id, num_envs, vectorization_mode=VARIANT)


def vector_step(id: str, num_envs: int) -> dict[str, Any]:
    """Prepares steps with random actions and automatic resets."""
    envs = make(id, num_envs)
    envs.reset(**({} if VARIANT.endswith("envpool") else {"seed": 0}))
    single = envs.action_space if VARIANT == "envpool" else envs.single_action_space
    rng = np.random.default_rng(0)
    if single.shape:
        rounds = rng.uniform(single.low, single.high, (64, num_envs, *single.shape)).astype(single.dtype)
    else:
        rounds = rng.integers(0, single.n, (64, num_envs)).astype(single.dtype)
    actions = cycle(list(rounds))

    def step(count: int) -> None:
        for action in islice(actions, count):
            envs.step(action)

    step(300)
    return {"step": step}
