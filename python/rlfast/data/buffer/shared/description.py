"""The columns and options of a shared buffer, as text in its memory, so that its file alone is enough to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlfast.data._leaves import dotted
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import NStep, Transition, Unit
from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.data.schema import Schema
from rlfast.utils.arguments.checks import MissingKeyError, count_of

Columns: TypeAlias = list[tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]]
"""The path, dtype and shape of each column."""

_NUMBERS = "biufc"
"""The kinds of dtypes of columns."""

_REFUSED = {
    "ignore_obs_next": False,
    "save_only_last_obs": False,
    "sample_avail": False,
    "storage": "ram",
    "relabel": None,
}
"""Options of other buffers, with the values that ask for nothing."""


@dataclass(frozen=True)
class Description:
    """What every process must know of a shared buffer besides its memory."""

    columns: Columns
    stack_num: int
    sampler: Uniform | Prioritized
    unit: Transition | NStep
    seed: int

    def to_text(self) -> bytes:
        """Returns the description as JSON."""
        sampler, unit = self.sampler, self.unit
        parts = {
            "columns": [[list(path), dtype.str, list(shape)] for path, dtype, shape in self.columns],
            "stack_num": self.stack_num,
            "priorities": [sampler.alpha, sampler.beta, sampler.weight_norm]
            if isinstance(sampler, Prioritized)
            else None,
            "n_step": [unit.n_step, unit.gamma] if isinstance(unit, NStep) else None,
            "seed": self.seed,
        }
        return json.dumps(parts).encode()

    @classmethod
    def of_text(cls, text: bytes) -> Description:
        """Returns the description in the memory of another process.

        :param text: the result of :meth:`to_text`.
        :raises ValueError: if it is something else.
        """
        try:
            parts = json.loads(text)
            priorities, n_step = parts["priorities"], parts["n_step"]
            return cls(
                columns=[_column(*column) for column in parts["columns"]],
                stack_num=count_of("stack_num", parts["stack_num"], least=1),
                sampler=Uniform() if priorities is None else Prioritized(*priorities),
                unit=Transition() if n_step is None else NStep(*n_step),
                seed=count_of("seed", parts["seed"], least=0),
            )
        except WRONG_DATA as error:
            raise ValueError(f"the description in the shared memory is damaged: {summary(error)}") from error


def _column(path: object, dtype: object, shape: object) -> tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]:
    """Returns a column that another process described.

    :raises TypeError: if it is none.
    :raises ValueError: if it is no column of numbers. Of Python objects there would be addresses, of another process.
    """
    if not (isinstance(path, list) and path and all(isinstance(key, str) for key in path)):
        raise TypeError(f"the path of a column is {path!r:.100}")
    if not isinstance(dtype, str) or np.dtype(dtype).kind not in _NUMBERS or np.dtype(dtype).hasobject:
        raise ValueError(f"{'.'.join(path)} is of dtype {dtype!r:.100}: a shared buffer has numbers")
    if not isinstance(shape, list) or any(type(length) is not int or length < 0 for length in shape):
        raise ValueError(f"{'.'.join(path)} is of shape {shape!r:.100}")
    return tuple(path), np.dtype(dtype), tuple(shape)


def check_options(options: Mapping[str, Any]) -> None:
    """Checks that options of other buffers ask for nothing that a shared buffer cannot do.

    :raises TypeError: if no buffer has such an option.
    :raises ValueError: if a shared buffer does not have it.
    """
    for name, value in options.items():
        if name not in _REFUSED:
            raise TypeError(f"SharedReplayBuffer got an unexpected keyword argument {name!r}")
        if value != _REFUSED[name]:
            raise ValueError(
                f"a buffer in shared memory has no option {name}, got {value!r}: leave it out, or use a "
                "VectorReplayBuffer in one process"
            )


def check_parts(
    stack_num: int, sampler: Uniform | Prioritized, unit: Unit
) -> tuple[int, Uniform | Prioritized, Transition | NStep]:
    """Returns the number of frames, the sampler and the unit.

    :raises TypeError: if sampler or unit is none.
    :raises ValueError: if a shared buffer does not have this unit, or the number is out of range.
    """
    try:
        config = Config(stack_num, sampler=sampler, unit=unit).normalized()
    except AssertionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(config.unit, Transition | NStep):
        raise ValueError(f"a buffer in shared memory has no unit {unit}: use Transition(), FrameStack(n) or NStep")
    return config.stack_num, config.sampler, config.unit


def columns_of(example: Batch | Mapping[str, Any]) -> Columns:
    """Returns the columns of rows like an example.

    :param example: one row.
    :raises MissingKeyError: if a field is missing that every row needs.
    :raises TypeError: if the example is no row.
    :raises ValueError: if a value is no number or array of numbers, or the hidden state of a recurrent policy.
    """
    if not isinstance(example, Batch | Mapping):
        raise TypeError(f"example must be one row, a Batch or a dict, got {type(example).__name__}")
    fields = dict(example.items())
    if "obs_next" not in fields:
        raise MissingKeyError(
            f"obs_next missing, got {', '.join(fields)}: a row in shared memory has its next observation"
        )
    _, added = Schema().conform(fields, None)
    odd = [path for path, column in added.numbers.items() if column.dtype.kind not in _NUMBERS]
    if bad := [*added.objects, *odd]:
        raise ValueError(f"{', '.join(map(dotted, bad))}: a buffer in shared memory stores numbers, no Python objects")
    if any(path[:2] == ("policy", "hidden_state") for path in added.numbers):
        raise ValueError("a buffer in shared memory does not serve recurrent policies: leave out policy.hidden_state")
    return [(path, column.dtype, tuple(column.shape)) for path, column in added.numbers.items()]
