"""The documents are correct: examples run and print what they show, links have targets, and commands exist."""

import contextlib
import inspect
import io
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import rlfast.policy

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")]
NAMES = [str(d.relative_to(ROOT)) for d in DOCUMENTS]
PACKAGES = (
    "data",
    "env",
    "functional",
    "policy",
    "trainer",
    "exploration",
    "export",
    "experiment",
    "utils",
    "highlevel",
    "evaluation",
    "interop",
)
ALGORITHM_PAGES = sorted(page for page in ROOT.glob("docs/algorithms/**/*.md") if page.stem != "index")
SITE_WIDTH = 88
"""Columns of code that fit beside the site's two menus in a window of 1280 pixels; docs/ruff.toml has it, too."""
WITHOUT_COMMAND = ("icm", "multi-agent", "psrl")  # pages of what a script is needed for
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)


def distinct(documents: list[Path]) -> list[Path]:
    """Documents with examples, each set of them once: the front page of the site has those of the README."""
    found = {tuple(blocks(document)): document for document in reversed(documents)}
    return [document for document in documents if blocks(document) and found[tuple(blocks(document))] == document]


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")  # of PettingZoo
@pytest.mark.parametrize("document", distinct(DOCUMENTS), ids=lambda d: d.name)
def test_examples_print_what_they_say(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}  # examples of a page build on each other
    for block in blocks(document):
        for module in re.findall(r"^from (pettingzoo)", block, re.MULTILINE):
            pytest.importorskip(module)
        claimed = re.findall(r"^ *print\(.*\)  +# (.*)$", block, re.MULTILINE)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, document.name, "exec"), names)
        assert printed.getvalue().splitlines() == claimed


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_code_fits_the_site(document: Path) -> None:
    code = re.findall(r"^```(?:python|sh)[^\n]*\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    assert [line for block in code for line in block.splitlines() if len(line) > SITE_WIDTH] == []


def test_the_readme_shows_an_example() -> None:
    assert any("print(" in block for block in blocks(ROOT / "README.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    made = {ROOT / f"docs/reference/{name}.md" for name in PACKAGES}  # by docs/site/hooks.py
    targets = {link: (document.parent / link).resolve() for link in links}
    assert [link for link, target in targets.items() if not target.exists() and target not in made] == []


def test_every_picture_is_shown() -> None:
    shown = {name for document in DOCUMENTS for name in re.findall(r"pictures/([\w.-]+)", document.read_text())}
    assert {picture.name for picture in ROOT.glob("docs/pictures/*")} == shown


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_make_commands_exist(document: Path) -> None:
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text(), re.MULTILINE))
    assert named - TARGETS == set()


def test_every_algorithm_of_the_command_line_has_a_page() -> None:
    from rlfast.experiment import ALGORITHMS

    pages = {page.stem: page.read_text() for page in ALGORITHM_PAGES if page.parent.name == "algorithms"}
    thresholds = {name: next(iter(a.presets.values())).stop_return for name, a in ALGORITHMS.items() if a.presets}
    with_threshold = {name: threshold for name, threshold in thresholds.items() if threshold is not None}
    assert set(pages) == {*with_threshold, *WITHOUT_COMMAND}
    offline = (ROOT / "docs" / "offline.md").read_text()  # what offline learning reaches depends on its data
    others = [name for name in ALGORITHMS if name not in with_threshold]
    assert [name for name in others if f"`rlfast train {name}`" not in offline] == []
    assert {page.stem for page in ALGORITHM_PAGES if page.parent.name == "offline"} == set(others)
    for name, threshold in with_threshold.items():
        page = pages[name]
        assert f"rlfast train {name} --env" in page
        assert f"| {threshold:g}" in page


def test_all_algorithms_are_in_the_overview() -> None:
    folder = ROOT / "docs" / "algorithms"
    listed = re.findall(r"^\| \[.*?\]\((.*?)\) \|", (folder / "index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(folder).as_posix() for page in ALGORITHM_PAGES)


def test_all_pages_are_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = re.findall(r"([\w/-]+\.md)$", menu, re.MULTILINE)
    made = [name for name in listed if name.startswith("reference/") or name in ("changelog.md", "contributing.md")]
    there = [page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")]
    assert sorted(set(listed) - set(made)) == sorted(page for page in there if not page.startswith("migration/"))
    assert len(listed) == len(set(listed))


def site(name: str):
    """A module of docs/site that needs no tools of the site."""
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        return __import__(name)
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize("page", ALGORITHM_PAGES, ids=lambda page: page.stem)
def test_algorithms_have_an_example_and_a_table_of_settings(page: Path) -> None:
    text = page.read_text()
    (name,) = re.findall(r"^<!-- settings: (\w+) -->$", text, re.MULTILINE)
    assert any(f"{name}(" in block for block in blocks(page))
    made = site("settings").with_tables(text)
    for argument in inspect.signature(getattr(rlfast.policy, name)).parameters.values():
        (row,) = re.findall(rf"^\| `{argument.name}` \| (.*) \|$", made, re.MULTILINE)
        default, _, meaning = row.split(" | ", maxsplit=2)
        required = argument.default is inspect.Parameter.empty
        assert default == ("required" if required else f"`{argument.default!r}`".replace("|", r"\|"))
        assert len(meaning) >= 10


def test_tables_have_ranges_and_plain_meanings() -> None:
    rows = site("settings").table(rlfast.policy.PPOPolicy).splitlines()
    meaning = "0 for advantages of one step, 1 for those of whole episodes."
    assert f"| `gae_lambda` | `0.95` | number in [0, 1] | {meaning} |" in rows
    assert "| `vf_coef` | `0.5` | number | Weight of the critic's loss, \\(c_1\\). |" in rows
    assert any(row.startswith("| `action_bound_method` | `'clip'` | `'clip'`, `'tanh'`, or None |") for row in rows)
    assert any("`max_batchsize` | `256` | integer \N{GREATER-THAN OR EQUAL TO} 1 |" in row for row in rows)
    cql = site("settings").table(rlfast.policy.CQLPolicy)  # whose docstring refers to SAC's
    assert (
        "| `tau` | `0.005` | number in [0, 1] | Size of the steps of target networks towards the trained ones. |" in cql
    )


@pytest.mark.parametrize(
    ("rest", "markdown"),
    [
        (":math:`a_t \\le\n    b`", r"\(a_t \le b\)"),
        ("Text.\n\n.. math:: L = x^2\n\nMore.", "Text.\n\n\n$$\nL = x^2\n$$\n\n\nMore."),
        (
            ".. math::\n    a &= b \\\\\n    c &= d\n\nMore.",
            "\n$$\n\\begin{aligned}a &= b \\\\ c &= d\\end{aligned}\n$$\n\n\nMore.",
        ),
        ("See :class:`~rlfast.data.Batch` and ``x``.", "See `rlfast.data.Batch` and `x`."),
        ("Do.\n\n:param x: it.\n\n>>> do(1)\n1", "Do.\n\n```pycon\n>>> do(1)\n1\n```\n\n:param x: it."),
    ],
)
def test_docstrings_become_markdown(rest: str, markdown: str) -> None:
    assert site("rest").markdown(rest) == markdown


def test_no_equation_of_a_docstring_is_left_as_rest() -> None:
    found = {source: source.read_text() for source in ROOT.glob("python/rlfast/**/*.py")}
    equations = {source.name: site("rest").markdown(inspect.cleandoc(text)) for source, text in found.items()}
    assert [name for name, text in equations.items() if ".. math::" in text or ":math:" in text] == []


def test_the_page_of_results_is_what_its_curves_say() -> None:
    results = site("results")
    page, groups = (ROOT / "docs" / "results.md").read_text(), results.curves(ROOT / "docs")
    assert results.with_results(page, groups) == page
    assert (ROOT / "docs" / results.PICTURE).exists() == bool(groups)


def test_results_have_a_table_of_tasks_and_algorithms(tmp_path: Path) -> None:
    from rlfast.experiment import ALGORITHMS
    from rlfast.experiment.report.curves import RunCurve, write_curve

    results = site("results")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "results.md").write_text("# Results\n\n<!-- mujoco-v5 -->\n<!-- end of mujoco-v5 -->\n\nBelow.\n")
    empty = (tmp_path / "results.md").read_text()
    results.main(tmp_path)
    assert (tmp_path / "results.md").read_text() == empty
    facts = {"source": tmp_path, "beyond": (), "versions": {}, "processor": "", "seconds": 1.0, "ended": True}
    runs = {
        ("sac", "Hopper-v5", 300): (100, 90),
        ("sac", "HalfCheetah-v5", 300): (9_000,),
        ("ppo", "Hopper-v5", 900): (7,),
    }
    for (name, env, max_steps), last in runs.items():
        for seed, value in enumerate(last):
            own = {"reset_noise_scale": 0.5} if name == "sac" and env == "Hopper-v5" else {}
            config = replace(ALGORITHMS[name].preset(env), seed=seed, max_steps=max_steps, env_kwargs=own)
            mean = (0.0, 2_000.0, float(value))
            run = RunCurve(config=config, steps=(0, 100, max_steps), mean=mean, std=mean, **facts)
            write_curve(run, tmp_path / "results" / "mujoco-v5")
    results.main(tmp_path)
    page = (tmp_path / "results.md").read_text()
    lines = page.splitlines()
    assert "over the seeds listed below: of last tests, and in brackets" in lines[3]
    assert lines[5:9] == [
        "| task | PPO, 900 steps | SAC, 300 steps |",
        "| --- | --- | --- |",
        "| HalfCheetah-v5 |  | 9,000 (9,000), one seed |",
        "| Hopper-v5 | 7 (2,000), one seed | 95 (2,000) |",
    ]
    assert lines[10] == "Hopper-v5 of SAC is `gymnasium.make('Hopper-v5', reset_noise_scale=0.5)`."
    assert lines[12].endswith(f"({results.PICTURE})")
    assert "| Hopper-v5 | SAC | 95.0 | 2,000.0 | 95.0 (90.0 to 100.0) | 0-1 | 300 |" in page
    assert "- `rlfast train sac --env Hopper-v5 --seed 0 --env-kwargs reset_noise_scale=0.5 --max-steps 300`" in page
    assert page.endswith("<!-- end of mujoco-v5 -->\n\nBelow.\n")
    assert (tmp_path / results.PICTURE).exists()
    results.main(tmp_path)
    assert (tmp_path / "results.md").read_text() == page
    for path in (tmp_path / "results").rglob("*.csv"):
        path.unlink()
    results.main(tmp_path)
    assert (tmp_path / "results.md").read_text() == empty
    assert not (tmp_path / results.PICTURE).exists()


def test_the_table_of_robust_presets_is_what_its_file_says() -> None:
    robust = site("robust")
    page, runs = (ROOT / "docs" / "results.md").read_text(), robust.read()
    assert len(runs) >= 100
    assert {run.seed for run in runs} == {*robust.SEEDS}
    assert robust.section(runs) in page


def test_runs_that_miss_their_thresholds_are_listed(tmp_path: Path) -> None:
    from rlfast.experiment import ALGORITHMS
    from rlfast.experiment.report.curves import RunCurve

    robust = site("robust")
    facts = {"source": tmp_path, "beyond": (), "versions": {}, "processor": "", "seconds": 1.0}
    preset = ALGORITHMS["dqn"].preset("CartPole-v1")
    kept = [(10, True, 480.0), (11, True, 120.0), (12, False, 480.0), (3, True, 480.0)]  # seed, whether ended, last
    runs = []
    for seed, ended, last in kept:
        config, mean = replace(preset, seed=seed), (9.0, last)
        runs.append(robust.run_of(RunCurve(config=config, steps=(0, 100), mean=mean, std=mean, ended=ended, **facts)))
    assert [run is not None for run in runs] == [True, True, False, False]
    robust.write(runs[:2], tmp_path / "kept.csv")
    assert robust.read(tmp_path / "kept.csv") == runs[:2]
    text = robust.section(runs[:2])
    assert text.startswith("1 of 2 runs of 1 presets reach")
    assert "| CartPole-v1 | `dqn` | 475 | 1 of 2 | 100 (100 to 100) |\n" in text
    assert text.endswith("- `dqn`, CartPole-v1, seed 11: 0:9 100:120\n")


def test_a_row_of_the_gallery_replaces_that_of_its_environment() -> None:
    with_rows = site("gallery").with_rows
    page = with_rows("# Gallery\n\n| | |\n|---|---|\n", ["| ![a](a.webp) | 1 |", "| ![b](b.webp) | 2 |"])
    assert page == "# Gallery\n\n| | |\n|---|---|\n| ![a](a.webp) | 1 |\n| ![b](b.webp) | 2 |\n"
    assert with_rows(page, ["| ![a](a.webp) | 3 |"]) == page.replace("| 1 |", "| 3 |")


def test_llms_txt_names_pages_that_exist() -> None:
    text = (ROOT / "docs" / "llms.txt").read_text()
    pages = re.findall(r"\]\(([^)]*)\.html\)", text)
    built = set(re.findall(r"reference/\w+", (ROOT / "mkdocs.yml").read_text()))
    assert len(pages) >= 20
    assert [page for page in pages if page not in built and not (ROOT / "docs" / f"{page}.md").exists()] == []
    guides = {f"guides/{path.stem}" for path in (ROOT / "docs" / "guides").glob("*.md")}
    assert guides - {*pages} <= {"guides/dicts"}
