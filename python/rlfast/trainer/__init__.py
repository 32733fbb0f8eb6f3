"""Trainers: the loops that collect transitions, update a policy and test it."""

from rlfast.utils.runtime.extras import import_modules_on_access, needed_by

with needed_by("rlfast.trainer"):
    from rlfast.trainer.base import BaseTrainer
    from rlfast.trainer.callbacks import Callback
    from rlfast.trainer.offline import OfflineTrainer
    from rlfast.trainer.offpolicy import OffpolicyTrainer
    from rlfast.trainer.onpolicy import OnpolicyTrainer
    from rlfast.trainer.utils import gather_info, test_episode

__all__ = [
    "BaseTrainer",
    "Callback",
    "OfflineTrainer",
    "OffpolicyTrainer",
    "OnpolicyTrainer",
    "gather_info",
    "test_episode",
]

import_modules_on_access(__name__)
