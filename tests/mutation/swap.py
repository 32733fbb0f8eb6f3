"""Functions that a mutant takes the place of: same object, other code.

mutmut itself calls a mutant through two functions more. A warning whose ``stacklevel`` counts frames then names a
file of mutmut instead of the caller's, and what is called often takes longer.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

ACTIVE = "MUTANT_UNDER_TEST"
functions: dict[str, Mutants] = {}
"""The mutants of each function that is loaded, by names such as ``rlfast.functional.losses.x_dqn_loss``."""


class Mutants(dict[str, Any]):
    """The mutants of one function; that which ``$MUTANT_UNDER_TEST`` names takes its place as soon as it is there."""

    original: FunctionType

    def __setitem__(self, name: str, mutant: Any) -> None:
        super().__setitem__(name, mutant)
        function, number, _ = name.partition("__mutmut_")
        if number:
            functions[f"{self.original.__module__}.{function}"] = self
            if f"{self.original.__module__}.{name}" == os.environ.get(ACTIVE):
                self.put(name)

    def put(self, name: str) -> None:
        """Gives the function the code and the defaults of one of its mutants."""
        old, mutant = self.original.__code__, getattr(self[name], "__func__", self[name])  # of a class method
        self.original.__code__ = mutant.__code__.replace(
            co_name=old.co_name, co_qualname=old.co_qualname, co_freevars=old.co_freevars
        )
        self.original.__defaults__, self.original.__kwdefaults__ = mutant.__defaults__, mutant.__kwdefaults__


def activate(mutant: str) -> None:
    """Puts a mutant in its place, here if its module is loaded, and in modules and processes that follow."""
    os.environ[ACTIVE] = mutant
    module, _, name = mutant.rpartition(".")
    if one := functions.get(f"{module}.{name.partition('__mutmut_')[0]}"):
        one.put(name)


def original(mutants: Mutants, **_: object) -> Callable[[FunctionType], FunctionType]:
    """Decorates the function that mutants may take the place of."""

    def keep(function: FunctionType) -> FunctionType:
        mutants.original = function
        return function

    return keep


def swapped(code: str) -> str:
    """The code of a module as mutmut writes it, with ``Mutants`` in place of its functions that call others."""
    line = "from mutmut.mutation.trampoline import wrap_in_trampoline as _mutmut_mutated, MutantDict"
    ours = f"from {__name__} import original as _mutmut_mutated, Mutants as MutantDict"
    return code.replace(line, ours).replace(": MutantDict = {}", ": MutantDict = MutantDict()")
