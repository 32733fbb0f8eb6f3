"""Impossible amounts: numbers, and arrays and sequences of them."""

import numpy as np


class Boastful:
    """A sequence whose length is less than it reports."""

    def __len__(self):
        return 2**62

    def __getitem__(self, place):
        if place > 2:
            raise IndexError(place)
        return place


class Modest:
    """A sequence whose length is more than it reports."""

    def __len__(self):
        return 2

    def __getitem__(self, place):
        if place > 100_000:
            raise IndexError(place)
        return 0


def circular():
    """A list in itself."""
    itself = []
    itself.append(itself)
    return itself


def nested(depth):
    """A list in a list, and so on."""
    inner = []
    for _ in range(depth):
        inner = [inner]
    return inner


VALUES = {
    "10**13": lambda: 10**13,
    "2**61": lambda: 2**61,
    "2**63 - 1": lambda: 2**63 - 1,
    "10**30": lambda: 10**30,
    "0": lambda: 0,
    "-1": lambda: -1,
    "-2**63": lambda: -(2**63),
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "1.5": lambda: 1.5,
    "True": lambda: True,
    "a string": lambda: "3",
    "None": lambda: None,
    "range(10**13)": lambda: range(10**13),
    "zeros broadcast": lambda: np.broadcast_to(np.int64(0), 10**13),
    "an array of 2**63 - 1": lambda: np.array([2**63 - 1]),
    "an array of -2**63": lambda: np.array([-(2**63)]),
    "an array of nan": lambda: np.array([np.nan]),
    "a list in itself": circular,
    "a boastful sequence": Boastful,
}
"""The values of the normal run."""

MORE = {
    "2**31": lambda: 2**31,
    "2**32": lambda: 2**32,
    "5 * 10**7": lambda: 5 * 10**7,
    "2**63": lambda: 2**63,
    "2**64 - 1": lambda: 2**64 - 1,
    "-10**30": lambda: -(10**30),
    "-inf": lambda: float("-inf"),
    "1e300": lambda: 1e300,
    "False": lambda: False,
    "bytes": lambda: b"3",
    "an empty array": lambda: np.zeros((2, 0), np.int64),
    "an array of no axes": lambda: np.array(2**62),
    "flags": lambda: np.array([True, False]),
    "unsigned": lambda: np.array([2**64 - 1], np.uint64),
    "rows broadcast": lambda: np.broadcast_to(np.int64(0), (10**7, 10**7)),
    "floats broadcast": lambda: np.broadcast_to(0.0, 10**13),
    "a list of 10**13": lambda: [10**13],
    "a list of 2**61 twice": lambda: [2**61, 2**61],
    "an object": object,
    "a list 100,000 deep": lambda: nested(100_000),
    "a modest sequence": Modest,
    "a dict": lambda: {"a": 1},
    "a numpy integer": lambda: np.int64(2**62),
    "complex": lambda: 1j,
}
"""Those of the long run beside."""
