"""Graphs of ``torch.compile`` that compute gradients and step optimizers, which PyTorch has behind a setting.

They buy half of the time of small updates. ``compile=False``, the default, does without;
``tests/policy/compile/test_compiled_update.py`` compares both.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.utils.torch_private.graph_gradients"):
    import torch


def has_gradients_in_graphs() -> bool:
    """Return whether this version of PyTorch can put ``torch.autograd.grad`` into a graph, as 2.11 and later can."""
    from torch._dynamo import config  # it takes seconds to import

    return hasattr(config, "trace_autograd_ops")


@contextmanager
def gradients_in_graphs() -> Iterator[None]:
    """Let graphs that are compiled meanwhile contain ``torch.autograd.grad``, and import no other compilers for it.

    Elsewhere the settings stay as they were: with the first one, ``loss.backward()`` in the compiled functions of
    others would leave no gradients for their optimizers.

    :return: the context.
    """
    from torch._dynamo import config

    names = ("trace_autograd_ops", "invalidate_compile_context_weakrefs")
    with config.patch({name: True for name in names if hasattr(config, name)}):
        yield


def are_allowed() -> bool:
    """Return whether graphs may contain gradients. It is only asked by a compiler."""
    return bool(torch._dynamo.config.trace_autograd_ops)  # noqa: SLF001


def compiler_error() -> type[Exception]:
    """Return the class of the errors of ``torch.compile``."""
    from torch._dynamo.exc import TorchDynamoException

    return TorchDynamoException
