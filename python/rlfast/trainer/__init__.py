"""Training loops."""

from rlfast.trainer.base import BaseTrainer
from rlfast.trainer.offpolicy import OffpolicyTrainer
from rlfast.trainer.utils import gather_info, test_episode

__all__ = ["BaseTrainer", "OffpolicyTrainer", "gather_info", "test_episode"]
