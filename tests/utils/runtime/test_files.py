import os

import pytest

from rlfast.utils.runtime.files import replace_file


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    replace_file(tmp_path / "file", b"old")
    replace_file(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"new")]


@pytest.mark.parametrize(
    ("name", "reason"), [("no/file", "No such file"), ("a/file", "Not a directory"), ("b", "Is a")]
)
def test_an_error_names_the_file_that_was_asked_for(name, reason, tmp_path):
    (tmp_path / "a").write_bytes(b"kept")
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError, match=rf"{name} cannot be written: {reason}"):
        replace_file(tmp_path / name, b"new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"kept"


@pytest.mark.skipif(os.name == "nt", reason="Windows lets few users make links")
def test_a_link_is_replaced_and_its_target_stays(tmp_path):
    (tmp_path / "target").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    replace_file(tmp_path / "link", b"new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"kept"
