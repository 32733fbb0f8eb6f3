"""rlfast's buffers inside Stable-Baselines3.

Each class is a subclass of Stable-Baselines3's class of that name and is given to an algorithm by
``replay_buffer_class`` or ``rollout_buffer_class``; nothing else changes::

    DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=rlfast.interop.sb3.ReplayBuffer)
"""

from rlfast.interop._hosts import missing
from rlfast.utils.runtime.extras import how_to_install

try:
    import stable_baselines3 as _host  # noqa: F401
except ImportError as error:
    raise missing(__name__, "Stable-Baselines3", how_to_install("sb3")) from error

from rlfast.interop.sb3.hindsight import HerReplayBuffer
from rlfast.interop.sb3.nstep import NStepReplayBuffer
from rlfast.interop.sb3.prioritized import PrioritizedDQN, PrioritizedReplayBuffer, PrioritizedReplayBufferSamples
from rlfast.interop.sb3.replay import DictReplayBuffer, ReplayBuffer
from rlfast.interop.sb3.rollout import DictRolloutBuffer, RolloutBuffer

__all__ = [
    "DictReplayBuffer",
    "DictRolloutBuffer",
    "HerReplayBuffer",
    "NStepReplayBuffer",
    "PrioritizedDQN",
    "PrioritizedReplayBuffer",
    "PrioritizedReplayBufferSamples",
    "ReplayBuffer",
    "RolloutBuffer",
]
