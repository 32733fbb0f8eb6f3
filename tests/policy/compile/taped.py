"""Recordings on the CPU, as a stand-in for CUDA graphs."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rlfast.policy.compile.recordings import Recording, tensors_of


class Tape(TorchDispatchMode):
    """The operations of one call, which are repeated on the same memory, with the same numbers."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self):
        for function, args, kwargs, result in self.calls:
            if function._schema.is_mutable:
                function(*args, **kwargs)
            elif not any(one.alias_info for one in function._schema.returns):  # views show what they are views of
                for old, new in zip(tensors_of(result), tensors_of(function(*args, **kwargs)), strict=True):
                    old.copy_(new)


class Taped(Recording):
    """A recording whose first replay is the call itself, which a CUDA graph would not run."""

    @staticmethod
    def capture(function, pool):
        with Tape() as tape:
            numbers = function()
        is_new = [True]
        return numbers, lambda: is_new.clear() if is_new else tape.replay()

    @staticmethod
    def new_pool():
        return object()
