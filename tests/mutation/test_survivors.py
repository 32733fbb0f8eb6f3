"""The mutants that may survive change lines that exist, and each has a reason."""

import pytest

from mutation import run

REASONS = run.known()


@pytest.mark.parametrize("mutant", REASONS, ids=lambda mutant: f"{mutant.function} {mutant.becomes}"[:100])
def test_what_may_live_is_a_change_of_a_line_that_is_there(mutant):
    path = run.source_of(mutant.function)
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    for line in mutant.was.split("\n"):
        assert line in lines, f"{path} has no such line any more: {line}"
    assert mutant.becomes != mutant.was
    assert REASONS[mutant].strip()


@pytest.mark.parametrize("name", run.AREAS)
def test_areas_have_sources_and_tests(name):
    area = run.AREAS[name]
    assert all([*(run.ROOT / "python").glob(pattern)] for pattern in area.sources)
    assert all((run.ROOT / test).exists() for test in area.tests)


def test_a_mutant_is_read_from_what_mutmut_shows():
    head = "# rlfast.a.xǁBǁc__mutmut_3: survived\n--- rlfast/a.py\n+++ rlfast/a.py\n@@ -1 +1 @@\n"
    shown = head + " def c(self):\n-    x = 1\n+    x = 2\n"
    assert run.parsed("rlfast.a.xǁBǁc__mutmut_3", shown) == run.Mutant("rlfast.a.B.c", "x = 1", "x = 2")
    assert run.parsed("rlfast.a.x__d__mutmut_1", shown).function == "rlfast.a._d"
