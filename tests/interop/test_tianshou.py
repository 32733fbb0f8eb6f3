"""rlfast's buffers in the interpreters of Tianshou 1.0, 1.2 and 2.0, which run ``tianshou_driver.py``."""

import pytest

from interop.hosted import answers, checks

DRIVER = "tianshou_driver.py"
HOSTS = {"1.0": "RLFAST_TIANSHOU_PYTHON", "1.2": "RLFAST_TIANSHOU12_PYTHON", "2.0": "RLFAST_TIANSHOU2_PYTHON"}


@pytest.mark.parametrize("version", HOSTS)
@pytest.mark.parametrize("check", checks(DRIVER))
def test_tianshou(version, check):
    found = answers(DRIVER, HOSTS[version], version)
    assert check not in found, found[check]


def test_there_is_something_to_check():
    assert len(checks(DRIVER)) == 14
