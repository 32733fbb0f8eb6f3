"""The report at the end of a session of benchmarks."""

from bench.harness import Bench, Case, Effort, Measurement

from bench import report


def test_who_was_left_out_and_why():
    one, two = (Case(name, "scenario", "operation", {}, ("rlfast", "sb3")) for name in ("one", "two"))
    bench = Bench(Effort(rounds=1, seconds=0.1))
    bench.results = {one: {"rlfast": Measurement([1.0])}, two: {}}
    bench.unavailable = {one: {"sb3": "not installed"}, two: {"rlfast": "no torch", "sb3": "not installed"}}
    assert list(report.left_out(bench)) == [
        "left out of 2 of 2 cases: sb3: not installed",
        "left out of 1 of 2 cases: rlfast: no torch",
    ]
