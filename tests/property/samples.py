"""Samples of the public buffers: which rows may be drawn, what they become in each unit, and arrays to be filled."""

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from oracle.replay import Fields, Replay, Row
from property.compare import flatten, must_raise, places, rows_at, same, same_fields

if TYPE_CHECKING:
    from property.buffers import Buffers


def legal_sample(subject: "Buffers", model: Replay, random: Random) -> None:
    """A sample is of rows that may be drawn, and shows what is stored of them."""
    candidates = places(model, model.candidates())
    if not len(candidates):
        must_raise(ValueError, lambda: subject.buffer.sample(3))
        return
    size = random.randint(0, 5)
    batch, index = filled(subject, model, random, size) if random.random() < 0.5 else subject.buffer.sample(size)
    assert len(index) == (size or len(candidates))
    assert np.isin(index, candidates).all(), f"sample gave {index}, allowed are {candidates}"
    rows, fields = rows_at(model, index), flatten(batch)
    weight = fields.pop(("weight",), None)
    assert (weight is None) == (model.alpha is None)
    if weight is not None:
        np.testing.assert_allclose(weight, model.weights(rows), rtol=1e-12, err_msg="sampled weight")
    UNITS[subject.config.unit](subject, model, rows, fields)


def filled(subject: "Buffers", model: Replay, random: Random, size: int) -> Any:
    """A sample in arrays that were there, full of something else; refused where it is no plain sample of rows."""
    rows = model.candidates()[:1] * (size or len(model.candidates()))
    want = {path: value for path, value in model.take(rows).items() if len(path) == 1 and value.dtype.kind != "O"}
    if model.alpha is not None:
        want["weight",] = np.zeros(len(rows))
    names = random.sample(sorted(path[0] for path in want), random.randint(1, len(want)))
    out = {name: np.full_like(want[name,], 1) for name in names}
    if subject.config.unit in ("n-step", "sequence"):
        must_raise(ValueError, lambda: subject.buffer.sample(size, out=out))
        return subject.buffer.sample(size)
    wrong = out | {names[0]: np.zeros((len(rows), 9, 9), np.int8)}
    must_raise(ValueError, lambda: subject.buffer.sample(size, out=wrong))
    batch, index = subject.buffer.sample(size, out=out)
    assert all(batch[name] is array for name, array in out.items()), "the arrays that were given are not in the batch"
    return batch, index


def rows_themselves(_: "Buffers", model: Replay, rows: list[Row], fields: Fields) -> None:
    same_fields("sample", fields, model.take(rows))


def steps(subject: "Buffers", model: Replay, rows: list[Row], fields: Fields) -> None:
    """Rewards are summed; where it leads to, and the flags, are those of the last row that counts."""
    want = [model.nstep(row, subject.config.n_step, subject.config.gamma) for row in rows]
    np.testing.assert_allclose(fields.pop(("rew",)), np.array([unit[0] for unit in want]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fields.pop(("discount",)), [unit[1] for unit in want], rtol=1e-14)
    last = [unit[2] for unit in want]
    same("last_index", fields.pop(("last_index",)), places(model, last))
    ends, expected = model.take(last), model.take(rows)
    del expected["rew",]
    later = ("obs_next", "terminated", "truncated", "done")
    same_fields("n-step", fields, expected | {path: value for path, value in ends.items() if path[0] in later})


def sequences(subject: "Buffers", model: Replay, rows: list[Row], fields: Fields) -> None:
    """Stretches of episodes around the rows, and which of their rows exist and which count."""
    burn_in, length = subject.config.burn_in, subject.config.length
    windows = [model.window(row, burn_in, length) for row in rows]
    mask = np.array([real for _, real in windows])
    same("mask", fields.pop(("mask",)), mask)
    same("loss_mask", fields.pop(("loss_mask",)), mask & (np.arange(burn_in + length) >= burn_in))
    flat = model.take([row for chain, _ in windows for row in chain])
    shape = (len(rows), burn_in + length)
    same_fields("sequence", fields, {path: value.reshape(*shape, *value.shape[1:]) for path, value in flat.items()})


UNITS = {"row": rows_themselves, "stack": rows_themselves, "n-step": steps, "sequence": sequences}
