"""With ``ignore_obs_next``, ends of episodes keep their final observation, also in copies and files."""

import copy
import pickle

import numpy as np
import pytest

from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    ReplayBufferManager,
    VectorReplayBuffer,
)

IGNORE = {"ignore_obs_next": True}
MAKE = {
    "single": lambda: ReplayBuffer(7, **IGNORE),
    "vector": lambda: VectorReplayBuffer(14, 2, **IGNORE),
    "manager": lambda: ReplayBufferManager([ReplayBuffer(5, **IGNORE), ReplayBuffer(7, **IGNORE)]),
    "cached": lambda: CachedReplayBuffer(ReplayBuffer(9, **IGNORE), 2, 5),
    "prioritized": lambda: PrioritizedVectorReplayBuffer(14, 2, alpha=0.6, beta=0.4, **IGNORE),
}


def observed(number, objects):
    return {"name": f"at {number:g}", "place": number} if objects else number


def filled(kind, objects, follow=False):
    """Rows 0, 10, 20, ... of each environment, whose ends lead 0.5 further; or to what the next episode begins with."""
    buffer = MAKE[kind]()
    for i in range(11):
        rows = [
            Batch(
                obs=observed(10.0 * i + env, objects),
                act=i,
                rew=1.0,
                terminated=(i + env) % 3 == 1,
                truncated=False,
                obs_next=observed(10.0 * (i + follow) + env + (0 if follow else 0.5), objects),
            )
            for env in range(1 if kind == "single" else 2)
        ]
        buffer.add(rows[0] if kind == "single" else Batch.stack(rows))
    return buffer


def ends(buffer, objects):
    """Returns the indices of rows that end an episode, and their next observations."""
    rows = buffer[buffer.sample_indices(0)]
    done = rows[rows.done]
    assert len(done) > 0
    if not objects:
        return done.obs.tolist(), done.obs_next.tolist()
    assert done.obs_next.name.tolist() == [f"at {place:g}" for place in done.obs_next.place]
    return done.obs.place.tolist(), done.obs_next.place.tolist()


def kept(buffer, form, folder, objects):
    pickled = {"allow_pickle": True} if objects else {}
    match form:
        case "snapshot":
            buffer.save(folder / "rows", **pickled)
            return type(buffer).load(folder / "rows", **pickled)
        case "hdf5":
            pytest.importorskip("h5py")
            buffer.save_hdf5(folder / "rows")
            return type(buffer).load_hdf5(folder / "rows", **pickled)
        case "pickle":
            return pickle.loads(pickle.dumps(buffer))
        case "deepcopy":
            return copy.deepcopy(buffer)
        case "update":
            one = ReplayBuffer(40, **IGNORE)
            one.update(buffer)
            return one
        case "assigned":
            buffer._meta.obs = copy.deepcopy(buffer._meta.obs)
            buffer._store.store_assigned()
    return buffer


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("form", ["itself", "snapshot", "hdf5", "pickle", "deepcopy", "update", "assigned"])
@pytest.mark.parametrize("kind", MAKE)
def test_ends_are_kept(tmp_path, kind, form, objects):
    at, led_to = ends(kept(filled(kind, objects), form, tmp_path, objects), objects)
    assert led_to == [place + 0.5 for place in at]


@pytest.mark.parametrize("form", ["itself", "snapshot", "hdf5", "pickle", "update", "assigned"])
@pytest.mark.parametrize("kind", MAKE)
def test_an_end_that_leads_to_the_next_episodes_first_observation_is_kept(tmp_path, kind, form):
    at, led_to = ends(kept(filled(kind, False, follow=True), form, tmp_path, False), False)
    assert led_to == [place + 10 for place in at]


def test_what_does_not_look_like_an_observation_is_left_out():
    buffer = ReplayBuffer(4, **IGNORE)
    for obs_next in ("nothing", None, 0.0, np.zeros(5), {"a": 1}):
        buffer.add(Batch(obs=np.ones(3), act=0, rew=0.0, terminated=True, truncated=False, obs_next=obs_next))
    assert buffer[:].obs_next.tolist() == [[1, 1, 1]] * 4


def test_an_end_that_was_overwritten_or_reset_says_nothing_of_new_rows():
    for objects in (False, True):
        buffer = filled("single", objects)
        for again in range(2):
            for i in range(7):
                buffer.add(Batch(obs=observed(float(i), objects), act=i, rew=0.0, terminated=i == 3, truncated=False))
            led_to = buffer[:].obs_next.place if objects else buffer[:].obs_next
            assert sorted(np.asarray(led_to).tolist()) == [1, 2, 3, 3, 5, 6, 6]
            if not again:
                buffer.reset()
