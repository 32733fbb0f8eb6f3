"""Whole runs: configured, recorded, repeatable."""

from rlfast.experiment.config import DQNConfig, preset

__all__ = ["DQNConfig", "preset"]
