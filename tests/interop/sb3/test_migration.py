"""The page about moving from Stable-Baselines3."""

import pytest

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from interop import pages


def test_the_page_says_what_is_so():
    printed, claimed = pages.run("sb3")
    assert printed == claimed
    assert len(claimed) == 5
