"""Saving and restoring policies, and what belongs to them, beside the checkpoints of a run."""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors import torch as tensors_file

from rlfast.data.plain_data import WRONG_DATA, pack, summary, unpack
from rlfast.experiment.checkpoint import load_policy
from rlfast.highlevel.world import World
from rlfast.policy import BasePolicy
from rlfast.utils.runtime.files import replace_file

log = logging.getLogger(__name__)

_STATE = "state"
_ARRAY = "array."


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
    """Saves the policy with the best test so far, as safetensors: its weights, and the rest of its state beside them.

    :param additional_persistence: saves and restores more.
    :param enabled: whether it saves; it restores in any case.
    :param mode: the name of the file.
    :param allow_pickle: whether files that older versions pickled may be restored, which runs code that they name.
    """

    class Mode(Enum):
        """The name of the file of a policy. Either holds its state; no policy is pickled."""

        POLICY_STATE_DICT = "policy_state_dict"
        POLICY = "policy"

        def get_filename(self) -> str:
            """Returns the name of the file."""
            return f"{self.value}.safetensors"

    additional_persistence: Persistence | None = None
    enabled: bool = True
    mode: Mode = Mode.POLICY
    allow_pickle: bool = False

    def persist(self, policy: torch.nn.Module, world: World) -> None:
        """Saves the policy.

        :param policy: the policy.
        :param world: the experiment.
        :raises TypeError: if a part of its state is not plain data.
        """
        if not self.enabled:
            return
        replace_file(Path(world.persist_path(self.mode.get_filename())), _written(policy.state_dict()))
        if self.additional_persistence is not None:
            self.additional_persistence.persist(PersistEvent.PERSIST_POLICY, world)

    def restore(self, policy: BasePolicy, world: World, device: str | torch.device) -> None:
        """Restores the policy from its file, or from the checkpoint of a run.

        :param policy: a policy of the same structure.
        :param world: the experiment.
        :param device: where the policy is.
        :raises ValueError: if the file is damaged, or a pickle and ``allow_pickle`` is False.
        """
        path = Path(world.restore_path(self.mode.get_filename()))
        pickled = path.with_name(f"{self.mode.value}.pt")
        if path.is_file():
            policy.load_state_dict(_read(path))
        elif not pickled.exists():
            load_policy(Path(world.restore_path("checkpoint")), policy)
        elif not self.allow_pickle:
            raise ValueError(
                f"{pickled} is a pickle of an older version, and to load it runs code that it names: pass "
                "allow_pickle=True if you trust where the folder comes from, or remove the file to restore the "
                "checkpoint beside it"
            )
        else:
            saved = torch.load(pickled, map_location=device, weights_only=False)  # allowed by the caller
            policy.load_state_dict(saved if isinstance(saved, dict) else saved.state_dict())
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


def _written(state: dict[str, Any]) -> bytes:
    """Returns a policy's state as safetensors; what is no weight is JSON in its metadata, and arrays."""
    extra = {name: value for name, value in state.items() if not isinstance(value, torch.Tensor)}
    text, arrays = pack(extra)
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in state.items() if name not in extra}
    others = {f"{_ARRAY}{name}": torch.from_numpy(array) for name, array in arrays.items()}
    return tensors_file.save(weights | others, {_STATE: text})


def _read(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    try:
        tensors = tensors_file.load(content)
        text = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][_STATE]
        others = {name: tensors.pop(name).numpy() for name in list(tensors) if name.startswith(_ARRAY)}
        extra = unpack(text, {name.removeprefix(_ARRAY): array for name, array in others.items()})
        return tensors | dict(extra)
    except (*WRONG_DATA, SafetensorError) as error:
        raise ValueError(f"{path} is damaged, or holds no policy: {summary(error)}") from error
