"""The layout of a space's elements in shared memory: one array per leaf, with one row per environment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Tree
from rlfast.env.spaces.batching import ARRAY_SPACES, Space
from rlfast.env.spaces.collation import fitted

Spill: TypeAlias = dict[int, Any]
"""The values of leaves that have no fixed layout or do not fit it, by leaf number; they are sent pickled."""
WHOLE = -1
"""The key of a :data:`Spill` whose value is the whole element instead of one leaf."""
Views: TypeAlias = "Sequence[NDArray[Any] | None]"
"""An array ``(N, ...)`` for each leaf; None for a leaf without a fixed layout."""


class MisfitError(ValueError):
    """A value does not fit the layout."""


class Node(ABC):
    """The layout of a space, or of a part of a nested space."""

    @abstractmethod
    def put(self, views: Views, row: int, value: object, spill: Spill) -> None:
        """Writes an element of the space into row ``row``.

        :param views: the arrays of the leaves.
        :param row: the row.
        :param value: the element.
        :param spill: receives the values of leaves without a fixed layout.
        :raises MisfitError: the shape, dtype or nesting of ``value`` is not that of the space.
        """

    @abstractmethod
    def get(self, views: Views, row: int, spill: Spill) -> Any:
        """Returns a copy of the element in row ``row``; leaves in ``spill`` are taken from there."""

    @abstractmethod
    def split(self, tree: Tree) -> Iterator[Any]:
        """Yields the leaves of a nested batch of elements."""

    @abstractmethod
    def join(self, leaves: Iterator[Any]) -> Tree:
        """Reverses :meth:`split`: nests the leaves."""

    @abstractmethod
    def leaves(self) -> Iterator[Leaf]:
        """Yields the layouts of the leaves, in the order of :meth:`split`."""


class Leaf(Node):
    """The layout of a space that is not nested.

    :param number: the number of this leaf.
    :param path: where the leaf is in the whole space, for error messages: ``"['camera']['left']"``.
    :param space: the space, for error messages; stored as text, because workers may not be able to import its class.
    """

    def __init__(self, number: int, path: str, space: Space) -> None:
        self.number, self.path, self.space = number, path, str(space)

    def split(self, tree: Tree) -> Iterator[Any]:
        yield tree

    def join(self, leaves: Iterator[Any]) -> Tree:
        return next(leaves)

    def leaves(self) -> Iterator[Leaf]:
        yield self


class Array(Leaf):
    """The layout of arrays or numbers of one shape and dtype."""

    def __init__(self, number: int, path: str, space: gym.Space[Any]) -> None:
        super().__init__(number, path, space)
        self.shape: tuple[int, ...] = tuple(space.shape or ())
        self.dtype: np.dtype[Any] = np.dtype(space.dtype)

    def put(self, views: Views, row: int, value: object, spill: Spill) -> None:  # noqa: ARG002
        if not (isinstance(value, np.ndarray | np.generic) and value.dtype == self.dtype and value.shape == self.shape):
            value = self._fitted(value)
        views[self.number][row] = value  # type: ignore[index]

    def _fitted(self, value: object) -> NDArray[Any]:
        """Converts ``value`` to the dtype of the space.

        :raises MisfitError: its shape differs, or the conversion would change its numbers.
        """
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.asarray(value, dtype=object)
        fitting = fitted(array, self.shape, self.dtype)
        if fitting is None:
            raise MisfitError(
                f"got an array of shape {array.shape} and dtype {array.dtype}{self.path and f' for {self.path}'}, "
                f"but {self.space} has shape {self.shape} and dtype {self.dtype}"
            )
        return fitting

    def get(self, views: Views, row: int, spill: Spill) -> Any:
        if spill and self.number in spill:
            return spill[self.number]
        value = views[self.number][row]  # type: ignore[index]
        return value.copy() if self.shape else value


class Shapeless(Leaf):
    """The layout of values that are sent pickled: those of ``Text``, ``Sequence``, ``Graph`` and unknown spaces."""

    def put(self, views: Views, row: int, value: object, spill: Spill) -> None:  # noqa: ARG002
        spill[self.number] = value

    def get(self, views: Views, row: int, spill: Spill) -> Any:  # noqa: ARG002
        return spill[self.number]


class Nested(Node):
    """The layout of a ``Dict`` or ``Tuple`` space.

    :param parts: the layouts of the parts, by key or index.
    :param whole: ``dict`` or ``tuple``.
    """

    def __init__(self, parts: dict[Any, Node], whole: type[dict[Any, Any] | tuple[Any, ...]]) -> None:
        self.parts, self.whole = parts, whole

    def _check(self, value: Any) -> None:
        if self.whole is dict:
            if not hasattr(value, "keys"):
                raise MisfitError(f"got a {type(value).__name__}, but the space is a dict of {list(self.parts)}")
            if value.keys() != self.parts.keys():
                raise MisfitError(f"got a dict of {list(value)}, but the space has {list(self.parts)}")
        elif not isinstance(value, tuple | list):
            raise MisfitError(f"got a {type(value).__name__}, but the space is a tuple of {len(self.parts)}")
        elif len(value) != len(self.parts):
            raise MisfitError(f"got {len(value)} parts, but the space is a tuple of {len(self.parts)}")

    def put(self, views: Views, row: int, value: Any, spill: Spill) -> None:
        self._check(value)
        for key, part in self.parts.items():
            part.put(views, row, value[key], spill)

    def _whole(self, of: Callable[[Node], Any]) -> Any:
        if self.whole is dict:
            return {key: of(part) for key, part in self.parts.items()}
        return tuple(of(part) for part in self.parts.values())

    def get(self, views: Views, row: int, spill: Spill) -> Any:
        return self._whole(lambda part: part.get(views, row, spill))

    def split(self, tree: Tree) -> Iterator[Any]:
        for key, part in self.parts.items():
            yield from part.split(tree[key])

    def join(self, leaves: Iterator[Any]) -> Tree:
        return self._whole(lambda part: part.join(leaves))

    def leaves(self) -> Iterator[Leaf]:
        for part in self.parts.values():
            yield from part.leaves()


def layout(space: Space) -> Node:
    """Makes the layout of a space's elements; leaves without a shape, and None for no space, have no fixed layout.

    >>> node = layout(gym.spaces.Dict({"speed": gym.spaces.Box(0, 9, (2,)), "word": gym.spaces.Text(9)}))
    >>> [type(leaf).__name__ for leaf in node.leaves()]
    ['Array', 'Shapeless']
    """
    count = 0

    def of(space: Space, path: str) -> Node:
        nonlocal count
        if isinstance(space, gym.spaces.Dict):
            return Nested({key: of(part, f"{path}[{key!r}]") for key, part in space.items()}, dict)
        if isinstance(space, gym.spaces.Tuple):
            return Nested({k: of(part, f"{path}[{k}]") for k, part in enumerate(space)}, tuple)
        count += 1
        if not isinstance(space, ARRAY_SPACES) or np.dtype(space.dtype).hasobject:
            return Shapeless(count - 1, path, space)
        return Array(count - 1, path, space)

    return of(space, "")
