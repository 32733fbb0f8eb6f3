"""The museum: its cases, its page, its judge, and that rlfast is right in every case."""

import json
import os
import re
import signal

import pytest
from bench.museum import operations, worker
from bench.museum.case import ABSENT, REFUSES, RIGHT, WRONG, Case, Either, address
from bench.museum.cases import AREAS, CASES
from bench.museum.judge import agrees, verdict
from bench.museum.page import cell, page
from bench.museum.run import COLUMNS, PAGE, load, run_library

ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+|https://\S+")


def test_ids_are_unique():
    assert sum(map(len, AREAS.values())) == len(CASES) >= 80


def test_every_case_names_a_public_report():
    bad = [case.id for case in CASES.values() if not case.issues or not all(map(ISSUE.fullmatch, case.issues))]
    assert bad == []


def test_cases_are_plain_data():
    for case in CASES.values():
        json.dumps(case.given)
        assert set(case.intended) <= set(COLUMNS)
        assert hasattr(operations, case.operation)


def test_no_adapter_knows_a_case():
    for file in (worker.HERE / "adapters").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert [id for id in CASES if "-" in id and f'"{id}"' in text] == []


@pytest.fixture(scope="module")
def answers():
    """What rlfast gives today."""
    return run_library("rlfast", list(CASES.values()), limit=300)["cases"]


@pytest.mark.parametrize("id", CASES)
def test_rlfast_is_right(answers, id):
    assert answers[id]["outcome"] in {RIGHT, ABSENT}, answers[id]


def test_rlfast_has_nearly_every_feature():
    outcomes = [answer["outcome"] for answer in load()["libraries"]["rlfast"]["cases"].values()]
    assert set(outcomes) <= {RIGHT, ABSENT}
    assert outcomes.count(ABSENT) <= 2


def test_eight_peers_have_answered_every_case():
    libraries = load()["libraries"]
    assert len(libraries) >= 9
    assert [(name, id) for name, library in libraries.items() for id in CASES if id not in library["cases"]] == []


def test_the_page_is_that_of_the_results():
    assert PAGE.read_text(encoding="utf-8") == page(load()), "run `python -m bench.museum --page`"


# -- the judge -----------------------------------------------------------------------------------------------------


def case(right, **options):
    return Case("name", "title", ("owner/repository#1",), "operation", {}, right, **options)


NAN = float("nan")


@pytest.mark.parametrize(
    ("observed", "right", "same"),
    [
        ([1.0, 2.000001], [1, 2], True),
        ([1.0, 2.1], [1, 2], False),
        ([1.0], [1, 2], False),
        (NAN, NAN, True),
        (0.0, NAN, False),
        (float("inf"), 1e9, False),
        ({"0": 1.0}, {0: 1}, True),
        ({"0": 1.0, "1": 2.0}, {0: 1}, False),
        (1, True, False),
        (True, 1, False),
        ("a", "a", True),
        ([2], [Either(1, 2)], True),
        ([3], [Either(1, 2)], False),
    ],
)
def test_answers_are_compared_by_value(observed, right, same):
    assert agrees(observed, right, 1e-5) is same


@pytest.mark.parametrize(
    ("answer", "refusing_is_right", "outcome"),
    [
        ({"value": 1}, False, RIGHT),
        ({"value": 2}, False, WRONG),
        ({"absent": "no such thing"}, False, ABSENT),
        ({"died": "the process died"}, True, WRONG),
        ({"error": "E: no", "deliberate": True}, False, REFUSES),
        ({"error": "E: no", "deliberate": True}, True, RIGHT),
        ({"error": "E: no", "deliberate": False}, True, WRONG),
    ],
)
def test_verdicts(answer, refusing_is_right, outcome):
    assert verdict(case(1, refusing_is_right=refusing_is_right), answer)[0] == outcome


def test_an_intended_answer_says_so():
    library = {"cases": {"name": {"outcome": WRONG, "observed": 2}}}
    assert cell(case(1), "sb3", library) == "**wrong**"
    assert cell(case(1, intended={"sb3": "words"}), "sb3", library) == "**wrong**, *intended*"


def test_addresses():
    assert address("a/b#12") == "https://github.com/a/b/issues/12"
    assert address("https://example.org/x") == "https://example.org/x"


# -- the worker ----------------------------------------------------------------------------------------------------


class Adapter:
    COMPILED = False

    @staticmethod
    def hang(*_):
        while True:
            pass

    @staticmethod
    def crash(*_):
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
@pytest.mark.parametrize(("how", "told"), [("hang", "hangs"), ("crash", "SIGTERM")])
def test_hung_case_differs_from_crash(how, told):
    adapter = type("Other", (), {"squashed_log_prob": getattr(Adapter, how)})
    answer = worker.in_fork(adapter, {"operation": "squashed_density", "given": {"action": 1.0}, "limit": 1.0})
    assert told in answer["died"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_missing_feature_is_absent():
    answer = worker.in_fork(Adapter, {"operation": "squashed_density", "given": {"action": 1.0}, "limit": 60})
    assert answer == {"absent": "no squashed log prob"}


def test_only_deliberate_errors_are_refusals(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "somelib"
    folder.mkdir(parents=True)
    (folder / "lib.py").write_text(
        "def refuse(): raise ValueError(\n    'no')\n"
        "def bare(): assert False\n"
        "def check(): assert False, 'told'\n"
        "def fall(): return [1][5]\n"
        "def silent(): raise ValueError\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    import lib

    found = {}
    for name in ("refuse", "bare", "check", "fall", "silent"):
        try:
            getattr(lib, name)()
        except Exception as error:
            found[name] = worker.is_deliberate(error, compiled=False)
    assert found == {"refuse": True, "bare": False, "check": True, "fall": False, "silent": False}
