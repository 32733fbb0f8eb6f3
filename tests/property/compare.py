"""Comparison of results with the model's."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.replay import Fields, Path, Replay, Row


def nest(fields: Fields) -> dict[str, Any]:
    """Flat leaves as nested dicts."""
    result: dict[str, Any] = {}
    for path, value in fields.items():
        place = result
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return result


def flatten(batch: Any, above: Path = ()) -> Fields:
    """Nested leaves as flat ones."""
    if isinstance(batch, np.ndarray | np.generic):
        return {above: batch}
    if not (isinstance(batch, Mapping) or hasattr(batch, "__dict__")):  # an object that stands alone, such as a string
        alone = np.empty((), object)
        alone[()] = batch
        return {above: alone}
    children = batch if isinstance(batch, Mapping) else batch.__dict__
    return {path: leaf for key, child in children.items() for path, leaf in flatten(child, (*above, key)).items()}


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


def must_raise(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> None:
    """Fails where a call raises nothing, or another error."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"nothing was raised, wanted {kind}")
