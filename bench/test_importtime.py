"""The time of ``import rlfast`` in a new interpreter; the driver fails if that imports torch."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST

CASES = [Case("import", "importing", "import", {}, (RLFAST,), (Bar(at_most=0.1),))]


def test_importtime(measure, case, library):
    measure(case, library)
