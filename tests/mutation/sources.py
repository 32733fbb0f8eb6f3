"""Copies of the package with mutants of some modules in them, as mutmut writes them: side by side, one active."""

from __future__ import annotations

import difflib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .swap import swapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).resolve().parents[2]
BACKING_OUT = ("_bench", "__pycache__")  # a link to `bench`, and what Python writes


@dataclass(frozen=True)
class Mutant:
    """One change of one function: lines that went, and lines that came in their place."""

    function: str
    was: str
    becomes: str


def mutate(tree: Path, patterns: Iterable[str]) -> dict[str, tuple[Mutant, str]]:
    """Makes ``tree`` a copy of the package in which the modules of these patterns have their mutants.

    :return: Of each mutant, by the name that activates it: the change, and a digest of the function as it was.
    """
    import mutmut  # this must be first: parts of it import one another
    from mutmut.mutation import file_mutation
    from mutmut.utils.format_utils import get_mutant_name

    assert mutmut
    _leave_prose_and_types(file_mutation.mutation_operators)
    shutil.rmtree(tree, ignore_errors=True)
    package = ROOT / "python"
    shutil.copytree(package, tree, ignore=shutil.ignore_patterns(*BACKING_OUT))
    found = {}
    for path in sorted({path for pattern in patterns for path in package.glob(pattern)}):
        name = path.relative_to(package)
        mutated = file_mutation.mutate_file_contents(str(name), path.read_text(encoding="utf-8"))
        (tree / name).write_text(swapped(mutated.code), encoding="utf-8")
        lines = mutated.code.splitlines()
        spans = {one: lines[span.start - 1 : span.end] for one, span in mutated.line_span_by_function_name.items()}
        for one in mutated.mutant_names:
            full = get_mutant_name(name, one)
            mangled = one.partition("__mutmut_")[0]
            found[full] = (change(full, spans), mutated.hash_by_function_name.get(mangled, ""))
    return found


def _leave_prose_and_types(operators: list[tuple[type, Any]]) -> None:
    """Takes from mutmut's the changes of what is no behaviour.

    These are strings with a blank in them, texts for people, and types of casts, which do nothing when they are run.
    """
    from mutmut.mutation.mutators import operator_arg_removal, operator_string

    types = set()

    def of_words(node: Any) -> Iterable[Any]:
        return () if " " in getattr(node, "value", "") or node in types else operator_string(node)

    def of_arguments(call: Any) -> Iterable[Any]:  # mutmut comes here before it comes to the arguments
        changed = operator_arg_removal(call)
        if getattr(call.func, "value", None) != "cast":
            return changed
        types.add(call.args[0].value)
        return (one for one in changed if one.args[0] is call.args[0])

    ours = {operator_string: of_words, operator_arg_removal: of_arguments}
    operators[:] = [(kind, ours.get(one, one)) for kind, one in operators]


def change(mutant: str, spans: Mapping[str, list[str]]) -> Mutant:
    """What a mutant such as ``rlfast.functional.losses.x_dqn_loss__mutmut_3`` changes.

    :param spans: The lines of all functions of the mutated file, by their names there.
    """
    function = mutant.rsplit("__mutmut_", 1)[0].replace(".x_", ".").replace(".xǁ", ".").replace("ǁ", ".")
    mangled = mutant.rpartition(".")[2]
    original = mangled.partition("__mutmut_")[0] + "__mutmut_orig"
    short = function.rpartition(".")[2]
    before, after = ([line.replace(name, short) for line in spans[name]] for name in (original, mangled))
    changed = [*difflib.unified_diff(before, after, n=0, lineterm="")][2:]
    was, becomes = ("\n".join(line[1:].strip() for line in changed if line.startswith(sign)) for sign in ("-", "+"))
    return Mutant(function, was, becomes)


def source_of(function: str) -> Path:
    """The file of a function such as ``rlfast.functional.losses.td_error``, or of a method of a class in it."""
    parts = function.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath("python", *parts[:length])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return file
    raise FileNotFoundError(f"{function} is in no module")


def environment(tree: Path) -> dict[str, str]:
    """The variables under which Python takes the package from ``tree``."""
    return os.environ | {
        "PYTHONPATH": f"{tree}{os.pathsep}{Path(__file__).parents[1]}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(tree.parent / "hypothesis"),  # what fails here need not be tried elsewhere
    }
