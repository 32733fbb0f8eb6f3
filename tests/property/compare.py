"""What it means for an answer to be the model's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.replay import Fields, Replay, Row


def same(what: str, got: Any, want: NDArray[Any]) -> None:
    """Equal bit for bit, dtype and shape too."""
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (
        f"{what}: {got.dtype}{got.shape} {want.dtype}{want.shape}"
    )
    equal = got.tolist() == want.tolist() if want.dtype.kind == "O" else got.tobytes() == want.tobytes()
    assert equal, f"{what}: got\n{got}\nwant\n{want}"


def same_fields(what: str, got: Fields, want: Fields) -> None:
    assert sorted(got) == sorted(want), f"{what}: keys {sorted(got)}, want {sorted(want)}"
    for path, value in want.items():
        same(f"{what} {path}", got[path], value)


def places(model: Replay, rows: list[Row]) -> NDArray[np.int64]:
    return np.array([model.index(row) for row in rows], np.int64)


def rows_at(model: Replay, index: NDArray[np.int64]) -> list[Row]:
    return [model.at(int(place)) for place in index]
