"""The driver of d3rlpy, whose loop of learning from fixed data is this one without its log of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import d3rlpy
import numpy as np
import torch
from d3rlpy.models.encoders import VectorEncoderFactory

from bench.peers import training as script

VARIANT = ""
CONFIGS = {"td3_bc": d3rlpy.algos.TD3PlusBCConfig, "cql": d3rlpy.algos.CQLConfig}


def versions() -> dict[str, str]:
    return {"d3rlpy": d3rlpy.__version__, "numpy": np.__version__, "torch": torch.__version__}


def offline(algorithm: str) -> dict[str, Callable[[int], None]]:
    """Prepares learning from fixed data with the networks of the other libraries."""
    torch.manual_seed(0)
    columns = script.fixed_data()
    dataset = d3rlpy.dataset.MDPDataset(
        columns["obs"],
        columns["act"],
        columns["rew"],
        columns["terminated"].astype(np.float32),
        columns["truncated"].astype(np.float32),
    )
    sizes = VectorEncoderFactory([256, 256])
    config: Any = CONFIGS[algorithm](actor_encoder_factory=sizes, critic_encoder_factory=sizes)
    algo = config.create(device=False)
    algo.build_with_dataset(dataset)

    def run(count: int) -> None:
        for _ in range(count):
            algo.update(dataset.sample_transition_batch(256))

    return {"train": run}
