"""What takes part in an experiment."""

import os
from dataclasses import dataclass

from rlfast.data.collect.collector import Collector
from rlfast.highlevel.env import Environments
from rlfast.highlevel.logger import TLogger
from rlfast.policy import BasePolicy
from rlfast.trainer import BaseTrainer


@dataclass
class World:
    """The objects and folders of an experiment."""

    envs: Environments
    policy: BasePolicy
    train_collector: Collector
    test_collector: Collector
    logger: TLogger
    persist_directory: str
    restore_directory: str | None
    trainer: BaseTrainer | None = None

    def persist_path(self, filename: str) -> str:
        """Returns the path of a file in the folder of this run.

        :param filename: its name.
        """
        return os.path.join(self.persist_directory, filename)  # noqa: PTH118 (a text)

    def restore_path(self, filename: str) -> str:
        """Returns the path of a file in the folder from which a policy is restored.

        :param filename: its name.
        :raises ValueError: if there is no such folder.
        """
        if self.restore_directory is None:
            raise ValueError("there is no folder to restore from: set policy_restore_directory")
        return os.path.join(self.restore_directory, filename)  # noqa: PTH118
