"""Graphs of ``torch.compile`` that compute gradients and step optimizers, which PyTorch has behind a setting.

They buy half of the time of small updates. ``compile=False``, the default, does without;
``tests/policy/compile/test_compiled_update.py`` compares both.
"""

from inspect import signature

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.utils.torch_private.graph_gradients"):
    import torch


def allow_gradients_in_graphs() -> None:
    """Let graphs contain ``torch.autograd.grad``.

    :raises RuntimeError: this version of PyTorch cannot do that.
    """
    from torch._dynamo import config  # it takes seconds to import

    if not (hasattr(config, "trace_autograd_ops") and "isolate_recompiles" in signature(torch.compile).parameters):
        raise RuntimeError(f"compile=True needs a PyTorch that takes gradients within a graph, got {torch.__version__}")
    config.trace_autograd_ops = True
