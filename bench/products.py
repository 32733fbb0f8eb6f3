"""Measures products of matrices by both libraries of PyTorch: ``python -m bench.products``.

A line is a product of a layer with ``inputs`` and ``outputs`` for a batch: its output, and its gradients by the input
and by the weights. The times are least processor times of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from rlfast.utils.runtime.products import LEAST, is_quicker, multiplied

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


def least(multiply: Callable[[], torch.Tensor], times: int = 60) -> float:
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
    print(f"oneDNN is taken here from {LEAST:,} multiplications on: {is_quicker()}")
    print(f"{'batch, inputs, outputs':26}{'product':12}{'MKL':>12}{'oneDNN':>12}")
    for batch, inputs, outputs in SHAPES:
        x, weight, slope = torch.randn(batch, inputs), torch.randn(outputs, inputs), torch.randn(batch, outputs)
        operands = {"output": (x, weight.t()), "by input": (slope, weight), "by weights": (slope.t(), x)}
        for name, (a, b) in operands.items():
            times = least(lambda a=a, b=b: torch.mm(a, b)), least(lambda a=a, b=b: multiplied(a, b))  # type: ignore[misc]
            print(f"{f'{batch}, {inputs}, {outputs}':26}{name:12}{times[0]:9.1f} us{times[1]:9.1f} us")


if __name__ == "__main__":
    main()
