"""Types and paths that annotated scripts import."""

import json
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

import numpy as np
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.data.batch import BatchProtocol, IndexType, TBatch, alloc_by_keys_diff, arr_type, create_value
from tianshou.data.buffer.base import TBuffer
from tianshou.data.types import ActBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol
from tianshou.policy import BasePolicy
from tianshou.policy.base import TrainingStats, TTrainingStats
from tianshou.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats, TDQNTrainingStats
from tianshou.policy.modelfree.ppo import TPPOTrainingStats
from tianshou.policy.modelfree.sac import TSACTrainingStats
from tianshou.policy.random import TRandomTrainingStats
from tianshou.utils.net.common import ModuleType, NetBase, TActionShape, TLinearLayer, get_output_dim


@dataclass
class MyStats(TrainingStats):
    loss: float = 0.0


TMine = TypeVar("TMine", bound=MyStats)


class Mine(BasePolicy[TMine], Generic[TMine]):
    def forward(self, batch: ObsBatchProtocol, state: Any = None, **kwargs: Any) -> ActBatchProtocol:
        return Batch(act=np.zeros(len(batch.obs)))

    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> TMine:
        return MyStats(loss=float(len(batch)))


class Deeper(DQNPolicy[TDQNTrainingStats]):
    pass


print(
    json.dumps(
        {
            "arr": sorted(t.__name__ for t in get_args(arr_type)),
            "index": [isinstance(np.zeros(1), np.ndarray), len(get_args(IndexType))],
            "bound": [v.__name__ for v in (TBatch, TBuffer, TTrainingStats, TDQNTrainingStats, TPPOTrainingStats, TSACTrainingStats, TRandomTrainingStats)],
            "protocol": [isinstance(Batch(), BatchProtocol), isinstance({}, BatchProtocol)],
            "classes": [Mine.__name__, issubclass(Deeper, DQNPolicy), MyStats().loss, issubclass(DQNTrainingStats, TrainingStats)],
            "create": [list(create_value(np.zeros((3, 5)), 4).shape), list(create_value(np.zeros((3, 5)), 4, stack=False).shape)],
        }
    )
)
