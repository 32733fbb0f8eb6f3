"""Whole runs: configured, recorded, repeatable."""

from rlfast.experiment.algorithms import ALGORITHMS, Algorithm
from rlfast.experiment.config import DQNConfig, RunConfig

__all__ = ["ALGORITHMS", "Algorithm", "DQNConfig", "RunConfig"]
