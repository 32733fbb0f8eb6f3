"""rlfast's replay buffer in an interpreter with d3rlpy, which runs ``d3rlpy_driver.py``."""

import pytest

from interop.hosted import answers, checks

DRIVER = "d3rlpy_driver.py"


@pytest.mark.parametrize("check", checks(DRIVER))
def test_d3rlpy(check):
    found = answers(DRIVER, "RLFAST_D3RLPY_PYTHON", "2.8")
    assert check not in found, found[check]


def test_there_is_something_to_check():
    assert len(checks(DRIVER)) == 15
