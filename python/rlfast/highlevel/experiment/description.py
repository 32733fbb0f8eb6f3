"""Experiments as JSON, for those that consist of this package's parts: reading one runs no code that the file names.

An object is ``{"~": "object", "class": "module:name", "number": n, "state": {...}}``, and where it occurs again
``{"~": "same", "number": n}``. The other tags are ``"class"``, ``"member"`` (of an enumeration), ``"tuple"``, and
``"dict"`` for one with other keys than texts. Objects are of classes of :mod:`rlfast.highlevel`; other classes, such as
those of layers, stand for themselves.
"""

from __future__ import annotations

import json
from enum import Enum
from importlib import import_module
from inspect import isroutine
from typing import Any

import torch

from rlfast.data.plain_data import WRONG_DATA, summary

_TAG = "~"
_OWN = "rlfast.highlevel."
_LIBRARY = {module.__name__: module for module in (torch.nn, torch.optim, torch.distributions)}
_FORMAT = 1


class NotPlainError(TypeError):
    """A part of an experiment is no part of this package."""


def describe(experiment: object) -> str:
    """Returns an experiment as JSON.

    :param experiment: the experiment.
    :raises NotPlainError: if a part is an object that JSON cannot describe, such as a class of a script.
    """
    return json.dumps({"format": _FORMAT, "experiment": _Writer().value(experiment, "experiment")}, indent=1) + "\n"


def restore(text: str) -> Any:
    """Returns the experiment that :func:`describe` wrote.

    :param text: the JSON.
    :raises ValueError: if it is damaged, or names a class that is no part of an experiment.
    """
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"it has version {content['format']!r:.50}, this rlfast reads version {_FORMAT}")
        return _Reader().value(content["experiment"])
    except WRONG_DATA as error:
        raise ValueError(summary(error)) from error


class _Writer:
    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def value(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.value(one, f"{path}[{k}]") for k, one in enumerate(value)]
        if kind is tuple:
            return {_TAG: "tuple", "items": [self.value(one, f"{path}[{k}]") for k, one in enumerate(value)]}
        if kind is dict:
            if all(type(key) is str and key != _TAG for key in value):
                return {key: self.value(one, f"{path}.{key}") for key, one in value.items()}
            pairs = [[self.value(key, path), self.value(one, f"{path}[{key!r}]")] for key, one in value.items()]
            return {_TAG: "dict", "items": pairs}
        if isinstance(value, type):
            return {_TAG: "class", "class": _checked_name(value, path)}
        if isinstance(value, Enum):
            return {_TAG: "member", "class": _checked_name(kind, path), "name": value.name}
        return self._object(value, path)

    def _object(self, value: object, path: str) -> dict[str, Any]:
        name = _checked_name(type(value), path)
        if not name.startswith(_OWN) or not hasattr(value, "__dict__"):
            raise NotPlainError(f"{path} is a {type(value).__module__}.{type(value).__qualname__}")
        if id(value) in self._numbers:  # the experiment holds all of them, so that no number is used twice
            return {_TAG: "same", "number": self._numbers[id(value)]}
        number = self._numbers[id(value)] = len(self._numbers)
        state = {key: self.value(one, f"{path}.{key}") for key, one in vars(value).items()}
        return {_TAG: "object", "class": name, "number": number, "state": state}


def _checked_name(kind: type, path: str) -> str:
    """Returns the name of a class, if reading would find it."""
    for module in (kind.__module__, *_LIBRARY):
        name = f"{module}:{kind.__qualname__}"
        try:
            if _class(name) is kind:
                return name
        except WRONG_DATA:
            continue
    raise NotPlainError(f"{path} is of {kind.__module__}.{kind.__qualname__}")


def _class(name: str) -> type:
    """Returns a class by its name: one of this package's, or a public one of torch's."""
    module, _, parts = name.partition(":")
    if module in _LIBRARY:
        found = vars(_LIBRARY[module]).get(parts)
    elif module.startswith(_OWN):
        try:
            found = import_module(module)  # one of ours: a name leads to no other folder
        except ImportError as error:
            raise ValueError(f"{name!r:.100} is no part of an experiment") from error
        for part in parts.split("."):
            found = vars(found).get(part) if not part.startswith("_") else None
            if found is None:
                break
    else:
        found = None
    if not isinstance(found, type) or (module not in _LIBRARY and found.__module__ != module):
        raise ValueError(f"{name!r:.100} is no part of an experiment")
    return found


class _Reader:
    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def value(self, value: object) -> Any:
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, dict):
            return value
        kind = value.get(_TAG)
        if kind is None:
            return {key: self.value(one) for key, one in value.items()}
        if kind == "tuple":
            return tuple(self.value(one) for one in value["items"])
        if kind == "dict":
            return {self.value(key): self.value(one) for key, one in value["items"]}
        if kind == "class":
            return _class(value["class"])
        if kind == "member":
            return self._member(value)
        if kind == "same":
            return self._made[value["number"]]
        if kind == "object":
            return self._object(value)
        raise ValueError(f"it has a value of kind {kind!r:.50}")

    @staticmethod
    def _member(value: dict[str, Any]) -> Enum:
        kind = _class(value["class"])
        if not issubclass(kind, Enum):
            raise TypeError(f"{value['class']} is no enumeration")
        return kind[value["name"]]

    def _object(self, value: dict[str, Any]) -> Any:
        kind, state = _class(value["class"]), value["state"]
        if not value["class"].startswith(_OWN) or issubclass(kind, Enum | BaseException):
            raise ValueError(f"{value['class']!r:.100} is no part of an experiment")
        made = self._made[value["number"]] = object.__new__(kind)
        for key, one in state.items():
            if isroutine(getattr(kind, key, None)):
                raise ValueError(f"{value['class']} has a method {key}, which is no value")
            vars(made)[key] = self.value(one)
        return made
