"""Every combination of a buffer's options, compared with the slow model."""

import itertools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from data.buffer.rows import Batch
from oracle.replay import Fields, Path, Replay, Row
from rlfast._core import carried
from rlfast.data import CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import Hindsight, NStep, Prioritized, Sequence, Transition, Uniform
from rlfast.data.schema import flatten, nest

GAMMA, HORIZON = 0.5, 6
ALPHA, BETA = 0.6, 0.4
RINGS = {"single": 1, "vector": 3, "cached": 3}
CACHE, MAIN = 7, 12
SAVING = ("nothing", "ignore_obs_next", "save_only_last_obs", "both")
LIVES = ("straight", "reset", "resume")
STACKS = ((1, False), (3, False), (3, True))
UNITS = (Transition(), NStep(3, GAMMA), Sequence(3, burn_in=2))


def frame(kind: str, number: float) -> Fields:
    """Returns an observation that differs from all others in every leaf."""
    image = (np.arange(6).reshape(2, 3) * 7 + 31 * number).astype(np.uint8)
    inner = {
        ("image",): image,
        ("deep", "speed"): np.asarray(number / 3),
        ("deep", "gear"): np.asarray(int(number) % 5),
    }
    match kind:
        case "dict":
            return {("position",): np.float32([number, -number]), ("lives",): np.asarray(int(number))}
        case "nested":
            return {("body", *path): leaf for path, leaf in inner.items()} | {("clock",): np.float32([number] * 3)}
    goals = {("achieved_goal",): np.float32([number]), ("desired_goal",): np.float32([-1.0])}
    if kind == "goal":
        return goals | {("observation",): np.float32([number, 2 * number])}
    return goals | {("observation", *path): leaf for path, leaf in inner.items()}


def reward(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    return -np.abs(achieved - desired).sum(-1)


@dataclass
class Case:
    """A combination of options: a buffer and a model that get the same rows."""

    layout: str
    saving: str
    stack_num: int
    sample_avail: bool
    unit: Any
    prioritized: bool
    hindsight: bool
    nested: bool

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.kind = (
            ("nested goal" if self.nested else "goal") if self.hindsight else "nested" if self.nested else "dict"
        )
        self.last_only = self.saving in ("save_only_last_obs", "both")
        ignore = self.saving in ("ignore_obs_next", "both")
        flags = {"stack_num": self.stack_num, "sample_avail": self.sample_avail, "ignore_obs_next": ignore}
        options = flags | {
            "save_only_last_obs": self.last_only,
            "unit": self.unit,
            "sampler": Prioritized(ALPHA, BETA) if self.prioritized else Uniform(),
            "relabel": Hindsight(reward, HORIZON, 3.0) if self.hindsight else None,
        }
        match self.layout:
            case "single":
                self.buffer, capacities = ReplayBuffer(13, seed=1, **options), [13]
            case "vector":
                self.buffer, capacities = VectorReplayBuffer(27, 3, seed=1, **options), [9, 9, 9]
            case _:
                self.buffer = CachedReplayBuffer(ReplayBuffer(MAIN, seed=1, **options), 3, CACHE, seed=1)
                capacities = [MAIN, CACHE, CACHE, CACHE]
        self.model = Replay(
            capacities,
            stack_num=self.stack_num,
            save_obs_next=not ignore,
            sample_avail=self.sample_avail,
            alpha=ALPHA if self.prioritized else None,
            beta=BETA,
        )
        self.numbers = [100.0 * ring for ring in range(RINGS[self.layout])]

    # -- living ------------------------------------------------------------------------------------------------------
    def step(self) -> None:
        """Adds a row for some of the environments."""
        rings = len(self.numbers)
        chosen = sorted(self.rng.choice(rings, self.rng.integers(1, rings + 1), replace=False).tolist())
        rows = [self.row(ring) for ring in chosen]
        if self.layout == "single":
            self.buffer.add(Batch(self.given(rows[0])))
        else:
            self.buffer.add(Batch.stack([self.given(row) for row in rows]), buffer_ids=chosen)
        for ring, row in zip(chosen, rows, strict=True):
            self.record(ring + (self.layout == "cached"), row)

    def row(self, ring: int) -> Fields:
        now = self.numbers[ring]
        end = str(self.rng.choice(["", "", "", "terminated", "truncated"]))
        fields = {("obs", *path): leaf for path, leaf in frame(self.kind, now).items()}
        fields |= {("obs_next", *path): leaf for path, leaf in frame(self.kind, now + 1).items()}
        self.numbers[ring] = now + (7.0 if end else 1.0)  # after an end the next observation is not this obs_next
        return fields | {
            ("act",): np.asarray([now, 0.5], np.float32),
            ("rew",): np.asarray(now % 11),
            ("terminated",): np.asarray(end == "terminated"),
            ("truncated",): np.asarray(end == "truncated"),
            ("info", "steps"): np.asarray(int(now)),
            ("policy", "hidden"): np.float32([now, now]),
        }

    def given(self, row: Fields) -> dict[str, Any]:
        """Returns the row as an environment with stacked frames returns it."""
        if not self.last_only:
            return nest(row)
        stacked = ("obs", "obs_next")
        return nest({path: np.stack([leaf * 0, leaf]) if path[0] in stacked else leaf for path, leaf in row.items()})

    def record(self, ring: int, row: Fields) -> None:
        model = self.model
        model.add(ring, row)
        if self.layout == "cached" and (row["terminated",] or row["truncated",]):
            for old in model.live(ring):
                model.add(0, old.fields)
            model.reset(ring)

    def reset(self) -> None:
        self.buffer.reset()
        self.model.reset()

    def resume(self, folder: Any) -> None:
        self.buffer.save(folder / "rows", allow_pickle=self.hindsight)
        expected = pickle.loads(pickle.dumps(self.buffer)).sample_indices(5).tolist()
        self.buffer = ReplayBuffer.load(folder / "rows", allow_pickle=self.hindsight)
        assert pickle.loads(pickle.dumps(self.buffer)).sample_indices(5).tolist() == expected

    # -- looking -----------------------------------------------------------------------------------------------------
    def check(self) -> None:
        model, buffer = self.model, self.buffer
        assert len(buffer) == len(model.live())
        assert buffer.sample_indices(0).tolist() == [model.index(row) for row in model.candidates()]
        assert buffer.unfinished_index().tolist() == [model.index(row) for row in model.unfinished_rows()]
        if not model.candidates():
            with pytest.raises(ValueError, match="draw"):
                buffer.sample(3)
            return
        batch, indices = buffer.sample(6)
        rows = [model.at(int(index)) for index in indices]
        assert all(row in model.candidates() for row in rows)
        goals = self.goals(rows, indices)
        self.check_unit(batch, rows, goals)
        if not isinstance(self.unit, Transition):
            self.check_rows(buffer[indices], rows, goals)
        if self.prioritized:
            assert np.allclose(batch.weight, model.weights(rows), rtol=1e-9)
            errors = self.rng.random(len(rows))
            buffer.update_weight(indices, errors)
            model.update_priority(rows, errors)
            leaves = buffer.weight[np.array([model.index(row) for row in model.live()])]
            assert np.allclose(leaves, [row.leaf for row in model.live()], rtol=1e-9)

    def goals(self, rows: list[Row], indices: Any) -> list[np.ndarray | None]:
        """Returns the goal of each row; None for the row's own goal."""
        sources = carried(indices)
        assert (sources is not None) == self.hindsight
        found: list[np.ndarray | None] = []
        for row, source in zip(rows, [-1] * len(rows) if sources is None else sources, strict=True):
            if source < 0:
                found.append(None)
                continue
            origin = self.model.at(int(source))
            assert origin in self.model.goals(row, HORIZON)
            found.append(self.achieved(origin))
        return found

    def achieved(self, row: Row) -> np.ndarray:
        [(kept, key)] = self.model._next_frames(row, 1)
        return self.model.value(kept, (key, "achieved_goal"))

    def expected(self, rows: list[Row], goals: list[np.ndarray | None]) -> Fields:
        fields = self.model.take(rows)
        for place, (row, goal) in enumerate(zip(rows, goals, strict=True)):
            if goal is not None:
                fields["obs", "desired_goal"][place] = fields["obs_next", "desired_goal"][place] = goal
                fields["rew",][place] = self.reward(row, goal)
        return fields

    def reward(self, row: Row, goal: np.ndarray | None) -> float:
        return float(row.fields["rew",]) if goal is None else float(reward(self.achieved(row), goal))

    def check_rows(self, batch: Batch, rows: list[Row], goals: list[np.ndarray | None]) -> None:
        same(batch, self.expected(rows, goals))

    def check_unit(self, batch: Batch, rows: list[Row], goals: list[np.ndarray | None]) -> None:
        match self.unit:
            case Transition():
                self.check_rows(batch, rows, goals)
            case NStep():
                self.check_nstep(batch, rows, goals)
            case Sequence():
                self.check_sequence(batch, rows, goals)

    def check_nstep(self, batch: Batch, rows: list[Row], goals: list[np.ndarray | None]) -> None:
        chains = [self.model.future(row)[: self.unit.n_step] for row in rows]
        ends = [chain[-1] for chain in chains]
        first, last = self.expected(rows, goals), self.expected(ends, goals)
        from_last = {
            path: leaf for path, leaf in last.items() if path[0] in ("obs_next", "terminated", "truncated", "done")
        }
        returns = [
            sum(GAMMA**k * self.reward(row, goal) for k, row in enumerate(chain))
            for chain, goal in zip(chains, goals, strict=True)
        ]
        discount = [0.0 if chain[-1].terminated else GAMMA ** len(chain) for chain in chains]
        assert np.allclose(batch.rew, returns, rtol=1e-12)
        assert np.array_equal(batch.discount, discount)
        assert batch.last_index.tolist() == [self.model.index(row) for row in ends]
        same(batch, {path: leaf for path, leaf in (first | from_last).items() if path != ("rew",)})

    def check_sequence(self, batch: Batch, rows: list[Row], goals: list[np.ndarray | None]) -> None:
        windows = [self.model.window(row, self.unit.burn_in, self.unit.length) for row in rows]
        width = self.unit.burn_in + self.unit.length
        flat = self.expected(
            [row for window, _ in windows for row in window], [goal for goal in goals for _ in range(width)]
        )
        same(batch, {path: leaf.reshape(len(rows), width, *leaf.shape[1:]) for path, leaf in flat.items()})
        mask = np.array([mask for _, mask in windows])
        assert np.array_equal(batch.mask, mask)
        assert np.array_equal(batch.loss_mask, mask & (np.arange(width) >= self.unit.burn_in))


def same(batch: Batch, expected: dict[Path, np.ndarray]) -> None:
    leaves, _ = flatten(batch)
    leaves["done",] = batch.done
    for path, leaf in expected.items():
        assert leaves[path].dtype == leaf.dtype, path
        assert np.array_equal(leaves[path], leaf), path


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("saving", SAVING)
@pytest.mark.parametrize("layout", RINGS)
def test_every_combination(tmp_path, layout, saving, life):
    rest = itertools.product(STACKS, UNITS, (False, True), (False, True), (False, True))
    for (stack_num, sample_avail), unit, prioritized, hindsight, nested in rest:
        case = Case(layout, saving, stack_num, sample_avail, unit, prioritized, hindsight, nested)
        for step in range(27):
            case.step()
            if step % 9 == 8:
                case.check()
            if step == 14 and life == "reset":
                case.reset()
                case.check()
            if step == 14 and life == "resume":
                case.resume(tmp_path)
                case.check()
