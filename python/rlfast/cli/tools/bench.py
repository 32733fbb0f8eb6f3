"""``rlfast bench``, which runs the benchmarks with the libraries of this machine."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import rlfast
from rlfast.cli.main import complain
from rlfast.cli.parsing import Parser
from rlfast.utils.runtime.extras import how_to_install

_NEEDED = ("pytest", "pytest_benchmark", "matplotlib", "torch")


def suites() -> Path | None:
    """Returns the folder of the benchmarks, which is linked into the package of a checkout, or beside the package."""
    package = Path(rlfast.__file__).parent
    places = (package / "_bench", package.parents[1] / "bench")
    return next((place for place in places if (place / "harness.py").is_file()), None)


def groups(folder: Path) -> list[str]:
    """Returns the names of the suites.

    :param folder: the folder of the benchmarks.
    """
    return sorted(path.stem.removeprefix("test_") for path in folder.glob("test_*.py"))


def main(argv: Sequence[str]) -> int:
    """Runs the command.

    :param argv: arguments after ``bench``.
    :return: the exit status.
    """
    folder = suites()
    if folder is None:
        return complain("the benchmarks are not installed with this rlfast: run it in a checkout", 1)
    given = _parser(folder).parse_args(argv)
    unknown = [name for name in given.group if name not in groups(folder)]
    if unknown:
        return complain(f"there is no group {unknown[0]!r}: choose from {', '.join(groups(folder))}", 2)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        return complain(f"{', '.join(missing)} cannot be imported: {how_to_install('bench')}", 1)
    output = Path(given.output).absolute()
    output.mkdir(parents=True, exist_ok=True)
    record = output / f"rlfast-bench-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}.json"
    with tempfile.TemporaryDirectory() as root:  # gives the folder the name `bench`, by which the suites import it
        Path(root, "bench").symlink_to(folder, target_is_directory=True)
        environment = os.environ | {"PYTHONPATH": _path(os.environ.get("PYTHONPATH"))}
        peers = folder.resolve().parent / ".peers"  # made by `make bench-peers`
        if peers.is_dir():
            environment.setdefault("RLFAST_PEERS", str(peers))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-quiet"]
        command += [f"--rootdir={root}", f"--record={record}"]
        command += ["--quick"] if given.quick else []
        command += ["--cpu-time"] if given.cpu_time else []
        command += [f"--libraries={given.libraries}"] if given.libraries else []
        command += [f"bench/test_{name}.py" for name in given.group or groups(folder)]
        status = subprocess.run(command, cwd=root, env=environment, check=False).returncode  # noqa: S603
        if status or not record.exists():
            return complain(f"the benchmarks ended with status {status}", 1)
        picture = record.with_suffix(".png")
        draw = [sys.executable, "-m", "bench.plot", str(record), str(picture)]
        drawn = subprocess.run(draw, cwd=root, env=environment, check=False)  # noqa: S603
    sys.stdout.write(f"samples: {record}\n" + (f"plot:    {picture}\n" if drawn.returncode == 0 else ""))
    return 0


def _path(given: str | None) -> str:
    """Returns PYTHONPATH with absolute paths, as the command runs in another folder."""
    return os.pathsep.join(str(Path(part).absolute()) for part in (given or "").split(os.pathsep) if part)


def _parser(folder: Path) -> Parser:
    names = groups(folder)
    parser = Parser(
        "rlfast bench",
        "Measures rlfast beside the libraries that this machine has, prints one table of ratios, and writes the samples"
        " (JSON) and a plot (PNG).",
    )
    parser.epilog = (
        "Libraries whose versions exclude each other live in environments of their own, where RLFAST_PEERS says:"
        f" {folder / 'environments.py'} FOLDER makes them. What is missing is left out of the table."
    )
    parser.add_argument("group", nargs="*", metavar="GROUP", help=f"default all of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="short rounds and smaller buffers, for a first look")
    parser.add_argument("--cpu-time", action="store_true", help="for a busy machine: time on the processor")
    parser.add_argument("--libraries", help="only these, separated by commas")
    parser.add_argument("--output", default=".", metavar="FOLDER", help="where JSON and PNG go (default: here)")
    return parser
