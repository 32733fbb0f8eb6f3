"""Checks of ``rlfast.interop.torchrl`` for ``test_torchrl.py``, which runs them in an interpreter with TorchRL.

``python torchrl_driver.py`` runs every ``check_*`` and writes the errors by name as JSON to standard output.
"""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import torch
import torchrl
from driving import follow_page, raises, run_checks
from tensordict import NonTensorData, TensorDict
from torchrl.data import (
    LazyTensorStorage,
    PrioritizedSliceSampler,
    ReplayBuffer,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    TensorDictMaxValueWriter,
)
from torchrl.data import PrioritizedSampler as HostSampler
from torchrl.data import TensorDictReplayBuffer as Host
from torchrl.envs import DoubleToFloat

from rlfast.data import Batch
from rlfast.interop.torchrl import PrioritizedSampler, Storage, TensorDictReplayBuffer, from_tensordict, to_tensordict


def transitions(count, *, frames=False, seed=0):
    """A stream with ends of both kinds, further entries, and nested observations."""
    generator = torch.Generator().manual_seed(seed)
    path = torch.rand(count + 1, 3, generator=generator)
    end = torch.rand(count, 1, generator=generator) < 0.2
    cut = end & (torch.rand(count, 1, generator=generator) < 0.5)
    root = {
        "observation": path[:-1].clone(),
        "sensors": {"depth": torch.arange(count)[:, None]},
        "action": torch.randint(0, 4, (count, 2), generator=generator),
        "done": torch.zeros(count, 1, dtype=torch.bool),
        "collector": {"traj_ids": end.cumsum(0)[:, 0]},
    }
    following = {
        "observation": path[1:] + end,
        "sensors": {"depth": torch.arange(count)[:, None] + 1},
        "reward": torch.rand(count, 1, generator=generator),
        "done": end,
        "terminated": end & ~cut,
        "truncated": cut,
        "note": torch.rand(count, generator=generator),
    }
    if frames:
        film = torch.randint(0, 256, (count + 4, 20, 20), dtype=torch.uint8, generator=generator)
        stacks = torch.stack([film[i : i + 4] for i in range(count + 1)])
        root["pixels"], following["pixels"] = stacks[:-1].clone(), stacks[1:].clone()
    return TensorDict(root | {"next": TensorDict(following, [count])}, [count])


def same(one, other):
    keys = set(one.keys(include_nested=True, leaves_only=True))
    assert keys == set(other.keys(include_nested=True, leaves_only=True))
    assert one.batch_size == other.batch_size
    for key in keys:
        assert one[key].dtype == other[key].dtype, key
        assert torch.equal(one[key], other[key]), key


def check_storage_gives_back_what_it_got():
    for frames in (False, True):
        mine = ReplayBuffer(storage=Storage(50), batch_size=8)
        yours = ReplayBuffer(storage=LazyTensorStorage(50), batch_size=8)
        data = transitions(130, frames=frames)
        for start in range(0, 130, 26):
            for buffer in (mine, yours):
                buffer.extend(data[start : start + 26])
        for row in range(3):
            for buffer in (mine, yours):
                buffer.add(data[row])
        assert len(mine) == len(yours) == 50
        same(mine[:], yours[:])
        same(mine[7], yours[7])
        same(mine[torch.tensor([3, 3, 49])], yours[torch.tensor([3, 3, 49])])
        sample = mine.sample(64)
        assert sample.batch_size == torch.Size([64])
        assert isinstance(sample["next"], TensorDict)


def check_observations_are_stored_once():
    data = transitions(2000, frames=True)
    storage = Storage(2000)
    ReplayBuffer(storage=storage).extend(data)
    given = 2000 * 8 * 400
    assert storage.buffer.nbytes < given / 4, storage.buffer.nbytes / given


def check_other_layouts():
    plain = TensorDict({"x": torch.arange(6), "y": {"z": torch.rand(6, 2)}}, [6])
    unusual = TensorDict(
        {"state": torch.rand(6, 2), "next": {"state": torch.rand(6, 2), "reward": torch.rand(6, 3)}}, [6]
    )
    ends = TensorDict({"next": {"reward": torch.rand(6, 1).double(), "done": torch.rand(6, 1) < 0.5}}, [6])
    flat, numbers = transitions(6), transitions(6)
    for name in ("done", "terminated", "truncated"):
        flat["next", name] = flat["next", name].squeeze(-1)
        numbers["next", name] = numbers["next", name].to(torch.uint8)
    for data in (plain, unusual, ends, flat, numbers):
        storage = Storage(6)
        buffer = ReplayBuffer(storage=storage)
        buffer.extend(data)
        same(buffer[:], data)


def check_rows_are_found_as_in_the_host():
    mine, yours = ReplayBuffer(storage=Storage(20)), ReplayBuffer(storage=LazyTensorStorage(20))
    for count in (7, 17):  # part-filled, then full
        for buffer in (mine, yours):
            buffer.extend(transitions(count, seed=count))
        size = len(yours)
        mask = torch.arange(size) % 3 == 0
        for index in (-1, -size, mask, np.array([-2, 0]), [0, -1], range(2, 5), slice(-3, None), slice(None, None, 2)):
            same(mine[index], yours[index])
        assert mine[0].device == yours[0].device == mine[:]["next"].device
        for index in (size, -size - 1, torch.tensor([0, size]), np.ones(size + 1, np.bool_)):
            for buffer in (mine, yours):
                raises(IndexError, "", lambda buffer=buffer, index=index: buffer[index])


def check_stored_rows_are_not_changed():
    buffer = TensorDictReplayBuffer(20, batch_size=4)
    data = transitions(6)
    buffer.extend(data)
    new = torch.zeros(6, 2, dtype=torch.long)
    raises(NotImplementedError, "TorchRL's storage", lambda: buffer.set_("action", new))
    raises(NotImplementedError, "TorchRL's storage", lambda: buffer.set_at_("action", new[:1], torch.tensor([0])))
    raises(NotImplementedError, "TorchRL's storage", lambda: buffer.update_({"action": new}))
    raises(ValueError, "appended, here at 6", lambda: buffer.write_all(data))
    same(buffer[:], data.exclude("index"))


def check_every_change_has_a_number():
    buffer = TensorDictReplayBuffer(20)
    revisions = []
    for change in (lambda: buffer.extend(transitions(3)), buffer.empty, lambda: buffer.extend(transitions(3))):
        change()
        revisions.append(int(buffer.storage._mutation_revision))
    assert len(set(revisions)) == 3


def check_collate_functions():
    for kwargs in ({}, {"alpha": 0.6, "beta": 0.4}):
        buffer = TensorDictReplayBuffer(20, batch_size=4, collate_fn=lambda data: data.select("action"), **kwargs)
        buffer.extend(transitions(6))
        assert {"observation", "next"}.isdisjoint(buffer.sample().keys())
        buffer.set_storage(buffer.storage)
        assert "observation" in buffer.sample().keys()  # noqa: SIM118  a TensorDict has keys, not names


def check_bad_use():
    raises(RuntimeError, "batch_size not specified", lambda: TensorDictReplayBuffer(10).sample())
    text = TensorDict({"action": torch.zeros(2), "note": NonTensorData("no tensor", batch_size=[2])}, [2])
    raises(TypeError, "'note' is not a tensor", lambda: TensorDictReplayBuffer(10).extend(text))
    several = transitions(6).reshape(3, 2)
    raises(ValueError, "reshape(-1)", lambda: TensorDictReplayBuffer(10).extend(several))
    storage = Storage(10)
    raises(RuntimeError, "empty", lambda: storage.get(0))
    data = transitions(6)
    raises(ValueError, "appended, here at 0", lambda: storage.set(3, data[0]))
    storage.set(range(6), data)
    raises(ValueError, "appended, here at 6", lambda: storage.set(torch.arange(6), data))
    broken = data.clone()
    broken["next", "done"] = ~broken["next", "done"]
    raises(ValueError, "done must be", lambda: storage.set(torch.arange(6, 12) % 10, broken))
    assert len(storage) == 6
    best = ReplayBuffer(storage=Storage(4), writer=TensorDictMaxValueWriter(rank_key=("next", "reward")), batch_size=2)
    raises(ValueError, "writer that appends in turn", lambda: [best.add(row) for row in transitions(40)])
    raises(ValueError, "alpha and beta", lambda: TensorDictReplayBuffer(10, alpha=0.6))
    raises(ValueError, "CPU", lambda: PrioritizedSampler(10, 0.6, 0.4, device="cuda"))
    raises(ValueError, "alpha", lambda: PrioritizedSampler(10, -1.0, 0.4))


def samplers(size, **kwargs):
    for kind in (PrioritizedSampler, HostSampler):
        sampler = kind(size, alpha=0.7, beta=0.5, **kwargs)
        yield sampler, ReplayBuffer(storage=LazyTensorStorage(size), sampler=sampler, batch_size=32)


def check_sampler_has_the_hosts_priorities_and_weights():
    for kwargs in ({}, {"max_priority_within_buffer": True}):
        (mine, one), (yours, two) = samplers(300, **kwargs)
        assert isinstance(mine, HostSampler)
        rng = torch.Generator().manual_seed(0)
        for turn in range(60):
            data = transitions(11, seed=turn)
            for buffer in (one, two):
                buffer.extend(data)
            size = len(one)
            rows = torch.randint(0, size, (32,), generator=rng)
            errors = torch.rand(32, generator=rng) * (0.01 if turn % 7 == 0 else 3)
            if turn % 3 == 0:
                errors[:] = 1.0  # many rows share the smallest priority
            unique = torch.unique(rows)
            for buffer in (one, two):
                buffer.update_priority(unique, errors[: len(unique)])
                buffer.update_priority(int(rows[0]), 0.5)
            every = torch.arange(size)
            torch.testing.assert_close(mine._sum_tree[every].float(), yours._sum_tree[every])
            assert abs(mine._min_tree.query(0, 300) - yours._min_tree.query(0, 300)) < 1e-5
            assert abs(float(mine.default_priority) - float(yours.default_priority)) < 1e-5
            index, info = mine.sample(one.storage, 32)
            weight = (yours._sum_tree[index] / yours._min_tree.query(0, size)) ** -0.5
            torch.testing.assert_close(info["priority_weight"], weight)
        mine.alpha = yours.alpha = 0.4
        torch.testing.assert_close(mine._sum_tree[every].float(), yours._sum_tree[every])


def check_the_smallest_priority_is_always_known():
    rng = np.random.default_rng(0)
    for size, values in ((7, 3), (40, 1000)):  # few values: many rows share the smallest, and many are 0
        leaves, plain = PrioritizedSampler(size, 1.0, 1.0)._leaves, np.zeros(size)
        assert leaves.least() == np.inf
        for _ in range(400):
            rows = rng.integers(0, size, 6)
            leaves.set(rows, chosen := rng.integers(0, values, 6) / 4)
            for row, value in zip(rows, chosen, strict=True):  # of a repeated row the last value counts
                plain[row] = value
            if rng.random() < 0.7:
                assert leaves.least() == min(plain[plain > 0], default=np.inf)


def check_sampler_draws_in_proportion():
    (mine, buffer), _ = samplers(4)
    buffer.extend(transitions(4))
    mine.update_priority(torch.arange(4), torch.tensor([0.0, 1.0, 2.0, 4.0]))
    np.random.seed(0)
    index, _ = mine.sample(buffer.storage, 40_000)
    expected = (torch.tensor([0.0, 1.0, 2.0, 4.0]) + 1e-8) ** 0.7
    found = torch.bincount(index, minlength=4) / 40_000
    torch.testing.assert_close(found, (expected / expected.sum()).float(), atol=0.01, rtol=0)
    np.random.seed(3)
    first = mine.sample(buffer.storage, 8)[0]
    np.random.seed(3)
    assert torch.equal(first, mine.sample(buffer.storage, 8)[0])
    for _ in range(2):
        buffer.set_rng(torch.Generator().manual_seed(5))
        drawn = mine.sample(buffer.storage, 8)[0]
        first = drawn if _ == 0 else first
    assert torch.equal(first, drawn)


def check_sampler_of_two_axes():
    sampler = PrioritizedSampler(40, alpha=1.0, beta=1.0)
    buffer = ReplayBuffer(storage=LazyTensorStorage(40, ndim=2), sampler=sampler, batch_size=16, dim_extend=0)
    buffer.extend(TensorDict({"x": torch.arange(20).view(5, 4)}, [5, 4]))
    batch, info = buffer.sample(return_info=True)
    assert torch.equal(batch["x"], info["index"][0] * 4 + info["index"][1])


def check_samplers_of_slices():
    made = {
        "slices": lambda: SliceSampler(num_slices=4, end_key=("next", "done"), strict_length=False),
        "by trajectory": lambda: SliceSampler(slice_len=3, traj_key=("collector", "traj_ids"), cache_values=True),
        "each once": lambda: SliceSamplerWithoutReplacement(slice_len=2, end_key=("next", "done")),
        "prioritized": lambda: PrioritizedSliceSampler(
            60, 0.6, 0.4, slice_len=3, end_key=("next", "done"), strict_length=False
        ),
    }
    for rows in (50, 80):
        for name, sampler in made.items():
            drawn = []
            for kind in (Storage, LazyTensorStorage):
                buffer = Host(storage=kind(60), sampler=sampler(), batch_size=12)
                torch.manual_seed(0)
                for start in range(0, rows, 10):
                    buffer.extend(transitions(rows)[start : start + 10])
                drawn.append([buffer.sample() for _ in range(5)])
            for mine, yours in zip(*drawn, strict=True):
                if name != "prioritized":
                    same(mine, yours)
                    continue
                assert {*mine.keys(True, True)} == {*yours.keys(True, True)}  # it has a stream of its own
                follows = mine["sensors", "depth"][1:] == mine["next", "sensors", "depth"][:-1]
                assert (follows & ~mine["next", "done"][:-1]).sum() >= 4


def check_buffer_is_the_hosts():
    mine = TensorDictReplayBuffer(60, alpha=0.6, beta=0.4, batch_size=16)
    assert isinstance(mine, Host)
    yours = Host(storage=LazyTensorStorage(60), sampler=HostSampler(60, 0.6, 0.4), batch_size=16)
    for buffer in (mine, yours):
        buffer.extend(transitions(80))
    rows = torch.arange(60)
    same(mine[:].exclude("index"), yours[:].exclude("index"))
    for _ in range(3):
        batch = mine.sample()
        assert set(batch.keys()) == {*yours.sample().keys(), "index_generation"}
        assert torch.equal(batch["observation"], yours[:]["observation"][batch["index"]])
        batch["td_error"] = torch.rand(16)
        for buffer in (mine, yours):
            buffer.update_tensordict_priority(batch)
        np.testing.assert_allclose(mine.sampler._sum_tree[rows], yours.sampler._sum_tree[rows], rtol=1e-6)
    with_info, info = mine.sample(return_info=True)
    assert torch.equal(with_info["index"], info["index"])
    assert len(mine.sample(5)) == 5
    uniform = TensorDictReplayBuffer(60, batch_size=16)
    uniform.extend(transitions(30))
    assert "priority_weight" not in uniform.sample().keys()  # noqa: SIM118  a TensorDict has keys, not names
    uniform.update_tensordict_priority(uniform.sample())
    assert sum(len(batch) for batch, _ in zip(uniform, range(3), strict=False)) == 48


def check_priorities_of_rows_that_are_gone_are_refused():
    for kwargs in ({}, {"prefetch": 1}):
        buffer = TensorDictReplayBuffer(8, alpha=1.0, beta=0.4, eps=0.0, batch_size=64, **kwargs)
        every = torch.arange(8)
        buffer.extend(transitions(11))  # rows 3..10; the oldest stands at place 3
        if kwargs:
            buffer.append_transform(DoubleToFloat(in_keys=["observation"]))
        drawn = buffer.sample()
        buffer.extend(transitions(2))  # over places 3 and 4
        buffer.update_priority(every, torch.ones(8))
        drawn["td_error"] = torch.full((64,), 5.0)
        gone = (drawn["index"] == 3) | (drawn["index"] == 4)
        assert 0 < gone.sum() < 64
        buffer.update_tensordict_priority(drawn)
        assert buffer.stale_updates == gone.sum()
        kept = torch.ones(8, dtype=torch.double)
        kept[torch.unique(drawn["index"][~gone])] = 5.0
        assert torch.equal(buffer.sampler._sum_tree[every], kept)
        buffer.update_tensordict_priority(drawn[gone])  # nothing is left of it
        assert buffer.stale_updates == 2 * gone.sum()
        plain = drawn.exclude("index_generation")
        buffer.update_tensordict_priority(plain)  # a bare index is taken at its word
        assert (buffer.sampler._sum_tree[torch.unique(plain["index"])] == 5.0).all()


def check_generations_outlive_emptying_and_loading():
    storage = Storage(5)
    rows, seen = np.arange(2), []

    def note():
        seen.append(tuple(storage.generations(rows)))

    storage.set(range(3), transitions(3))
    note()
    state = storage.state_dict()
    storage.set(torch.arange(3, 8) % 5, transitions(5))
    note()
    full = storage.state_dict()
    for again in (state, full):
        storage.load_state_dict(again)
        note()
    storage._empty()
    storage.set(range(2), transitions(2))
    note()
    assert all(len({generations[row] for generations in seen}) == len(seen) for row in rows), seen


def check_transforms_prefetch_and_emptying():
    buffer = TensorDictReplayBuffer(60, alpha=0.6, beta=0.4, batch_size=16, prefetch=2)
    data = transitions(40)
    data["observation"] = data["observation"].double()
    data["next", "observation"] = data["next", "observation"].double()
    buffer.append_transform(DoubleToFloat(in_keys=["observation"]))
    buffer.extend(data)
    assert buffer.sample()["observation"].dtype == torch.float32
    assert buffer.sample()["next", "observation"].dtype == torch.float64
    buffer.empty()
    assert len(buffer) == 0
    buffer.extend(transitions(70))
    assert len(buffer) == 60


def check_files_and_pickles():
    def filled():
        buffer = TensorDictReplayBuffer(60, alpha=0.6, beta=0.4, batch_size=16)
        buffer.extend(transitions(80))
        buffer.update_priority(torch.arange(60), torch.rand(60, generator=torch.Generator().manual_seed(1)))
        return buffer

    one = filled()
    state, (two, three, four) = (
        one.state_dict(),
        (TensorDictReplayBuffer(60, alpha=0.6, beta=0.4, batch_size=16) for _ in range(3)),
    )
    two.load_state_dict(state)
    with tempfile.TemporaryDirectory() as folder:
        one.dumps(folder)
        three.loads(folder)
        file = Path(folder, "state.pt")
        torch.save(state, file)
        four.load_state_dict(torch.load(file, weights_only=False))
    five = pickle.loads(pickle.dumps(one))
    rows = torch.arange(60)
    for other in (two, three, four, five):
        same(one[:], other[:])
        torch.testing.assert_close(one.sampler._sum_tree[rows], other.sampler._sum_tree[rows])
        more = transitions(7, seed=9)
        other.extend(more)
        same(other[:][20:27].exclude("index"), more.exclude("index"))
    raises(ValueError, "60 rows", lambda: Storage(10).load_state_dict(state["_storage"]))
    raises(ValueError, "60 rows", lambda: PrioritizedSampler(10, 1.0, 1.0).load_state_dict(state["_sampler"]))


def check_batches_become_tensordicts():
    rng = np.random.default_rng(0)
    end = rng.random((2, 6)) < 0.4
    fields = {"act": rng.random((6, 2)), "rew": rng.random(6), "terminated": end[0], "truncated": end[1] & ~end[0]}
    fields["done"] = fields["terminated"] | fields["truncated"]
    for obs in (rng.random((6, 3)), {"a": rng.random((6, 3)), "b": {"c": np.arange(6)}}):
        batch = Batch(obs=obs, obs_next=obs, weight=rng.random(6), extra={"x": np.arange(6)}, info={}, **fields)
        found = to_tensordict(batch)
        assert found.batch_size == torch.Size([6])
        assert found["next", "reward"].shape == (6, 1)
        again = from_tensordict(found)
        del batch.info
        assert set(again.keys()) == set(batch.keys())
        for key in fields:
            np.testing.assert_array_equal(again[key], batch[key])
        np.testing.assert_array_equal(again.weight, batch.weight)
        np.testing.assert_array_equal(again.extra.x, batch.extra.x)
        leaves = [batch.obs] if isinstance(obs, np.ndarray) else [batch.obs.a, batch.obs.b.c]
        others = [again.obs_next] if isinstance(obs, np.ndarray) else [again.obs_next.a, again.obs_next.b.c]
        for leaf, other in zip(leaves, others, strict=True):
            np.testing.assert_array_equal(leaf, other)
    raises(TypeError, "objects", lambda: to_tensordict(Batch(rew=np.zeros(2), obs=np.array([None, "a"], object))))
    raises(KeyError, "action", lambda: from_tensordict(found.exclude("action")))


def check_migration_page():
    follow_page("torchrl")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_checks(globals(), torchrl.__version__)
