"""A missing library is named with the extra that brings it."""

import re
import tomllib
from pathlib import Path

import pytest

from rlfast.utils.runtime.extras import MissingExtra, needed_by

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def libraries(extra):
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    return [re.split(r"[\[><=]", requirement)[0].replace("-", "_") for requirement in extras[extra]]


@pytest.mark.parametrize(("inner", "named"), [("rlfast.utils.net", "rlfast train"), ("an HDF5 file", "an HDF5 file")])
def test_missing_extra_names_requested_package(inner, named):
    with pytest.raises(MissingExtra, match=f"^{named} needs torch, "), needed_by("rlfast train"), needed_by(inner):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")


@pytest.mark.parametrize("library", libraries("train"))
def test_each_library_of_the_train_extra_is_known(library):
    with pytest.raises(MissingExtra, match=f"needs {library}, .* pip install '\\."), needed_by("this"):
        raise ModuleNotFoundError(f"No module named '{library}'", name=library)
