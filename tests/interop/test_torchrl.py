"""rlfast's storage, sampler and buffer in an interpreter with TorchRL, which runs ``torchrl_driver.py``."""

import pytest

from interop.hosted import answers, checks

DRIVER = "torchrl_driver.py"


@pytest.mark.parametrize("check", checks(DRIVER))
def test_torchrl(check):
    found = answers(DRIVER, "RLFAST_TORCHRL_PYTHON", "0.14")
    assert check not in found, found[check]


def test_there_is_something_to_check():
    assert len(checks(DRIVER)) == 20
