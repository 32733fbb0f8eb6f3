"""Keys that are no valid text are refused by name, and leave the buffer as it was."""

import numpy as np
import pytest

from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer

BUFFERS = {
    "one ring": lambda: ReplayBuffer(5),
    "prioritized": lambda: PrioritizedReplayBuffer(5, alpha=0.6, beta=0.4),
    "several rings": lambda: VectorReplayBuffer(10, 1),
}
INFOS = {
    "number": {"\ud800": 1},
    "object": {"\ud800": "text"},
    "nested": {"a": {"x\ud800": 2}},
    "group": {"\ud800": {"a": 1}},
    "empty group": {"\ud800": {}},
}


def row(info, rows=None):
    fields = {"obs": np.zeros(2), "act": 0, "rew": 1.0, "terminated": False, "truncated": False, "info": info}
    fields["obs_next"] = np.ones(2)
    return Batch(fields) if rows is None else Batch([fields] * rows)


@pytest.mark.parametrize("info", INFOS)
@pytest.mark.parametrize("kind", BUFFERS)
def test_a_lone_surrogate_is_refused(kind, info):
    buffer = BUFFERS[kind]()
    rows = 1 if kind == "several rings" else None
    for before in range(2):
        with pytest.raises(ValueError, match=r"cannot store the key 'info\..*\\ud800.*': it has a lone surrogate"):
            buffer.add(row(INFOS[info], rows))
        assert len(buffer) == before
        buffer.add(row({"ü": 1}, rows))
    assert [*buffer[:].info.keys()] == ["ü"]
