"""The runner of mutants finds those that no test sees; those that may live change lines that exist, for a reason."""

import re

import pytest

from mutation import run, sources

REASONS = run.known()


@pytest.mark.parametrize("mutant", REASONS, ids=lambda mutant: f"{mutant.function} {mutant.becomes}"[:100])
def test_what_may_live_is_a_change_of_a_line_that_is_there(mutant):
    path = sources.source_of(mutant.function)
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    for line in mutant.was.split("\n"):
        assert line in lines, f"{path} has no such line any more: {line}"
    assert mutant.becomes != mutant.was
    assert REASONS[mutant].strip()


@pytest.mark.parametrize("name", run.AREAS)
def test_areas_have_sources_and_tests(name):
    area = run.AREAS[name]
    assert all([*(sources.ROOT / "python").glob(pattern)] for pattern in area.sources)
    assert all((sources.ROOT / test).exists() for test in area.tests)


def test_a_mutant_is_read_from_the_lines_of_both_functions():
    spans = {
        "xǁBǁc__mutmut_orig": ["    def xǁBǁc__mutmut_orig(self, a=1):", "        x = a", "        return x"],
        "xǁBǁc__mutmut_3": ["    def xǁBǁc__mutmut_3(self, a=1):", "        x = None", "        return x"],
        "xǁBǁc__mutmut_4": ["    def xǁBǁc__mutmut_4(self, a=2):", "        x = a", "        return x"],
    }
    assert sources.change("rlfast.a.xǁBǁc__mutmut_3", spans) == sources.Mutant("rlfast.a.B.c", "x = a", "x = None")
    signature = sources.Mutant("rlfast.a.B.c", "def c(self, a=1):", "def c(self, a=2):")
    assert sources.change("rlfast.a.xǁBǁc__mutmut_4", spans) == signature
    one = {"x__d__mutmut_orig": ["def x__d__mutmut_orig():"], "x__d__mutmut_1": ["def x__d__mutmut_1():"]}
    assert sources.change("rlfast.a.x__d__mutmut_1", one).function == "rlfast.a._d"


MODULE = """
import warnings

def add(a, b):
    return a + b

def unseen(a):
    return a + 1

def check(a):
    if a < 0:
        raise ValueError("a number that is not negative is wanted")
    return "key"

def limit():
    return 2 + 1

LIMIT = limit()

def elsewhere(a):
    return a * 3

def old(a):
    warnings.warn("this name is old", FutureWarning, stacklevel=2)
    return a

class Pair(tuple):
    def count(self, one):
        found = super().count(one)
        return found
"""
CASTS = """
from typing import cast

def size(a):
    return cast("Sized", len_of(a, "key"))
"""
ENDLESS = """
def down(a):
    while a > 0:
        a -= 1
    return a
"""
TESTS = """
import os, subprocess, sys, warnings
import shape
from endless import down

count = 0  # every mutant finds this as the others did

def test_add():
    global count
    count += 1
    assert shape.add(1, 2) == 3 and count == 1

def test_a_call_is_no_check():
    assert shape.unseen(1) is not None

def test_check():
    assert shape.check(0) == "key"
    try:
        shape.check(-1)
    except ValueError as error:
        assert str(error) != "None"
    else:
        raise AssertionError

def test_down():
    assert down(3) == 0

def test_old():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert shape.old(2) == 2
    assert [(one.filename, one.category, str(one.message) == "None") for one in warned] == [
        (__file__, FutureWarning, False)
    ]

def test_pair():
    assert shape.Pair((1, 1, 2)).count(1) == 2

def test_limit():
    assert shape.LIMIT == 3

def test_in_another_process():
    assert "MUTANT_UNDER_TEST" not in os.environ or os.environ["MUTANT_UNDER_TEST"] != "stats"
    wanted = "import shape; assert shape.elsewhere(2) == 6"
    assert subprocess.run([sys.executable, "-c", wanted], stderr=subprocess.DEVNULL).returncode == 0
"""


@pytest.fixture
def shape(tmp_path, monkeypatch):
    """A project of one module, of which ``run.AREAS`` has an area; returns the file of its tests."""
    pytest.importorskip("mutmut", reason="make mutation installs it")
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "shape.py").write_text(MODULE)
    (tmp_path / "python" / "endless.py").write_text(ENDLESS)
    (tmp_path / "pyproject.toml").write_text('[tool.mutmut]\nsource_paths = ["python"]\n')
    (tmp_path / "survivors.toml").write_text("")
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(run, "BUILD", tmp_path / "build")
    monkeypatch.setattr(run, "SURVIVORS", tmp_path / "survivors.toml")
    monkeypatch.setattr(run, "AREAS", {"shape": run.Area(("shape.py",), ("test_shape.py",))})
    monkeypatch.chdir(tmp_path)
    tests = tmp_path / "test_shape.py"
    tests.write_text(TESTS)
    return tests


def test_the_types_of_casts_are_not_changed(shape, tmp_path):
    (tmp_path / "python" / "shape.py").write_text(CASTS)
    for _ in range(2):  # what mutmut's operators were replaced by is not replaced again
        found = [mutant for mutant, _ in sources.mutate(tmp_path / "tree", ["shape.py"]).values()]
        assert [one.becomes for one in found] == [
            'return cast("Sized", None)',
            'return cast("Sized", )',
            'return cast("Sized", len_of(None, "key"))',
            'return cast("Sized", len_of(a, None))',
            'return cast("Sized", len_of("key"))',
            'return cast("Sized", len_of(a, ))',
            'return cast("Sized", len_of(a, "XXkeyXX"))',
            'return cast("Sized", len_of(a, "KEY"))',
        ]


def test_mutants_that_no_test_sees_are_told(shape, capsys):
    assert run.main(["shape"]) == 1
    told = capsys.readouterr().out
    assert "shape.unseen\n  - return a + 1\n  + return a - 1\n" in told
    assert "shape.unseen\n  - return a + 1\n  + return a + 2\n" in told
    assert told.count("\n  + ") == 2
    assert "\nshape: 2 alive, " in told
    shape.write_text(TESTS.replace("is not None", "== 2"))  # a test that sees what lived
    assert run.main([]) == 0
    told = capsys.readouterr().out
    assert ", 5 of them to be tried" in told, "these, and three of what is called while the module loads"
    assert "alive" not in told


def test_the_mutants_of_a_part_are_tried_alone(shape, capsys):
    assert run.main(["shape:unseen"]) == 1
    assert "shape: 2 mutants, 2 of them to be tried" in capsys.readouterr().out
    assert run.main(["shape:add"]) == 0
    assert run.main(["shape"]) == 1, "what a part showed is kept"
    told = capsys.readouterr().out
    assert "\nshape: 2 alive, " in told
    every, left = map(int, re.findall(r"shape: (\d+) mutants, (\d+) of them", told)[-1])
    assert left == every - 1, "add has one mutant"


def test_tests_are_watched_again_when_they_change(shape):
    tests = (
        TESTS
        + """
def test_told():
    with open("told", "a") as file:
        file.write(os.environ.get("MUTANT_UNDER_TEST", "watched") + "\\n")
"""
    )

    def times():
        run.main(["shape:unseen"])
        return (sources.ROOT / "told").read_text().split().count("watched")

    shape.write_text(tests)
    assert [times(), times()] == [1, 1]
    shape.write_text(tests + "\n")
    assert times() == 2


def test_a_mutant_that_never_ends_is_stopped(shape, capsys, monkeypatch):
    monkeypatch.setitem(run.AREAS, "shape", run.Area(("endless.py",), ("test_shape.py",)))
    assert run.main([]) == 0
    assert capsys.readouterr().out.endswith("seen, 2 stuck\n")


def test_a_mutant_that_may_live_is_no_fault(shape, capsys):
    changes = [("return a + 1", "return a - 1"), ("return a + 1", "return a + 2")]
    entries = [
        f"[[survivor]]\nfunction = 'shape.unseen'\nwas = {was!r}\nbecomes = {now!r}\nbecause = 'so'\n"
        for was, now in changes
    ]
    run.SURVIVORS.write_text("".join(entries))
    assert run.main(["shape"]) == 0
    assert "2 alive with a reason" in capsys.readouterr().out


def test_tests_that_fail_without_a_mutant_are_told(shape):
    shape.write_text(TESTS.replace("== 3 and", "== 4 and"))
    with pytest.raises(RuntimeError, match="mutants were not tried: see"):
        run.main(["shape"])
    assert run.main(["shapes"]) == 2
