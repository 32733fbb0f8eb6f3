"""Acting and learning with PyTorch."""

from rlfast.policy.base import ActingPolicy, BasePolicy, TrainingStats
from rlfast.policy.modelfree.dqn import DQNPolicy
from rlfast.policy.random import RandomPolicy

__all__ = ["ActingPolicy", "BasePolicy", "DQNPolicy", "RandomPolicy", "TrainingStats"]
