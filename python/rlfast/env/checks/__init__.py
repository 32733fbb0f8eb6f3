"""Checks of one environment before an agent is trained on it."""
