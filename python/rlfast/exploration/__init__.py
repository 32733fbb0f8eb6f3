"""Noise that is added to actions while data are collected."""

from rlfast.exploration.random import BaseNoise, GaussianNoise, OUNoise
from rlfast.utils.runtime.extras import import_modules_on_access

__all__ = ["BaseNoise", "GaussianNoise", "OUNoise"]

import_modules_on_access(__name__)
