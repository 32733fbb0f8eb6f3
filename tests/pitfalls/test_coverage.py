"""Every pitfall has a test that carries its name."""

import re
from pathlib import Path

PITFALLS = {"A": 10, "B": 8, "C": 13, "D": 9, "E": 13, "F": 10}


def test_every_pitfall_has_a_test():
    named = set()
    for file in Path(__file__).parents[1].rglob("test_*.py"):
        named |= set(re.findall(r'mark\.pitfall\("([A-Z]\d+)"\)', file.read_text(encoding="utf-8")))
    missing = [f"{group}{number}" for group, last in PITFALLS.items() for number in range(1, last + 1)]
    assert [name for name in missing if name not in named] == []
