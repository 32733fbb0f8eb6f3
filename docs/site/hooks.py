"""Pages that stand elsewhere in the repository, the reference, tables of settings, and mathematics.

The reference is made of what packages export. MathJax is copied from a package into the site, and the pages with
equations load it.
"""

from __future__ import annotations

import re
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from rest import markdown
from settings import with_tables

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
PACKAGES = (
    *("data", "env", "policy", "trainer", "experiment", "functional", "exploration", "export", "distributed", "utils"),
)
BY_MODULE = ("highlevel", "evaluation")
ADAPTERS = ("tianshou", "sb3", "cleanrl", "torchrl", "d3rlpy")
MATHJAX = "site/mathjax.js"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts every migration page under its heading."""
    headings = [entry for entry in config.nav or [] if isinstance(entry, dict)]
    pages = next(entry["Moving here"] for entry in headings if "Moving here" in entry)
    found = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/migration").glob("*.md"))
    pages[:0] = found
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made here."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for package in PACKAGES:
        files.append(File.generated(config, f"reference/{package}.md", content=reference(package)))
    for package in BY_MODULE:
        files.append(File.generated(config, f"reference/{package}.md", content=modules(package)))
    files.append(File.generated(config, "reference/interop.md", content=adapters()))
    mathjax = resources.files("mathjax") / "static/mathjax/es5/tex-svg.js"
    files.append(File.generated(config, MATHJAX, content=mathjax.read_text()))
    return files


def reference(package: str) -> str:
    """A page with everything that a package exports."""
    module = import_module(f"rlfast.{package}")
    lines = [f"# rlfast.{package}\n", f"{markdown(module.__doc__)}\n"]
    for name in module.__all__:
        found = getattr(module, name)
        home = getattr(found, "__module__", "")
        if home.startswith("rlfast.") and not home.startswith("rlfast._core"):
            other = getattr(found, "__name__", name) != name
            lines.append(
                f"### `{name}`\n\nAnother name of `{found.__name__}`.\n" if other else f"::: rlfast.{package}.{name}\n"
            )
        elif home == "rlfast._core":
            lines.append(f"### `{name}`\n\n{markdown(found.__doc__)}\n")
    return "\n".join(lines)


def modules(package: str) -> str:
    """A page with the modules of a package, which are imported by their own names."""
    parts = [f"# rlfast.{package}\n", f"{import_module(f'rlfast.{package}').__doc__}\n"]
    for path in sorted((ROOT / "python/rlfast" / package).rglob("*.py")):
        if not path.stem.startswith("_"):
            name = ".".join(path.relative_to(ROOT / "python").with_suffix("").parts)
            parts.append(f"## {name}\n\n::: {name}\n    options: {{show_root_heading: false}}\n")
    return "\n".join(parts)


def adapters() -> str:
    """A page with the modules that need a host: they are read, not imported."""
    present = [name for name in ADAPTERS if list((ROOT / "python/rlfast/interop").glob(f"{name}*"))]
    parts = ["# rlfast.interop\n", "Buffers inside other libraries, each under the host's own names.\n"]
    for name in present:
        parts.append(f"## rlfast.interop.{name}\n")
        folder = ROOT / "python/rlfast/interop" / name
        modules = sorted(path.stem for path in folder.glob("*.py")) if folder.is_dir() else [""]
        modules = [module for module in modules if module == "__init__" or not module.startswith("_")]
        for module in modules:
            path = ".".join(part for part in ("rlfast.interop", name, module) if part and part != "__init__")
            members = "" if module != "__init__" else ", members: false"
            parts.append(f"::: {path}\n    options: {{show_root_heading: false{members}}}\n")
    return "\n".join(parts)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Makes tables of settings; links to files become links to their pages, or to the repository."""
    up = "../" * page.file.src_uri.count("/")

    def linked(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        source = next((key for key, value in ELSEWHERE.items() if value == page.file.src_uri), None)
        base = (ROOT / source).parent if source else (ROOT / "docs" / page.file.src_uri).parent
        try:
            path = (base / target).resolve().relative_to(ROOT).as_posix()
        except ValueError:
            return match[0]
        if path in ELSEWHERE:
            return f"[{text}]({up}{ELSEWHERE[path]}{anchor})"
        if path.startswith("docs/"):
            return f"[{text}]({up}{path.removeprefix('docs/')}{anchor})"
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path})" if config.repo_url else text

    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)", linked, with_tables(markdown))


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Labels the cells of tables with their columns, for phones, and loads MathJax where there are equations."""
    html = re.sub(r"<table>.*?</table>", labelled, html, flags=re.DOTALL)
    if 'class="arithmatex"' not in html:
        return html
    up = "../" * page.url.count("/")
    return f'{html}\n<script defer src="{up}{MATHJAX}"></script>'


def labelled(table: re.Match[str]) -> str:
    """The table with the heading of its column in each cell."""
    headings = [re.sub(r"<[^>]*>", "", text) for text in re.findall(r"<th[^>]*>(.*?)</th>", table[0], re.DOTALL)]

    def row(match: re.Match[str]) -> str:
        labels = iter(headings)
        return re.sub(r"<td\b", lambda _: f'<td data-label="{next(labels, "")}"', match[0])

    return re.sub(r"<tr>.*?</tr>", row, table[0], flags=re.DOTALL)
