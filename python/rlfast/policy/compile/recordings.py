"""Updates as CUDA graphs: recorded once for each shape of their arguments, and replayed by one call."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

import torch

from rlfast.utils.progress_bar import progress_note
from rlfast.utils.warning import warn_user

Tensors = list[torch.Tensor]

_MOST_KEPT = 16
"""Recordings of one update that are kept, the last ones used."""
_MANY = 32
"""So many more calls without a recording than with one are too many."""


class Recording:
    """A function of tensors for arguments of one shape, which :class:`torch.cuda.CUDAGraph` records.

    It reads its arguments from memory of its own, and a recording writes results to memory of its own; calls copy both.
    A recording changes the tensors that the function changes in place, and draws from CUDA's default generator as the
    function does. Whatever else the function reads has the value that it had during the recording.

    :param function: the function, which must not wait for the device.
    :param args: its arguments.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._inputs = [tensor.clone() for tensor in tensors_of(args)]
        self._function, self._args = function, with_tensors(args, iter(self._inputs))
        self._replay: Callable[[], None] | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether calls replay a recording."""
        return self._replay is not None

    def record(self, tensors: Tensors, pool: object) -> Any:
        """Record the function, and replay the recording.

        The function has run before on the same memory, so that libraries and compilers have prepared what cannot be
        recorded: torch.compile compiles anew even for tensors that only begin elsewhere.

        :param tensors: those of its arguments, in order.
        :param pool: memory that recordings share which are never replayed at the same time, of :meth:`new_pool`.
        :return: the result.
        :raises RuntimeError: the function waits for the device.
        """
        self._take(tensors)
        self._numbers, self._replay = self.capture(lambda: self._packed(self._function(*self._args)), pool)
        self._replay()
        return self._results()

    @staticmethod
    def capture(function: Callable[[], torch.Tensor], pool: object) -> tuple[torch.Tensor, Callable[[], None]]:
        """Record a function without arguments, and do not run it.

        :param function: the function.
        :param pool: the result of :meth:`new_pool`.
        :return: the tensor that it returns, which replays write to; and what replays it.
        """
        graph, memory = torch.cuda.CUDAGraph(), cast("Any", pool)
        try:
            # other threads, such as one that prefetches samples, may allocate memory meanwhile
            with torch.cuda.graph(graph, pool=memory, capture_error_mode="thread_local"):
                numbers = function()
        except RuntimeError as error:
            raise RuntimeError(
                "compile=True records the update as a CUDA graph, for which it must not wait for the device as "
                f"tensor.item() does, or use tensors elsewhere: mend it, or leave compile at False ({error})"
            ) from error
        return numbers, graph.replay

    @staticmethod
    def new_pool() -> Any:
        """Return memory for recordings that are never replayed at the same time."""
        return torch.cuda.graph_pool_handle()

    def _packed(self, result: object) -> torch.Tensor:
        """Keep the structure of a result; return its numbers in one tensor, which is copied faster than many."""
        self._result, found = result, tensors_of(result)
        self._outputs = [(tensor.shape, tensor.dtype) for tensor in found]
        self._sizes = [tensor.numel() for tensor in found]
        return torch.cat([tensor.detach().reshape(-1) for tensor in found]) if found else torch.empty(0)

    def __call__(self, tensors: Tensors) -> Any:
        """Replay the recording, or run the function if there is none.

        :param tensors: those of its arguments, in order.
        :return: the result.
        """
        self._take(tensors)
        if self._replay is None:
            result = self._function(*self._args)
            return with_tensors(result, (tensor.detach().clone() for tensor in tensors_of(result)))
        self._replay()
        return self._results()

    def _take(self, tensors: Tensors) -> None:
        for own, given in zip(self._inputs, tensors, strict=True):
            own.copy_(given, non_blocking=True)

    def _results(self) -> Any:
        numbers = self._numbers.clone()
        parts = torch.split(numbers, self._sizes)
        shaped = (part.view(shape) for part, (shape, _) in zip(parts, self._outputs, strict=True))
        if any(dtype != numbers.dtype for _, dtype in self._outputs):
            shaped = (part.to(dtype) for part, (_, dtype) in zip([*shaped], self._outputs, strict=True))
        return with_tensors(self._result, shaped)


class RecordedFunction:
    """A function of tensors that replays recordings of itself, one for each shape of its arguments.

    The first call with arguments of some shapes, and with some numbers among them, runs the function; the second one
    records it.

    :param function: the function.
    """

    recording = Recording

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._kept: OrderedDict[Hashable, Recording] = OrderedDict()
        self._pool: Any = None
        self._misses = 0

    def __call__(self, *args: Any) -> Any:
        """Run the function, or replay it.

        :param args: its arguments.
        :return: the result.
        """
        tensors = tensors_of(args)
        key = (*[(tensor.shape, tensor.dtype) for tensor in tensors], *others_of(args))
        recording = self._kept.get(key)
        if recording is not None and recording.is_recorded:
            self._misses = max(self._misses - 1, 0)
            self._kept.move_to_end(key)
            return recording(tensors)
        self._count_miss()
        with progress_note("compiling the update"):
            if recording is None:
                recording = self.recording(self._function, args)
                result = recording(tensors)
                self._keep(key, recording)
                return result
            if self._pool is None or not any(one.is_recorded for one in self._kept.values()):
                self._pool = self.recording.new_pool()
            self._kept.move_to_end(key)
            return recording.record(tensors, self._pool)

    def forget(self) -> None:
        """Forget all recordings, as something else has changed that they have fixed."""
        self._kept.clear()
        self._pool = None  # CUDA frees it with the last recording

    def _keep(self, key: Hashable, recording: Recording) -> None:
        self._kept[key] = recording
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def _count_miss(self) -> None:
        self._misses += 1
        if self._misses == _MANY:
            warn_user(
                "compile=True has hardly an effect on this device, as the shapes of samples, or the numbers of the "
                "policy or its networks, keep changing: each change takes a new CUDA graph"
            )


def tensors_of(value: object) -> Tensors:
    """Return the tensors in tuples, lists and dicts, in order.

    :param value: the value.
    """
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, tuple | list):
        return []
    return [tensor for one in value for tensor in tensors_of(one)]


def others_of(value: object) -> list[Any]:
    """Return what else is in tuples, lists and dicts, in order, and the class of tensors in their place.

    :param value: the value.
    """
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, tuple | list):
        return [torch.Tensor if isinstance(value, torch.Tensor) else value]
    return [other for one in value for other in others_of(one)]


def with_tensors(value: object, tensors: Iterator[Any]) -> Any:
    """Return tuples, lists and dicts with others in place of their tensors.

    :param value: the value.
    :param tensors: what takes the place of tensors, in order.
    """
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, dict):
        return {name: with_tensors(one, tensors) for name, one in value.items()}
    if not isinstance(value, tuple | list):
        return value
    made = (with_tensors(one, tensors) for one in value)
    return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
