"""Runs scripts of the corpus in this interpreter: ``python driver.py PACKAGE SCRIPT ...`` prints their answers.

A script is written for Tianshou. Its last line of output is JSON: what it found.
"""

import contextlib
import io
import json
import runpy
import sys
import tempfile
import traceback
import warnings
from pathlib import Path


def run(script, package):
    """Give what a script answers when ``tianshou`` in it is replaced by the name of a package."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / Path(script).name
        copy.write_text(Path(script).read_text().replace("tianshou", package))
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_path(str(copy), run_name="__main__")
    return json.loads(printed.getvalue().splitlines()[-1])


def main():
    package, *scripts = sys.argv[1:]
    answers = {}
    for script in scripts:
        try:
            answers[script] = run(script, package)
        except BaseException:
            answers[script] = {"error": traceback.format_exc().splitlines()}
    print(json.dumps(answers))  # noqa: T201


if __name__ == "__main__":
    main()
