"""``rlfast export``, which writes the policy of a run for use without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import ALLOW_IMPORT, Parser, warnings_as_sentences
from rlfast.export.formats import FORMATS, export

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``export``.
    :return: the exit status.
    """
    parser = Parser("rlfast export", "Writes the policy of a run, from observation to action, for use without torch.")
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="folder of the run")
    formats = "; ".join(f"{name}: {kind.what}" for name, kind in FORMATS.items())
    parser.add_argument("--to", choices=FORMATS, help=f"{formats} [onnx for .onnx, c for .h, else rlfast]")
    parser.add_argument("--out", type=Path, required=True, metavar="PATH", help="the file, replaced if it exists")
    parser.add_argument("--best", action="store_true", help="the policy with the best test, not that of the end")
    parser.add_argument("--allow-import", **ALLOW_IMPORT)
    given = parser.parse_args(arguments)
    try:
        with warnings_as_sentences():
            to = given.to or {".onnx": "onnx", ".h": "c"}.get(given.out.suffix, "rlfast")
            path = export(given.run_dir, given.out, to=to, best=given.best, allow_import=given.allow_import)
    except (ValueError, OSError, ImportError) as error:
        return complain(sentence(error), 2)
    sys.stdout.write(f"{path}: {path.stat().st_size:,} bytes\n")
    return 0
