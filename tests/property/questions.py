"""Calls all methods of the engine and of the model, and compares the results."""

from random import Random
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.replay import Fields, Replay, Row
from property.compare import flatten, places, rows_at, same, same_fields

if TYPE_CHECKING:
    from property.engine import Engine


def compare(engine: "Engine", model: Replay, random: Random) -> None:
    """Every question whose answer is fixed, and the support of those whose answer is drawn."""
    rows = model.live()
    index = places(model, rows)
    same_structure(engine, model)
    if not rows:
        return
    same_neighbours(engine, model, rows, index)
    same_contents(engine, model, rows, index, random)
    same_units(engine, model, rows, index, random)
    if model.alpha is not None:
        same_priorities(engine, model, rows, index)
    legal_draws(engine, model, random)
    legal_goals(engine, model, rows, index, random)


def same_structure(engine: "Engine", model: Replay) -> None:
    replay, rings = engine.replay, model.rings
    assert len(replay) == len(model.live())
    same("sizes", replay.sizes(), np.array([len(ring.slots) for ring in rings]))
    same("cursors", replay.cursors(), np.array([ring.cursor for ring in rings]))
    same("chronological", replay.chronological(), places(model, model.candidates()))
    same("unfinished", replay.unfinished(), places(model, model.unfinished_rows()))
    for number, ring in enumerate(rings):
        same(f"chronological({number})", replay.chronological(number), places(model, model.candidates(number)))
        episode_return, length, start = replay.running(number)
        assert (length, start) == (ring.episode_length, ring.offset + ring.episode_start), f"running({number})"
        assert np.array_equal(episode_return, ring.episode_return) or not np.any(ring.episode_return), number


def same_neighbours(engine: "Engine", model: Replay, rows: list[Row], index: NDArray[np.int64]) -> None:
    replay = engine.replay
    same("prev", replay.prev(index), places(model, [model.prev(row) for row in rows]))
    same("next", replay.next(index), places(model, [model.next(row) for row in rows]))
    same("episode_start", replay.episode_start(index), places(model, [model.past(row)[0] for row in rows]))
    same("episode_end", replay.episode_end(index), places(model, [model.future(row)[-1] for row in rows]))


def same_contents(engine: "Engine", model: Replay, rows: list[Row], index: NDArray[np.int64], random: Random) -> None:
    want = model.take(rows)
    same_fields("take", engine.take(index), want)
    depth, order = random.randint(1, 4), random.sample(range(len(rows)), len(rows))
    shuffled = [rows[place] for place in order]
    same_fields(f"take(stack_num={depth})", engine.take(index[order], depth), model.take(shuffled, depth))
    same_parts(engine, {path: values[order] for path, values in want.items()}, index[order], random)
    path = random.choice(sorted(model.columns))
    if path[0] != "obs_next" or model.save_obs_next:
        column = engine.replay.view(path)
        assert len(column) == sum(ring.capacity for ring in model.rings)
        same(f"view{path}", np.asarray(column)[index], model.take(rows, 1)[path])
        never = [ring.offset + slot for ring in model.rings for slot in range(len(ring.history), ring.capacity)]
        assert not any(np.asarray(column)[never].tobytes()), f"view{path} of unfilled rows"


def same_parts(engine: "Engine", want: Fields, index: NDArray[np.int64], random: Random) -> None:
    """Some fields alone, and fields written into arrays that were there."""
    keys = random.sample(sorted({path[0] for path in want}), 2)
    some = {path: value for path, value in want.items() if path[0] in keys}
    same_fields(f"take(keys={keys})", flatten(engine.replay.take(index, keys)), some)
    room = {path[0]: np.full_like(value, 1) for path, value in some.items() if len(path) == 1}
    filled = engine.replay.take(index, keys, out=room)
    for key, array in room.items():
        assert filled[key] is array
        same(f"take(out={key})", array, want[key,])


def same_units(engine: "Engine", model: Replay, rows: list[Row], index: NDArray[np.int64], random: Random) -> None:
    config, replay = engine.config, engine.replay
    reward_sum, discount, last = replay.nstep(index, config.n_step, config.gamma)
    want = [model.nstep(row, config.n_step, config.gamma) for row in rows]
    np.testing.assert_allclose(reward_sum, np.array([unit[0] for unit in want]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(discount, [unit[1] for unit in want], rtol=1e-14)
    same("nstep last", last, places(model, [unit[2] for unit in want]))
    length, before = random.randint(1, 7), random.randint(0, 4)
    unrolled, count = replay.unroll(index, length)
    chains = [model.unroll(row, length) for row in rows]
    same("unroll", unrolled, np.array([places(model, chain) for chain, _ in chains]))
    same("unroll count", count, np.array([number for _, number in chains]))
    window, mask = replay.window(index, before, length)
    windows = [model.window(row, before, length) for row in rows]
    same("window", window, np.array([places(model, chain) for chain, _ in windows]))
    same("window mask", mask, np.array([real for _, real in windows]))


def same_priorities(engine: "Engine", model: Replay, rows: list[Row], index: NDArray[np.int64]) -> None:
    replay = engine.replay
    np.testing.assert_allclose(replay.weights(index), model.weights(rows), rtol=1e-12, err_msg="weights")
    assert replay.stale_updates == model.stale_updates
    np.testing.assert_allclose(replay.max_priority, model.max_priority, rtol=1e-15)
    leaves = {model.index(row): row.leaf for row in model.live()}
    total = sum(ring.capacity for ring in model.rings)
    want = [leaves.get(slot, 0.0) for slot in range(total)]
    np.testing.assert_allclose(replay.tree[np.arange(total)], want, rtol=1e-12, err_msg="leaves")


def legal_draws(engine: "Engine", model: Replay, random: Random) -> None:
    candidates = places(model, model.candidates())
    if not len(candidates):
        try:
            engine.replay.draw(3)
        except ValueError:
            return
        raise AssertionError("draw gave rows although none may be drawn")
    ring = random.randrange(len(model.rings))
    if model.candidates(ring):
        assert np.isin(engine.replay.draw(4, ring), places(model, model.candidates(ring))).all(), f"draw from {ring}"
    size = random.randint(0, 5)
    fields, index = engine.sample(size)
    assert len(index) == size
    assert np.isin(index, candidates).all(), f"sample gave {index}, allowed are {candidates}"
    want = rows_at(model, index)
    weight = fields.pop(("weight",), None)
    same_fields("sample", fields, model.take(want))
    assert (weight is None) == (model.alpha is None)
    if weight is not None and size:
        np.testing.assert_allclose(weight, model.weights(want), rtol=1e-12, err_msg="sampled weights")


def legal_goals(engine: "Engine", model: Replay, rows: list[Row], index: NDArray[np.int64], random: Random) -> None:
    future_k, horizon = random.choice((1, 4, 8)), random.choice((1, 3, 50))
    relabel, goal = engine.replay.hindsight(index, future_k, horizon)
    assert relabel.dtype == bool
    assert len(relabel) == len(goal) == len(rows)
    assert future_k > 1 or not relabel.any()
    for row, is_new, place in zip(rows, relabel, goal, strict=True):
        assert not is_new or model.at(int(place)) in model.goals(row, horizon), (model.index(row), place)
