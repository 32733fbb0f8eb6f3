"""The settings of a class: the parameters of its constructor that are numbers, choices or texts.

They are read from the source, as importing a policy imports torch, and the command line shows help without it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from rlfast.utils.arguments import validation

REQUIRED: Final = Parameter.empty
"""The default of a setting that has none."""

_NAMES: Final[dict[str, Any]] = {
    **{name: one for name, one in vars(validation).items() if name.endswith(("Int", "Float", "OrMore"))},
    **{one.__name__: one for one in (bool, float, int, str, tuple)},
    "Literal": Literal,
    "__builtins__": {},
}
"""What an annotation of a setting may name; parameters with other types are no settings."""

_PARAM = re.compile(r"^\s*:param (\w+): *(.*(?:\n(?!\s*:|\s*\n).*)*)", re.MULTILINE)
_DEFAULT = re.compile(r"\s*Default: (?:[^.]|\.\d)*\.|\s*\(default\)")
_REFERENCE = re.compile(r"^(?:as in|see|that of) :class:`~?([\w.]+)`[^.]*\.$")
_MARKUP: Final = (
    (re.compile(r":math:`\\?([^`]*)`"), r"\1"),
    (re.compile(r":\w+:`~?(?:[^`]*\.)?([^`.]+)`"), r"\1"),
    (re.compile(r"``"), ""),
)


@dataclass(frozen=True)
class Setting:
    """A parameter of a constructor.

    :param name: its name.
    :param hint: its annotation, with bounds; see :func:`~rlfast.utils.arguments.validation.validate`.
    :param default: its default, or :data:`REQUIRED`.
    :param help: what it means, in plain text.
    """

    name: str
    hint: Any
    default: Any
    help: str

    @property
    def has_effect(self) -> bool:
        """Whether its description does not begin with "has no effect" or "must be"."""
        return not self.help.startswith(("Has no effect", "Must be"))


@cache
def settings_of(kind: type | str) -> tuple[Setting, ...]:
    """Return the settings of a class, those of the class itself before those of its bases.

    Where a constructor has ``**options``, the settings of the next class in the MRO follow: all, or those that the
    TypedDict ``T`` of ``**options: Unpack[T]`` names. The nearest declaration counts, and the nearest docstring with
    ``:param NAME:``.

    :param kind: the class, or its full name, such as ``"rlfast.policy.PPOPolicy"``.
    :raises ValueError: if there is no such class, or the default of a setting is not a literal.

    >>> [one.default for one in settings_of("rlfast.policy.PPOPolicy") if one.name == "eps_clip"]
    [0.2]
    """
    mro = _shadow(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}").__mro__[:-1]
    declared: dict[str, tuple[ast.arg, ast.expr | None]] = {}
    passed_on: set[str] | None = None  # all names
    for one in mro:
        if one.init is not None:
            taken = {name for name in _parameters(one.init) if passed_on is None or name in passed_on}
            declared |= {
                name: where for name, where in _parameters(one.init).items() if name in taken - declared.keys()
            }
            if one.init.kwarg is None:
                break
            names = _options(one.module, one.init.kwarg.annotation)
            passed_on = names if passed_on is None or names is None else passed_on & names
    found = []
    for name, (argument, default) in declared.items():
        if (hint := _hint(argument.annotation)) is not None:
            value = REQUIRED if default is None else ast.literal_eval(default)
            found.append(Setting(name, hint, value, _description(mro, name)))
    return tuple(found)


def _options(module: str, annotation: ast.expr | None) -> set[str] | None:
    """Returns the names of ``**options: Unpack[T]``; None for any names."""
    if not isinstance(annotation, ast.Subscript) or (place := _found(module, ast.unparse(annotation.slice))) is None:
        return None
    return {name for one in _shadow(place).__mro__[:-1] for name in one.fields}


def _parameters(arguments: ast.arguments) -> dict[str, tuple[ast.arg, ast.expr | None]]:
    """Returns the parameters of a constructor with their defaults, by name."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    pairs = zip([*positional, *arguments.kwonlyargs], [*defaults, *arguments.kw_defaults], strict=True)
    return {argument.arg: (argument, default) for argument, default in pairs}


def _hint(annotation: ast.expr | None) -> Any:
    """Returns the annotation of a setting; None for other parameters."""
    if annotation is None:
        return None
    try:
        hint = eval(compile(ast.Expression(annotation), "annotation", "eval"), _NAMES.copy())  # noqa: S307 (our source)
    except (NameError, TypeError):
        return None
    if isinstance(hint, str):
        return _hint(ast.parse(hint, mode="eval").body)
    kinds = {*get_args(hint)} - {NoneType} if get_origin(hint) in (Union, UnionType) else {hint}
    return hint if len(kinds) == 1 else None


def _description(mro: tuple[Any, ...], name: str) -> str:
    """Returns the nearest description of a parameter as plain text; the empty text if there is none."""
    place = next((one for one in mro if name in one.texts), None)
    if place is None:
        return ""
    text = " ".join(place.texts[name].split())
    reference = _REFERENCE.match(text)
    if reference and (other := _found(place.module, reference[1].rpartition(".")[2])):
        return _description(_shadow(other).__mro__[:-1], name)
    text = _DEFAULT.sub("", text)
    for pattern, plain in _MARKUP:
        text = pattern.sub(plain, text)
    return text[:1].upper() + text[1:]


@cache
def _shadow(place: str) -> Any:
    """Returns an empty class with the bases of a class, and with its constructor's ``init`` and parameters' ``texts``.

    Python finds the order of the bases, without importing any.
    """
    module, _, name = place.rpartition(".")
    classes, names = _parsed(module)
    if name not in classes:
        if name not in names:
            raise ValueError(f"there is no class {place}")
        return _shadow(names[name])
    node = classes[name]
    bases = [_found(module, ast.unparse(base).partition("[")[0]) for base in node.bases]
    inits = [one.args for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    texts = dict(_PARAM.findall(ast.get_docstring(node) or ""))
    fields = {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}
    known = {"init": inits[0] if inits else None, "texts": texts, "fields": fields, "module": module}
    return type(name, tuple(_shadow(base) for base in bases if base is not None), known)


def _found(module: str, name: str) -> str | None:
    """Returns the full name of what a module, or a package that it is in, calls ``name``; None for what is outside."""
    classes, names = _parsed(module)
    if name in classes:
        return f"{module}.{name}"
    package = module.rpartition(".")[0]
    return names.get(name) or (_found(package, name) if package else None)


@cache
def _parsed(module: str) -> tuple[dict[str, ast.ClassDef], dict[str, str]]:
    """Returns the classes of a module by name, and the full names of what it imports from its own package."""
    root, *parts = module.split(".")
    spec = find_spec(root)
    path = Path(spec.origin if spec is not None and spec.origin else root).parent.joinpath(*parts)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():
        raise ValueError(f"there is no module {module}")
    tree = ast.parse(path.read_text())
    guarded = [part for one in tree.body if isinstance(one, ast.If) for part in one.body]  # if TYPE_CHECKING
    names: dict[str, str] = {}
    for one in (*tree.body, *guarded):
        if isinstance(one, ast.ImportFrom) and one.module is not None and one.module.partition(".")[0] == root:
            names |= {alias.asname or alias.name: f"{one.module}.{alias.name}" for alias in one.names}
    return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}, names
