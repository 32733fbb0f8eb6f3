"""Saving and restoring policies, and what belongs to them, beside the checkpoints of a run."""

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import torch

from rlfast.experiment.checkpoint import load_policy
from rlfast.highlevel.world import World
from rlfast.policy import BasePolicy

log = logging.getLogger(__name__)


class PersistEvent(Enum):
    """What was saved."""

    PERSIST_POLICY = "persist_policy"


class RestoreEvent(Enum):
    """What was restored."""

    RESTORE_POLICY = "restore_policy"


class Persistence(ABC):
    """The interface of what is saved and restored with a policy."""

    @abstractmethod
    def persist(self, event: PersistEvent, world: World) -> None:
        """Saves.

        :param event: what was saved before.
        :param world: the experiment.
        """

    @abstractmethod
    def restore(self, event: RestoreEvent, world: World) -> None:
        """Restores.

        :param event: what was restored before.
        :param world: the experiment.
        """


class PersistenceGroup(Persistence):
    """Several of these.

    :param p: the members.
    :param enabled: whether they save; they restore in any case.
    """

    def __init__(self, *p: Persistence, enabled: bool = True) -> None:
        self.items = p
        self.enabled = enabled

    def persist(self, event: PersistEvent, world: World) -> None:
        for item in self.items if self.enabled else ():
            item.persist(event, world)

    def restore(self, event: RestoreEvent, world: World) -> None:
        for item in self.items:
            item.restore(event, world)


@dataclass(eq=False, repr=False)
class PolicyPersistence:
    """Saves the policy with the best test so far, in a file of torch.

    :param additional_persistence: saves and restores more.
    :param enabled: whether it saves; it restores in any case.
    :param mode: what it saves of the policy.
    """

    class Mode(Enum):
        """What is saved of a policy: its state, or all of it, which is pickled."""

        POLICY_STATE_DICT = "policy_state_dict"
        POLICY = "policy"

        def get_filename(self) -> str:
            """Returns the name of the file."""
            return f"{self.value}.pt"

    additional_persistence: Persistence | None = None
    enabled: bool = True
    mode: Mode = Mode.POLICY

    def persist(self, policy: torch.nn.Module, world: World) -> None:
        """Saves the policy.

        :param policy: the policy.
        :param world: the experiment.
        """
        if not self.enabled:
            return
        path = Path(world.persist_path(self.mode.get_filename()))
        try:
            torch.save(policy if self.mode is self.Mode.POLICY else policy.state_dict(), path)
        except (AttributeError, TypeError) as error:  # pickle cannot find a class or function
            path.unlink(missing_ok=True)
            warnings.warn(f"{path} was not written: {error}; use Mode.POLICY_STATE_DICT", stacklevel=2)
        if self.additional_persistence is not None:
            self.additional_persistence.persist(PersistEvent.PERSIST_POLICY, world)

    def restore(self, policy: BasePolicy, world: World, device: str | torch.device) -> None:
        """Restores the policy from its file, or from the checkpoint of a run.

        :param policy: a policy of the same structure.
        :param world: the experiment.
        :param device: where the policy is.
        """
        path = Path(world.restore_path(self.mode.get_filename()))
        if path.exists():
            saved = torch.load(path, map_location=device, weights_only=False)  # the user's own file
            policy.load_state_dict(saved if isinstance(saved, dict) else saved.state_dict())
        else:
            load_policy(Path(world.restore_path("checkpoint")), policy)
        log.info("restored the policy of %s", world.restore_directory)
        if self.additional_persistence is not None:
            self.additional_persistence.restore(RestoreEvent.RESTORE_POLICY, world)

    def get_save_best_fn(self, world: World) -> Callable[[torch.nn.Module], None]:
        """Returns a trainer's ``save_best_fn``.

        :param world: the experiment.
        """
        return lambda policy: self.persist(policy, world)

    def get_save_checkpoint_fn(self, world: World) -> Callable[[int, int, int], str]:
        """Returns a trainer's ``save_checkpoint_fn``, which saves the newest policy.

        :param world: the experiment.
        """

        def save(*_: int) -> str:
            self.persist(world.policy, world)
            return world.persist_path(self.mode.get_filename())

        return save
