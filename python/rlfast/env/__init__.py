"""Vector environments: several environments that are reset and stepped together, and wrappers around them."""

from rlfast.utils.runtime.extras import import_modules_on_access, needed_by

with needed_by("rlfast.env"):
    from rlfast.env.adapters import as_vector_env
    from rlfast.env.checks.checker import EnvReport, check_env
    from rlfast.env.errors import EnvFailure, WorkerDied
    from rlfast.env.native import NativeVectorEnv
    from rlfast.env.pettingzoo_env import PettingZooEnv
    from rlfast.env.ray import RayEnvWorker, RayVectorEnv
    from rlfast.env.subproc import ShmemVectorEnv, SubprocEnvWorker, SubprocVectorEnv
    from rlfast.env.vector.base import BaseVectorEnv
    from rlfast.env.vector.dummy import DummyVectorEnv
    from rlfast.env.worker import DummyEnvWorker, EnvWorker
    from rlfast.env.wrappers.normalization import VectorEnvNormObs
    from rlfast.env.wrappers.reward_normalization import VectorEnvNormReward
    from rlfast.env.wrappers.single import ContinuousToDiscrete, MultiDiscreteToDiscrete, TruncatedAsTerminated
    from rlfast.env.wrappers.vector import VectorEnvWrapper

__all__ = [
    "BaseVectorEnv",
    "ContinuousToDiscrete",
    "DummyEnvWorker",
    "DummyVectorEnv",
    "EnvFailure",
    "EnvReport",
    "EnvWorker",
    "MultiDiscreteToDiscrete",
    "NativeVectorEnv",
    "PettingZooEnv",
    "RayEnvWorker",
    "RayVectorEnv",
    "ShmemVectorEnv",
    "SubprocEnvWorker",
    "SubprocVectorEnv",
    "TruncatedAsTerminated",
    "VectorEnvNormObs",
    "VectorEnvNormReward",
    "VectorEnvWrapper",
    "WorkerDied",
    "as_vector_env",
    "check_env",
]

import_modules_on_access(__name__)
