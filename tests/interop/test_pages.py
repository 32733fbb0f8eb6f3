"""The examples of the pages about moving from other libraries print what the pages claim."""

import pytest

from interop import pages


@pytest.mark.parametrize(("page", "host", "claims"), [("cleanrl", "torch", 3), ("sb3", "stable_baselines3", 5)])
def test_migration_page_is_true(page, host, claims):
    pytest.importorskip(host, reason=f"{host} is not installed: pip install '.[{page}]'")
    printed, claimed = pages.run(page)
    assert printed == claimed
    assert len(claimed) == claims
