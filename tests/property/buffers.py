"""The public buffers under test, with the interface of random programs."""

import copy
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path as FilePath
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.replay import Fields, Replay, Row
from property.compare import flatten, must_raise, nest, places, same, same_fields
from property.programs import STORAGES, Bad, Beta, Config, Operation, storages
from property.samples import legal_sample
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    FrameStack,
    NStep,
    PrioritizedReplayBuffer,
    PrioritizedReplayBufferManager,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    ReplayBufferManager,
    Sequence,
    Transition,
    VectorReplayBuffer,
)

Index = NDArray[np.int64]


def unit_of(config: Config) -> Transition | FrameStack | NStep | Sequence:
    """Returns the unit of a configuration."""
    match config.unit:
        case "n-step":
            return NStep(config.n_step, config.gamma)
        case "sequence":
            return Sequence(config.length, config.burn_in)
        case "stack":
            return FrameStack(config.stack_num)
    return Transition()


def make(config: Config, storage: str = "ram", **options: Any) -> ReplayBuffer:
    """Makes a buffer of the class that a configuration needs."""
    options |= {
        "stack_num": 1 if config.unit == "stack" else config.stack_num,
        "ignore_obs_next": not config.save_obs_next,
        "sample_avail": config.sample_avail,
        "unit": unit_of(config),
    }
    whole = {"seed": 3, "storage": storage}
    rings, total = len(config.capacities), sum(config.capacities)
    if config.alpha is None:
        if rings == 1:
            return ReplayBuffer(total, **whole, **options)
        if len(set(config.capacities)) == 1:
            return VectorReplayBuffer(total, rings, **whole, **options)
        return ReplayBufferManager([ReplayBuffer(size, **options) for size in config.capacities], **whole)
    options |= {"alpha": config.alpha, "beta": config.beta, "weight_norm": config.weight_norm}
    if rings == 1:
        return PrioritizedReplayBuffer(total, **whole, **options)
    if len(set(config.capacities)) == 1:
        return PrioritizedVectorReplayBuffer(total, rings, **whole, **options)
    return PrioritizedReplayBufferManager([PrioritizedReplayBuffer(s, **options) for s in config.capacities], **whole)


class Buffers:
    """``rlfast.data``'s buffers behind the operations of a program."""

    objects = True

    def __init__(self, config: Config) -> None:
        self.config = config
        self.last_only = config.save_only_last_obs and all(shape for _, shape in config.kind.values())
        self.folder = tempfile.TemporaryDirectory()
        self.storages = storages(config)
        self.buffer = make(config, self.storage(), save_only_last_obs=self.last_only)

    def storage(self) -> str:
        """Where rows shall be: each time in another storage than the time before."""
        storage = next(self.storages)
        self.place = tempfile.mkdtemp(dir=self.folder.name) if storage == "folder" else storage
        return self.place

    def close(self) -> None:
        del self.buffer
        self.folder.cleanup()

    def model(self) -> Replay:
        kind = LastFrameReplay if self.last_only else BufferReplay
        return kind(self.config.capacities, **self.config.options())

    @property
    def one_ring(self) -> bool:
        return len(self.config.capacities) == 1

    def supports(self, operation: Operation) -> bool:
        if isinstance(operation, Bad) and self.last_only:
            return False  # a bad row is made of a stored one, which has too few frames to begin with
        return self.config.alpha is not None or not isinstance(operation, Beta)

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(self, rings: list[int], rows: list[Fields], *, vector: bool) -> tuple[NDArray[Any], ...]:
        if not vector and self.one_ring:
            return self.buffer.add(batch_of(rows[0]))
        stacked = {path: np.stack([row[path] for row in rows]) for path in rows[0]}
        return self.buffer.add(batch_of(stacked), buffer_ids=np.array(rings))

    def reset(self, ring: int | None, keep_statistics: bool) -> None:
        (self.buffer if ring is None else self.part(ring)).reset(keep_statistics)

    def close_episode(self, ring: int) -> None:
        self.buffer.close_episodes([ring])

    def part(self, ring: int) -> ReplayBuffer:
        """The buffer of one ring."""
        return self.buffer if self.one_ring else self.buffer.buffers[ring]

    def extend(self, ring: int, source: str, other: Any) -> Index:
        target = self.part(ring)
        added = target.update({"itself": target, "all": self.buffer}[source] if other is None else other.buffer)
        return added + (0 if self.one_ring else int(self.buffer._offset[ring]))

    def install(self, storage: list[Fields]) -> None:
        self.buffer.set_batch(batch_of({path: np.stack([row[path] for row in storage]) for path in storage[0]}))
        self.buffer._store.store_assigned()  # as the next row does: until then columns are the user's arrays

    def stored(self, fields: Fields) -> Fields:
        return last_frames(fields) if self.last_only else fields

    def draw(self, size: int) -> Index:
        return self.buffer.sample_indices(size)

    def update_priority(self, index: Index, priority: NDArray[np.float64]) -> int:
        before = self.buffer.stale_updates
        signs = np.where(np.arange(len(priority)) % 2, -1.0, 1.0)  # TD errors have either
        self.buffer.update_weight(index, priority * signs)
        return self.buffer.stale_updates - before

    def set_beta(self, beta: float) -> None:
        self.buffer.set_beta(beta)

    def persist(self, how: str) -> bool:
        if how == "hdf5" and self.config.unit in ("n-step", "sequence"):
            must_raise(ValueError, lambda: self._through_a_file(how))  # Tianshou's layout has no place for units
            how = "memory"
        match how:
            case "memory":
                self.buffer, self.place = pickle.loads(pickle.dumps(self.buffer)), copied(self.place)
            case "copy":
                self.buffer, self.place = copy.deepcopy(self.buffer), copied(self.place)
            case _:
                self._through_a_file(how)
        return how != "hdf5"  # Tianshou's layout has no place for what index arrays remember

    def _through_a_file(self, how: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = str(FilePath(folder) / "buffer")
            kind, storage = type(self.buffer), self.storage()
            if how == "hdf5":
                self.buffer.save_hdf5(file)
                self.buffer = kind.load_hdf5(file, allow_pickle=True, storage=storage)
            else:
                self.buffer.save(file, allow_pickle=True)
                self.buffer = kind.load(file, allow_pickle=True, storage=storage)

    # -- comparing ---------------------------------------------------------------------------------------------------
    def compare(self, model: Replay, random: Random) -> None:
        buffer, rows = self.buffer, model.live()
        index = places(model, rows)
        assert len(buffer) == len(rows)
        assert not model.columns or in_files(self.place), "no columns are in files"
        same("sample_indices(0)", buffer.sample_indices(0), places(model, model.candidates()))
        same("unfinished_index", buffer.unfinished_index(), places(model, model.unfinished_rows()))
        if rows:
            same("prev", buffer.prev(index), places(model, [model.prev(row) for row in rows]))
            same("next", buffer.next(index), places(model, [model.next(row) for row in rows]))
            self._same_contents(model, rows, index, random)
            self._same_units(model, rows, index, random)
            self._same_children(model, random)
            self._same_priorities(model, rows, index)
        legal_sample(self, model, random)

    def _same_contents(self, model: Replay, rows: list[Row], index: Index, random: Random) -> None:
        def read(where: Any) -> Fields:
            fields = flatten(self.buffer[where])
            fields.pop(("weight",), None)
            return fields

        same_fields("buffer[index]", read(index), model.take(rows))
        same_fields("buffer[:]", read(slice(None)), model.take(model.candidates()))
        one, shape = random.randrange(len(rows)), (2, -1) if len(rows) % 2 == 0 else (-1, 1)
        single = {path: np.asarray(value[0], value.dtype) for path, value in model.take([rows[one]]).items()}
        same_fields("buffer[int]", read(int(index[one])), single)
        grid = {
            path: value.reshape(*index.reshape(shape).shape, *value.shape[1:])
            for path, value in model.take(rows).items()
        }
        same_fields("buffer[grid]", read(index.reshape(shape)), grid)
        key, depth = random.choice(("obs", "rew", "obs_next", "info", "act")), random.randint(1, 4)
        if key in ("obs", "info") or (depth == 1 and (key != "obs_next" or model.save_obs_next)):
            want = {path: value for path, value in model.take(rows, depth).items() if path[0] == key}
            same_fields(f"get({key}, {depth})", flatten(self.buffer.get(index, key, Batch(), depth), (key,)), want)
            column = flatten(getattr(self.buffer, key), (key,))
            same_fields(
                f".{key}",
                {path: value[index] for path, value in column.items()},
                {path: value for path, value in model.take(rows, 1).items() if path[0] == key},
            )

    def _same_units(self, model: Replay, rows: list[Row], index: Index, random: Random) -> None:
        n_step, gamma = self.config.n_step, self.config.gamma
        reward_sum, discount, last = self.buffer.nstep(index, n_step, gamma)
        want = [model.nstep(row, n_step, gamma) for row in rows]
        np.testing.assert_allclose(reward_sum, np.array([unit[0] for unit in want]), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(discount, [unit[1] for unit in want], rtol=1e-14)
        same("nstep last", last, places(model, [unit[2] for unit in want]))
        before, length = random.randint(0, 3), random.randint(1, 5)
        window, mask = self.buffer.window(index, before, length)
        windows = [model.window(row, before, length) for row in rows]
        same("window", window, np.array([places(model, chain) for chain, _ in windows]))
        same("window mask", mask, np.array([real for _, real in windows]))

    def _same_children(self, model: Replay, random: Random) -> None:
        if self.one_ring:
            return
        ring = random.randrange(len(model.rings))
        child, offset = self.buffer.buffers[ring], model.rings[ring].offset
        rows = model.live(ring)
        local = places(model, rows) - offset
        assert len(child) == len(rows)
        same("child.sample_indices(0)", child.sample_indices(0), places(model, model.candidates(ring)) - offset)
        unfinished = [row for row in model.unfinished_rows() if row.ring == ring]
        same("child.unfinished_index", child.unfinished_index(), places(model, unfinished) - offset)
        if rows:
            same("child.prev", child.prev(local), places(model, [model.prev(row) for row in rows]) - offset)
            fields = flatten(child[local])
            fields.pop(("weight",), None)
            same_fields("child[index]", fields, model.take(rows))

    def _same_priorities(self, model: Replay, rows: list[Row], index: Index) -> None:
        if model.alpha is None:
            return
        np.testing.assert_allclose(self.buffer[index].weight, model.weights(rows), rtol=1e-12, err_msg="weight")
        leaves = {model.index(row): row.leaf for row in model.live()}
        slots = np.arange(self.buffer.maxsize)
        want = [leaves.get(slot, 0.0) for slot in range(len(slots))]
        np.testing.assert_allclose(self.buffer.weight[slots], want, rtol=1e-12, err_msg="leaves")

    # -- bad input ---------------------------------------------------------------------------------------------------
    def refuse(self, what: str, model: Replay) -> None:
        live = model.live()
        if not live:
            return
        place = np.repeat([model.index(live[-1])], 2)
        match what:
            case "nan priority" | "infinite priority" | "negative priority":
                if self.config.alpha is not None and what != "negative priority":
                    bad = np.array([1.0, np.nan if what == "nan priority" else -np.inf])
                    must_raise(ValueError, lambda: self.buffer.update_weight(place, bad))
            case "index":
                total = sum(ring.capacity for ring in model.rings)
                must_raise(IndexError, lambda: self.buffer[[0, total]])
                must_raise(IndexError, lambda: self.buffer[-total - 1])
            case _:
                self._refuse_row(what, {path: model.value(live[-1], path) for path in model.columns})

    def _refuse_row(self, what: str, fields: Fields) -> None:
        ring, error = 0, ValueError
        match what:
            case "shape":
                act = next(path for path in fields if path[0] == "act")
                fields[act] = np.zeros((3, 3), fields[act].dtype)
            case "dtype":
                fields["rew",], error = np.asarray("much"), TypeError
            case "missing key":
                error = KeyError
                del fields["truncated",]
            case "ring":
                if self.one_ring:
                    return
                ring, error = len(self.config.capacities), IndexError
        stacked = batch_of({path: np.asarray(value)[None] for path, value in fields.items()})
        must_raise(error, lambda: self.buffer.add(stacked, buffer_ids=np.array([ring])))


class BufferReplay(Replay):
    """Closing an episode whose rows were forgotten forgets its statistics, too."""

    def close_episode(self, ring_id: int) -> None:
        super().close_episode(ring_id)
        if self.rings[ring_id].episode_length:
            self.rings[ring_id].begin_episode()


class LastFrameReplay(BufferReplay):
    """Of observations that come as stacks it keeps the last frame."""

    def add(self, ring_id: int, fields: Fields) -> tuple[int, float | NDArray, int, int]:
        return super().add(ring_id, last_frames(fields))


class CachedReplay(BufferReplay):
    """Rings 1, 2, ... hold the running episode of each environment; when it ends, its rows go to ring 0."""

    def add(self, ring_id: int, fields: Fields) -> tuple[int, float | NDArray, int, int]:
        index, episode_return, length, start = super().add(ring_id + 1, fields)
        if not length:
            return index, episode_return, length, start
        moved = self._move(ring_id + 1) or [-1]
        return moved[-1], episode_return, length, moved[0]

    def _move(self, ring_id: int) -> list[int]:
        rows = self.live(ring_id) if self.rings[0].capacity else []
        fields = self.take(rows, 1)
        del fields["done",]
        moved = [
            Replay.add(self, 0, {path: column[place, ...] for path, column in fields.items()})[0]
            for place in range(len(rows))
        ]
        self.reset(ring_id)
        return moved

    def close_episode(self, ring_id: int) -> None:
        super().close_episode(ring_id + 1)
        self._move(ring_id + 1)


class Cached(Buffers):
    """A ``CachedReplayBuffer`` with a cache for each ring of the program."""

    one_ring = False
    last_only = False

    def __init__(self, config: Config) -> None:
        self.config = config
        self.capacities = [sum(config.capacities) // 2] + [config.capacities[0]] * len(config.capacities)
        main = make(replace(config, capacities=(self.capacities[0],)))
        self.folder = tempfile.TemporaryDirectory()
        self.storages = storages(config)
        size = config.capacities[0]
        self.buffer = CachedReplayBuffer(main, len(config.capacities), size, seed=3, storage=self.storage())

    def model(self) -> Replay:
        return CachedReplay(self.capacities, **self.config.options())


def copied(place: str) -> str:
    """Where the rows of a copy are."""
    return place if place in STORAGES else "ram"


def in_files(folder: str) -> bool:
    """Whether memory is mapped from files of a folder (they have no names any more), where the system tells."""
    maps = FilePath("/proc/self/maps")
    return folder in STORAGES or not maps.exists() or folder in maps.read_text()


def last_frames(fields: Fields) -> Fields:
    """A row of whose observations, which are stacks, the last frame is kept."""
    return {path: np.asarray(value[-1]) if path[0] in ("obs", "obs_next") else value for path, value in fields.items()}


def batch_of(fields: Fields) -> Batch:
    """The row as a collector hands it over: ``info`` is always there."""
    return Batch({"info": {}} | nest(fields))
