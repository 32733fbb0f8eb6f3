"""Collectors in several actors. All modules need torch."""

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.distributed"):
    import torch as torch
