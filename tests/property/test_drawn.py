"""Random programs contain every operation, in states in which it has an effect."""

from collections import Counter
from random import Random

import pytest

from property import samples
from property.buffers import Buffers, Cached
from property.programs import STORAGES, random_program
from property.runner import run

EVERYWHERE = {"closed", "extended from other", "extended from itself", "extended from all", "installed"}
EVERYWHERE |= {f"sampled {unit}" for unit in ("row", "stack", "n-step", "sequence")}
EVERYWHERE |= {"filled", "filled weight"} | {f"read from {storage}" for storage in STORAGES}
EVERYWHERE |= {f"persisted by {how}" for how in ("memory", "file", "copy", "hdf5")} | {"persisted to files"}


def counted(target, seen):
    """Returns a subclass of ``target`` that counts its operations in ``seen``."""

    class Counted(target):
        def close_episode(self, ring):
            running = len(self.buffer.unfinished_index())
            super().close_episode(ring)
            seen["closed"] += len(self.buffer.unfinished_index()) < running

        def extend(self, ring, source, other):
            index = super().extend(ring, source, other)
            seen[f"extended from {source}"] += len(index) > 0
            return index

        def install(self, storage):
            seen["installed"] += len(self.buffer) > 0
            super().install(storage)

        def persist(self, how):
            seen[f"persisted by {how}"] += len(self.buffer) > 0
            seen["persisted to files"] += len(self.buffer) > 0 and how in ("file", "hdf5")
            return super().persist(how)

        def compare(self, model, random):
            super().compare(model, random)
            seen[f"sampled {self.config.unit}"] += len(model.candidates()) > 0
            seen[f"read from {self.place if self.place in STORAGES else 'folder'}"] += len(self.buffer) > 0

    return Counted


@pytest.mark.parametrize("target", [Buffers, Cached])
def test_every_operation_has_something_to_do(target, monkeypatch):
    seen, fill = Counter(), samples.filled

    def filled(subject, model, random, size):
        batch, index = fill(subject, model, random, size)
        plain = subject.config.unit in ("row", "stack")
        seen["filled"] += plain
        seen["filled weight"] += plain and "weight" in batch
        return batch, index

    monkeypatch.setattr(samples, "filled", filled)
    for seed in range(45):
        run(random_program(Random(seed), 60, objects=True), counted(target, seen), every=12)
    assert {what: seen[what] for what in EVERYWHERE if seen[what] < 3} == {}
