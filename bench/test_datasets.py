"""Files of data for offline learning: reading them into a buffer, beside h5py reading their arrays."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST

CASES = [
    Case(
        f"D4RL HDF5, 1M rows{', next_observations' * following}{', gzip' * compressed}",
        "read_d4rl",
        "read",
        {"rows": 1_000_000, "following": following, "compressed": compressed},
        (RLFAST, "plain"),
        (Bar(("plain",), 1 / 1.5),),
        quick={"rows": 100_000},
    )
    for compressed in (True, False)
    for following in (False, True)
]


def test_datasets(measure, case, library):
    measure(case, library)
