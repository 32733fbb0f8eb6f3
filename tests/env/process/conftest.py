"""Skips tests on systems without worker processes."""

import sys

import pytest


def pytest_collection_modifyitems(items):
    if sys.platform == "win32":
        for item in items:
            if "env/process" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason="worker processes pass open files on, which Windows cannot"))
