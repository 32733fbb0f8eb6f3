"""Parsing of arguments, with errors in one line."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
import warnings
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn, Union, get_args, get_origin

from rlfast.cli.main import closest, complain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rlfast.experiment.algorithms import Algorithm
    from rlfast.experiment.config import RunConfig


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Shows warnings of runs, logs and data as sentences, without the place in the source, and others as usual."""
    from rlfast.data.formats.rl_unplugged import SkippedWarning
    from rlfast.experiment.config import RunWarning
    from rlfast.utils.logger import LogWarning

    ours = (RunWarning, LogWarning, SkippedWarning)

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, ours):
                sys.stderr.write(f"rlfast: {message}\n")
            else:
                usual(message, category, *where, **more)

        for kind in ours:
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


ALLOW_IMPORT: Final[dict[str, Any]] = {
    "action": "store_true",
    "help": "trust the folder: import the modules that its config.json names, which runs them "
    "[those that you have named yourself on this machine]",
}


def whole_number(text: str) -> int:
    """Reads a whole number, which may be written as 1e5 or 1_000.

    :param text: the number.
    :raises ArgumentTypeError: if it is none.

    >>> whole_number("1e5"), whole_number("1_000")
    (100000, 1000)
    """
    try:
        return int(text)
    except ValueError:
        number = number_or_none(text)
    if number is None or not number.is_integer():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(number)


def number_or_none(text: str) -> float | None:
    """Reads a number; None for other texts.

    :param text: the number.
    """
    try:
        return float(text)
    except ValueError:
        return None


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line.

    :param program: the name of the command.
    :param what: its description, one sentence.
    :param more: further arguments of :class:`argparse.ArgumentParser`.
    """

    def __init__(self, program: str, what: str, **more: Any) -> None:
        super().__init__(prog=program, description=what, allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        """Ends the command with an error.

        :param message: the error.
        """
        self.exit(complain(f"{message} ({self.prog} --help)", 2))


# -- the settings of runs ----------------------------------------------------------------------------------------------
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "common": (
        *("env", "config", "env_kwargs", "wrappers", "data", "max_steps", "seed", "seeds", "jobs", "run_dir"),
        *("stop_return", "learning_rate", "discount_factor", "gamma", "batch_size", "num_envs"),
        *("device", "compile", "threads", "backend", "env_backend"),
    ),
    "algorithm": (),
    "network": (
        *("hidden_sizes", "activation", "channels", "recurrent", "dueling", "shared_features", "layer_norm"),
        *("orthogonal", "log_std", "conditioned_sigma", "bounded", "dtype"),
    ),
    "tests, checkpoints and logging": (
        *("eval_interval", "eval_episodes", "eval_envs", "eval_eps", "deterministic_eval", "require_stop_return"),
        *("save_buffer", "progress", "trackers", "video_interval", "env_seeds"),
    ),
    "distributed": ("ray", "collectors", "shards", "learners", "chunk_steps", "weights_every", "insert_ahead"),
}
"""The groups of settings in help, most used first. Those that are named nowhere belong to the algorithm."""

_MEANT: Final = {
    "discount": "gamma",
    "discount-factor": "gamma",
    "env-id": "env",
    "env-name": "env",
    "log-dir": "run-dir",
    "logdir": "run-dir",
    "lr": "learning-rate",
    "n-envs": "num-envs",
    "output": "run-dir",
    "steps": "max-steps",
    "timesteps": "max-steps",
    "total-steps": "max-steps",
    "total-timesteps": "max-steps",
}
"""Options of other libraries, and those of rlfast that mean the same."""

_SEVERAL: Final = {
    "config": "A file of settings, JSON or TOML, by the names of these options, or the config.json of a run. Those of "
    "the command line replace them.",
    "seeds": "Trains each of these seeds in a process of its own, such as 0-4 or 0,2,5-7.",
    "jobs": "With --seeds, how many processes run at once. Default: as many as there are cores.",
}
_KINDS: Final[dict[str, tuple[Any, str]]] = {
    "config": (Path, "FILE"),
    "seeds": (str, "0-4"),
    "jobs": (whole_number, "INT"),
}
_NEGATIVE: Final = re.compile(r"-(\d+\.?\d*|\.\d+|inf)(e[+-]?\d+)?", re.IGNORECASE)


def read_settings(
    program: str, kind: type[RunConfig], arguments: Sequence[str], preset: Callable[[str], RunConfig]
) -> dict[str, Any]:
    """Reads the settings of a run that a command line gives, with ``config``, ``seeds`` and ``jobs``.

    :param program: the name of the command.
    :param kind: the class of the settings.
    :param arguments: the arguments.
    :param preset: a function that returns the settings of an environment, for help.
    :return: the given settings by name, each with a valid value.
    :raises SystemExit: after help or an error was printed.
    """
    from rlfast.experiment.config import hints_of

    settings: Any = kind
    hints = hints_of(settings)
    arguments = _normalized(arguments)
    if {"-h", "--help"} & {*arguments}:
        env = _Settings(program, hints, add_help=False).parse_known_args(_without_help(arguments))[0]
        parser = _Settings(program, hints, preset(getattr(env, "env", None) or kind().env), descriptions_of(kind))
        parser.parse_args(["--help"])
    parser = _Settings(program, hints)
    given, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(_unknown(unknown, arguments, hints))
    return vars(given)


def read_config_file(path: Path, algorithm: Algorithm) -> dict[str, Any]:
    """Reads the settings in a file, for the option ``--config``.

    :param path: a JSON or TOML file, such as the ``best.json`` of a study or the ``config.json`` of a run.
    :param algorithm: the algorithm that is trained.
    :return: the settings by name.
    :raises ValueError: if the file is no such file, is of another algorithm, or has an unknown setting.
    :raises OSError: if it cannot be read.
    """
    from rlfast.experiment.config import OLD_NAMES, hints_of

    try:
        content = (tomllib if path.suffix == ".toml" else json).loads(path.read_text())
    except (ValueError, RecursionError) as error:  # of both, and of the encoding
        raise ValueError(f"--config {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"--config {path} must have a table of settings, got {type(content).__name__}")
    name = content.pop("algorithm", algorithm.name)
    if name != algorithm.name:
        raise ValueError(
            f"--config {path} has settings of {name}: rlfast train {name} --config {path} trains with them"
        )
    if isinstance(content.get("config"), dict):  # of a run, which has a folder of its own
        content = {name: value for name, value in content["config"].items() if name != "run_dir"}
    settings: Any = algorithm.config
    known = {*hints_of(settings), *OLD_NAMES}
    given = {name.removeprefix("--").replace("-", "_"): value for name, value in content.items()}
    for name in given.keys() - known:
        guess = closest(name, [one.replace("_", "-") for one in hints_of(settings)], _MEANT)
        raise ValueError(f"--config {path}: there is no setting {name}" + (f"; did you mean {guess}?" if guess else ""))
    return given


def _without_help(arguments: Sequence[str]) -> list[str]:
    return [one for one in arguments if one not in ("-h", "--help")]


def _normalized(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments with dashes in the names of options, and negative numbers joined to their options."""
    normal: list[str] = []
    for one in arguments:
        name, equals, value = one.partition("=")
        if one.startswith("--"):
            normal.append(name.replace("_", "-") + equals + value)
        elif _NEGATIVE.fullmatch(one) and normal and normal[-1].startswith("--") and "=" not in normal[-1]:
            normal[-1] += f"={one}"
        else:
            normal.append(one)
    return normal


class _Settings(Parser):
    """A parser of settings, which gives those that are there.

    :param program: the name of the command.
    :param hints: the annotations of the settings.
    :param preset: the values without an option, for help.
    :param descriptions: the help of each setting.
    """

    def __init__(
        self,
        program: str,
        hints: Mapping[str, Any],
        preset: RunConfig | None = None,
        descriptions: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        from rlfast.experiment.config import OLD_NAMES

        usage = f"{program} [--env ID] [--seed S | --seeds A-B] [--max-steps N] [--run-dir DIR] [any setting]"
        what = "" if preset is None else f"The values in brackets are those for {preset.env}."
        wide: Any = lambda prog: argparse.HelpFormatter(prog, max_help_position=30)  # noqa: E731 (argparse calls it)
        super().__init__(program, what, usage=usage, formatter_class=wide, argument_default=argparse.SUPPRESS, **more)
        named = {name for names in GROUPS.values() for name in names}
        rest = [name for name in hints if name not in named]
        for title, names in GROUPS.items():
            group = self.add_argument_group(title)
            for name in names or rest:
                if name in _SEVERAL:
                    kind, metavar = _KINDS[name]
                    group.add_argument(f"--{name}", type=kind, metavar=metavar, help=_SEVERAL[name])
                elif name in hints:
                    text = None if descriptions is None else descriptions.get(name, "")
                    old = [one for one, now in OLD_NAMES.items() if now == name and one not in hints]
                    _add(group, name, old, hints[name], text, getattr(preset, name, None))


def _add(group: Any, name: str, old: Sequence[str], hint: object, text: str | None, default: object) -> None:
    """Adds the option of a setting, with its old names. One that has a single value is not shown in help."""
    kind, _ = _bare(hint)
    if get_origin(kind) is Literal and len(get_args(kind)) == 1:
        text = argparse.SUPPRESS
    elif text is not None:
        text = (text if default is None and "Default:" in text else f"{text} [{shown(default)}]").replace("%", "%%")
    options = ["--" + one.replace("_", "-") for one in (name, *old)]
    if kind is bool:
        group.add_argument(*options, action=argparse.BooleanOptionalAction, help=text)
        return
    how: dict[str, Any] = {"help": text, "action": SettingValue, "hint": hint, "metavar": _metavar(kind)}
    if get_origin(kind) in (tuple, dict):
        how["nargs"] = "*"
    group.add_argument(*options, **how)


class SettingValue(argparse.Action):
    """Reads the value of a setting. Errors name the option as it was given."""

    def __init__(self, *arguments: Any, hint: object, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._hint = hint

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, option_string: str | None = None
    ) -> None:
        from rlfast.utils.arguments.validation import validate

        kind, optional = _bare(self._hint)
        try:
            value = _read(values, kind, optional=optional)
        except (argparse.ArgumentTypeError, ValueError) as error:
            parser.error(f"argument {option_string}: {error}")
        try:
            setattr(namespace, self.dest, validate(str(option_string), value, self._hint))
        except (TypeError, ValueError) as error:
            parser.error(str(error))


def _bare(hint: object) -> tuple[Any, bool]:
    """Returns an annotation without bounds and without None, and whether None is possible."""
    optional = False
    if get_origin(hint) is Union or isinstance(hint, type(int | None)):
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
        optional = True
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint, optional


_BETWEEN_COMMAS = re.compile(r"(?:[^,(]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\()+")
"""The parts of a list; commas in parentheses belong to a part."""


def _read(given: Any, kind: object, *, optional: bool = False) -> Any:
    """Returns the value that texts mean.

    :param given: a text, or a list of them for a tuple or a dict.
    :param kind: the annotation of the setting.
    :param optional: whether ``None`` is a value.
    """
    if optional and given in ("None", "none", ["None"], ["none"]):
        return None
    origin, inside = get_origin(kind), get_args(kind)
    if origin is tuple:
        texts = [part for text in given for part in _BETWEEN_COMMAS.findall(text)]
        return tuple(_read(text, _bare(inside[0])[0]) for text in texts)
    if origin is dict:
        return dict(entry for text in given for entry in _entries(text))
    if origin is Literal:
        values = {str(one): one for one in inside}
        if given not in values:
            raise ValueError(f"{given!r} is none of {', '.join(values)}")
        return values[given]
    if kind is int:
        return whole_number(given)
    if kind is float:
        if (number := number_or_none(given)) is None:
            raise ValueError(f"{given!r} is no number")
        return number
    return Path(given) if kind is Path else given


def _entries(text: str) -> list[tuple[str, Any]]:
    """Returns the entries of ``NAME=VALUE``, or of a JSON object."""
    if text.startswith("{"):
        try:
            return [*json.loads(text).items()]
        except ValueError as error:
            raise ValueError(f"{text!r} is no JSON: {error}") from error
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    if value in _CONSTANTS:
        return [(name, _CONSTANTS[value])]
    try:
        return [(name, json.loads(value))]
    except ValueError:
        return [(name, value)]


_CONSTANTS: Final = {"True": True, "False": False, "None": None}
"""Constants of Python, which would be texts as JSON."""


def _metavar(kind: type) -> str:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _metavar(_bare(inside[0])[0])
    if origin is Literal:
        return "{" + ",".join(map(str, inside)) + "}"
    return {int: "INT", float: "FLOAT", Path: "PATH"}.get(kind, "NAME=VALUE" if origin is dict else "TEXT")


def shown(value: object) -> str:
    """Returns the value of a setting as the command line takes it.

    :param value: the value.

    >>> shown((64, 64)), shown(None), shown(0.5)
    ('64 64', 'none', '0.5')
    """
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value in (None, {}) else str(value)


def descriptions_of(kind: type[RunConfig]) -> dict[str, str]:
    """Returns the descriptions of settings by name: those of the policy's docstring, and the docstrings of fields.

    :param kind: the class.
    """
    import ast
    import inspect
    from itertools import pairwise

    found = {one.name: one.help for one in kind.policy_settings}
    for one in reversed(kind.__mro__[:-1]):
        body = ast.parse(inspect.getsource(one)).body[0]
        assert isinstance(body, ast.ClassDef)  # noqa: S101 (its source)
        for field, text in pairwise([*body.body, ast.Pass()]):
            if not (isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)):
                continue
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def _unknown(unknown: Sequence[str], arguments: Sequence[str], hints: Mapping[str, Any]) -> str:
    """Describes arguments that are no settings, and what they may have meant."""
    from rlfast.experiment.config import OLD_NAMES

    first = unknown[0]
    known = {*hints, *_SEVERAL, *(old for old, now in OLD_NAMES.items() if now in hints)}
    if first.startswith("-"):
        word = first.partition("=")[0].lstrip("-")
        names = dict.fromkeys([*sum(GROUPS.values(), ()), *hints, *known])
        options = [name.replace("_", "-") for name in names if name in known]
        guess = closest(word, options, _MEANT)
        if word.startswith("no-") and (switch := closest(word.removeprefix("no-"), options)):
            guess = f"no-{switch}"
        return f"there is no option --{word}" + (f"; did you mean --{guess}?" if guess else "")
    before = arguments[arguments.index(first) - 1] if first in arguments[1:] else ""
    name = before.removeprefix("--").replace("-", "_")
    name = name if name in hints else OLD_NAMES.get(name, name)
    if name in hints and _bare(hints[name])[0] is bool:
        return f"unexpected {first}; {before} is a switch without a value, and --no-{before[2:]} is its opposite"
    hint = f"; did you mean --env {first}?" if first == arguments[0] else ""
    return f"unexpected {first}{hint}"
