"""The mutants that may survive change lines that exist, and each has a reason."""

import json
from types import SimpleNamespace

import pytest

from mutation import quick_first, run

REASONS = run.known()


@pytest.mark.parametrize("mutant", REASONS, ids=lambda mutant: f"{mutant.function} {mutant.becomes}"[:100])
def test_what_may_live_is_a_change_of_a_line_that_is_there(mutant):
    path = run.source_of(mutant.function)
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    for line in mutant.was.split("\n"):
        assert line in lines, f"{path} has no such line any more: {line}"
    assert mutant.becomes != mutant.was
    assert REASONS[mutant].strip()


@pytest.mark.parametrize("name", run.AREAS)
def test_areas_have_sources_and_tests(name):
    area = run.AREAS[name]
    assert all([*(run.ROOT / "python").glob(pattern)] for pattern in area.sources)
    assert all((run.ROOT / test).exists() for test in area.tests)


def test_a_mutant_is_read_from_what_mutmut_shows():
    head = "# rlfast.a.xǁBǁc__mutmut_3: survived\n--- rlfast/a.py\n+++ rlfast/a.py\n@@ -1 +1 @@\n"
    shown = head + " def c(self):\n-    x = 1\n+    x = 2\n"
    assert run.parsed("rlfast.a.xǁBǁc__mutmut_3", shown) == run.Mutant("rlfast.a.B.c", "x = 1", "x = 2")
    assert run.parsed("rlfast.a.x__d__mutmut_1", shown).function == "rlfast.a._d"


def test_a_copy_is_renewed_where_its_source_has_changed(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a.py").write_text("1")
    (source / "picture.png").write_bytes(b"")  # nothing that tests read
    assert run._mirror(source, target)
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["a.py"]
    before = (target / "deep" / "a.py").stat().st_mtime_ns
    assert not run._mirror(source, target)
    assert (target / "deep" / "a.py").stat().st_mtime_ns == before
    (source / "deep" / "a.py").write_text("2")
    assert run._mirror(source, target)
    assert (target / "deep" / "a.py").read_text() == "2"
    (source / "deep" / "a.py").rename(source / "b.py")
    assert run._mirror(source, target)
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["b.py"]


def test_what_lived_is_tried_again_and_what_died_is_not(tmp_path):
    notes = tmp_path / "mutants" / "src" / "a.py.meta"
    notes.parent.mkdir(parents=True)
    (tmp_path / "mutants" / "mutmut-stats.json").write_text("{}")
    notes.write_text(
        json.dumps({"exit_code_by_key": {"lived": 0, "died": 1, "no tests": 33, "stuck": 36, "new": None}})
    )
    run._forget(tmp_path)
    assert json.loads(notes.read_text())["exit_code_by_key"] == {
        "lived": None, "died": 1, "no tests": None, "stuck": 36, "new": None,
    }  # fmt: skip
    assert not (tmp_path / "mutants" / "mutmut-stats.json").exists()
    run._forget(tmp_path / "nothing")


def test_the_quickest_tests_come_first(tmp_path, monkeypatch):
    items = [SimpleNamespace(nodeid=name) for name in ("slow", "unknown", "quick", "middling")]
    monkeypatch.chdir(tmp_path)
    quick_first.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["slow", "unknown", "quick", "middling"]
    (tmp_path / quick_first.STATS).write_text('{"duration_by_test": {"slow": 9.0, "quick": 0.1, "middling": 2.0}}')
    quick_first.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["unknown", "quick", "middling", "slow"]


def test_copies_of_what_is_not_mutated_are_renewed(tmp_path):
    copies = tmp_path / "mutants" / "src" / "rlfast"
    for folder, content in ((tmp_path / "src" / "rlfast", "new"), (copies, "old")):
        folder.mkdir(parents=True)
        for name in ("engine.so", "other.py", "mutated.py"):
            (folder / name).write_text(content)
        (folder / "same.py").write_text("same")
    (copies / "gone.py").write_text("old")
    (copies / "mutated.py.meta").write_text("{}")
    run._drop_stale(tmp_path, ("rlfast/mutated.py",))
    assert sorted(path.name for path in copies.iterdir()) == ["mutated.py", "mutated.py.meta", "same.py"]
    run._drop_stale(tmp_path, ("rlfast/*.py",))
    assert (copies / "same.py").exists()
