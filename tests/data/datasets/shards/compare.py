"""Compares the rows that rlfast reads from the shard of a folder with those that TensorFlow read; see `write.py`."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rlfast._core import UnpluggedShards


def compare(folder, scratch):
    """Compares all features of all records that TensorFlow read: returns the numbers of these and of all records."""
    with np.load(folder / "by_tensorflow.npz") as file:
        wanted = dict(file)
    shards = UnpluggedShards(scratch, False)
    shards.open(folder / "run_1-00000-of-00100")
    while shards.read(10_000)[1]:
        pass
    values, count = shards.values(0, len(shards)), len(wanted["a_t"])
    records = values["record"]
    assert np.array_equal(np.sort(records), np.arange(len(records))), "each record is a row"
    for place in np.flatnonzero(records < count):
        found = dict(zip(("o_t", "o_tp1"), shards.observations(place, place + 1), strict=True))
        found |= {name: column[place : place + 1] for name, column in values.items()}
        for name, column in wanted.items():
            one = column[records[place]]
            assert found[name].dtype == one.dtype, name
            assert np.array_equal(found[name][0], one), f"{name} of record {records[place]}"
    return count, len(records)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compares what rlfast reads with what TensorFlow read.")
    parser.add_argument("folder", type=Path)
    with TemporaryDirectory() as scratch:
        read, there = compare(parser.parse_args().folder, Path(scratch))
    sys.stdout.write(f"{read:,} of {there:,} records are as TensorFlow reads them\n")
