"""Noise that is added to actions while data are collected."""

from rlfast.exploration.random import BaseNoise, GaussianNoise, OUNoise

__all__ = ["BaseNoise", "GaussianNoise", "OUNoise"]
