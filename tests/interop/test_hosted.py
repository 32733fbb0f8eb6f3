"""rlfast's buffers in interpreters with the libraries that they are for, which run ``*_driver.py``."""

import pytest

from interop.hosted import answers, checks

HOSTS = [
    ("d3rlpy", "2.8", "RLFAST_D3RLPY_PYTHON"),
    ("tianshou", "1.0", "RLFAST_TIANSHOU_PYTHON"),
    ("tianshou", "1.2", "RLFAST_TIANSHOU12_PYTHON"),
    ("tianshou", "2.0", "RLFAST_TIANSHOU2_PYTHON"),
    ("torchrl", "0.14", "RLFAST_TORCHRL_PYTHON"),
]
COUNTS = {"d3rlpy": 15, "tianshou": 14, "torchrl": 20}


@pytest.mark.parametrize(
    ("host", "version", "variable", "check"),
    [(*host, check) for host in HOSTS for check in checks(f"{host[0]}_driver.py")],
)
def test_adapter_passes_the_check_in_its_host(host, version, variable, check):
    found = answers(f"{host}_driver.py", variable, version)
    assert check not in found, found[check]


@pytest.mark.parametrize("host", COUNTS)
def test_drivers_have_checks(host):
    assert len(checks(f"{host}_driver.py")) == COUNTS[host]
