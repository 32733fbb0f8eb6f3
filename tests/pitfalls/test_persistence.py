"""D5: a buffer that was saved and loaded behaves like the original."""

import hashlib
import json
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from pitfalls.rows import KINDS, partly_filled, vector_step
from rlfast.utils.statistics import RunningMeanStd

NEW_PROCESS = """
    import pickle, sys
    sys.path[:0] = {path!r}
    from pitfalls.test_persistence import continue_with
    with open({file!r}, "rb") as saved:
        print(continue_with(pickle.load(saved)))
"""


def continue_with(buffer):
    """What a thousand samples and adds give from here on, as one number."""
    total = hashlib.sha256()
    for number in range(1000):
        batch, index = buffer.sample(16)
        for array in (index, batch.obs, batch.obs_next, batch.rew, batch.done, getattr(batch, "weight", index)):
            total.update(np.ascontiguousarray(array).tobytes())
        if hasattr(buffer, "update_weight"):
            buffer.update_weight(index, np.abs(batch.rew) + number % 3)
        step = vector_step([number], "T" if number % 11 == 3 else "t" if number % 13 == 5 else ".", rew=[number / 7])
        for answer in buffer.add(step, buffer_ids=[number % getattr(buffer, "buffer_num", 1)]):
            total.update(np.ascontiguousarray(answer).tobytes())
    return total.hexdigest()


@pytest.mark.pitfall("D5")
@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_goes_on_in_a_new_process_as_if_it_had_not_been_saved(kind, tmp_path):
    buffer = partly_filled(KINDS[kind])
    file = tmp_path / "buffer.pickle"
    file.write_bytes(pickle.dumps(buffer))
    script = textwrap.dedent(NEW_PROCESS.format(path=sys.path, file=str(file)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == continue_with(buffer)


LOADED = """
    import json, sys
    sys.path[:0] = {path!r}
    from rlfast.data import ReplayBuffer
    from rlfast.utils.statistics import RunningMeanStd
    from pitfalls.test_persistence import continue_with, normalise_with
    statistics = RunningMeanStd()
    with open({state!r}) as saved:
        statistics.load_state_dict(json.load(saved))
    print(continue_with(ReplayBuffer.load({file!r})), normalise_with(statistics))
"""


def normalise_with(statistics):
    """What a normaliser gives for a thousand values, which it sees as well."""
    total = hashlib.sha256()
    for number in range(1000):
        value = np.array([[number % 17, -number % 23]], np.float64)
        total.update(statistics.norm(value).tobytes())
        statistics.update(value)
    return total.hexdigest()


@pytest.mark.pitfall("D5")
@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_goes_on_in_a_new_process_with_its_normaliser(kind, tmp_path):
    """Rows, priorities, pointers, running episodes and random streams of the buffer; mean, variance and count."""
    buffer, statistics = partly_filled(KINDS[kind]), RunningMeanStd()
    statistics.update(np.random.default_rng(0).normal(3, 2, (50, 2)))
    buffer.save(tmp_path / "rows.snapshot")
    (tmp_path / "statistics.json").write_text(json.dumps(statistics.state_dict()))
    places = {"file": str(tmp_path / "rows.snapshot"), "state": str(tmp_path / "statistics.json")}
    script = textwrap.dedent(LOADED.format(path=sys.path, **places))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [continue_with(buffer), normalise_with(statistics)]


@pytest.mark.pitfall("D5")
@pytest.mark.parametrize("kind", KINDS)
def test_hdf5_keeps_rows_pointers_and_unfinished_episodes(kind, tmp_path):
    buffer = partly_filled(KINDS[kind])
    buffer.save_hdf5(str(tmp_path / "buffer.hdf5"))
    loaded = type(buffer).load_hdf5(str(tmp_path / "buffer.hdf5"))
    for ask in (
        lambda b: b.sample_indices(0),
        lambda b: b.unfinished_index(),
        lambda b: b[:].obs,
        lambda b: b[:].obs_next,
    ):
        assert np.array_equal(ask(loaded), ask(buffer))
    for ring in range(getattr(buffer, "buffer_num", 1)):
        step = vector_step([1], "T", rew=[1.0])
        assert [x.tolist() for x in loaded.add(step, buffer_ids=[ring])] == [
            x.tolist() for x in buffer.add(step, buffer_ids=[ring])
        ]
    if hasattr(buffer, "weight"):
        slots = np.arange(buffer.maxsize)
        assert np.array_equal(loaded.weight[slots], buffer.weight[slots])
