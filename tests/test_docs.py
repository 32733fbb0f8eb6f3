"""The documents are correct: examples run and print what they show, links have targets, and commands exist."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
NAMES = [str(d.relative_to(ROOT)) for d in DOCUMENTS]
PACKAGES = (
    "data",
    "env",
    "functional",
    "policy",
    "trainer",
    "exploration",
    "utils",
    "highlevel",
    "evaluation",
    "interop",
)
WITHOUT_COMMAND = ("icm", "multi-agent", "psrl")  # pages of what a script is needed for
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)], ids=lambda d: d.name)
def test_examples_print_what_they_say(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(document):
        claimed = re.findall(r"^ *print\(.*\)  +# (.*)$", block, re.MULTILINE)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, document.name, "exec"), {"__name__": "__main__"})
        assert printed.getvalue().splitlines() == claimed


def test_the_readme_shows_an_example() -> None:
    assert any("print(" in block for block in blocks(ROOT / "README.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    made = {f"reference/{name}.md": ROOT / "python" / "rlfast" / name for name in PACKAGES}  # by docs/site/hooks.py
    assert [link for link in links if not made.get(link, document.parent / link).exists()] == []


def test_every_picture_is_shown() -> None:
    shown = {name for document in DOCUMENTS for name in re.findall(r"pictures/([\w.-]+)", document.read_text())}
    assert {picture.name for picture in ROOT.glob("docs/pictures/*")} == shown


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_make_commands_exist(document: Path) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(), re.MULTILINE))
    assert named - TARGETS == set()


def test_every_algorithm_of_the_command_line_has_a_page() -> None:
    from rlfast.experiment import ALGORITHMS

    pages = {page.stem: page.read_text() for page in ROOT.glob("docs/algorithms/*.md")}
    thresholds = {name: next(iter(a.presets.values())).stop_return for name, a in ALGORITHMS.items() if a.presets}
    with_threshold = {name: threshold for name, threshold in thresholds.items() if threshold is not None}
    assert set(pages) == {*with_threshold, *WITHOUT_COMMAND}
    offline = (ROOT / "docs" / "offline.md").read_text()  # what offline learning reaches depends on its data
    assert [name for name in ALGORITHMS if f"`rlfast train {name}`" not in offline and name not in with_threshold] == []
    for name, threshold in with_threshold.items():
        page = pages[name]
        assert f"rlfast train {name} --env" in page
        assert f"| {threshold:g}" in page
