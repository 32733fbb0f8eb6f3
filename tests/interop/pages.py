"""Pages about moving from another library: their examples run and print what they claim."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[2] / "docs" / "migration"


def run(page: str) -> tuple[list[str], list[str]]:
    """What the examples of a page, one after the other, print, and what they say they print."""
    text = (PAGES / f"{page}.md").read_text()
    blocks = re.findall(r'^```python title="[^"]*"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, page, "exec"), names)
    return printed.getvalue().splitlines(), re.findall(r"^ *print\(.*\)  # (.*)$", "\n".join(blocks), re.MULTILINE)
