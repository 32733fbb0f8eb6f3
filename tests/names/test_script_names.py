"""Every name that the example scripts of Tianshou 1.0 import can be imported, after ``sed s/tianshou/rlfast/``."""

from importlib import import_module

import pytest

pytest.importorskip("torch")

from names.resolve import HERE

#: The module and the name of each line.
IMPORTS = [tuple(line.split()) for line in (HERE / "scripts.txt").read_text().splitlines()]


def test_the_list_is_whole():
    assert len(IMPORTS) == len(set(IMPORTS)) == 132


@pytest.mark.parametrize(("module", "name"), IMPORTS)
def test_scripts_can_import_it(module, name):
    if not hasattr(import_module(module), name):
        import_module(f"{module}.{name}")  # a module of a package
