"""What the drivers of hosts have in common; they run in interpreters that may lack pytest."""

import contextlib
import io
import json
import re
import sys
import traceback
from pathlib import Path


def follow_page(name, title='[^"]*'):
    """Runs the example of a page about moving from a host, and checks that it prints what the page claims."""
    page = Path(__file__).parents[2] / "docs" / "migration" / f"{name}.md"
    (block,) = re.findall(rf'^```python title="{title}"\n(.*?)^```', page.read_text(), re.DOTALL | re.MULTILINE)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, page.name, "exec"), {"__name__": "__main__"})
    wanted = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
    assert wanted
    assert printed.getvalue().splitlines()[-len(wanted) :] == wanted


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        said = str(error)
    else:
        said = "nothing was raised"
    assert text in said, said


def run_checks(names, version):
    """Runs every ``check_*`` of a driver, and writes the errors by name as JSON to standard output."""
    failed = {}
    for name, check in list(names.items()):
        if name.startswith("check_"):
            try:
                check()
            except Exception:
                failed[name] = traceback.format_exc()
    json.dump({"version": version, "failed": failed}, sys.stdout)
