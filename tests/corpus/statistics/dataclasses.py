"""The statistics that collectors and trainers give, made by hand."""

import dataclasses
import json

import numpy as np
from tianshou.data import CollectStats, EpochStats, InfoStats, SequenceSummaryStats, TimingStats

returns = np.array([1.0, 3.0, 8.0])
stats = CollectStats(n_collected_episodes=3, n_collected_steps=30, collect_time=1.5, collect_speed=20.0, returns=returns, returns_stat=SequenceSummaryStats.from_sequence(returns), lens=np.array([10, 10, 10]), lens_stat=SequenceSummaryStats.from_sequence(np.array([10, 10, 10])))
info = InfoStats(gradient_step=5, best_reward=8.0, best_reward_std=0.5, train_step=30, train_episode=3, test_step=0, test_episode=0, timing=TimingStats(total_time=2.0))
plain = dataclasses.asdict(stats)
print(
    json.dumps(
        {
            "summary": dataclasses.asdict(stats.returns_stat),
            "plain": [plain["n_collected_steps"], plain["returns_stat"]["max"], plain["lens"].tolist()],
            "fields": sorted({field.name for field in dataclasses.fields(CollectStats)} & {"collect_time", "lens", "lens_stat", "n_collected_steps", "returns", "returns_stat"}),
            "info": [info.best_reward, info.timing.total_time, info.timing.train_time],
            "epoch": sorted(field.name for field in dataclasses.fields(EpochStats)),
        }
    )
)
