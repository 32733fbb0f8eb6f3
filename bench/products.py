"""Measures products of matrices by PyTorch's libraries and by the engine: ``python -m bench.products``.

A line is a product of a layer with ``inputs`` and ``outputs`` for a batch: its output, and its gradients by the input
and by the weights. The times are least processor times of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch

from rlfast import _core
from rlfast.utils.torch_private.products import LEAST, LEAST_OF_GRAPH, is_quicker

SHAPES = [
    (64, 64, 64),
    (64, 128, 128),
    (128, 128, 128),
    (256, 64, 64),
    (256, 256, 256),
    (256, 400, 300),
    (32, 3136, 512),
]
ROUNDS = 9


def least(multiply: Callable[[], object], times: int = 60) -> float:
    """Returns the least microseconds of a call."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(times):
            multiply()
        found.append((time.process_time() - start) / times)
    return min(found) * 1e6


def main() -> None:
    torch.set_num_threads(1)
    print(f"from {LEAST:,} multiplications on, and {LEAST_OF_GRAPH:,} in graphs, PyTorch is left here: {is_quicker()}")
    print(f"{'batch, inputs, outputs':26}{'product':12}{'MKL':>12}{'oneDNN':>12}{'engine':>12}")
    onednn = torch.ops.mkldnn._linear_pointwise.default
    for batch, inputs, outputs in SHAPES:
        x, weight, slope = torch.randn(batch, inputs), torch.randn(outputs, inputs), torch.randn(batch, outputs)
        operands = {"output": (x, weight.t()), "by input": (slope, weight), "by weights": (slope.t(), x)}
        for name, (a, b) in operands.items():
            out = torch.mm(a, b)
            ways = (
                partial(torch.mm, a, b, out=out),
                partial(onednn, a, b.t(), None, "none", [], ""),
                partial(_core.multiply, out, a, b),
            )
            times = "".join(f"{least(way):9.1f} us" for way in ways)
            print(f"{f'{batch}, {inputs}, {outputs}':26}{name:12}{times}")


if __name__ == "__main__":
    main()
