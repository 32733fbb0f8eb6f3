"""Graphs of ``torch.compile`` that compute gradients and step optimizers, which PyTorch has behind a setting.

They buy half of the time of small updates. ``compile=False``, the default, does without;
``tests/policy/compile/test_compiled_update.py`` compares both.
"""

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.utils.torch_private.graph_gradients"):
    import torch  # noqa: F401


def allow_gradients_in_graphs() -> bool:
    """Let graphs contain ``torch.autograd.grad``.

    :return: whether this version of PyTorch can do that.
    """
    from torch._dynamo import config  # it takes seconds to import

    if not hasattr(config, "trace_autograd_ops"):
        return False
    config.trace_autograd_ops = True
    return True
